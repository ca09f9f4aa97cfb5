#include "eval/questions.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "json/lines.h"
#include "text/text_file.h"
#include "text/utf8.h"

namespace llada::eval {
namespace {

int64_t code_points(std::string_view text) {
  int64_t count = 0;
  for (; !text.empty(); ++count) text.remove_prefix(static_cast<size_t>(utf8_unit(text).length));
  return count;
}

// A row's fields; the first that is missing or of another type is the row's error.
class Row {
 public:
  explicit Row(const Fields& fields) : fields_(fields) {}

  bool has(const char* field) const { return fields_.has(field); }
  bool has_list(const char* field) const { return has(field) && fields_.look(field)->is_array(); }
  std::string text(const char* field) { return keep(fields_.text(field)); }
  std::vector<std::string> texts(const char* field) { return texts(fields_, field); }
  // ARC's choices are an object of two lists.
  std::vector<std::string> texts(const char* object, const char* field) {
    const auto inner = fields_.object(object);
    if (inner) return texts(*inner, field);
    refuse(inner.error());
    return {"", ""};
  }
  // A whole number below `count`, or such a number as text (HellaSwag), or a truth value (BoolQ).
  size_t index(const char* field, size_t count) {
    const Json found = value(fields_, field);
    if (found.is_boolean() && count == 2) return found.get<bool>() ? 1 : 0;
    for (size_t i = 0; i < count; ++i)
      if (found == Json(i) || found == Json(std::to_string(i))) return i;
    refuse(field, fmt::format("a number from 0 to {}", count - 1));
    return 0;
  }
  // TruthfulQA's labels: 1 for right options, of which there is one at least.
  std::vector<size_t> marked(const char* object, const char* field, size_t count) {
    const auto inner = fields_.object(object);
    const Json labels = inner ? value(*inner, field) : Json();
    std::vector<size_t> right;
    bool sound = labels.is_array() && labels.size() == count;
    for (size_t i = 0; sound && i < count; ++i) {
      if (labels[i] == Json(1)) right.push_back(i);
      sound = labels[i] == Json(0) || labels[i] == Json(1);
    }
    if (sound && !right.empty()) return right;
    const auto needed = fmt::format("{} numbers 0 or 1, one for each of choices, and a 1 among them", count);
    refuse(inner ? inner->unfit(field, needed).error() : inner.error());
    return {0};
  }
  void refuse(const char* field, std::string_view needed) { refuse(fields_.unfit(field, needed).error()); }
  const Status& status() const { return status_; }

 private:
  static Json value(const Fields& fields, const char* field) {
    const Json* found = fields.find(field);
    return found == nullptr ? Json() : *found;
  }
  void refuse(const Error& error) {
    if (status_) status_ = std::unexpected(error);
  }
  std::string keep(Result<std::string> read) {
    if (read) return std::move(*read);
    refuse(read.error());
    return {};
  }
  std::vector<std::string> texts(const Fields& from, const char* field) {
    const Json found = value(from, field);
    const auto is_text = [](const Json& j) { return j.is_string(); };
    if (found.is_array() && found.size() >= 2 && std::ranges::all_of(found, is_text))
      return found.get<std::vector<std::string>>();
    refuse(from.unfit(field, "a list of two strings or more").error());
    return {"", ""};
  }

  const Fields& fields_;
  Status status_;
};

void replace_all(std::string& text, std::string_view what, std::string_view with) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
    text.replace(at, what.size(), with);
}

// HellaSwag's WikiHow texts have marks such as "[header]" in them.
std::string without_marks(std::string text) {
  text = trimmed(text);
  replace_all(text, " [title]", ". ");
  for (size_t open; (open = text.find('[')) != std::string::npos;) {
    const size_t close = text.find(']', open);
    if (close == std::string::npos) break;
    text.erase(open, close + 1 - open);
  }
  replace_all(text, "  ", " ");
  return text;
}

// As Python's str.capitalize() where the text is ASCII.
std::string capitalized(std::string text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const bool lower = text[i] >= 'a' && text[i] <= 'z', upper = text[i] >= 'A' && text[i] <= 'Z';
    if (i == 0 && lower) text[i] = static_cast<char>(text[i] - 'a' + 'A');
    if (i > 0 && upper) text[i] = static_cast<char>(text[i] - 'A' + 'a');
  }
  return text;
}

