// The additions of Unicode 15.0, 15.1 and 16.0 to 14.0. Published tokenizers cut text by version 16.0 (Oniguruma
// 6.9.10, in Hugging Face's tokenizers 0.23); the PCRE2 10.42 and utf8proc 2.8 of today's distributions know 14.0. Laid
// over them, so that newer scripts get the published ids; data that a newer library has by itself is the same.
#pragma once
#include <span>
#include <string_view>

namespace llada {

struct AddedCategory {
  char32_t first, last;
  std::string_view category;  // "Lu"; in Unicode 14.0 these code points were "Cn", one of them "Mn"
  std::string_view script;    // "Han"; empty for scripts that Unicode 14.0 did not have
};

std::span<const AddedCategory> added_categories();  // ascending

int added_combining_class(char32_t code_point);  // 0: none was added

struct CodePointPair {
  char32_t first = 0, second = 0;
  bool operator==(const CodePointPair&) const = default;
};

// The new character that the pair composes to, or 0; the parts that a new character decomposes to, in one step, or {0,
// 0}.
char32_t added_composite(CodePointPair parts);
CodePointPair added_decomposition(char32_t code_point);

}  // namespace llada
