#include "eval/json_rows.h"

#include "engine/json_fields.h"

namespace llada::eval {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n\f\v";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

Status for_each_row(std::string_view text, const std::string& source,
                    const std::function<Status(const Json& row, const std::string& where)>& visit) {
  return for_each_json_line(text, source, [&](std::string_view line, const std::string& where) -> Status {
    LLADA_TRY(const Json row, parse_json_object(line, where, kRowLimits));
    return visit(row, where);
  });
}

Result<std::string> text_field(const Json& row, const char* field, const std::string& where) {
  const auto found = row.find(field);
  if (found == row.end() || !found->is_string())
    return invalid("{}: field '{}' is missing or not a string", where, field);
  return found->get<std::string>();
}

}  // namespace llada::eval
