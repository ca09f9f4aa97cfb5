// The text that a Jinja chat template writes, read off its source without running it. It is enough to tell whether this
// program lays out the same text, and to find the texts that the template adds. Inside text/ only.
#pragma once
#include <string>
#include <string_view>

namespace llada {

inline constexpr char kHole = '\x01';         // stands for a value that the template puts in
inline constexpr char kTrimmedHole = '\x02';  // the same behind a trim

// The text between tags and the string literals of {{ ... }} and {% set %}, in the order of the source, with a hole for
// every other value. White space is cut as Hugging Face's tools have Jinja cut it (trim_blocks, lstrip_blocks). Left
// out: macros, arguments of calls, subscripts, operands of comparisons. Also the branches for features that
// conversations here do not have (tools, documents, images, thoughts). Linear in the source.
std::string template_texts(std::string_view source);

}  // namespace llada
