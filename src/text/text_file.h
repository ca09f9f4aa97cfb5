// Texts from outside: prompts, token ids, keys, task files, conversations. They are UTF-8, or UTF-16 with the byte
// order mark in front that its editors write. A mark is left out. Bytes that are no text are refused with their first
// place, since a model would answer to another text than was meant.
#pragma once
#include <cstddef>
#include <string>

#include "base/error.h"

namespace llada {

// The text as UTF-8; `name` stands for it in errors.
Result<std::string> as_text(std::string bytes, const std::string& name);

// The text with \n for each \r\n: a prompt means the same to a model whichever system wrote it.
std::string with_plain_line_ends(std::string text);

// Reads a file or a pipe as UTF-8.
Result<std::string> read_text_file(const std::string& path, size_t limit_bytes = size_t{256} << 20);

}  // namespace llada
