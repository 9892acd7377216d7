#include <fmt/format.h>

#include <memory>
#include <optional>

#include "base/error.h"
#include "base/filesystem.h"
#include "base/gguf.h"
#include "base/json.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "kernels/device.h"
#include "model/weights.h"
#include "tokenizer/tokenizer.h"

namespace tritonforge::cli {
namespace {

std::optional<tokenizer::Tokenizer> find_tokenizer(const fs::path& model) {
  if (!fs::exists(model)) fail(ErrorKind::kNotFound, "no model at {}", model.string());
  const bool there = fs::is_directory(model) ? fs::exists(model / "tokenizer.json")
                                             : GgufFile(model).has("tokenizer.ggml.model");
  if (!there) return std::nullopt;
  return tokenizer::Tokenizer::load(model);
}

struct ConvertFlags {
  std::string model, output, dtype = "bfloat16";
  bool force = false, json = false;

  template <typename V>
  void describe(V& v) {
    v("model", model, required(), "Hugging Face folder or .gguf file");
    v("output", output, required(), "folder to write");
    v("dtype", dtype, one_of({"float32", "bfloat16", "float16"}), "of the weights that are written");
    v("force", force, "replaces a model that is there already");
    v("json", json, "the result as one JSON object");
  }
};

}  // namespace

void add_convert_command(CLI::App& app) {
  auto* command = app.add_subcommand("convert",
                                     "writes a model as a Hugging Face folder (from GGUF, or in another dtype)");
  auto options = std::make_shared<ConvertFlags>();
  add_flags(*command, *options);
  command->footer("Example: tritonforge convert --model qwen2.5-coder-0.5b-q4_k_m.gguf --output qwen2.5-coder-0.5b");
  command->callback([options] {
    if (!options->force && fs::exists(options->output) &&
        !(fs::is_directory(options->output) && fs::is_empty(options->output))) {
      fail(ErrorKind::kUsage, "{} exists already (--force replaces a model that is there)", options->output);
    }
    const auto tokenizer = find_tokenizer(options->model);  // before the long work, so that its faults come first
    const at::ScalarType dtype = kernels::parse_dtype(options->dtype, at::kCPU);
    model::save_model(model::load_model(options->model, dtype, at::kCPU), options->output);
    if (tokenizer) {
      tokenizer->save(options->output);
    } else {
      log::warn("{} has no tokenizer: only the weights were written", options->model);
    }
    if (options->json) {
      fmt::print("{}\n", Json{{"output", options->output}, {"dtype", options->dtype}}.dump());
    } else {
      fmt::print("wrote {} in {}\n", options->output, options->dtype);
    }
  });
}

}  // namespace tritonforge::cli
