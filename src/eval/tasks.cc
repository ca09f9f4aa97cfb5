#include "eval/tasks.h"

#include <filesystem>
#include <map>

#include "json/lines.h"
#include "text/text_file.h"
#include "text/utf8.h"

namespace llada::eval {
namespace {

// The text between the first and the second occurrence of the mark; empty when there is none.
std::string_view after(std::string_view text, std::string_view mark) {
  const size_t at = text.find(mark);
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + mark.size());
  return trimmed(text.substr(0, text.find(mark)));
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// A number as GSM8K writes it, without people's additions: "$1,234." is 1234.
std::string plain_number(std::string_view text) {
  std::string number;
  for (const char c : text)
    if (c != ',' && c != '$') number += c;
  if (number.ends_with('.')) number.pop_back();
  return number;
}

// The number behind the last "####", or where there is none the last number of the text.
std::string gsm8k_answer(std::string_view text) {
  const auto part_of_number = [](char c) { return is_digit(c) || c == ',' || c == '.' || c == '$'; };
  const size_t mark = text.rfind("####");
  if (mark != std::string_view::npos) text = trimmed(text.substr(mark + 4));
  std::string found;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    if (text[at] == '-') ++at;
    const size_t digits = at;
    while (at < text.size() && part_of_number(text[at])) ++at;
    const std::string_view word = text.substr(begin, at - begin);
    if (std::ranges::any_of(text.substr(digits, at - digits), is_digit)) {
      found = plain_number(word);
      if (mark != std::string_view::npos) break;
    }
    at = std::max(at, begin + 1);
  }
  return found;
}

// A row of the data set itself: question, and an answer whose last line is "#### number".
Result<Example> gsm8k(const Fields& row) {
  Example example{.task = "gsm8k", .prompt = {}, .response = {}, .answer = {}};
  LLADA_TRY(example.prompt, row.text("question"));
  LLADA_TRY(example.response, row.text("answer"));
  if (!example.response.contains("####")) return row.wrong("answer", example.response, "'####' and a number behind it");
  example.answer = gsm8k_answer(example.response);
  if (example.answer.empty()) return row.wrong("answer", example.response, "a number behind '####'");
  return example;
}

// A row of one's own: prompt and answer, and where they differ from the file's name and the answer, task and response.
Result<Example> own_row(const Fields& row, const std::string& task) {
  Example example{.task = task, .prompt = {}, .response = {}, .answer = {}};
  LLADA_TRY(example.prompt, row.text("prompt"));
  LLADA_TRY(example.answer, row.text("answer"));
  example.response = example.answer;
  for (const auto& [field, target] : {std::pair{"task", &example.task}, {"response", &example.response}}) {
    LLADA_TRY(*target, row.text(field, *target));
  }
  // Every reply without a number would be right.
  if (example.task == "gsm8k" && gsm8k_answer(example.answer).empty())
    return row.wrong("answer", example.answer, "a number");
  return example;
}

}  // namespace

Result<std::vector<Example>> parse_examples(std::string_view text, const std::string& source, int64_t limit) {
  std::vector<Example> examples;
  std::map<std::string, int64_t> taken;
  const std::string name = std::filesystem::path(source).stem().string();
  LLADA_TRY_STATUS(for_each_json_object(text, source, [&](const Fields& row) -> Status {
    LLADA_TRY(Example example, row.has("question") ? gsm8k(row) : own_row(row, name));
    if (trimmed(example.prompt).empty())
      return row.fault(row.has("question") ? "question" : "prompt", "found nothing but white space, needed text");
    if (limit == 0 || ++taken[example.task] <= limit) examples.push_back(std::move(example));
    return {};
  }));
  if (examples.empty()) return invalid("{}: no examples", source);
  return examples;
}

Result<std::vector<Example>> load_examples(const std::string& path, int64_t limit) {
  LLADA_TRY(const std::string text, read_text_file(path));
  return parse_examples(text, path, limit);
}

bool answer_is_right(const Example& example, std::string_view text) {
  text = trimmed(text);
  if (example.task == "gsm-mini" || example.task == "story") return after(text, "####") == example.answer;
  if (example.task == "gsm8k") return gsm8k_answer(text) == plain_number(example.answer);
  if (example.task == "sort-steps") return after(text, "Sorted:") == example.answer;
  if (example.task == "choice") return after(text, "Answer:") == example.answer;
  if (example.task == "bool") {
    const size_t line = text.rfind('\n');
    return trimmed(line == std::string_view::npos ? text : text.substr(line + 1)) == example.answer;
  }
  if (example.task == "json") {
    const auto got = parse_json_document(text, "answer", kOthersLines);
    const auto wanted = parse_json_document(example.answer, "answer", kOthersLines);
    return got && wanted && got->root == wanted->root;
  }
  return text == example.answer;
}

}  // namespace llada::eval
