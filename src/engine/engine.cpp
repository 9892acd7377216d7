#include "engine/engine.h"

#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <thread>

#include "base/log.h"
#include "engine/core.h"
#include "engine/report.h"
#include "engine/sizing.h"
#include "kernels/device.h"
#include "kernels/parallel.h"
#include "model/weights.h"
#include "net/retry.h"
#include "weights/transport.h"

namespace tritonforge::engine {
namespace {

constexpr int64_t kFailuresBeforeRed = 3;
constexpr double kWritingSeconds = 60;  // in which a trainer writes the file of weights that it has told of

// What waits for the engine's thread: a request, or something to do between two steps.
struct Message {
  uint64_t ticket = 0;
  Arrival arrival;
  std::function<void(Core&)> command;
  bool when_drained = false;  // the command waits for the end of all requests under way
};

}  // namespace

struct Engine::Impl {
  template <typename Models>  // one model, or a part of it for each rank
  Impl(const EngineOptions& options, Models models, std::shared_ptr<const tokenizer::Tokenizer> tokenizer);
  ~Impl();

  // The engine's thread.
  void run();
  bool wait_for_work(std::deque<Message>& inbox);  // false: the engine ends
  void carry_out(std::deque<Message>& inbox);
  void carry_out_drained();

  // Other threads.
  uint64_t post(Message message);  // its ticket; 0 once the thread has ended: nobody will read it
  // Runs `command` between two steps and waits for it; throws what it throws. It may outlive the call: it owns what it
  // refers to. `name` is for messages.
  void call(const char* name, std::function<void(Core&)> command, Deadline deadline, bool when_drained = false);
  InstalledWeights install(StagedWeights staged, int64_t version, UpdateMode mode, Deadline deadline);
  Result<InstalledWeights> staged(const Stage& stage, int64_t version, std::optional<UpdateMode> mode,
                                  Deadline deadline);
  bool withdraw(uint64_t ticket);  // false where it is no longer in the queue

  Core core;  // the thread's own, but for arrival(), info() and model()
  const int64_t threads, limit;
  const double watchdog_s;
  const UpdateMode update_mode;
  std::atomic<uint64_t> next_id{1};
  std::timed_mutex update_mutex;  // one weight update at a time
  const std::vector<std::unique_ptr<weights::Transport>> transports;

