#include "json/lines.h"

#include <algorithm>

namespace llada {

std::string json_line(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n'; }

Status for_each_json_line(std::string_view text, const std::string& source,
                          const std::function<Status(std::string_view line, std::string where)>& visit) {
  for (int64_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(text.size(), end + 1));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    LLADA_TRY_STATUS(visit(line, fmt::format("{}:{}", source, number)));
  }
  return {};
}

Status for_each_json_object(std::string_view text, const std::string& source,
                            const std::function<Status(const Fields& fields)>& visit) {
  return for_each_json_line(text, source, [&](std::string_view line, std::string where) -> Status {
    LLADA_TRY(const Fields fields, Fields::parse(line, std::move(where), kOthersLines));
    return visit(fields);
  });
}

}  // namespace llada
