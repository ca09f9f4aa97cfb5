// Translates a pre-tokenizer regex from Oniguruma's Ruby syntax, which tokenizer.json is written in, to PCRE2's. The
// two differ where it matters. PCRE2's \s adds U+180E, its \p{Han} means script extensions, its {m,n}+ is possessive,
// its \h, \v, \w and \b are other sets, and its Unicode may be older. Syntax with one meaning in both is copied, syntax
// that can be rewritten is, everything else is refused: a tokenizer that is almost right is wrong. Refused: ^ $
// anchors, back-references, named or inline-flag groups other than (?i:...), set operations and nested classes, \w \b
// \h and other escapes whose sets differ.
#pragma once
#include <string>
#include <string_view>

#include "base/error.h"

namespace llada {

// The error line names the construct and its byte offset in the regex, not the file.
Result<std::string> translate_regex(std::string_view regex);

}  // namespace llada
