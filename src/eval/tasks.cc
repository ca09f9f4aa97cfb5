#include "eval/tasks.h"

#include <map>
#include <nlohmann/json.hpp>

#include "base/file.h"

namespace llada::eval {
namespace {

using Json = nlohmann::ordered_json;

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n\f\v";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

// The text between the first and the second occurrence of the mark; empty when there is none.
std::string_view after(std::string_view text, std::string_view mark) {
  const size_t at = text.find(mark);
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + mark.size());
  return trimmed(text.substr(0, text.find(mark)));
}

// A generated text may nest brackets as deep as it is long; the parser recurses, so depth is bounded first.
bool shallow(std::string_view text) {
  int depth = 0;
  for (const char c : text) {
    if ((c == '[' || c == '{') && ++depth > 64) return false;
    if (c == ']' || c == '}') --depth;
  }
  return true;
}

}  // namespace

Result<std::vector<Example>> parse_examples(std::string_view text, const std::string& source, int64_t limit) {
  std::vector<Example> examples;
  std::map<std::string, int64_t> taken;
  for (int64_t line = 1; !text.empty(); ++line) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view row = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(text.size(), end + 1));
    if (row.empty()) continue;
    const Json json = shallow(row) ? Json::parse(row, nullptr, false) : Json(Json::value_t::discarded);
    if (!json.is_object()) return invalid("{}:{}: not a JSON object", source, line);
    Example example;
    for (const auto& [field, target] : {std::pair{"task", &example.task},
                                        {"prompt", &example.prompt},
                                        {"response", &example.response},
                                        {"answer", &example.answer}}) {
      const auto found = json.find(field);
      if (found == json.end() || !found->is_string())
        return invalid("{}:{}: field '{}' is missing or not a string", source, line, field);
      *target = found->get<std::string>();
    }
    if (limit > 0 && ++taken[example.task] > limit) continue;
    examples.push_back(std::move(example));
  }
  if (examples.empty()) return invalid("{}: no examples", source);
  return examples;
}

Result<std::vector<Example>> load_examples(const std::string& path, int64_t limit) {
  LLADA_TRY(const std::string text, read_file(path));
  return parse_examples(text, path, limit);
}

bool answer_is_right(const Example& example, std::string_view text) {
  text = trimmed(text);
  if (example.task == "gsm-mini" || example.task == "story") return after(text, "####") == example.answer;
  if (example.task == "sort-steps") return after(text, "Sorted:") == example.answer;
  if (example.task == "choice") return after(text, "Answer:") == example.answer;
  if (example.task == "bool") {
    const size_t line = text.rfind('\n');
    return trimmed(line == std::string_view::npos ? text : text.substr(line + 1)) == example.answer;
  }
  if (example.task == "json") {
    if (!shallow(text)) return false;
    const Json got = Json::parse(text, nullptr, false), wanted = Json::parse(example.answer, nullptr, false);
    return !got.is_discarded() && got == wanted;
  }
  return text == example.answer;
}

}  // namespace llada::eval
