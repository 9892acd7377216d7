#include "evaluate/languages/language.h"

#include <algorithm>

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

std::string Refused::text() const { return fmt::format("{} is refused: {}; mend it with: {}", what, why, mend); }

Json Refused::json() const { return {{"what", what}, {"why", why}, {"mend", mend}}; }

Refusals::Refusals(const Json& missing) {
  for (const Json& one : missing) all_.push_back({one.at("what"), one.at("why"), one.at("mend")});
}

const Refused* Refusals::find(std::string_view what) const {
  const auto found = std::find_if(all_.begin(), all_.end(), [&](const Refused& one) { return one.what == what; });
  return found == all_.end() ? nullptr : &*found;
}

void Refusals::check(std::string_view what) const {
  if (const Refused* refused = find(what)) fail(ErrorKind::kUnsupported, "evaluator: {}", refused->text());
}

Refusals Refusals::without(std::string_view what) const {
  Refusals others = *this;
  std::erase_if(others.all_, [&](const Refused& one) { return one.what == what; });
  return others;
}

Json Refusals::json() const {
  Json list = Json::array();
  for (const Refused& one : all_) list.push_back(one.json());
  return list;
}

const Language& compiled_language(Backend backend, const Refusals& refusals) {
  const Language& language = language_of(backend);
  refusals.check(fmt::format("backend {}", language.name()));
  return language;
}

const Language& usable_language(Backend backend, EvaluationMode mode, const Refusals& refusals) {
  const Language& language = language_of(backend);
  if (mode != EvaluationMode::kPlan && !language.runs_in_the_candidates_process()) {
    fail(ErrorKind::kUnsupported, "evaluator: backend '{}' is judged in mode plan alone, not in mode {}",
         language.name(), name_of(mode));
  }
  return compiled_language(backend, refusals);
}

std::vector<std::string> usable_languages(const Refusals& refusals) {
  std::vector<std::string> names;
  for (const auto& language : kLanguages) {
    if (!refusals.find(fmt::format("backend {}", language().name()))) names.emplace_back(language().name());
  }
  return names;
}

std::vector<std::string> usable_targets(const Refusals& refusals) {
  std::vector<std::string> names;
  for (const std::string_view target : names_of(Target())) {
    if (!refusals.find(fmt::format("target {}", target))) names.emplace_back(target);
  }
  return names;
}

}  // namespace tritonforge::evaluate
