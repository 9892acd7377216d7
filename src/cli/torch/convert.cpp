#include <fmt/format.h>

#include <cctype>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/filesystem.h"
#include "base/gguf.h"
#include "base/json.h"
#include "base/log.h"
#include "base/nearest.h"
#include "base/pending_folder.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/python_call.h"
#include "cli/python_files.h"
#include "kernels/device.h"
#include "model/weights.h"
#include "tokenizer/tokenizer.h"

namespace tritonforge::cli {
namespace {

constexpr const char *kHuggingFace = "hugging_face", *kTorchDist = "torch_dist";

std::optional<tokenizer::Tokenizer> find_tokenizer(const fs::path& model) {
  if (!fs::exists(model)) fail(ErrorKind::kNotFound, "no model at {}{}", model.string(), nearest_path_hint(model));
  const bool there = fs::is_directory(model) ? fs::exists(model / "tokenizer.json")
                                             : GgufFile(model).has("tokenizer.ggml.model");
  if (!there) return std::nullopt;
  return tokenizer::Tokenizer::load(model);
}

struct ConvertFlags {
  std::string model, output, to = kHuggingFace, like, dtype = "bfloat16", python;
  bool force = false, json = false;

  template <typename V>
  void describe(V& v) {
    v("model", model, required(), "Hugging Face folder, .gguf file, or Megatron-Core's torch_dist checkpoint");
    v("output", output, required(), "folder to write");
    v("to", to, one_of({kHuggingFace, kTorchDist}), "form of what is written");
    v("like", like, "Hugging Face folder with the config.json and tokenizer that a torch_dist checkpoint lacks");
    v("dtype", dtype, one_of({"float32", "bfloat16", "float16"}), "of the weights that are written");
    v("python", python, "Python with torch, for torch_dist (TRITONFORGE_PYTHON, else the build's)");
    v("force", force, "replaces a model that is there already");
    v("json", json, "the result as one JSON object");
  }
};

// The folder of a torch_dist checkpoint's files: `path`, or the newest of those that Megatron-LM keeps in it.
std::optional<fs::path> find_torch_dist(const fs::path& path) {
  fs::path folder = path;
  if (const fs::path newest = path / "latest_checkpointed_iteration.txt"; fs::exists(newest)) {
    std::string name = read_file(newest);
    while (!name.empty() && std::isspace(static_cast<unsigned char>(name.back()))) name.pop_back();
    const bool number = !name.empty() && name.size() < 8 && name.find_first_not_of("0123456789") == std::string::npos;
    folder /= number ? fmt::format("iter_{:07}", std::stoi(name)) : "release";
  }
  return fs::exists(folder / ".metadata") ? std::optional(folder) : std::nullopt;
}

void convert_with_python(const ConvertFlags& flags, const fs::path& from, const fs::path& to,
                         const model::ModelConfig& config) {
  call_python(python_megatron_py, flags.python,
              {{"to", flags.to},
               {"model", from.string()},
               {"output", to.string()},
               {"like", flags.like},
               {"config", model::to_json(config)}},
              "the conversion");
}

void write_hugging_face(const model::Model& model, const fs::path& of, const std::string& output) {
  const auto tokenizer = find_tokenizer(of);
  model::save_model(model, output);
  if (tokenizer) tokenizer->save(output);
  else log::warn("{} has no tokenizer: only the weights were written", of.string());
}

void convert(const ConvertFlags& flags) {
  const at::ScalarType dtype = kernels::parse_dtype(flags.dtype, at::kCPU);
  const std::optional<fs::path> megatron = find_torch_dist(flags.model);
  // Beside the output: where its disk has room, this has.
  const PendingFolder temporary(without_slash(flags.output) += ".conversion");
  if (flags.to == kTorchDist) {
    if (megatron) fail(ErrorKind::kUsage, "{} is a torch_dist checkpoint already", flags.model);
    const model::Model model = model::load_model(flags.model, dtype, at::kCPU);
    model::save_model(model, temporary.path());
    const fs::path release = fs::path(flags.output) / "release";
    fs::create_directories(release);
    convert_with_python(flags, temporary.path(), release, model.config());
    write_file_atomic(fs::path(flags.output) / "latest_checkpointed_iteration.txt", "release");
    return;
  }
  if (!megatron) {
    find_tokenizer(flags.model);  // before the long work, so that its faults come first
    return write_hugging_face(model::load_model(flags.model, dtype, at::kCPU), flags.model, flags.output);
  }
  if (flags.like.empty())
    fail(ErrorKind::kUsage, "{} is a torch_dist checkpoint: --like names a Hugging Face folder of the same model",
         flags.model);
  find_tokenizer(flags.like);
  const model::ModelConfig config = model::read_model_config(flags.like);
  write_file_atomic(temporary.path() / "config.json", model::to_json(config).dump());
  convert_with_python(flags, *megatron, temporary.path(), config);
  write_hugging_face(model::load_model(temporary.path(), dtype, at::kCPU), flags.like, flags.output);
}

}  // namespace

void add_convert_command(CLI::App& app) {
  auto* command = app.add_subcommand(
      "convert",
      "writes a model as a Hugging Face folder (from GGUF or Megatron-Core's torch_dist, "
      "or in another dtype), or as a torch_dist checkpoint");
  auto options = std::make_shared<ConvertFlags>();
  add_flags(*command, *options);
  command->footer(
      "Examples: tritonforge convert --model qwen2.5-coder-0.5b-q4_k_m.gguf --output qwen2.5-coder-0.5b\n"
      "          tritonforge convert --model qwen3-8b --to torch_dist --output qwen3-8b-torch-dist\n"
      "          tritonforge convert --model trained/ --like qwen3-8b --output qwen3-8b-trained");
  command->callback([options] {
    if (!options->force && fs::exists(options->output) &&
        !(fs::is_directory(options->output) && fs::is_empty(options->output))) {
      fail(ErrorKind::kUsage, "{} exists already (--force replaces a model that is there)", options->output);
    }
    convert(*options);
    if (options->json) {
      fmt::print("{}\n", Json{{"output", options->output}, {"to", options->to}, {"dtype", options->dtype}}.dump());
    } else {
      fmt::print("wrote {} in {}\n", options->output, options->dtype);
    }
  });
}

}  // namespace tritonforge::cli
