#include "parallel/world.h"

#include "base/log.h"

namespace tritonforge::parallel {
namespace {

// HOST:PORT.
net::ServerOptions address_of(const WorldOptions& options) {
  const size_t colon = options.rendezvous.rfind(':');
  char* end = nullptr;
  const std::string port = colon == std::string::npos ? "" : options.rendezvous.substr(colon + 1);
  const long number = std::strtol(port.c_str(), &end, 10);
  if (port.empty() || *end != '\0' || number < 1 || number > 65535)
    fail(ErrorKind::kUsage, "rendezvous '{}' is no HOST:PORT", options.rendezvous);
  net::ServerOptions http;
  http.host = options.rendezvous.substr(0, colon);
  http.port = static_cast<int>(number);
  http.api_key = options.api_key;
  return http;
}

}  // namespace

World::World(const ParallelDims& dims, const WorldOptions& options, at::Device device,
             std::function<void(const std::string&)> failed)
    : dims_(dims), options_(options), at_(coordinates_of(dims, options.rank)), failed_(std::move(failed)) {
  if (options.rank >= dims.world())
    fail(ErrorKind::kUsage, "rank {} of a job of {} (tp {} x cp {} x dp {} x pp {})", options.rank, dims.world(),
         dims.tp, dims.cp, dims.dp, dims.pp);
  const net::ServerOptions http = address_of(options);
  if (options.rank == 0) rendezvous_.emplace(http, dims.world(), dims.lost_after_s, options.beat_s);
  meeting_.emplace(fmt::format("http://{}:{}", http.host, http.port), options.api_key);
  // Rank 0 may start last.
  const Deadline deadline = Deadline::after(dims.timeout_s);
  if (options.rank == 0) meeting_->put("open", "1");
  for (bool open = false; !open;) {
    try {
      meeting_->get("open", deadline);
      open = true;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kUnavailable || deadline.expired()) throw;
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, std::chrono::milliseconds(50));  // nobody listens there yet: nothing else to wait for
    }
  }
  watch_ = std::thread([this] { watch(); });
  try {
    const GroupPlace place{options.host, *meeting_, recorder_, dims.timeout_s, dims.peer_copies};
    const std::string machine = "ranks-of-" + options.host;
    meeting_->add(machine, 1);
    // NCCL waits for ever for one that does not come; the watch over what is recorded does not.
    const auto join = [&](const std::string& name, bool nccl, int64_t rank, int64_t size, int64_t unit) {
      const uint64_t number = recorder_.begin(name, "join", nccl ? "NCCL" : "Gloo", /*bytes=*/0);
      auto group = nccl ? make_nccl_group(name, rank, size, unit, device, place)
                        : make_gloo_group(name, rank, size, unit, place);
      recorder_.end(number);
      return group;
    };
    host_ = join("all", false, rank(), size(), kShareUnit);
    ranks_here_ = meeting_->add(machine, 0);  // the others were there before the group was
    const auto group = [&](const std::string& name, int64_t rank, int64_t size, int64_t unit) {
      return size == 1 ? nullptr : join(name, device.is_cuda(), rank, size, unit);
    };
    tp_ = group(fmt::format("tp.cp{}.dp{}.pp{}", at_.cp, at_.dp, at_.pp), at_.tp, dims.tp, 1);
    cp_ = group(fmt::format("cp.tp{}.dp{}.pp{}", at_.tp, at_.dp, at_.pp), at_.cp, dims.cp, 1);
    zero_ = group(fmt::format("zero.tp{}.pp{}", at_.tp, at_.pp), at_.dp * dims.cp + at_.cp, dims.dp * dims.cp,
                  kShareUnit);
    if (dims.ep > 1) {
      const ExpertCoordinates experts = expert_coordinates_of(dims, at_);
      const auto name = [&](const char* group, int64_t place) {
        return fmt::format("{}.tp{}.pp{}.{}", group, at_.tp, at_.pp, place);
      };
      ep_ = group(name("ep", experts.replica), experts.ep, dims.ep, 1);
      expert_zero_ = group(name("expert-zero", experts.ep), experts.replica, dims.dp * dims.cp / dims.ep, kShareUnit);
    }
    const std::string stages = fmt::format("pp.tp{}.cp{}.dp{}", at_.tp, at_.cp, at_.dp);
    onward_ = group(stages + ".onward", at_.pp, dims.pp, 1);
    back_ = group(stages + ".back", at_.pp, dims.pp, 1);
    // Who is refused something right behind its joining would close connections that others are still waiting for.
    if (meeting_->add("joined", 1) == size()) meeting_->put("all-joined", "1");
    meeting_->get("all-joined", Deadline::after(dims.timeout_s));
  } catch (const std::exception& error) {
    report(fmt::format("joining: {}", error.what()));
    end_watch();
    throw;
  }
  log::info("rank {} of {}: tp {} cp {} dp {} pp {}", rank(), size(), at_.tp, at_.cp, at_.dp, at_.pp);
}

