// Regular expressions, of which a text is matched as a whole, as Python, JavaScript and PCRE all read them: characters,
// . (all but line ends), classes, the escapes \d \w \s (ASCII) and their opposites (of ASCII too: the dialects disagree
// beyond it), \n \r \t \f \0 \xHH \uHHHH \u{H...} and escaped punctuation, groups, |, * + ? {m} {m,} {m,n}, lazy forms
// of them, which fit the same texts, and ^ and $, the two ends of the whole text wherever they stand. A brace that
// begins no repetition is itself, as is a hyphen behind an escape of several characters. What reads differently in two
// of them (docs/forms.md) and what no automaton can be is refused by name and byte offset.
#pragma once
#include <string_view>

#include "base/error.h"
#include "forms/expression.h"

namespace llada::forms {

enum class Match {
  whole,     // ^ and $ say nothing at the ends
  anywhere,  // as JSON Schema's pattern: what fits may have anything before it and behind it
};

Result<Expr> parse_regex(std::string_view regex, Budget& budget, Letters letters = Letters::plain,
                         Match match = Match::whole);

}  // namespace llada::forms
