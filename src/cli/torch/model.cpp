// tritonforge model pull | list | check
#include <fmt/format.h>

#include <cstdlib>
#include <memory>

#include "base/hub.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/python_call.h"
#include "cli/python_files.h"
#include "cli/torch/estimates.h"
#include "evaluate/zygote.h"
#include "kernels/device.h"
#include "model/weights.h"
#include "orchestrate/recipe.h"
#include "tokenizer/chat_codec.h"

namespace tritonforge::cli {
namespace {

constexpr double kGib = 1024.0 * 1024 * 1024;
constexpr double kEnough = 1e18;  // bytes

struct PullFlags {
  std::string revision, python;
  bool json = false;
  void describe(OptionList& v) {
    v("revision", revision, "branch, tag or commit (main where the name says none)");
    v("python", python, "Python with huggingface_hub (TRITONFORGE_PYTHON, else the build's)");
    v("json", json, "the result as one JSON object");
  }
};

void pull(const std::string& text, const PullFlags& flags) {
  auto name = parse_hub_name(text);
  if (!name) {
    fail(ErrorKind::kUsage,
         "'{}' is no name on the hub: owner/name, owner/name@revision/file, datasets/owner/name, or its URL", text);
  }
  if (!flags.revision.empty()) name->revision = flags.revision;
  const fs::path python = flags.python.empty() ? evaluate::find_python() : fs::path(flags.python);
  if (!name->endpoint.empty()) ::setenv("HF_ENDPOINT", name->endpoint.c_str(), 1);  // for the child
  const Json request = {{"id", name->id},
                        {"type", name->dataset ? "dataset" : "model"},
                        {"revision", name->revision},
                        {"file", name->file}};
  Json result;
  try {
    result = call_python(python_pull_py, python, request, name->text() + ": the download");
  } catch (const Error& error) {
    const std::string mend = error.kind() == ErrorKind::kMachine
                                 ? fmt::format(": {} -m pip install huggingface-hub==0.36.2", python.string())
                             : error.kind() == ErrorKind::kUnavailable
                                 ? "; what came is kept, and the same command goes on with it"
                                 : "";
    throw Error(error.kind(), error.what() + mend);
  }
  if (flags.json) fmt::print("{}\n", result.dump());
  else
    fmt::print("{} is in {}: {} files, {:.1f} MB, checksums right; recipes name it `path: {}`\n", name->text(),
               result.value("snapshot", ""), result.value("files", 0), result.value("bytes", 0.0) / 1e6, name->text());
}

void list(bool json) {
  Json rows = Json::array();
  for (const CachedRepository& one : cached_repositories())
    rows.push_back({{"name", one.name.text()},
                    {"kind", one.name.dataset ? "dataset" : "model"},
                    {"bytes", one.bytes},
                    {"complete", one.complete},
                    {"path", one.snapshot.string()}});
  const fs::path own = orchestrate::resolve_path("models");
  for (const std::string& folder :
       names_in(own, [](const fs::path& entry) { return fs::exists(entry / "config.json"); })) {
    uint64_t bytes = 0;
    for (const auto& entry : fs::directory_iterator(own / folder))
      bytes += entry.is_regular_file() ? entry.file_size() : 0;
    rows.push_back({{"name", "models/" + folder},
                    {"kind", "model"},
                    {"bytes", bytes},
                    {"complete", true},
                    {"path", (own / folder).string()}});
  }
  if (json) {
    fmt::print("{}\n", rows.dump(1));
    return;
  }
  for (const Json& row : rows)
    fmt::print("{:<8} {:>10.1f} MB  {}{}\n", row["kind"].get<std::string>(), row["bytes"].get<double>() / 1e6,
               row["name"].get<std::string>(),
               row["complete"].get<bool>() ? "" : "   a download was cut off: tritonforge model pull goes on with it");
  fmt::print("{} (HF_HOME), {}\n", hub_cache().string(), own.string());
}

// Every file of weights is opened, and its directory compared with its size.
Json weight_files(const fs::path& path) {
  Json files = Json::array();
  if (fs::is_regular_file(path)) {
    files.push_back({{"file", path.filename().string()}, {"bytes", fs::file_size(path)}});
    return files;
  }
  for (const std::string& name : names_in(path, [](const fs::path& e) { return e.extension() == ".safetensors"; })) {
    const model::SafetensorsFile file(path / name);
    files.push_back({{"file", name}, {"bytes", fs::file_size(path / name)}, {"tensors", file.names().size()}});
  }
  const fs::path index = path / "model.safetensors.index.json";
  if (fs::exists(index)) {
    const Json map = require<Json>(parse_json(read_file(index), index.string()), "weight_map", index.string());
    for (const auto& [tensor, shard] : map.items())
      if (!fs::exists(path / shard.get<std::string>()))
        fail(ErrorKind::kNotFound, "{} names {}, which is not there: tritonforge model pull fetches what is missing",
             index.string(), shard.get<std::string>());
  }
  if (files.empty()) fail(ErrorKind::kNotFound, "{} holds no *.safetensors", path.string());
  return files;
}

Json examine(const std::string& text) {
  const fs::path path = orchestrate::resolve_path(text);
  if (!fs::exists(path)) fail(ErrorKind::kNotFound, "no such folder or file: {}{}", text, pull_hint(text));
  const model::ModelConfig shape = model::read_model_config(path);
  Json report = {{"model", text}, {"path", path.string()}, {"files", weight_files(path)}};
  report["parameters"] = shape.parameter_count();
  report["context"] = shape.max_position;
  report["layers"] = shape.num_layers;
  const auto codec = tokenizer::load_chat_codec(path);  // throws where the template is not understood
  const auto opening = codec->opening({{.role = "user", .content = "Say yes."}}, false);
  report["opening"] = codec->text(opening);
  report["opening_tokens"] = opening.size();
  // What a token of the KV cache takes, and the trainer's own plan where it may have all it wants.
  const double cache = 2.0 * static_cast<double>(shape.num_layers * shape.num_kv_heads * shape.head_dim);
  const double parameters = static_cast<double>(shape.parameter_count());
  Json training = Json::object();
  double sum = 0;
  for (const auto& [name, bytes] : trainer_memory(shape, {}, {.tp = 1, .cp = 1, .pp = 1, .dp = 1, .ep = 1}, kEnough)) {
    training[name] = bytes / kGib;
    sum += bytes;
  }
  report["memory_gib"] = {{"weights_bfloat16", 2 * parameters / kGib},
                          {"weights_float32", 4 * parameters / kGib},
                          {"kv_cache_1000_tokens_bfloat16", 2000 * cache / kGib},
                          {"training_bfloat16_one_gpu", sum / kGib},
                          {"training_parts", training}};
  return report;
}

void check(const std::string& text, bool json) {
  const Json report = examine(text);
  if (json) {
    fmt::print("{}\n", report.dump(1));
    return;
  }
  const auto line = [](const char* name, const std::string& value) { fmt::print("  {:<10} {}\n", name, value); };
  const Json& memory = report["memory_gib"];
  line("path", report["path"].get<std::string>());
  for (const Json& file : report["files"])
    line("file", fmt::format("{} ({:.1f} MB)", file["file"].get<std::string>(), file["bytes"].get<double>() / 1e6));
  line("shape", fmt::format("{:.1f} M parameters, {} layers, context {}", report["parameters"].get<double>() / 1e6,
                            report["layers"].get<int64_t>(), report["context"].get<int64_t>()));
  line("template", fmt::format("understood: {} tokens open a short conversation", report["opening_tokens"].get<int>()));
  line("serving",
       fmt::format("{:.2f} GiB of weights in bfloat16 ({:.2f} in float32), {:.3f} GiB a 1000 tokens of KV cache",
                   memory["weights_bfloat16"].get<double>(), memory["weights_float32"].get<double>(),
                   memory["kv_cache_1000_tokens_bfloat16"].get<double>()));
  line("training", fmt::format("{:.1f} GiB on one GPU in bfloat16, nothing computed again (tritonforge plan says it "
                               "for a recipe)",
                               memory["training_bfloat16_one_gpu"].get<double>()));
}

}  // namespace

void add_model_command(CLI::App& app) {
  auto* model = app.add_subcommand("model", "fetches models and data sets, and says what is here and what they need");
  model->require_subcommand(1);
  model->footer("example: tritonforge model pull Qwen/Qwen2.5-Coder-0.5B-Instruct");

  auto name = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  auto flags = std::make_shared<PullFlags>();
  auto* puller = model->add_subcommand("pull",
                                       "fetches from the Hugging Face hub into its cache (HF_HOME); goes on "
                                       "where it was cut off, compares checksums");
  puller->add_option("name", *name, "owner/name[@revision][/file], datasets/owner/name, or its URL")->required();
  add_flags(*puller, *flags);
  puller->footer(
      "HF_TOKEN opens private repositories, HF_ENDPOINT names a mirror.\n"
      "example: tritonforge model pull Qwen/Qwen2.5-Coder-0.5B-Instruct");
  puller->callback([name, flags] { pull(*name, *flags); });

  auto* lister = model->add_subcommand("list", "the models and data sets of the hub's cache and of models/");
  lister->add_flag("--json", *json, "prints JSON");
  lister->footer("example: tritonforge model list");
  lister->callback([json] { list(*json); });

  auto* checker = model->add_subcommand(
      "check", "says what of a model would be used, the memory it needs, and whether its template is understood");
  checker->add_option("model", *name, "folder, GGUF file, or a hub's name that was pulled")->required();
  checker->add_flag("--json", *json, "prints JSON");
  checker->footer("example: tritonforge model check models/tiny-base");
  checker->callback([name, json] { check(*name, *json); });
}

}  // namespace tritonforge::cli
