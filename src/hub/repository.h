// A repository of a model hub by name, as it is typed: OWNER/NAME[:PART]. PART is a file of it, or a quantization
// ("Q8_0") that one of its GGUF files has in its name. Also the checks of names that a server sends.
#pragma once
#include <string>
#include <string_view>

#include "base/error.h"

namespace llada::hub {

struct Repository {
  std::string owner, name;
  std::string full_name() const { return owner + "/" + name; }
  bool operator==(const Repository&) const = default;
};

struct Request {
  Repository repository;
  std::string what;               // a file, a quantization, or empty
  std::string revision = "main";  // a branch, a tag or a commit
};

// Owner and name have letters, digits, '-', '_' and '.', at most 96, and neither starts with a dot. An address such as
// https://huggingface.co/OWNER/NAME is taken too, and a short name of the catalogue in place of OWNER/NAME.
Result<Request> parse_request(std::string_view text, std::string_view revision = "main");

// Whether the text has the form OWNER/NAME or OWNER/NAME:PART.
bool looks_like_repository(std::string_view text);

// Whether the path stays below its folder: no empty, "." or ".." part, no leading slash, backslash or control
// character, parts of at most 255 bytes, 1,024 bytes in all.
bool is_safe_relative_path(std::string_view path);

bool is_commit(std::string_view text);  // 40 hexadecimal digits, lower case
bool is_sha256(std::string_view text);  // 64

}  // namespace llada::hub
