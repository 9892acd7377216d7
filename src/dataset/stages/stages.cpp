#include "dataset/stages/stages.h"

namespace tritonforge::dataset {
namespace {

using Make = std::unique_ptr<Stage> (*)(const YAML::Node&, const std::string&, const StageContext&);

template <typename Options, std::unique_ptr<Stage> (*make)(const Options&, const StageContext&)>
std::unique_ptr<Stage> with_options(const YAML::Node& node, const std::string& where, const StageContext& context) {
  return make(load_config<Options>(node, where), context);
}

std::unique_ptr<Stage> make_plain_tokens(const NoOptions&, const StageContext& context) { return make_tokens(context); }

const std::vector<std::pair<std::string, Make>> kStages = {
    {"clean", with_options<CleanOptions, make_clean>},
    {"convert", with_options<ConvertOptions, make_convert>},
    {"thinking", with_options<ThinkingOptions, make_thinking>},
    {"tokens", with_options<NoOptions, make_plain_tokens>},
    {"length", with_options<LengthOptions, make_length>},
    {"quality", with_options<QualityOptions, make_quality>},
    {"dedup", with_options<DedupOptions, make_dedup>},
    {"contamination", with_options<ContaminationOptions, make_contamination>},
    {"split", with_options<SplitOptions, make_split>},
};

}  // namespace

std::vector<std::string> stage_names() {
  std::vector<std::string> names;
  for (const auto& [name, make] : kStages) names.push_back(name);
  return names;
}

std::unique_ptr<Stage> make_stage(const std::string& name, const YAML::Node& options, const std::string& where,
                                  const StageContext& context) {
  for (const auto& [known, make] : kStages) {
    if (known == name) return make(options, where, context);
  }
  fail(ErrorKind::kUsage, "{}: unknown stage '{}'{}", where, name, nearest_hint(name, stage_names()));
}

}  // namespace tritonforge::dataset
