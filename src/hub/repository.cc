#include "hub/repository.h"

#include <algorithm>

#include "formats/printable.h"
#include "hub/catalogue.h"

namespace llada::hub {
namespace {

bool is_name(std::string_view text) {
  const auto good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.';
  };
  return !text.empty() && text.size() <= 96 && text.front() != '.' && text.front() != '-' &&
         std::ranges::all_of(text, good);
}

bool is_hex(std::string_view text, size_t digits) {
  return text.size() == digits &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

// The path of an address, without the pages of a repository that a browser shows ("/tree/main").
std::string_view without_address(std::string_view text) {
  const size_t scheme = text.find("://");
  if (scheme == std::string_view::npos) return text;
  const size_t path = text.find('/', scheme + 3);
  if (path == std::string_view::npos) return text;
  std::string_view rest = text.substr(path + 1);
  for (const std::string_view page : {"/tree/", "/blob/", "/resolve/"})
    rest = rest.substr(0, std::min(rest.find(page), rest.size()));
  while (rest.ends_with('/')) rest.remove_suffix(1);
  return rest;
}

struct Parts {
  std::string_view owner, name, what;
};

Parts split(std::string_view text) {
  Parts parts;
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos) return parts;
  parts.owner = text.substr(0, slash);
  parts.name = text.substr(slash + 1);
  if (const size_t colon = parts.name.find(':'); colon != std::string_view::npos) {
    parts.what = parts.name.substr(colon + 1);
    parts.name = parts.name.substr(0, colon);
  }
  return parts;
}

}  // namespace

bool is_commit(std::string_view text) { return is_hex(text, 40); }
bool is_sha256(std::string_view text) { return is_hex(text, 64); }

bool is_safe_relative_path(std::string_view path) {
  if (path.empty() || path.size() > 1024) return false;
  const auto bad = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == '\\'; };
  if (std::ranges::any_of(path, bad)) return false;
  for (size_t at = 0; at <= path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    const std::string_view part = path.substr(at, end - at);
    if (part.empty() || part.size() > 255 || part == "." || part == "..") return false;
    at = end + 1;
  }
  return true;
}

bool looks_like_repository(std::string_view text) {
  const Parts parts = split(text);
  return is_name(parts.owner) && is_name(parts.name);
}

Result<Request> parse_request(std::string_view text, std::string_view revision) {
  const size_t colon = std::min(text.find(':'), text.size());
  if (const std::string repository = repository_of(text.substr(0, colon)); !repository.empty())
    return parse_request(repository + std::string(text.substr(colon)), revision);
  const Parts parts = split(without_address(text));
  if (!is_name(parts.owner) || !is_name(parts.name))
    return invalid(
        "'{}': needed OWNER/NAME or OWNER/NAME:FILE, as in GSAI-ML/LLaDA-8B-Instruct, or a short name (llada "
        "recommend lists them)",
        printable(text));
  if (!parts.what.empty() && !is_safe_relative_path(parts.what))
    return invalid("'{}': '{}' cannot be a file of a repository", printable(text), printable(parts.what));
  if (!is_safe_relative_path(revision))
    return invalid("revision '{}': needed a branch, a tag or a commit", printable(revision));
  return Request{{std::string(parts.owner), std::string(parts.name)}, std::string(parts.what), std::string(revision)};
}

}  // namespace llada::hub
