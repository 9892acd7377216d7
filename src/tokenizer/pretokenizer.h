#pragma once
// The pre-tokenizer pattern of Qwen and of Llama 3, by hand: each step below is one alternative, in the pattern's
// order. Text between the words that this finds is empty: every byte belongs to one word.
#include <string_view>

namespace tritonforge::tokenizer {

// The patterns that are understood, letter by letter as tokenizer.json has them. They differ in how many digits a word
// has at most.
inline constexpr std::string_view kQwenPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

inline constexpr std::string_view kLlama3Pattern = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
                                                   R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// End of the word that starts at `at` (at < end). Bytes that are not valid UTF-8 count as punctuation.
const char* next_word(const char* at, const char* end, int most_digits = 1);

}  // namespace tritonforge::tokenizer
