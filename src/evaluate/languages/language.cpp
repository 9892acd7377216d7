#include "evaluate/languages/language.h"

#include <filesystem>

#include "base/error.h"
#include "evaluate/languages/languages.h"

namespace tritonforge::evaluate {
namespace {

const Language& (*const kLanguages[])() = {triton_language, cuda_language, hip_language, opencl_language};

}  // namespace

const Language& language_of(Backend backend) {
  for (const auto& language : kLanguages) {
    if (language().backend() == backend) return language();
  }
  fail(ErrorKind::kInternal, "backend '{}' has no language", name_of(backend));
}

const Language& compiled_language(Backend backend) {
  const Language& language = language_of(backend);
  if (const std::string missing = language.missing(); !missing.empty())
    fail(ErrorKind::kUnsupported, "evaluator: backend '{}': {}", language.name(), missing);
  return language;
}

const Language& usable_language(Backend backend, EvaluationMode mode) {
  const Language& language = language_of(backend);
  if (mode != EvaluationMode::kPlan && !language.runs_in_the_candidates_process()) {
    fail(ErrorKind::kUnsupported, "evaluator: backend '{}' is judged in mode plan alone, not in mode {}",
         language.name(), name_of(mode));
  }
  return compiled_language(backend);
}

std::vector<std::string> usable_languages() {
  std::vector<std::string> names;
  for (const auto& language : kLanguages) {
    if (language().missing().empty()) names.emplace_back(language().name());
  }
  return names;
}

std::string missing_file(std::string_view what, const std::vector<std::string>& paths) {
  for (const auto& path : paths) {
    std::error_code error;
    if (std::filesystem::exists(path, error)) return "";
  }
  return fmt::format("{} is not here; requirements/install --languages installs it", what);
}

}  // namespace tritonforge::evaluate
