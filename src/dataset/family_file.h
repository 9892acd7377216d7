#pragma once
// Families that are a whole Python text rather than a line: families/NAME.py, one file a family, part of the binary.
// A file is valid Python. Comments at its top say what it is; then come the declarations and the two texts:
//
//   # order: 3                     place among the families; with another order the same seed gives other pairs
//   # epilogue: 0..2               how many element-wise families follow (both texts then say where)
//   # choose BM: 32 | 64           _BM_ in the texts is one of these; an alternative may be empty
//   # --- problem ---              the text from here on, up to
//   # --- solution ---             the other one
//
// A line `out = _EPILOGUE_(out)` becomes the epilogue's statements on that variable, with the line's indentation.
// One file may hold families that differ in a few words, as layer.py does; each then starts with
//
//   # family: conv2d               else the family is called as its file
//   # set LAYER: nn.Conv2d(i, o)   _LAYER_ in the texts is this
//
// and goes on with choices of its own, which are drawn before those above the first family. A line `_SIZES_` becomes
// "name = value" for each of the family's own choices.
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dataset/special.h"

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

// `text` with each placeholder _NAME_ replaced by what `value_of("NAME")` gives.
std::string fill_placeholders(std::string_view text, const std::function<std::string(std::string_view)>& value_of);

// The variable and indentation of a line "    out = _EPILOGUE_(out)"; an empty variable for any other line.
struct EpilogueLine {
  std::string_view indent, variable;
};
EpilogueLine parse_epilogue_line(std::string_view line);

}  // namespace tritonforge::dataset
