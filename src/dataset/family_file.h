#pragma once
// Families that are a whole Python text rather than a line: families/NAME.py, one file a family, part of the binary.
// A file has the form of template_file.h with the texts `problem` and `solution`, and declares
//
//   # order: 3                     place among the families; with another order the same seed gives other pairs
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dataset/special.h"
#include "dataset/template_file.h"

namespace tritonforge::dataset {

// (file name, content) of families/*.py, by name.
extern const std::span<const std::pair<std::string_view, std::string_view>> family_files;

struct FamilyFile {
  int order = 0;
  std::vector<Special> families;
};

// Throws kCorrupt as "NAME:LINE: what is wrong", NAME being `name`.
FamilyFile parse_family_file(std::string_view name, std::string_view text);

// The families of all files by order; kCorrupt where two files claim one place or two families one name.
std::vector<Special> parse_family_files(std::span<const std::pair<std::string_view, std::string_view>> files);

}  // namespace tritonforge::dataset