void set_options(Question& question, const std::vector<std::string>& texts, std::string_view before) {
  for (const std::string& text : texts) {
    question.options.push_back(std::string(before) + text);
    question.lengths.push_back(std::max<int64_t>(code_points(text), 1));
  }
}

Question boolq(Row& row) {
  const std::string passage = row.text("passage");
  Question q{.task = "boolq", .context = fmt::format("{}\nQuestion: {}?\nAnswer:", passage, row.text("question"))};
  set_options(q, {"no", "yes"}, " ");
  q.answer = row.index(row.has("label") ? "label" : "answer", 2);
  return q;
}

Question arc(Row& row) {
  Question q{.task = "arc", .context = fmt::format("Question: {}\nAnswer:", row.text("question"))};
  set_options(q, row.texts("choices", "text"), " ");
  const std::vector<std::string> labels = row.texts("choices", "label");
  const auto right = std::ranges::find(labels, row.text("answerKey"));
  q.answer = static_cast<size_t>(right - labels.begin());
  if (right == labels.end() || labels.size() != q.options.size())
    row.refuse("answerKey", "one of choices.label, of which there are as many as texts");
  return q;
}

Question hellaswag(Row& row) {
  const std::string rest = capitalized(row.text("ctx_b"));
  Question q{.task = "hellaswag",
             .context = without_marks(fmt::format("{}: {} {}", row.text("activity_label"), row.text("ctx_a"), rest))};
  std::vector<std::string> endings = row.texts("endings");
  std::ranges::transform(endings, endings.begin(), without_marks);
  set_options(q, endings, " ");
  q.answer = row.index("label", q.options.size());
  return q;
}

constexpr size_t kLetters = 26;

Question mmlu(Row& row) {
  if (!row.has("subject")) row.refuse("subject", "a string, beside MMLU's question, choices and answer");
  Question q{
      .task = "mmlu", .subject = row.text("subject"), .context = fmt::format("{}\n", trimmed(row.text("question")))};
  std::vector<std::string> choices = row.texts("choices");
  if (choices.size() > kLetters) {
    row.refuse("choices", fmt::format("{} strings at most, one for each letter", kLetters));
    choices.resize(kLetters);
  }
  std::vector<std::string> letters;
  for (size_t i = 0; i < choices.size(); ++i) {
    letters.push_back(std::string(1, static_cast<char>('A' + i)));
    q.context += fmt::format("{}. {}\n", letters.back(), choices[i]);
  }
  q.context += "Answer:";
  set_options(q, letters, " ");
  q.answer = row.index("answer", choices.size());
  return q;
}

Question piqa(Row& row) {
  Question q{.task = "piqa", .context = fmt::format("Question: {}\nAnswer:", row.text("goal"))};
  set_options(q, {row.text("sol1"), row.text("sol2")}, " ");
  q.answer = row.index("label", 2);
  return q;
}

// Partial evaluation: the options are put into the sentence, and the rest of it is scored, the same behind both.
Question winogrande(Row& row) {
  const std::string sentence = row.text("sentence"), answer = row.text("answer");
  const size_t blank = sentence.find('_');
  const std::string rest(blank == std::string::npos ? "" : trimmed(sentence.substr(blank + 1)));
  if (rest.empty() || rest.find('_') != std::string::npos)
    row.refuse("sentence", "a string with one blank '_' and something behind it");
  Question q{.task = "winogrande"};
  for (const char* option : {"option1", "option2"})
    q.contexts.push_back(sentence.substr(0, std::min(blank, sentence.size())) + row.text(option));
  set_options(q, {rest, rest}, " ");
  if (answer != "1" && answer != "2") row.refuse("answer", "'1' or '2'");
  q.answer = answer == "2" ? 1 : 0;
  return q;
}

