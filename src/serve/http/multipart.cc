// Bodies of multipart/form-data are read (body.h).
#include <algorithm>
#include <cctype>
#include <optional>

#include "serve/http/body.h"
#include "text/utf8.h"

namespace llada::serve {
namespace {

constexpr size_t kMostParts = 32, kMostHead = 8 << 10;  // bytes of a part's headers

bool same_letters(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, {}, [](unsigned char c) { return std::tolower(c); }, [](unsigned char c) { return std::tolower(c); });
}

// The value of a parameter of a header, `name="value"` or name=value; \" stands for a quote.
std::optional<std::string> parameter(std::string_view header, std::string_view name) {
  size_t at = header.find(';');
  while (at < header.size()) {
    const size_t equals = header.find('=', at);
    if (equals == std::string_view::npos) return std::nullopt;
    const std::string_view key = trimmed(header.substr(at + 1, equals - at - 1));
    std::string value;
    at = equals + 1;
    if (at < header.size() && header[at] == '"') {
      for (++at; at < header.size() && header[at] != '"'; ++at) {
        if (header[at] == '\\' && at + 1 < header.size()) ++at;
        value += header[at];
      }
      at = header.find(';', at);
    } else {
      const size_t end = std::min(header.find(';', at), header.size());
      value = trimmed(header.substr(at, end - at));
      at = end;
    }
    if (same_letters(key, name)) return value;
  }
  return std::nullopt;
}

std::unexpected<ApiError> broken(const std::string& why) {
  return std::unexpected(ApiError(400, "the body: " + why + "; needed multipart/form-data"));
}

Answered<FormPart> read_part(std::string_view text) {
  const size_t end = text.substr(0, kMostHead).find("\r\n\r\n");
  const bool no_head = text.starts_with("\r\n");
  if (end == std::string_view::npos && !no_head) return broken("found a part without an end of its headers");
  FormPart part{.name = "", .file = "", .bytes = no_head ? text.substr(2) : text.substr(end + 4)};
  for (std::string_view head = no_head ? "" : text.substr(0, end + 2); !head.empty();) {
    const size_t line_end = head.find("\r\n");
    const std::string_view line = head.substr(0, line_end);
    head.remove_prefix(line_end + 2);
    const size_t colon = std::min(line.find(':'), line.size());
    if (!same_letters(trimmed(line.substr(0, colon)), "content-disposition")) continue;
    part.name = to_valid_utf8(parameter(line, "name").value_or(""));
    if (const auto file = parameter(line, "filename")) part.file = to_valid_utf8(file->empty() ? "file" : *file);
  }
  if (part.name.empty()) return broken("found a part without a name");
  return part;
}

}  // namespace

Answered<std::vector<FormPart>> parse_form(std::string_view content_type, std::string_view body) {
  const std::string_view type = trimmed(content_type.substr(0, content_type.find(';')));
  const auto boundary = parameter(content_type, "boundary");
  if (!same_letters(type, "multipart/form-data") || !boundary || boundary->empty() || boundary->size() > 70)
    return std::unexpected(ApiError(415,
                                    fmt::format("Content-Type: found {}, needed multipart/form-data with a boundary",
                                                in_quotes(content_type.substr(0, 100))),
                                    "Content-Type"));
  const std::string between = "\r\n--" + *boundary;
  if (!body.starts_with(std::string_view(between).substr(2))) return broken("it does not begin with its boundary");
  body.remove_prefix(between.size() - 2);
  std::vector<FormPart> parts;
  while (!body.starts_with("--")) {
    if (!body.starts_with("\r\n")) return broken("found a boundary with text behind it");
    const size_t end = body.find(between, 0);
    if (end == std::string_view::npos) return broken("it ends within a part");
    if (parts.size() == kMostParts) return broken(fmt::format("found more than {} parts", kMostParts));
    LLADA_TRY(FormPart part, read_part(body.substr(2, end < 2 ? 0 : end - 2)));
    parts.push_back(std::move(part));
    body.remove_prefix(end + between.size());
  }
  return parts;
}

}  // namespace llada::serve
