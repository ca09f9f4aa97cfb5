// API keys: one a line in a file that only its owner needs to read.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "serve/http.h"

namespace llada::serve {

// Lines of the text; empty ones and those that begin with # are left out. Invalid: none is left, or one has a blank.
Result<std::vector<std::string>> parse_keys(std::string_view text, const std::string& source);

// Whether `given` is one of them, in a time that says nothing of how much of which one fits.
bool holds_key(const std::vector<std::string>& keys, std::string_view given);

// What a request gives as its key: Authorization: Bearer KEY, the scheme in any case and any blanks around the key, or
// X-Api-Key.
std::string_view key_of(const HttpRequest& request);

}  // namespace llada::serve
