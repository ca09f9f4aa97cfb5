// Texts from outside: prompts, token ids, keys, task files, conversations. They are UTF-8. A byte order mark in front,
// which some editors write, is left out; what is not UTF-8 is refused with the place of its first such byte, since a
// model would answer to something else than was meant.
#pragma once
#include <cstddef>
#include <string>

#include "base/error.h"

namespace llada {

// `name` is its name in errors. UTF-16 and UTF-32 are told by their marks.
Result<std::string> as_text(std::string bytes, const std::string& name);

// A file, which may be a pipe.
Result<std::string> read_text_file(const std::string& path, size_t limit_bytes = size_t{256} << 20);

}  // namespace llada
