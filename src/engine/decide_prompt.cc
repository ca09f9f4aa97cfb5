#include "engine/decide_prompt.h"

#include <algorithm>

namespace llada {
namespace {

constexpr size_t kLetters = 26;

std::string label_of_place(size_t place, size_t options) {
  return options <= kLetters ? std::string(1, static_cast<char>('A' + place)) : std::to_string(place + 1);
}

std::string option_text(const DecideOption& option) {
  return option.description.empty() ? option.text : option.text + ": " + option.description;
}

void add_line(std::string& text, const std::string& line) {
  if (line.empty()) return;
  if (!text.empty()) text += '\n';
  text += line;
}

std::string predicate_text(const DecideQuestion& question) {
  std::string text = question.instructions;
  for (size_t i = 0; i < question.options.size(); ++i)
    if (const std::string& meaning = question.options[i].description; !meaning.empty())
      add_line(text, (i == 0 ? "Yes: " : "No: ") + meaning);
  add_line(text, "Answer Yes or No only.");
  return text;
}

}  // namespace

std::string question_text(const DecideQuestion& question, DecideLabels labels, size_t first) {
  if (question.kind == QuestionKind::predicate) return predicate_text(question);
  const size_t n = question.options.size();
  std::string text = question.instructions;
  for (size_t place = 0; place < n; ++place) {
    const std::string mark = labels == DecideLabels::values ? "- " : label_of_place(place, n) + ". ";
    add_line(text, mark + option_text(question.options[(place + first) % n]));
  }
  const char* const what = question.kind == QuestionKind::choice ? "option" : "level";
  if (labels == DecideLabels::values) {
    add_line(text, fmt::format("Answer with the name of the {} that fits best only.", what));
  } else {
    add_line(text,
             fmt::format("Answer with the {} of the {} that fits best ({} to {}) only.",
                         n <= kLetters ? "letter" : "number", what, label_of_place(0, n), label_of_place(n - 1, n)));
  }
  return text;
}

std::vector<std::string> question_labels(const DecideQuestion& question, DecideLabels labels, size_t first) {
  if (question.kind == QuestionKind::predicate) return {"Yes", "No"};
  const size_t n = question.options.size();
  std::vector<std::string> list;
  for (size_t i = 0; i < n; ++i)
    list.push_back(labels == DecideLabels::values ? question.options[i].text : label_of_place((i + n - first) % n, n));
  return list;
}

std::vector<size_t> rotations_of(const DecideQuestion& question, int64_t rotations) {
  if (question.kind != QuestionKind::choice) return {0};
  const size_t n = question.options.size(), count = std::min(static_cast<size_t>(rotations), n);
  std::vector<size_t> firsts;
  for (size_t r = 0; r < count; ++r) firsts.push_back(r * n / count);
  return firsts;
}

std::vector<size_t> asked_questions(const DecideRequest& request) {
  std::vector<size_t> asked;
  for (size_t i = 0; i < request.questions.size(); ++i)
    if (request.questions[i].answers() > 1) asked.push_back(i);
  return asked;
}

std::string joint_text(const DecideRequest& request) {
  std::string text = request.state;
  for (size_t number = 1; const size_t i : asked_questions(request)) {
    if (!text.empty()) text += "\n\n";
    text += fmt::format("{}. {}", number++, question_text(request.questions[i], request.options.labels));
  }
  return text + "\n\nAnswer every question on a line of its own, its number first.";
}

}  // namespace llada
