// Texts as the rest expects them: what is repaired is counted, what cannot be is dropped.
#include <algorithm>

#include "dataset/stages/stages.h"
#include "tokenizer/unicode.h"

namespace tritonforge::dataset {
namespace {

constexpr std::string_view kBom = "\xEF\xBB\xBF";

class Clean : public Stage {
 public:
  explicit Clean(const CleanOptions& options) : Stage("clean"), options_(options) {}

  void work(Row& row) override {
    Found found;
    for (std::string* text : {&row.problem, &row.solution, &row.reasoning, &row.answer}) clean(*text, found);
    for (Attempt& attempt : row.attempts) clean(attempt.code, found);
    for (auto& each : row.messages) clean(each.message.content, found);
    if (found.bom) row.repairs.emplace_back("bom");
    if (found.crlf) row.repairs.emplace_back("crlf");
    if (found.invalid) row.drop(name(), "not UTF-8");
    if (found.nul) row.drop(name(), "a NUL character");
    if (found.longest > static_cast<size_t>(options_.max_bytes)) row.drop(name(), "longer than max_bytes");
    if (row.messages.empty() && row.problem.find_first_not_of(" \t\n") == std::string::npos)
      row.drop(name(), "an empty problem");
  }

 private:
  struct Found {
    bool bom = false, crlf = false, nul = false, invalid = false;
    size_t longest = 0;
  };

  static void clean(std::string& text, Found& found) {
    found.longest = std::max(found.longest, text.size());
    found.invalid = found.invalid || !tokenizer::unicode::is_valid_utf8(text);
    found.nul = found.nul || text.find('\0') != std::string::npos;
    if (text.starts_with(kBom)) {
      text.erase(0, kBom.size());
      found.bom = true;
    }
    if (text.find('\r') == std::string::npos) return;
    found.crlf = true;
    std::string lines;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '\r') lines += text[i];
      else if (i + 1 == text.size() || text[i + 1] != '\n') lines += '\n';
    }
    text = std::move(lines);
  }

  CleanOptions options_;
};

}  // namespace

std::unique_ptr<Stage> make_clean(const CleanOptions& options, const StageContext&) {
  return std::make_unique<Clean>(options);
}

}  // namespace tritonforge::dataset
