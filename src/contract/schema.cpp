#include "contract/schema.h"

#include "contract/field_lists.h"

namespace tritonforge {
namespace {

template <typename T>
Json document(const char* title, bool tokens) {
  Json definitions = Json::object();
  Json schema = FieldSchema::reference<T>(definitions, tokens);
  schema["$schema"] = "https://json-schema.org/draft/2020-12/schema";
  schema["title"] = title;
  schema["$defs"] = std::move(definitions);
  return schema;
}

}  // namespace

Json verdict_schema() { return document<Verdict>("verdict of tritonforge", true); }
Json trajectory_schema() { return document<Trajectory>("trajectory of tritonforge", true); }
Json transcript_schema() { return document<Trajectory>("trajectory of tritonforge, without its tokens", false); }

}  // namespace tritonforge
