#pragma once
// What a group was asked for, as a row of the buffer's file and back.
#include <string>
#include <vector>

#include "contract/rollout.h"
#include "rollout/sqlite.h"

namespace tritonforge::rollout {

inline constexpr char kGroupColumns[] =
    "g.id, g.problem_id, g.problem_source, g.n_samples, g.seed, g.options, g.messages, g.legacy, g.extra";
Json messages_to_json(const std::vector<tokenizer::Message>& messages);
// Of a row that holds kGroupColumns from column `first` on.
GroupSpec group_of(const Statement& row, int first = 0);
GroupSpec group_named(Database& database, const std::string& group_id);  // there is one
// False where there is one of that id.
bool insert(Database& database, const GroupSpec& group, double created);

}  // namespace tritonforge::rollout
