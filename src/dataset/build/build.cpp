#include "dataset/build/build.h"

#include <fmt/format.h>

#include <future>
#include <set>

#include "base/checksum.h"
#include "dataset/build/parallel.h"

namespace tritonforge::dataset {
namespace {

constexpr size_t kBlockBytes = size_t{16} << 20;

// The entries of a list of the configuration, each NAME or NAME: {options}.
std::vector<std::pair<std::string, YAML::Node>> entries_of(const YAML::Node& config, const char* key,
                                                           const std::string& where) {
  std::vector<std::pair<std::string, YAML::Node>> entries;
  const YAML::Node list = config[key];
  if (!list || !list.IsSequence() || list.size() == 0)
    fail(ErrorKind::kUsage, "{}: '{}' must be a list that is not empty", where, key);
  for (const YAML::Node& entry : list) {
    if (entry.IsScalar()) entries.emplace_back(entry.as<std::string>(), YAML::Node(YAML::NodeType::Map));
    else if (entry.IsMap() && entry.size() == 1)
      entries.emplace_back(entry.begin()->first.as<std::string>(), entry.begin()->second);
    else fail(ErrorKind::kUsage, "{}: an entry of '{}' is a name, or a name with its options", where, key);
  }
  return entries;
}

}  // namespace

Build::Build(const YAML::Node& config, const std::string& where, BuildTools tools) {
  if (!config.IsMap()) fail(ErrorKind::kUsage, "{}: not a mapping of keys", where);
  YAML::Node plain = YAML::Clone(config);
  for (const char* list : {"sources", "stages", "outputs"}) plain.remove(list);
  options_ = load_config<BuildOptions>(plain, where);
  const auto sources = entries_of(config, "sources", where), stages = entries_of(config, "stages", where),
             outputs = entries_of(config, "outputs", where);

  std::set<std::string> written;
  for (const auto& [kind, node] : outputs) {
    // Of rl_prompts there may be several, each with a file of its own.
    const std::string file = node.IsMap() && node["file"] ? node["file"].as<std::string>() : "";
    if (!written.insert(kind + " " + file).second) fail(ErrorKind::kUsage, "{}: 'outputs' has {} twice", where, kind);
  }

  StageContext context{.tools = std::move(tools.stages),
                       .output = options_.output,
                       .seed = options_.seed,
                       .tokenizer = options_.tokenizer,
                       .enable_thinking = options_.enable_thinking};
  if (!options_.tokenizer.empty()) context.codec = tokenizer::load_chat_codec(options_.tokenizer);
  fs::create_directories(context.output);
  for (const auto& [kind, node] : sources) {
    const std::string name = fmt::format("{}-{}", sources_.size() + 1, kind);
    sources_.push_back({name, make_source(kind, node, fmt::format("{}: sources: {}", where, kind), tools.sources)});
    card_.source_files[name] = sources_.back().source->files();
  }
  for (const auto& [name, node] : stages) {
    stages_.push_back(make_stage(name, node, fmt::format("{}: stages: {}", where, name), context));
    context.has_tokens |= name == "tokens";
  }
  for (const auto& [kind, node] : outputs)
    outputs_.emplace_back(kind, make_output(kind, node, fmt::format("{}: outputs: {}", where, kind), context));
  dropped_ = std::make_unique<WholeFile>(context.output / "dropped.jsonl");
  card_.name = options_.name;
  card_.seed = options_.seed;
  card_.config = YAML::Dump(config);
}

Build::~Build() = default;

// While a block goes through the stages, the next one is read and the last one is written.
Card Build::run(const std::function<void(int64_t)>& on_rows) {
  card_.stages.assign(stages_.size() + 1, {});
  auto incoming = std::async(std::launch::async, [this] { return read_block(); });
  std::future<void> written;
  for (;;) {
    std::vector<Row> rows = incoming.get();
    if (rows.empty()) break;
    incoming = std::async(std::launch::async, [this] { return read_block(); });
    for (const Row& row : rows) card_.stages[0].count(row, 0);
    for (size_t i = 0; i < stages_.size(); ++i) through(*stages_[i], rows, card_.stages[i + 1]);
    for_each(rows.size(), static_cast<int>(options_.threads), [&](size_t i) {
      for (const auto& [kind, output] : outputs_) {
        if (!rows[i].dropped) output->prepare(rows[i]);
      }
    });
    on_rows(card_.stages[0].in);
    if (written.valid()) written.get();
    written = std::async(std::launch::async, [this, block = std::move(rows)]() mutable { write(std::move(block)); });
  }
  if (written.valid()) written.get();
  for (size_t i = 0; i < stages_.size(); ++i) card_.stages[i + 1].describe(stages_[i]->name(), stages_[i]->report());
  card_.digest_sources();  // before an output takes the place of one
  card_.take_away_earlier(options_.output);
  for (const auto& [kind, output] : outputs_) {
    for (const fs::path& file : output->close()) card_.add_output(file, options_.output);
  }
  card_.add_output(dropped_->close(), options_.output);
  return card_;
}

std::vector<Row> Build::read_block() {
  std::vector<Row> rows;
  size_t bytes = 0;
  while (source_ < sources_.size() && rows.size() < static_cast<size_t>(options_.block_rows) && bytes < kBlockBytes) {
    auto row = sources_[source_].source->next();
    if (!row) {
      ++source_;
      continue;
    }
    row->source = sources_[source_].name;
    if (row->uuid.empty()) row->uuid = checksum(compared_text(*row) + row->answer);
    bytes += row->size();
    rows.push_back(std::move(*row));
  }
  return rows;
}

void Build::through(Stage& stage, std::vector<Row>& rows, StageCounts& counts) const {
  std::vector<Row*> left;
  std::vector<size_t> repairs;  // that each has had before
  for (Row& row : rows) {
    if (row.dropped) continue;
    left.push_back(&row);
    repairs.push_back(row.repairs.size());
  }
  for_each(left.size(), stage.threads() > 0 ? stage.threads() : static_cast<int>(options_.threads),
           [&](size_t i) { stage.work(*left[i]); });
  for (size_t i = 0; i < left.size(); ++i) {
    if (!left[i]->dropped) stage.decide(*left[i]);
    counts.count(*left[i], repairs[i]);
  }
}

void Build::write(std::vector<Row> rows) {
  for (const Row& row : rows) {
    if (row.dropped) {
      dropped_->write(Json{{"uuid", row.uuid},
                           {"source", row.source},
                           {"place", row.place},
                           {"stage", row.dropped->stage},
                           {"reason", row.dropped->reason},
                           {"detail", row.dropped->detail}}
                          .dump(-1, ' ', false, Json::error_handler_t::replace) +
                      "\n");
      continue;
    }
    card_.count_kept(row);
    for (const auto& [kind, output] : outputs_) output->write(row);
  }
}

}  // namespace tritonforge::dataset
