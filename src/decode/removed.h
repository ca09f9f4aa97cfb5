// Options that were taken out (docs/lab/rules.md), so that a user who still writes one is told its replacement.
// Wherever a name is refused because there is no such option, this is asked first.
#pragma once
#include <string>
#include <string_view>

namespace llada::decode {

// The replacement of an option, by its key ("wino_back") or flag ("--wino-back"), or of a word of one ("kv", "suffix").
// Empty: there was none.
std::string_view replaced_by(std::string_view name, std::string_view word = {});

// Why the name is refused: "'--credit' was removed: ...", or that there is no such option.
std::string no_option(std::string_view name);

}  // namespace llada::decode