void World::end_watch() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
  }
  watch_.join();
  if (!failing_) return;
  for (Group* group : device_groups()) group->abandon();  // nobody is left to end the process while one waits
}

World::~World() {
  end_watch();
  try {
    if (failing_) {  // the others hear of it with their next beat, while rank 0 listens
      if (rank() == 0) meeting_->look("all-left", 3 * options_.beat_s);
      return;
    }
    meeting_->leave(rank());
    // Who listens for the others leaves last.
    if (meeting_->add("left", 1) == size()) meeting_->put("all-left", "1");
    if (rank() == 0) meeting_->get("all-left", Deadline::after(dims_.lost_after_s));
  } catch (const std::exception& error) {
    log::warn("leaving the job: {}", error.what());
  }
}

void World::watch() {
  bool reported = false;
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    std::optional<std::string> failure;
    try {
      if (!reported && recorder_.waits_s() > dims_.timeout_s) {
        reported = true;
        report(fmt::format("a collective does not end: {}", recorder_.standing()));
      }
      failure = meeting_->beat(rank(), recorder_.standing());
    } catch (const std::exception& error) {  // its server ends with rank 0
      failure = fmt::format("rank 0 is gone ({}); this rank was at {}", error.what(), recorder_.standing());
    }
    lock.lock();
    if (failure && !stopping_) {
      stopping_ = failing_ = true;
      lock.unlock();
      failed_(*failure);
      return;
    }
    wake_.wait_for(lock, std::chrono::duration<double>(options_.beat_s), [this] { return stopping_; });
  }
}

std::vector<Group*> World::device_groups() const {
  std::vector<Group*> groups{tp_.get(),          cp_.get(),     zero_.get(), ep_.get(),
                             expert_zero_.get(), onward_.get(), back_.get()};
  std::erase(groups, nullptr);
  return groups;
}

double World::waited_s() {
  double seconds = 0;
  for (Group* group : device_groups()) seconds += group->waited_s();
  return seconds;
}

void World::tell(std::string command) {
  if (size() > 1) meeting_->put(fmt::format("command-{}", ++commands_), std::move(command));
}

std::string World::told() {
  const std::string name = fmt::format("command-{}", ++commands_);
  std::optional<std::string> command;
  while (!command) command = meeting_->look(name, 20);
  const std::string readers = name + "-read";
  if (meeting_->add(readers, 1) == size() - 1) {  // by everybody
    meeting_->remove(name);
    meeting_->remove(readers);
  }
  return std::move(*command);
}

void World::report(const std::string& why, bool of_another) {
  failing_ = true;
  log::error("rank {}: {}", rank(), why);
  for (const std::string& line : recorder_.lines()) log::info("flight recorder: {}", line);
  try {
    meeting_->report_failure(rank(), why, of_another);
  } catch (const std::exception& error) {
    log::error("rank {}: rank 0 is gone and hears nothing of it: {}", rank(), error.what());
  }
}

}  // namespace tritonforge::parallel
