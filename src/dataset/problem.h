#pragma once
// Reads sets of problems: folders, JSON lines, Parquet, single files.
#include <string>
#include <string_view>
#include <vector>

#include "base/filesystem.h"
#include "contract/problem.h"

namespace tritonforge::dataset {

// From a folder, a .jsonl or .parquet file or one .py file; ids are unique or kUsage says which two collide.
// - A folder is read by its level1/, level2/, ... subfolders where it has any, else by its own *.py, *.jsonl or
//   *.parquet (the first kind that is there), else by those in its data/, as a data set is cloned from Hugging Face;
//   sorted by level and number. A file is NUMBER_name.py, with an optional first line "# families: a, b".
// - A .jsonl line is {level, problem_id, name, code} (KernelBench), {prompt, label, extra_info, instance_id}
//   (TritonForge's RL lines), or a pair of `tritonforge data generate` {id, families, problem}; "families" is
//   optional everywhere.
// - A .parquet row is KernelBench's line: code, level, problem_id, name (Hugging Face's
// ScalingIntelligence/KernelBench). Throws kNotFound / kUsage naming file and line.
std::vector<Problem> read_problems(const fs::path& path);
// What of a folder it does not take and somebody may have meant: hidden files (an editor's, another system's) and those
// whose ending is not in small letters (X.PY), by their names in it.
std::vector<std::string> skipped_files(const fs::path& path);
std::vector<Problem> parse_problems_jsonl(std::string_view text, std::string_view where);

// One line of the KernelBench form (with "id" and "families"), which parse_problems_jsonl reads back.
std::string problem_line(const Problem& problem);

// Keeps those with a wanted level and problem (empty = all), in the set's order. A problem is named by its id, its
// number or its name; one that is not there throws kUsage naming the nearest.
std::vector<Problem> select_problems(std::vector<Problem> problems, const std::vector<int>& levels,
                                     const std::vector<std::string>& ids);

}  // namespace tritonforge::dataset
