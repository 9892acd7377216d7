#include "evaluate/plan/profiler.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/line_tail.h"
#include "base/process.h"
#include "evaluate/channel.h"
#include "evaluate/client.h"

namespace tritonforge::evaluate {
namespace {

constexpr const char* kFrames = "frames";
constexpr int kMostLaunches = 64;  // each is run several times over

fs::path find_ncu(const std::string& given) {
  std::vector<fs::path> places{given};
  if (given.empty()) {
    places.clear();
    const auto folder = [&](const char* name, const char* below) {
      const char* value = std::getenv(name);
      std::istringstream folders(value ? value : "");
      for (std::string one; std::getline(folders, one, ':');) places.push_back(fs::path(one) / below);
    };
    folder("PATH", "ncu");
    folder("CUDA_HOME", "bin/ncu");
    places.emplace_back("/usr/local/cuda/bin/ncu");
  }
  for (const fs::path& place : places) {
    if (fs::is_regular_file(place) && ::access(place.c_str(), X_OK) == 0) return fs::absolute(place);
  }
  if (!given.empty()) fail(ErrorKind::kNotFound, "evaluator: --ncu: no program {}", given);
  fail(ErrorKind::kNotFound,
       "evaluator: --profile needs NVIDIA's ncu (Nsight Compute), which is not in PATH, CUDA_HOME/bin or "
       "/usr/local/cuda/bin; --ncu says where else");
}

bool is_plain(const std::string& name) {
  return !name.empty() &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) || c == '_'; });
}

// A regular expression of names that mean themselves; empty where there is none.
std::string any_of(const std::vector<std::string>& kernels) {
  std::vector<std::string> plain;
  for (const std::string& name : kernels) {
    if (is_plain(name) && std::find(plain.begin(), plain.end(), name) == plain.end()) plain.push_back(name);
  }
  return plain.empty() ? "" : fmt::format("regex:^({})$", fmt::join(plain, "|"));
}

void write_frames(const fs::path& path, const std::vector<Profiler::Frame>& frames) {
  std::ofstream file(path, std::ios::binary);
  for (const auto& [header, payload] : frames) {
    file << frame_start(header, payload);
    for (const auto& part : payload)
      file.write(reinterpret_cast<const char*>(part.data()), static_cast<std::streamsize>(part.size()));
  }
  file.close();
  if (!file) fail(ErrorKind::kUnavailable, "cannot write {}", path.string());
}

}  // namespace

Profiler::Profiler(const std::string& ncu, Places places) : ncu_(find_ncu(ncu)), places_(std::move(places)) {}

Profiler::Job Profiler::job(const std::vector<Frame>& frames, const std::vector<std::string>& kernels,
                            const std::string& gpu) {
  Job job{.folder = nullptr, .kernels = any_of(kernels), .gpu = gpu, .unavailable = ""};
  if (job.kernels.empty()) {
    job.unavailable = "ncu: no kernel with a plain name";
    return job;
  }
  try {
    job.folder = std::make_unique<TemporaryFolder>("tritonforge-ncu-");
    write_frames(job.folder->path() / kFrames, frames);
  } catch (const Error& error) {  // what is right stays so
    job.unavailable = error.what();
  }
  return job;
}

std::vector<std::string> Profiler::command(const Job& job, const fs::path& log) const {
  const fs::path& folder = job.folder->path();
  // As the Python parent's (zygote.cpp): what is in our environment is not for others.
  std::vector<std::string> argv{"env",
                                "-i",
                                "PATH=/usr/local/bin:/usr/bin:/bin",
                                "LANG=C.UTF-8",
                                "OMP_NUM_THREADS=1",
                                "HOME=" + folder.string(),
                                "TMPDIR=" + folder.string(),
                                "PYTHONPATH=" + places_.worker.string()};
  for (const char* name : {"LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"}) {
    if (const char* value = std::getenv(name)) argv.push_back(fmt::format("{}={}", name, value));
  }
  if (!job.gpu.empty()) argv.push_back("CUDA_VISIBLE_DEVICES=" + job.gpu);
  // The clock stays as it is: others use the GPU. Caches are emptied before each pass, as they are before timed calls.
  argv.insert(argv.end(), {ncu_.string(),
                           "--csv",
                           "--page",
                           "raw",
                           "--print-units",
                           "base",
                           "--clock-control",
                           "none",
                           "--cache-control",
                           "all",
                           "--target-processes",
                           "application-only",
                           "--metrics",
                           fmt::format("{}", fmt::join(kNcuMetrics, ",")),
                           "--kernel-name-base",
                           "function",
                           "--kernel-name",
                           job.kernels,
                           "--launch-count",
                           std::to_string(kMostLaunches),
                           "--log-file",
                           log.string(),
                           places_.python.string(),
                           "-m",
                           "tritonforge_worker.plan.counted",
                           places_.sandbox_library.string(),
                           (folder / kFrames).string()});
  return argv;
}

Counted Profiler::count(const Job& job, Deadline deadline, const std::stop_token& left) const {
  check_waited_for(left);
  if (!job.unavailable.empty()) return {.kernels = {}, .unavailable = job.unavailable};
  const fs::path log = job.folder->path() / "log", words = job.folder->path() / "words";
  ChildProcess process(
      {.argv = command(job, log), .env = {}, .stdout_file = words, .stderr_file = words, .working_folder = {}});
  const double seconds = std::min(kMostSeconds, deadline.remaining_s());
  const std::stop_callback on_left(left, [&] { process.signal(SIGKILL); });  // its group's
  const auto status = process.wait(Deadline::after(seconds));
  check_waited_for(left);
  if (!status) {
    process.signal(SIGKILL);
    return {.kernels = {}, .unavailable = fmt::format("ncu did not end within {:.0f} s", seconds)};
  }
  const std::string said = last_line(words);
  if (fs::exists(log) && !said.starts_with("the replayer:")) return parse_ncu_log(read_file(log));
  return {.kernels = {}, .unavailable = fmt::format("ncu ended with exit status {}: {}", *status, said).substr(0, 300)};
}

}  // namespace tritonforge::evaluate