  mutable std::mutex mutex;  // all below
  std::condition_variable wake;
  std::deque<Message> messages, drained;  // the latter wait for core.drained()
  uint64_t next_ticket = 1;
  bool stopping = false, ended = false;
  int64_t submitted_samples = 0;
  EngineStats stats;
  std::optional<Clock::time_point> moved;  // when a step or a request ended last; empty: the thread waits for work
  std::thread thread;
};

template <typename Models>
Engine::Impl::Impl(const EngineOptions& options, Models models, std::shared_ptr<const tokenizer::Tokenizer> tokenizer)
    : core(options, std::move(models), std::move(tokenizer),
           [this](const EngineStats& now) {
             const std::lock_guard lock(mutex);
             if (now.steps != stats.steps || now.ended_samples != stats.ended_samples) moved = Clock::now();
             stats = now;
           }),
      threads(threads_of_rank(options)),
      limit(options.max_running + options.max_queue),
      watchdog_s(options.watchdog_s),
      update_mode(options.update_mode),
      transports(weights::make_transports(options.weights_key)) {
  core.publish();
  thread = std::thread([this] { run(); });
}

Engine::Impl::~Impl() {
  {
    const std::lock_guard lock(mutex);
    stopping = true;
  }
  wake.notify_all();
  thread.join();
}

void Engine::Impl::run() {
  std::optional<kernels::ThreadPool> pool;
  if (core.model().device().is_cpu()) pool.emplace(threads);
  else if (threads > 0) at::set_num_threads(static_cast<int>(threads));
  const c10::InferenceMode inference;
  LoadReport load;
  std::deque<Message> inbox;
  while (wait_for_work(inbox)) {
    carry_out(inbox);
    core.expire(Clock::now());
    if (core.has_work()) core.step_or_recover();
    if (const std::string line = load.line(core.stats()); !line.empty()) log::info("{}", line);
    carry_out_drained();
    core.publish();
  }
  // What still waits is carried out, so that nobody waits for ever; then all are told that it is over.
  {
    const std::lock_guard lock(mutex);
    ended = true;
    inbox.swap(messages);
  }
  carry_out(inbox);
  core.abort_all("the engine is shutting down");
  carry_out_drained();
  core.publish();
}

bool Engine::Impl::wait_for_work(std::deque<Message>& inbox) {
  std::unique_lock lock(mutex);
  const auto ready = [this] {
    return stopping || !messages.empty() || core.has_work() || (core.draining() && drained.empty());
  };
  if (!ready()) {
    moved.reset();
    if (core.empty()) wake.wait(lock, ready);
    else wake.wait_until(lock, core.first_deadline(), ready);  // held up with requests inside
  }
  if (!moved) moved = Clock::now();
  if (stopping) return false;
  inbox.swap(messages);
  return true;
}

void Engine::Impl::carry_out(std::deque<Message>& inbox) {
  for (Message& message : inbox) {
    if (message.arrival) {
      core.admit(std::move(message.arrival));
    } else if (message.when_drained) {
      core.drain();
      const std::lock_guard lock(mutex);
      drained.push_back(std::move(message));
    } else {
      message.command(core);
    }
  }
  inbox.clear();
  carry_out_drained();
}

void Engine::Impl::carry_out_drained() {
  if (!core.draining()) return;
  std::deque<Message> due;
  {
    const std::lock_guard lock(mutex);
    if (!drained.empty() && !core.drained()) return;
    due.swap(drained);
  }
  for (Message& message : due) message.command(core);
  core.undrain();
}

uint64_t Engine::Impl::post(Message message) {
  uint64_t ticket = 0;
  {
    const std::lock_guard lock(mutex);
    if (ended) return 0;
    ticket = message.ticket = next_ticket++;
    messages.push_back(std::move(message));
  }
  wake.notify_all();
  return ticket;
}

bool Engine::Impl::withdraw(uint64_t ticket) {
  const auto is_it = [ticket](const Message& message) { return message.ticket == ticket; };
  {
    const std::lock_guard lock(mutex);
    if (std::erase_if(messages, is_it) + std::erase_if(drained, is_it) == 0) return false;
  }
  wake.notify_all();  // nothing may be left to drain for
  return true;
}

void Engine::Impl::call(const char* name, std::function<void(Core&)> command, Deadline deadline, bool when_drained) {
  const auto done = std::make_shared<std::promise<void>>();
  auto future = done->get_future();
  const auto answered = [command = std::move(command), done](Core& core) {
    try {
      command(core);
      done->set_value();
    } catch (...) {
      done->set_exception(std::current_exception());
    }
  };
  const uint64_t ticket = post({.command = answered, .when_drained = when_drained});
  if (ticket == 0) fail(ErrorKind::kUnavailable, "{}: the engine has ended", name);
  if (future.wait_until(deadline.at()) == std::future_status::ready) return future.get();
  if (withdraw(ticket)) {
    fail(ErrorKind::kTimeout, "{}: the engine's {} did not end before the deadline; nothing was done", name,
         when_drained ? "requests" : "step");
  }
  fail(ErrorKind::kTimeout, "{}: still being carried out at the deadline; it takes effect", name);
}

namespace {

// Whether the model computes from the blocks of its file.
bool as_stored(const EngineOptions& options, at::Device device) {
  const bool can = options.model.extension() == ".gguf" && device.is_cpu() && options.tp == 1;
  if (options.dtype == "as_stored" && !can) {
    fail(ErrorKind::kUsage,
         "--dtype as_stored computes from a GGUF file on the CPU with tp 1, not from {} on {} with {}",
         options.model.string(), device.str(), options.tp);
  }
  const bool fp8 = options.weight_dtype == WeightDtype::kFp8;
  if (options.dtype == "as_stored" && fp8)
    fail(ErrorKind::kUsage,
         "--dtype as_stored keeps a file's own blocks, --weight-dtype fp8_e4m3 rounds them: give one");
  return can && !fp8 && (options.dtype == "as_stored" || options.dtype == "auto");
}

// Of each rank: the GPUs from --device on, or the CPU for all of them.
std::vector<at::Device> open_devices(const EngineOptions& options) {
  std::vector<at::Device> devices{kernels::open_device(options.device)};
  for (int64_t rank = 1; rank < options.tp; ++rank) {
    const at::Device first = devices.front();
    devices.push_back(first.is_cpu() ? first : kernels::open_device(fmt::format("cuda:{}", first.index() + rank)));
  }
  return devices;
}

}  // namespace

Engine::Engine(EngineOptions options) {
  check_options(options);
  const std::vector<at::Device> devices = open_devices(options);
  const at::Device device = devices.front();
  const bool stored = as_stored(options, device);
  auto tokenizer = std::make_shared<const tokenizer::Tokenizer>(tokenizer::Tokenizer::load(options.model));
  Ranks ranks;
  if (stored) {
    ranks.push_back(std::make_unique<model::Model>(model::load_stored_model(options.model)));
  } else {
    const at::ScalarType dtype = kernels::parse_dtype(options.dtype, device);
    ranks = model::load_parts(options.model, dtype, devices, fp8_matrices(options, dtype));
  }
  if (options.tp > 1) impl_ = std::make_unique<Impl>(options, std::move(ranks), std::move(tokenizer));
  else impl_ = std::make_unique<Impl>(options, std::move(ranks.front()), std::move(tokenizer));
}

Engine::Engine(EngineOptions options, std::unique_ptr<model::Model> model,
               std::shared_ptr<const tokenizer::Tokenizer> tokenizer) {
  check_options(options);
  impl_ = std::make_unique<Impl>(options, std::move(model), std::move(tokenizer));
}

Engine::~Engine() = default;

const EngineInfo& Engine::info() const { return impl_->core.info(); }
const tokenizer::Tokenizer* Engine::tokenizer() const { return impl_->core.tokenizer(); }

Result<std::string> Engine::submit(Request request) {
  Impl& impl = *impl_;
  if (request.id.empty()) request.id = fmt::format("req-{}", impl.next_id++);
  auto arrival = impl.core.arrival(std::move(request));
  if (!arrival) return arrival.error();
  const auto samples = std::ssize((*arrival)->samples);
  std::string id = (*arrival)->request.id;
  {
    const std::lock_guard lock(impl.mutex);
    const int64_t held = impl.submitted_samples - impl.stats.ended_samples;
    // A request of more samples than the whole queue holds is taken when nothing else is there.
    if (impl.ended) return Error(ErrorKind::kUnavailable, "the engine has ended");
    if (held + samples > impl.limit && held > 0) {
      return Error(
          ErrorKind::kBusy,
          fmt::format("the engine's queue is full: {} sequences run or wait, the limit is {}", held, impl.limit));
    }
    impl.submitted_samples += samples;
    impl.messages.push_back({impl.next_ticket++, std::move(*arrival), nullptr});
  }
  impl.wake.notify_all();
  return id;
}

void Engine::abort(const std::string& id, const std::string& why) {
  impl_->post({.command = [id, why](Core& core) { core.abort(id, why); }});
}

// It holds the sender: no other one can have its address meanwhile.
void Engine::abort_of(std::shared_ptr<const void> sender, const std::string& why) {
  impl_->post({.command = [sender = std::move(sender), why](Core& core) { core.abort_of(sender.get(), why); }});
}

void Engine::abort_all(const std::string& why, Deadline deadline) {
  impl_->call("abort_all", [why](Core& core) { core.abort_all(why); }, deadline);
}

void Engine::pause(PauseMode mode, Deadline deadline) {
  impl_->call("pause", [mode](Core& core) { core.pause(mode); }, deadline);
}
void Engine::resume(Deadline deadline) { impl_->call("resume", &Core::resume, deadline); }
void Engine::flush_cache(Deadline deadline) { impl_->call("flush_cache", &Core::flush_cache, deadline); }
void Engine::release_memory(MemoryParts parts, Deadline deadline) {
  impl_->call("release_memory", [parts](Core& core) { core.release_memory(parts); }, deadline);
}
void Engine::resume_memory(MemoryParts parts, Deadline deadline) {
  impl_->call("resume_memory", [parts](Core& core) { core.resume_memory(parts); }, deadline);
}

InstalledWeights Engine::Impl::install(StagedWeights staged, int64_t version, UpdateMode mode, Deadline deadline) {
  const auto kept = std::make_shared<const StagedWeights>(std::move(staged));
  const auto installed = std::make_shared<InstalledWeights>();
  const auto install = [=](Core& core) {
    if (mode == UpdateMode::kAbort) core.abort_all("the weights are replaced");
    *installed = core.install(*kept, version);
  };
  call("update_weights", install, deadline, mode == UpdateMode::kWait);
  return *installed;
}

Result<InstalledWeights> Engine::Impl::staged(const Stage& stage, int64_t version, std::optional<UpdateMode> mode,
                                              Deadline deadline) {
  try {
    return install(stage(core.parts()), version, mode.value_or(update_mode), deadline);
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& error) {  // libtorch's has a trace behind its first line
    const std::string said = error.what();
    return Error(ErrorKind::kInternal, "update_weights: " + said.substr(0, said.find('\n')));
  }
}

Result<InstalledWeights> Engine::update_weights(const Stage& stage, int64_t version, std::optional<UpdateMode> mode,
                                                Deadline deadline) {
  Impl& impl = *impl_;
  const std::unique_lock one_at_a_time(impl.update_mutex, deadline.at());
  if (!one_at_a_time) return Error(ErrorKind::kTimeout, "update_weights: the update before it did not end in time");
  return impl.staged(stage, version, mode, deadline);
}

at::Tensor Engine::weight(const std::string& name, int64_t rows, Deadline deadline) {
  const auto found = std::make_shared<at::Tensor>();
  impl_->call("weight", [=](Core& core) { *found = core.weight(name, rows); }, deadline);
  return *found;
}

Result<InstalledWeights> Engine::update_weights(const PublishedWeights& weights, std::optional<UpdateMode> mode,
                                                Deadline deadline) {
  Impl& impl = *impl_;
  const std::unique_lock one_at_a_time(impl.update_mutex, deadline.at());
  if (!one_at_a_time) return Error(ErrorKind::kTimeout, "update_weights: the update before it did not end in time");
  const auto by = [&](weights::Transport& transport) {
    const auto stage = [&](const model::Parts& model) { return transport.stage(model, weights, deadline); };
    return impl.staged(stage, weights.version, mode, deadline);
  };
  // What is in one way says nothing of the next.
  const auto by_any = [&]() -> Result<InstalledWeights> {
    std::optional<Error> last;
    for (const auto& transport : impl.transports) {
      if (!transport->offered(weights)) continue;
      if (last) log::warn("{}; the weights are taken by {}", last->what(), transport->name());
      auto installed = by(*transport);
      if (installed.ok() || installed.error().kind() == ErrorKind::kTimeout) return installed;
      last = installed.error();
    }
    return last.value_or(Error(ErrorKind::kUsage, "update_weights: no way is named in which they can be had"));
  };
  // A trainer's file may still be being written where its memory is told of.
  const Deadline written = Deadline::after(weights.device ? kWritingSeconds : 0);
  const bool file = !weights.path.empty() || weights.tcp;
  const auto again = [&](const Error& error) {
    return error.kind() == ErrorKind::kNotFound && file && !written.expired();
  };
  return net::retry<InstalledWeights>("the file of the weights", deadline, by_any,
                                      {.again = again, .backoff = {.max_s = 0.2}});
}

EngineStats Engine::stats() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->stats;
}

std::string Engine::fault() const {
  const Impl& impl = *impl_;
  const std::lock_guard lock(impl.mutex);
  const EngineStats& stats = impl.stats;
  if (stats.consecutive_failures >= kFailuresBeforeRed)
    return fmt::format("{} steps failed in a row: {}", stats.consecutive_failures, stats.last_failure);
  const int64_t held = impl.submitted_samples - stats.ended_samples;
  const double still_s = impl.moved && held > 0 ? seconds_since(*impl.moved) : 0;
  if (impl.watchdog_s == 0 || still_s <= impl.watchdog_s) return "";
  return fmt::format("it hangs: no step has ended for {:.0f} s, and {} sequences run or wait (watchdog_s {:g})",
                     still_s, held, impl.watchdog_s);
}

}  // namespace tritonforge::engine
