// \p{...} as the members of a PCRE2 class, by Unicode 16.0 whatever the installed PCRE2 knows
// (unicode_additions.h).
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace llada {

// `name` as between the braces: a general category ("L", "Lu", "LC"), "Any", or a script ("Han", not its
// extensions); letter case and _ do not matter. Negated: what \P{name} matches. Nothing where that cannot be
// said: for the complement of a script, and for the script Unknown.
std::optional<std::string> class_members(std::string_view name, bool negated);

}  // namespace llada
