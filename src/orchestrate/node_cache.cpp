#include "orchestrate/node_cache.h"

#include <fcntl.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "base/file_lock.h"
#include "base/log.h"
#include "base/process.h"

namespace tritonforge::orchestrate {
namespace {

using std::chrono::hours;
constexpr hours kUnused{7 * 24};  // of a whole one
constexpr hours kUnfinished{24};  // of a program whose copying was cut off; it takes an hour at most
constexpr const char* kWhole = ".complete";

bool is_older(const fs::path& path, hours age) {
  return fs::last_write_time(path) < fs::file_time_type::clock::now() - age;
}

// Nobody has named it for a week, and nobody runs from it.
bool is_unused(const fs::path& mark) {
  if (!is_older(mark, kUnused)) return false;
  const Descriptor held(::open(mark.c_str(), O_RDONLY | O_CLOEXEC));
  return held.get() >= 0 && lock_file(held.get(), LOCK_EX | LOCK_NB, mark);
}

bool is_bundle_due(const fs::path& bundle) {
  const fs::path whole = bundle / kWhole;
  return fs::exists(whole) ? is_unused(whole) : is_older(bundle, kUnfinished);
}

// Whole or cut off: as large as an environment is, copying it may be begun again next week.
bool is_environment_due(const fs::path& environment) {
  const fs::path brought = environment / kBrought;
  return fs::exists(brought) && is_unused(brought);
}

Descriptor hold(const fs::path& mark) {
  Descriptor held(::open(mark.c_str(), O_RDONLY));  // children inherit it
  if (held.get() < 0) fail(ErrorKind::kUnavailable, "cannot open {}: {}", mark.string(), std::strerror(errno));
  lock_file(held.get(), LOCK_SH, mark);
  return held;
}

void name_now(const fs::path& mark) { fs::last_write_time(mark, fs::file_time_type::clock::now()); }

void sweep_beside(const fs::path& named, const std::function<bool(const fs::path&)>& is_due) {
  for (const std::string& name :
       names_in(named.parent_path(), [](const fs::path& one) { return fs::is_directory(one); })) {
    const fs::path other = named.parent_path() / name;
    try {
      if (other == named || !is_due(other)) continue;
      // No longer by its name: what is left of one whose removal is cut off is not taken for all of it.
      const fs::path going = other.string() + ".going";
      fs::rename(other, going);
      fs::remove_all(going);
    } catch (const std::exception& error) {
      log::warn("{} is not removed: {}", other.string(), error.what());
    }
  }
}

}  // namespace

fs::path own_bundle() {
  const fs::path folder = own_executable().parent_path().parent_path();
  return fs::exists(folder / kWhole) ? folder : fs::path();
}

fs::path own_environment() {
  const char* set = std::getenv("TRITONFORGE_PYTHON");
  const fs::path python = set && *set ? set : TF_PYTHON;
  const fs::path folder = python.parent_path().parent_path();
  return fs::exists(folder / "pyvenv.cfg") ? folder : fs::path();
}

Descriptor hold_bundle(const fs::path& bundle) { return bundle.empty() ? Descriptor() : hold(bundle / kWhole); }

Descriptor hold_environment(const fs::path& environment) {
  const fs::path brought = environment / kBrought;
  return environment.empty() || !fs::exists(brought) ? Descriptor() : hold(brought);
}

void sweep_bundles(const fs::path& bundle) {
  if (bundle.empty()) return;
  name_now(bundle / kWhole);
  sweep_beside(bundle, is_bundle_due);
}

void sweep_environments(const fs::path& environment) {
  if (environment.empty()) return;
  if (const fs::path brought = environment / kBrought; fs::exists(brought)) name_now(brought);
  sweep_beside(environment, is_environment_due);
}

}  // namespace tritonforge::orchestrate
