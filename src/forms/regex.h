// Regular expressions that must match the whole text, in the syntax that Python, JavaScript and PCRE share:
//   characters, . (all but line ends), classes, groups, |
//   the escapes \d \w \s and their opposites, of ASCII alone, since the dialects disagree beyond it
//   \n \r \t \f \0 \xHH \uHHHH \u{H...} and escaped punctuation
//   * + ? {m} {m,} {m,n}, and their lazy forms, which fit the same texts
//   ^ and $, the two ends of the whole text wherever they stand
// A brace that begins no repetition is itself, as is a hyphen behind an escape of several characters. Syntax that two
// of them read differently (docs/forms.md), or that no automaton can follow, is refused by name and byte offset.
#pragma once
#include <string_view>

#include "base/error.h"
#include "forms/expression.h"

namespace llada::forms {

enum class Match {
  whole,     // ^ and $ say nothing at the ends
  anywhere,  // as JSON Schema's pattern: any text may stand before and behind the match
};

Result<Expr> parse_regex(std::string_view regex, Budget& budget, Letters letters = Letters::plain,
                         Match match = Match::whole);

}  // namespace llada::forms
