// What a path is that does not open as a model, and what to do: mistakes that everybody makes once.
#pragma once
#include <cstddef>
#include <span>
#include <string>

#include "base/error.h"

namespace llada {

// A path that is not there: an address, a repository's name, or nothing known (then success).
Status check_is_path(const std::string& path);

// A pointer that Git LFS leaves where the file itself was not fetched.
Status check_is_no_pointer(std::span<const std::byte> bytes, const std::string& path);

// A folder without config.json, or without safetensors: says what it has instead. Success where both are there.
Status check_is_model_folder(const std::string& folder);

}  // namespace llada
