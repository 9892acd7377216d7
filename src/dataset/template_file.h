#pragma once
// Python texts with choices in them: what family files (family_file.h) and part files (part_file.h) have in common.
// A file is valid Python. Comments at its top say what it is; then come the declarations and the texts:
//
//   # choose BM: 32 | 64           _BM_ in the texts is one of these; an alternative may be empty
//   # epilogue: 0..2               how many element-wise families follow (the texts then say where)
//   # --- problem ---              the text from here on, up to the next such line
//
// A line `out = _EPILOGUE_(out)` becomes the epilogue's statements on that variable, with the line's indentation.
// One file may hold families that differ in a few words; each then starts with
//
//   # family: conv2d               else the family is called as its file
//   # set LAYER: nn.Conv2d(i, o)   _LAYER_ in the texts is this
//
// and goes on with choices of its own, which are drawn before those above the first family. A line `_SIZES_` becomes
// "name = value" for each of the family's own choices.
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tritonforge::dataset {

struct Choice {
  std::string name;
  std::vector<std::string> alternatives;
};

// What a kind of file holds.
struct TemplateForm {
  struct Text {
    std::string_view name;
    bool required = true, has_epilogue = true;  // where the family declares one
  };
  std::vector<Text> texts;                       // in this order
  std::vector<std::string> keys, required_keys;  // declarations "# key: value" besides those above
  std::vector<std::string> given;                // placeholders that are filled later
};

struct TemplateFamily {
  struct Said {
    std::string value, where;  // where: "NAME:LINE"
  };
  std::string name;
  std::vector<Choice> choices;  // in the order in which they are drawn
  std::map<std::string, std::string, std::less<>> texts;
  std::map<std::string, Said, std::less<>> said;  // the family's own before the file's
  size_t min_epilogue = 0, max_epilogue = 0;
};

// Throws kCorrupt as "NAME:LINE: what is wrong", NAME being `name`.
std::vector<TemplateFamily> parse_template_file(const TemplateForm& form, std::string_view name, std::string_view text);

// `text` with each placeholder _NAME_ replaced by what `value_of("NAME")` gives.
std::string fill_placeholders(std::string_view text, const std::function<std::string(std::string_view)>& value_of);

// The variable and indentation of a line "    out = _EPILOGUE_(out)"; an empty variable for any other line.
struct EpilogueLine {
  std::string_view indent, variable;
};
EpilogueLine parse_epilogue_line(std::string_view line);

}  // namespace tritonforge::dataset
