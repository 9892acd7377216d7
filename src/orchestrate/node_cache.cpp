#include "orchestrate/node_cache.h"

#include <fcntl.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/file_lock.h"
#include "base/log.h"
#include "base/process.h"

namespace tritonforge::orchestrate {
namespace {

using std::chrono::hours;
constexpr hours kUnused{7 * 24};  // of a whole one
constexpr hours kUnfinished{24};  // of one whose copying was cut off; it takes an hour at most
constexpr const char* kWhole = ".complete";

bool is_older(const fs::path& path, hours age) {
  return fs::last_write_time(path) < fs::file_time_type::clock::now() - age;
}

// Nobody runs from it, and its time is over.
bool is_due(const fs::path& bundle) {
  const fs::path whole = bundle / kWhole;
  if (!fs::exists(whole)) return is_older(bundle, kUnfinished);
  if (!is_older(whole, kUnused)) return false;
  const Descriptor held(::open(whole.c_str(), O_RDONLY | O_CLOEXEC));
  return held.get() >= 0 && lock_file(held.get(), LOCK_EX | LOCK_NB, whole);
}

}  // namespace

fs::path own_bundle() {
  const fs::path folder = own_executable().parent_path().parent_path();
  return fs::exists(folder / kWhole) ? folder : fs::path();
}

Descriptor hold_bundle(const fs::path& bundle) {
  if (bundle.empty()) return {};
  Descriptor held(::open((bundle / kWhole).c_str(), O_RDONLY));  // children inherit it
  if (held.get() < 0)
    fail(ErrorKind::kUnavailable, "cannot open {}/{}: {}", bundle.string(), kWhole, std::strerror(errno));
  lock_file(held.get(), LOCK_SH, bundle);
  return held;
}

void sweep_bundles(const fs::path& bundle) {
  if (bundle.empty()) return;
  fs::last_write_time(bundle / kWhole, fs::file_time_type::clock::now());
  for (const std::string& name :
       names_in(bundle.parent_path(), [](const fs::path& one) { return fs::is_directory(one); })) {
    const fs::path other = bundle.parent_path() / name;
    try {
      if (other != bundle && is_due(other)) fs::remove_all(other);
    } catch (const std::exception& error) {
      log::warn("{} is not removed: {}", other.string(), error.what());
    }
  }
}

}  // namespace tritonforge::orchestrate
