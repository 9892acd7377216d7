#pragma once
// Families that are a part of a model: parts/NAME.py, one file a part (or several that differ in a few words). A part
// alone is a problem of level 1; parts one behind the other are one of level 2, whose solution has several kernels
// (chain.h). A file has the form of template_file.h with the texts
//
//   # --- inputs ---     lines of get_inputs(): what forward() is given besides x; such a part comes first
//   # --- init ---       lines of __init__(), the same in the problem and in the solution
//   # --- forward ---    lines of the problem's forward(), which change x
//   # --- kernel ---     Triton kernels and the function that launches them
//   # --- call ---       lines of the solution's forward()
//
// and declares
//
//   # takes: rows sequences     forms of x: rows (M, N), images (B, C, H, W), sequences (B, T, D), signals (B, C, L),
//                               volumes (B, C, D, H, W)
//   # gives: rows               what comes out where it is another form; `end`: nothing follows it
//   # bounds: 0..1              between what the values that come out are, about; -5..5 where it is not said
//   # place: first              comes first
//
// _NAME_ is the part's name, _KERNEL_ that with "_kernel", _IN_ the features (of images, signals and
// volumes: the channels) that come in. A
// choice OUT is how many come out.
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dataset/operators.h"
#include "dataset/template_file.h"

namespace tritonforge::dataset {

// (file name, content) of parts/*.py, by name.
extern const std::span<const std::pair<std::string_view, std::string_view>> part_files;

enum class Form { kRows, kImages, kSequences, kSignals, kVolumes, kEnd };

struct Part {
  std::string name;
  std::vector<Choice> choices;
  std::string inputs, init, forward, kernel, call;
  std::vector<Form> takes;
  std::optional<Form> gives;  // none: the form that it took
  Range bounds{-5, 5};
  bool first = false;
  size_t min_epilogue = 0, max_epilogue = 0;
};

// Throws kCorrupt as "NAME:LINE: what is wrong".
std::vector<Part> parse_part_file(std::string_view name, std::string_view text);

const std::vector<Part>& all_parts();
const Part* find_part(std::string_view name);  // nullptr where there is none

}  // namespace tritonforge::dataset
