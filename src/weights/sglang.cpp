#include "weights/sglang.h"

#include <functional>
#include <future>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/process.h"
#include "model/weights.h"
#include "net/retry.h"
#include "net/wire.h"

namespace tritonforge::weights {
namespace {

constexpr double kCommandSeconds = 60, kFarewellSeconds = 5;

// Requests that are under way while this process does its part of a collective.
class Asked {
 public:
  Asked(const std::vector<std::string>& urls, const std::function<void(size_t)>& ask) {
    for (size_t i = 0; i < urls.size(); ++i) asked_.push_back(std::async(std::launch::async, ask, i));
  }
  // An engine's own words say more than those of the collective that fails for it.
  void finish(const std::function<void()>& part) {
    std::exception_ptr first;
    try {
      part();
    } catch (...) {
      first = std::current_exception();
    }
    std::exception_ptr theirs;
    for (auto& one : asked_) {
      try {
        one.get();
      } catch (...) {
        if (!theirs) theirs = std::current_exception();
      }
    }
    if (theirs) std::rethrow_exception(theirs);
    if (first) std::rethrow_exception(first);
  }

 private:
  std::vector<std::future<void>> asked_;
};

}  // namespace

SglangEngines::SglangEngines(std::vector<std::string> urls, SglangOptions options)
    : urls_(std::move(urls)), options_(std::move(options)) {}

SglangEngines::~SglangEngines() { leave(); }

net::HttpClient SglangEngines::client(double timeout_s) const {
  return net::HttpClient({.timeout_s = timeout_s, .api_key = options_.api_key});
}

// Throws where it is refused: SGLang says so by its status or in "success".
void SglangEngines::post(const std::string& url, const char* path, const Json& body, double seconds) const {
  const Json reply = client(seconds).post_json(url + path, body).value();
  if (reply.is_object() && !optional_field(reply, "success", true, url + path))
    fail(ErrorKind::kConflict, "{}{}: {}", url, path, optional_field<std::string>(reply, "message", "refused", url));
}

int64_t SglangEngines::ranks_of(const std::string& url) const {
  auto info = client(kCommandSeconds).get_json(url + "/server_info");
  if (!info.ok() && info.error().kind() == ErrorKind::kNotFound)  // what 0.5.5 has alone
    info = client(kCommandSeconds).get_json(url + "/get_server_info");
  return optional_field<int64_t>(info.value(), "tp_size", 1, url + "/server_info");
}

void SglangEngines::leave() {
  if (group_name_.empty()) return;
  for (const std::string& url : urls_) {
    try {
      post(url, "/destroy_weights_update_group", {{"group_name", group_name_}}, kFarewellSeconds);
    } catch (const Error& error) {
      log::warn("{}", error.what());
    }
  }
  group_.reset();
  group_name_.clear();
}

void SglangEngines::join(at::Device device, Deadline deadline) {
  leave();
  std::vector<int64_t> first_rank;
  int64_t ranks = 1;
  for (const std::string& url : urls_) {
    first_rank.push_back(ranks);
    ranks += ranks_of(url);
  }
  group_name_ = "tritonforge-" + net::fresh_id();
  const int port = free_port();
  Asked asked(urls_, [&](size_t i) {
    post(urls_[i], "/init_weights_update_group",
         {{"master_address", options_.host},
          {"master_port", port},
          {"rank_offset", first_rank[i]},
          {"world_size", ranks},
          {"group_name", group_name_},
          {"backend", options_.backend}},
         deadline.remaining_s());
  });
  asked.finish([&] {
    // An engine that refused does not come.
    const Deadline all = Deadline::after(std::min(kCommandSeconds, deadline.remaining_s()));
    const GroupPlace place{options_.host, port, 0, static_cast<int>(ranks), group_name_, options_.backend};
    group_ = join_group(place, device, all);
  });
}

void SglangEngines::send(const model::Model& model, int64_t version, Deadline deadline) {
  const auto all = model.named_parameters();
  for (size_t begin = 0; begin < all.size();) {
    size_t end = begin;
    int64_t bytes = 0;
    Json names = Json::array(), dtypes = Json::array(), shapes = Json::array();
    for (; end < all.size() && (end == begin || bytes < options_.bucket_bytes); ++end) {
      names.push_back(all[end].first);
      dtypes.push_back(model::dtype_name(all[end].second.scalar_type()));
      shapes.push_back(all[end].second.sizes().vec());
      bytes += static_cast<int64_t>(all[end].second.nbytes());
    }
    const Json body = {{"names", std::move(names)},   {"dtypes", std::move(dtypes)},
                       {"shapes", std::move(shapes)}, {"group_name", group_name_},
                       {"flush_cache", false},  // SGLang ends where it cannot, as with a request that waits
                       {"abort_all_requests", false}, {"weight_version", std::to_string(version)}};
    Asked asked(urls_,
                [&](size_t i) { post(urls_[i], "/update_weights_from_distributed", body, deadline.remaining_s()); });
    asked.finish([&] {
      for (size_t i = begin; i < end; ++i)
        group_->broadcast(all[i].second.detach().to(group_->device()).contiguous(), deadline);
    });
    begin = end;
  }
}

// Nothing is computed from here on, and no prefix is there whose keys and values are of the older weights.
void SglangEngines::pause(const std::string& url, Deadline deadline) const {
  post(url, "/pause_generation", {{"mode", options_.pause}}, deadline.remaining_s());
  const auto flush = [&]() -> Result<net::Response> {
    auto reply = client(deadline.remaining_s()).post(url + "/flush_cache", Json::object());
    if (!reply.ok() || reply->status == 200) return reply;
    return Error(ErrorKind::kConflict, fmt::format("{}/flush_cache with \"pause\": \"{}\": {} {}", url, options_.pause,
                                                   reply->status, reply->body));
  };
  // Requests that are aborted take a moment to end; those that are kept do not go.
  const auto again = [&](const Error& error) {
    return error.kind() == ErrorKind::kConflict && options_.pause == "abort";
  };
  const auto flushed = net::retry<net::Response>(url + " to forget its cache", deadline, flush, {.again = again});
  if (flushed.ok()) return;
  if (options_.pause != "in_place" || flushed.error().kind() != ErrorKind::kConflict) throw flushed.error();
  log::info("{}: its cache stays, of which the requests under way are a part", url);
}

void SglangEngines::push(const model::Model& model, int64_t version, Deadline deadline) {
  if (!group_) join(model.device(), deadline);
  const auto within = [&] { return std::min(kCommandSeconds, deadline.remaining_s()); };
  try {
    for (const std::string& url : urls_) pause(url, Deadline::after(within()));
    send(model, version, deadline);
  } catch (...) {
    leave();
    for (const std::string& failure : let_go_on(kFarewellSeconds)) log::warn("{}", failure);
    throw;
  }
  const auto failures = let_go_on(within());
  if (!failures.empty()) fail(ErrorKind::kUnavailable, "{}", fmt::join(failures, "; "));
}

std::vector<std::string> SglangEngines::let_go_on(double timeout_s) const {
  std::vector<std::string> failures;
  for (const std::string& url : urls_) {
    try {
      post(url, "/continue_generation", Json::object(), timeout_s);
    } catch (const Error& error) {
      failures.push_back(error.what());
    }
  }
  return failures;
}

}  // namespace tritonforge::weights
