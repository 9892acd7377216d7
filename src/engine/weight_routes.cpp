#include "engine/weight_routes.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "base/log.h"
#include "base/named_enum.h"
#include "net/base64.h"
#include "weights/group.h"

namespace tritonforge::engine {
namespace {

using HttpRequest = net::Request;
using net::Response;
using weights::BroadcastGroup;

constexpr double kUpdateSeconds = 600;  // for reading and checking all of them
constexpr const char* kUsualGroup = "weight_update_group";
constexpr const char* kSafetensorsType = "application/x-safetensors";

Deadline within(const HttpRequest& request) {
  return Deadline::after(std::min(kUpdateSeconds, request.deadline.remaining_s()));
}

int64_t version_of(const Json& body, const std::string& where) {
  const auto found = body.find("weight_version");
  if (found == body.end() || found->is_null()) return -1;
  if (found->is_number_integer() && found->get<int64_t>() >= 0) return found->get<int64_t>();
  const std::string text = found->is_string() ? found->get<std::string>() : "";
  if (text.empty() || text.size() > 18 || text.find_first_not_of("0123456789") != std::string::npos) {
    fail(ErrorKind::kUsage, "{}: field 'weight_version' must be a number of 0 or more, as text or number", where);
  }
  return std::stoll(text);
}

// "mode", or SGLang's "abort_all_requests". Left open: the engine's option decides.
std::optional<UpdateMode> mode_of(const Json& body, const std::string& where) {
  const auto mode = optional_field<std::string>(body, "mode", "", where);
  if (!mode.empty()) return from_name<UpdateMode>(mode, where + ": mode");
  if (optional_field(body, "abort_all_requests", false, where)) return UpdateMode::kAbort;
  return std::nullopt;
}

// The reply to an update, SGLang's and with what a run's orchestrator compares.
Response reply_of(Engine& engine, const std::string& where, const Result<InstalledWeights>& installed) {
  if (!installed) {
    log::warn("{}: {}", where, installed.error().what());
    return Response::error(installed.error(), {{"success", false},
                                               {"message", installed.error().what()},
                                               {"weight_version", std::to_string(engine.stats().weight_version)}});
  }
  return Response::json({{"success", true},
                         {"message", ""},
                         {"weight_version", std::to_string(installed->version)},
                         {"checksums", installed->checksums},
                         {"num_paused_requests", 0}});
}

Response update_weights(Engine& engine, const HttpRequest& request, const char* path_field) {
  const std::string where = "POST " + request.path;
  const Json body = request.json();
  PublishedWeights weights;
  if (body.contains("device")) weights.device = device_weights_from_json(body.at("device"));
  if (body.contains("tcp")) weights.tcp = streamed_weights_from_json(body.at("tcp"));
  if (body.contains("group")) weights.group = grouped_weights_from_json(body.at("group"));
  weights.path = weights.can_be_had() ? optional_field<std::string>(body, path_field, "", where)
                                      : require<std::string>(body, path_field, where);
  weights.version = version_of(body, where);
  if ((weights.tcp || weights.group) && weights.version < 0)
    fail(ErrorKind::kUsage, "{}: field 'weight_version' is missing: {} asks for it", where,
         weights.tcp ? "tcp" : "group");
  weights.checksums = optional_field(body, "checksums", TensorChecksums{}, where);
  return reply_of(engine, where, engine.update_weights(weights, mode_of(body, where), within(request)));
}

// Weights in the body itself. What may run code where it is read is never read: SGLang's own form, a pickle, is
// refused.
std::shared_ptr<const std::string> safetensors_of(const std::string& text, const std::string& where) {
  auto decoded = net::from_base64(text);
  if (!decoded) fail(ErrorKind::kUsage, "{}: field 'serialized_named_tensors' is not base64", where);
  auto bytes = std::make_shared<std::string>(std::move(*decoded));
  // Safetensors begin with the header's length; its text follows.
  const bool header = bytes->size() > 8 && (*bytes)[8] == '{';
  if (!header && !bytes->empty() && static_cast<unsigned char>(bytes->front()) == 0x80) {
    fail(ErrorKind::kUnsupported,
         "{}: 'serialized_named_tensors' is a pickle, which may run code where it is read: send the base64 of "
         "safetensors "
         "(safetensors.torch.save(dict)), its bytes with content-type {}, or /update_weights_from_distributed",
         where, kSafetensorsType);
  }
  return bytes;
}

Response install_bytes(Engine& engine, const std::string& where, std::shared_ptr<const std::string> bytes,
                       const Json& fields, Deadline deadline) {
  const auto checksums = optional_field(fields, "checksums", TensorChecksums{}, where);
  const auto stage = [&](const model::Parts& model) {
    const auto files = std::make_shared<std::deque<model::SafetensorsFile>>();
    files->emplace_back(where, std::as_bytes(std::span(bytes->data(), bytes->size())), bytes);
    return weights::stage_files(model, files, checksums, /*part=*/true);
  };
  return reply_of(engine, where,
                  engine.update_weights(stage, version_of(fields, where), mode_of(fields, where), deadline));
}

Response update_from_tensor(Engine& engine, const HttpRequest& request) {
  const std::string where = "POST " + request.path;
  const auto type = request.headers.find("content-type");
  if (type != request.headers.end() && type->second == kSafetensorsType) {
    Json fields = Json::object();
    for (const auto& [key, value] : request.query) fields[key] = value;
    return install_bytes(engine, where, std::make_shared<std::string>(request.body), fields, within(request));
  }
  const Json body = request.json();
  if (!body.contains("serialized_named_tensors")) return update_weights(engine, request, "path");
  // SGLang's list has an entry for each tensor-parallel rank, whole tensors in each.
  const auto texts = require<std::vector<std::string>>(body, "serialized_named_tensors", where);
  if (texts.size() != 1)
    fail(ErrorKind::kUsage, "{}: {} 'serialized_named_tensors', expected 1: each rank takes its part of them", where,
         texts.size());
  return install_bytes(engine, where, safetensors_of(texts.front(), where), body, within(request));
}

// The groups that this engine is in. A group has one collective at a time.
class Groups {
 public:
  void init(const Json& body, at::Device device, Deadline deadline) {
    const std::string where = "POST /init_weights_update_group";
    const weights::GroupPlace place{require<std::string>(body, "master_address", where),
                                    require<int>(body, "master_port", where),
                                    require<int>(body, "rank_offset", where),
                                    require<int>(body, "world_size", where),
                                    optional_field<std::string>(body, "group_name", kUsualGroup, where),
                                    optional_field<std::string>(body, "backend", "nccl", where)};
    if (place.rank == 0) fail(ErrorKind::kUsage, "{}: rank 0 is who sends: 'rank_offset' must be 1 or more", where);
    {
      const std::lock_guard lock(mutex_);
      if (!groups_.try_emplace(place.name).second)
        fail(ErrorKind::kConflict,
             "{}: group '{}' is there already, or being joined: POST /destroy_weights_update_group", where, place.name);
    }
    std::shared_ptr<BroadcastGroup> joined;
    try {
      joined = weights::join_group(place, device, deadline);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      groups_.erase(place.name);
      throw;
    }
    const std::lock_guard lock(mutex_);
    groups_[place.name] = std::move(joined);
  }
  std::shared_ptr<BroadcastGroup> find(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    const auto found = groups_.find(name);
    if (found != groups_.end() && found->second) return found->second;
    std::vector<std::string> known;
    for (const auto& [key, group] : groups_) {
      if (group) known.push_back(key);
    }
    fail(ErrorKind::kNotFound, "no group '{}'{}: POST /init_weights_update_group makes one", name,
         known.empty() ? "" : nearest_hint(name, known));
  }
  bool destroy(const std::string& name) {
    std::shared_ptr<BroadcastGroup> gone;  // goes outside of the lock
    const std::lock_guard lock(mutex_);
    const auto found = groups_.find(name);
    if (found == groups_.end() || !found->second) return false;
    gone = std::move(found->second);
    groups_.erase(found);
    return true;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<BroadcastGroup>> groups_;  // null: one that is being joined
};

at::ScalarType dtype_of(std::string name, const std::string& where) {
  if (name.starts_with("torch.")) name = name.substr(6);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    if (name == model::dtype_name(type)) return type;
  }
  fail(ErrorKind::kUnsupported, "{}: dtype '{}'{}", where, name,
       nearest_hint(name, {"float32", "bfloat16", "float16"}));
}

struct Announced {
  std::string name;
  at::ScalarType dtype;
  std::vector<int64_t> shape;
};

// What a request says that rank 0 is about to send, checked before anything of that size is allocated.
std::vector<Announced> announced(const Json& body, const std::string& where) {
  const auto names = require<std::vector<std::string>>(body, "names", where);
  const auto dtypes = require<std::vector<std::string>>(body, "dtypes", where);
  const auto shapes = require<std::vector<std::vector<int64_t>>>(body, "shapes", where);
  if (names.empty() || names.size() != dtypes.size() || names.size() != shapes.size())
    fail(ErrorKind::kUsage, "{}: {} names, {} dtypes and {} shapes", where, names.size(), dtypes.size(), shapes.size());
  std::vector<Announced> tensors;
  for (size_t i = 0; i < names.size(); ++i) tensors.push_back({names[i], dtype_of(dtypes[i], where), shapes[i]});
  return tensors;
}

// "flattened_bucket": all of them one after another as one tensor.
weights::NamedTensors receive(BroadcastGroup& group, const std::vector<Announced>& tensors, bool flat,
                              Deadline deadline) {
  weights::NamedTensors received;
  int64_t count = 0;
  for (const auto& [name, dtype, shape] : tensors) {
    received.emplace_back(name, at::empty(flat ? at::IntArrayRef{} : at::IntArrayRef(shape),
                                          at::TensorOptions(dtype).device(group.device())));
    count += c10::multiply_integers(shape);
  }
  if (!flat) {
    for (const auto& [name, tensor] : received) group.broadcast(tensor, deadline);
    return received;
  }
  const at::Tensor all = at::empty({count}, at::TensorOptions(tensors.front().dtype).device(group.device()));
  group.broadcast(all, deadline);
  int64_t begin = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const int64_t size = c10::multiply_integers(tensors[i].shape);
    received[i].second = all.narrow(0, begin, size).view(tensors[i].shape);
    begin += size;
  }
  return received;
}

Response update_from_distributed(Engine& engine, Groups& groups, const HttpRequest& request) {
  const std::string where = "POST " + request.path;
  const Json body = request.json();
  const auto tensors = announced(body, where);
  const auto format = body.contains("load_format") && body["load_format"].is_null()
                          ? std::string()
                          : optional_field<std::string>(body, "load_format", "", where);
  if (!format.empty() && format != "auto" && format != "flattened_bucket")
    fail(ErrorKind::kUnsupported, "{}: load_format '{}'{}", where, format,
         nearest_hint(format, {"auto", "flattened_bucket"}));
  const bool flat = format == "flattened_bucket";
  if (flat && std::ranges::any_of(tensors, [&](const Announced& one) { return one.dtype != tensors.front().dtype; }))
    fail(ErrorKind::kUnsupported, "{}: a flattened_bucket of several dtypes", where);
  const auto name = optional_field<std::string>(body, "group_name", kUsualGroup, where);
  const std::shared_ptr<BroadcastGroup> group = groups.find(name);
  const Deadline deadline = within(request);
  const auto stage = [&](const model::Parts& model) {
    weights::NamedShapes shapes;
    for (const auto& tensor : tensors) shapes.emplace_back(tensor.name, tensor.shape);
    weights::check_part(model, shapes, where);
    weights::NamedTensors received;
    try {
      received = receive(*group, tensors, flat, deadline);
    } catch (...) {
      groups.destroy(name);  // who was in the middle of a collective does not know where the others are
      throw;
    }
    return weights::stage_part(model, received, where);
  };
  return reply_of(engine, where, engine.update_weights(stage, version_of(body, where), mode_of(body, where), deadline));
}

// SGLang's: the first rows of a weight.
Response weight_by_name(Engine& engine, const HttpRequest& request) {
  const std::string where = request.method + " " + request.path;
  Json body = request.body.empty() ? Json::object() : request.json();
  for (const auto& [key, value] : request.query) body[key] = key == "name" ? Json(value) : parse_json(value, where);
  const auto rows = optional_field<int64_t>(body, "truncate_size", 100, where);
  if (rows < 1) fail(ErrorKind::kUsage, "{}: field 'truncate_size' must be 1 or more", where);
  const at::Tensor weight = engine.weight(require<std::string>(body, "name", where), rows, within(request));
  const at::Tensor matrix = weight.dim() == 2 ? weight : weight.view({1, -1});
  Json reply = Json::array();
  for (int64_t row = 0; row < matrix.size(0); ++row) {
    const auto* numbers = matrix[row].const_data_ptr<float>();
    reply.push_back(std::vector<float>(numbers, numbers + matrix.size(1)));
  }
  return Response::json(weight.dim() == 2 ? reply : reply.front());
}

}  // namespace