Question truthfulqa(Row& row) {
  Question q{.task = "truthfulqa", .context = fmt::format("Q: {}\nA:", row.text("question"))};
  set_options(q, row.texts("mc2_targets", "choices"), " ");
  q.also_right = row.marked("mc2_targets", "labels", q.options.size());
  q.answer = q.also_right.front();
  q.also_right.erase(q.also_right.begin());
  return q;
}

Question plain(Row& row) {
  Question q{.task = "choice", .context = row.text("prompt")};
  set_options(q, row.texts("choices"), "");
  q.answer = row.index("answer", q.options.size());
  return q;
}

Question question_of(Row& row) {
  if (row.has("passage")) return boolq(row);
  if (row.has("answerKey")) return arc(row);
  if (row.has("endings")) return hellaswag(row);
  if (row.has("goal")) return piqa(row);
  if (row.has("sentence") && row.has("option1")) return winogrande(row);
  if (row.has("mc2_targets")) return truthfulqa(row);
  if (row.has("subject") || (row.has("question") && row.has_list("choices") && !row.has("prompt"))) return mmlu(row);
  return plain(row);
}

// Questions that may stand before each other as examples, and of which a limit keeps the first.
std::tuple<const std::string&, const std::string&> kind(const Question& q) { return {q.task, q.subject}; }

bool same_question(const Question& a, const Question& b) {
  return a.context == b.context && a.contexts == b.contexts && a.options == b.options;
}

// The text before the examples.
std::string introduction(const Question& q) {
  if (q.task != "mmlu") return {};
  std::string subject = q.subject;
  std::ranges::replace(subject, '_', ' ');
  return fmt::format("The following are multiple choice questions (with answers) about {}.\n\n", subject);
}

}  // namespace

bool Question::is_right(size_t option) const {
  return option == answer || std::ranges::find(also_right, option) != also_right.end();
}

Result<std::vector<Question>> parse_questions(std::string_view text, const std::string& source, int64_t limit) {
  std::vector<Question> questions;
  std::map<std::tuple<std::string, std::string>, int64_t> taken;  // by kind
  LLADA_TRY_STATUS(for_each_json_object(text, source, [&](const Fields& fields) -> Status {
    Row row(fields);
    Question question = question_of(row);
    LLADA_TRY_STATUS(row.status());
    if (limit == 0 || ++taken[kind(question)] <= limit) questions.push_back(std::move(question));
    return {};
  }));
  if (questions.empty()) return invalid("{}: no questions", source);
  return questions;
}

Result<std::vector<Question>> load_questions(const std::string& path, int64_t limit) {
  LLADA_TRY(const std::string text, read_text_file(path));
  return parse_questions(text, path, limit);
}

Result<std::string> with_examples(const Question& question, std::span<const Question> from, int64_t shots,
                                  size_t option) {
  std::string text = introduction(question);
  int64_t given = 0, itself = 0;
  for (const Question& example : from) {
    if (given == shots) break;
    if (kind(example) != kind(question)) continue;
    if (same_question(example, question)) {  // its answer would be told
      ++itself;
      continue;
    }
    text += fmt::format("{}{}\n\n", example.context_of(example.answer), example.options[example.answer]);
    ++given;
  }
  if (given < shots)
    return invalid("examples: found {} of {}{}{}{}, needed {}", given, question.task,
                   question.subject.empty() ? "" : " of the subject ", question.subject,
                   itself > 0 ? " beside the question itself" : "", shots);
  return text + question.context_of(option);
}

}  // namespace llada::eval
