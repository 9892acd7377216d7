#include "contract/weights.h"

#include <charconv>

namespace tritonforge {

namespace {

int port_of(const Json& json, const std::string& where) {
  const auto port = require<int>(json, "port", where);
  if (port < 1 || port > 65535) fail(ErrorKind::kUsage, "{}: port {} is not one of 1 to 65535", where, port);
  return port;
}

}  // namespace

PublishedWeights exported_weights(const fs::path& folder, int64_t version) {
  PublishedWeights weights{folder, version, {}, std::nullopt};
  const fs::path file = folder / kChecksumsFile;
  if (!fs::exists(file)) return weights;
  const Json json = parse_json_or_discard(read_file(file));
  try {
    weights.checksums = json.get<TensorChecksums>();
  } catch (const Json::exception&) {
    fail(ErrorKind::kCorrupt, "{}: expected an object of texts, a checksum for every tensor", file.string());
  }
  return weights;
}

Json to_json(const DeviceWeights& weights) {
  return {{"host", weights.host},     {"device", weights.device}, {"handle", weights.handle},
          {"offset", weights.offset}, {"bytes", weights.bytes},   {"layout", weights.layout}};
}

DeviceWeights device_weights_from_json(const Json& json) {
  const std::string where = "published weights: device";
  return {require<std::string>(json, "host", where),   require<std::string>(json, "device", where),
          require<std::string>(json, "handle", where), require<uint64_t>(json, "offset", where),
          require<uint64_t>(json, "bytes", where),     require<std::string>(json, "layout", where)};
}

Json to_json(const StreamedWeights& weights) { return {{"host", weights.host}, {"port", weights.port}}; }

StreamedWeights streamed_weights_from_json(const Json& json) {
  const std::string where = "published weights: tcp";
  return {require<std::string>(json, "host", where), port_of(json, where)};
}

Json to_json(const GroupedWeights& weights) {
  return {{"host", weights.host},           {"port", weights.port},   {"tp", weights.tp},     {"pp", weights.pp},
          {"pp_chunks", weights.pp_chunks}, {"dtype", weights.dtype}, {"plan", weights.plan}, {"nccl", weights.nccl}};
}

GroupedWeights grouped_weights_from_json(const Json& json) {
  const std::string where = "published weights: group";
  const auto degree = [&](const char* name) {
    const auto value = require<int64_t>(json, name, where);
    if (value < 1) fail(ErrorKind::kUsage, "{}: field '{}' must be 1 or more", where, name);
    return value;
  };
  return {require<std::string>(json, "host", where),
          port_of(json, where),
          degree("tp"),
          degree("pp"),
          degree("pp_chunks"),
          require<std::string>(json, "dtype", where),
          require<std::string>(json, "plan", where),
          require<bool>(json, "nccl", where)};
}

Json to_json(const PublishedWeights& weights) {
  Json json = {{"path", weights.path.string()}, {"version", weights.version}, {"checksums", weights.checksums}};
  if (weights.device) json["device"] = to_json(*weights.device);
  if (weights.tcp) json["tcp"] = to_json(*weights.tcp);
  if (weights.group) json["group"] = to_json(*weights.group);
  return json;
}

PublishedWeights published_weights_from_json(const Json& json) {
  const std::string where = "published weights";
  PublishedWeights weights{require<std::string>(json, "path", where), require<int64_t>(json, "version", where),
                           require<TensorChecksums>(json, "checksums", where), std::nullopt};
  if (json.contains("device")) weights.device = device_weights_from_json(json.at("device"));
  if (json.contains("tcp")) weights.tcp = streamed_weights_from_json(json.at("tcp"));
  if (json.contains("group")) weights.group = grouped_weights_from_json(json.at("group"));
  return weights;
}

InstalledWeights installed_weights_from_json(const std::string& engine, const Json& json) {
  const std::string where = engine + ": the reply to a weight update";
  InstalledWeights installed;
  installed.engine = engine;
  // SGLang's versions are text.
  const auto version = require<std::string>(json, "weight_version", where);
  const auto [end, error] = std::from_chars(version.data(), version.data() + version.size(), installed.version);
  if (error != std::errc() || end != version.data() + version.size())
    fail(ErrorKind::kUsage, "{}: weight_version '{}' is not a number", where, version);
  installed.checksums = optional_field<TensorChecksums>(json, "checksums", {}, where);
  return installed;
}

void check_installed(const InstalledWeights& installed, const PublishedWeights& published) {
  if (installed.version != published.version) {
    fail(ErrorKind::kCorrupt, "{} serves weights version {} instead of {}", installed.engine, installed.version,
         published.version);
  }
  if (installed.checksums.empty()) return;
  for (const auto& [name, sum] : published.checksums) {
    const auto found = installed.checksums.find(name);
    if (found != installed.checksums.end() && found->second == sum) continue;
    fail(ErrorKind::kCorrupt, "{} serves other weights than version {}: tensor '{}' is {} instead of {}",
         installed.engine, published.version, name, found == installed.checksums.end() ? "missing" : found->second,
         sum);
  }
}

}  // namespace tritonforge