void add_weight_routes(net::HttpServer& server, Engine& engine) {
  const auto post = [&](const char* path, auto handler) { server.route("POST", path, handler); };
  post("/update_weights_from_disk",
       [&engine](const HttpRequest& request) { return update_weights(engine, request, "model_path"); });
  post("/update_weights_from_tensor",
       [&engine](const HttpRequest& request) { return update_from_tensor(engine, request); });

  const auto groups = std::make_shared<Groups>();
  post("/init_weights_update_group", [&engine, groups](const HttpRequest& request) {
    groups->init(request.json(), at::Device(engine.info().device), within(request));
    return Response::json({{"success", true}, {"message", "joined"}});
  });
  post("/destroy_weights_update_group", [groups](const HttpRequest& request) {
    const auto name = optional_field<std::string>(request.json(), "group_name", kUsualGroup, "POST " + request.path);
    const bool there = groups->destroy(name);
    return Response::json({{"success", true}, {"message", there ? "left" : "there was none"}});
  });
  post("/update_weights_from_distributed",
       [&engine, groups](const HttpRequest& request) { return update_from_distributed(engine, *groups, request); });
  for (const char* method : {"GET", "POST"}) {
    server.route(method, "/get_weights_by_name",
                 [&engine](const HttpRequest& request) { return weight_by_name(engine, request); });
  }
}

}  // namespace tritonforge::engine
