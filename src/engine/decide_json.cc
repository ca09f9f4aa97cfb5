#include "engine/decide_json.h"

#include <algorithm>
#include <set>

#include "engine/json_fields.h"
#include "json/parse.h"
#include "text/text_file.h"

namespace llada {
namespace {

constexpr std::string_view kTemperatures = "llada-decide-temperatures";

std::unexpected<Error> wrong_field(const std::string& where, const Json& found, std::string_view needed) {
  return invalid("{}: found {}, needed {}", where, shown(found), needed);
}

// The field, or null where it is not there or is null.
const Json* json_field(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

Status known_fields(const Json& object, const std::string& where, std::initializer_list<std::string_view> names) {
  for (const auto& [name, value] : object.items())
    if (!value.is_null() && std::ranges::find(names, name) == names.end())
      return invalid("{}.{}: is not known here", where, name);
  return {};
}

Result<std::string> text_field(const Json& object, const char* name, const std::string& where) {
  const Json* const value = json_field(object, name);
  if (value == nullptr) return std::string();
  if (!value->is_string()) return wrong_field(where + "." + name, *value, "a text");
  return value->get<std::string>();
}

Result<std::string> needed_text(const Json& object, const char* name, const std::string& where) {
  if (json_field(object, name) == nullptr) return invalid("{}.{}: is missing", where, name);
  return text_field(object, name, where);
}

std::string any_text(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// A text, or a list of parts.
Result<std::string> content_text(const Json& content, const std::string& where) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) return wrong_field(where, content, "a text or a list of parts");
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) {
    const std::string place = fmt::format("{}[{}]", where, i);
    const Json& part = content[i];
    if (!part.is_object()) return wrong_field(place, part, "an object");
    LLADA_TRY(const std::string type, needed_text(part, "type", place));
    if (type == "input_image") return invalid("{}: found an image, needed text", place);
    const char* const name = type == "input_json" ? "data" : type == "refusal" ? "refusal" : "text";
    if (type != "input_json" && type != "refusal" && type != "input_text" && type != "output_text")
      return invalid("{}.type: found '{}', needed input_text, input_json, output_text or refusal", place, type);
    const Json* const value = json_field(part, name);
    if (value == nullptr || (type == "input_json" ? !value->is_structured() : !value->is_string()))
      return wrong_field(place + "." + name, value != nullptr ? *value : Json(),
                         type == "input_json" ? "an object or a list of objects" : "a text");
    if (!text.empty()) text += '\n';
    text += any_text(*value);
  }
  return text;
}

Result<std::string> content_field(const Json& object, const char* name, const std::string& where) {
  const Json* const value = json_field(object, name);
  return value != nullptr ? content_text(*value, where + "." + name) : std::string();
}

// An entry of a conversation, as it is read to the model. calls: ids of tool calls so far.
Result<std::string> entry_text(const Json& entry, const std::string& where, std::set<std::string>& calls) {
  if (!entry.is_object()) return wrong_field(where, entry, "an object");
  LLADA_TRY(const std::string given, text_field(entry, "type", where));
  const std::string type = given.empty() ? "message" : given;
  if (type == "message") {
    LLADA_TRY(const std::string role, needed_text(entry, "role", where));
    if (role != "user" && role != "assistant" && role != "system" && role != "developer")
      return invalid("{}.role: found '{}', needed user, assistant, system or developer", where, role);
    if (json_field(entry, "content") == nullptr) return invalid("{}.content: is missing", where);
    LLADA_TRY(const std::string text, content_field(entry, "content", where));
    return role + ": " + text;
  }
  LLADA_TRY(const std::string id, needed_text(entry, "call_id", where));
  if (type == "function_call" || type == "custom_tool_call") {
    LLADA_TRY(const std::string name, needed_text(entry, "name", where));
    LLADA_TRY(const std::string input, needed_text(entry, type == "function_call" ? "arguments" : "input", where));
    calls.insert(id);
    return fmt::format("call of {}: {}", name, input);
  }
  if (type == "function_call_output" || type == "custom_tool_call_output") {
    if (!calls.contains(id)) return invalid("{}.call_id: found '{}', needed that of a call before it", where, id);
    if (json_field(entry, "output") == nullptr) return invalid("{}.output: is missing", where);
    LLADA_TRY(const std::string output, content_field(entry, "output", where));
    return "result: " + output;
  }
  return invalid(
      "{}.type: found '{}', needed message, function_call, function_call_output, custom_tool_call or "
      "custom_tool_call_output",
      where, type);
}

Result<std::vector<DecideOption>> option_list(const Json& question, const char* name, const char* value_name,
                                              bool booleans, const std::string& where) {
  const Json* const list = json_field(question, name);
  const std::string place = where + "." + name;
  if (list == nullptr) return invalid("{}: is missing", place);
  if (!list->is_array()) return wrong_field(place, *list, "a list");
  std::vector<DecideOption> options;
  for (size_t i = 0; i < list->size(); ++i) {
    const Json& entry = (*list)[i];
    const std::string at = fmt::format("{}[{}]", place, i);
    if (!entry.is_object()) return wrong_field(at, entry, "an object");
    LLADA_TRY_STATUS(known_fields(entry, at, {value_name, "description"}));
    const Json* const value = json_field(entry, value_name);
    if (value == nullptr) return invalid("{}.{}: is missing", at, value_name);
    if (!value->is_string() && !(booleans && value->is_boolean()))
      return wrong_field(at + "." + value_name, *value, booleans ? "a text, true or false" : "a text");
    LLADA_TRY(const std::string description, text_field(entry, "description", at));
    options.push_back({any_text(*value), description, value->is_boolean()});
  }
  return options;
}

Status read_count(const Json& object, const char* name, const std::string& where, int64_t most, int64_t& count) {
  const Json* const n = json_field(object, name);
  if (n == nullptr) return {};
  if (!n->is_number_integer() || *n < 1 || *n > most)
    return wrong_field(where, *n, fmt::format("a whole number from 1 to {}", most));
  count = n->get<int64_t>();
  return {};
}

Status read_settings(const Json& body, DecideOptions& options) {
  const Json* const given = json_field(body, "llada");
  if (given == nullptr) return {};
  if (!given->is_object()) return wrong_field("llada", *given, "an object");
  LLADA_TRY_STATUS(known_fields(*given, "llada", {"labels", "rotations", "samples", "joint"}));
  LLADA_TRY(const std::string labels, text_field(*given, "labels", "llada"));
  if (!labels.empty() && labels != "letters" && labels != "values")
    return invalid("llada.labels: found '{}', needed letters or values", labels);
  if (labels == "values") options.labels = DecideLabels::values;
  LLADA_TRY_STATUS(read_count(*given, "rotations", "llada.rotations", kMostRotations, options.rotations));
  LLADA_TRY_STATUS(read_count(*given, "samples", "llada.samples", kMostSamples, options.samples));
  if (const Json* const joint = json_field(*given, "joint")) {
    if (!joint->is_boolean()) return wrong_field("llada.joint", *joint, "true or false");
    options.joint = joint->get<bool>();
  }
  return {};
}

// Criteria of a question of /v1/systemone.
Result<std::vector<DecideOption>> criteria_options(const Json& question, QuestionKind kind, const std::string& where) {
  std::vector<DecideOption> options;
  const Json* const criteria = json_field(question, "criteria");
  const std::string place = where + ".criteria";
  if (kind == QuestionKind::score) {
    if (criteria == nullptr || !criteria->is_array())
      return wrong_field(place, criteria != nullptr ? *criteria : Json(), "a list of levels");
    for (const Json& level : *criteria) options.push_back({any_text(level)});
    return options;
  }
  if (criteria == nullptr && kind == QuestionKind::predicate) return options;
  if (criteria == nullptr || !criteria->is_object())
    return wrong_field(place, criteria != nullptr ? *criteria : Json(), "an object");
  const auto meaning = [](const Json& value) { return value.is_null() ? std::string() : any_text(value); };
  if (kind == QuestionKind::predicate) {
    LLADA_TRY_STATUS(known_fields(*criteria, place, {"true", "false"}));
    options = {{"true", meaning(criteria->value("true", Json()))},
               {"false", meaning(criteria->value("false", Json()))}};
    return options;
  }
  for (const auto& [value, description] : criteria->items()) options.push_back({value, meaning(description)});
  return options;
}

Json usage_json(const DecideResult& result) {
  return {{"input_tokens", result.prompt_tokens},
          {"input_tokens_details", {{"cached_tokens", result.reused_tokens}, {"cache_write_tokens", 0}}},
          {"output_tokens", 0},
          {"output_tokens_details", {{"reasoning_tokens", 0}}},
          {"total_tokens", result.prompt_tokens},
          {"forwards", result.forwards},
          {"rows", result.rows}};
}

Json value_json(const DecideOption& option) { return option.boolean ? Json(option.text == "true") : Json(option.text); }

Json diagnostics_json(const DecideAnswer& answer) {
  return {{"label_mass", answer.label_mass}, {"argmax_is_label", answer.best_is_label}};
}

// Among them answers whose numbers say little, since the model meant to say something else.
void add_warnings(const DecideRequest& request, const DecideResult& result, Json& all) {
  constexpr double kLeastMass = 0.01;
  for (const std::string& line : request.warnings) all["warnings"].push_back(line);
  std::string questions;
  for (size_t i = 0; i < result.answers.size(); ++i)
    if (result.answers[i].label_mass < kLeastMass) questions += (questions.empty() ? "" : ", ") + place_of(request, i);
  if (questions.empty()) return;
  all["warnings"].push_back(fmt::format(
      "label_mass: below {} for {}: the model would rather have written something else than one of the options",
      kLeastMass, questions));
}

// A level as it is shown to the model.
std::string level_text(const DecideOption& level) {
  return level.description.empty() ? level.text : level.text + ": " + level.description;
}

}  // namespace

Result<std::string> parse_decide_input(const Json& input, const std::string& where) {
  if (input.is_string()) return input.get<std::string>();
  if (!input.is_array()) return wrong_field(where, input, "a text or a list of messages");
  std::set<std::string> calls;
  std::string text;
  for (size_t i = 0; i < input.size(); ++i) {
    LLADA_TRY(const std::string entry, entry_text(input[i], fmt::format("{}[{}]", where, i), calls));
    if (!text.empty()) text += "\n\n";
    text += entry;
  }
  return text;
}

Result<DecideQuestion> parse_question(const Json& question, const std::string& where) {
  if (!question.is_object()) return wrong_field(where, question, "an object");
  LLADA_TRY(const std::string type, needed_text(question, "type", where));
  DecideQuestion read;
  LLADA_TRY(read.name, text_field(question, "name", where));
  if (json_field(question, "instructions") == nullptr) return invalid("{}.instructions: is missing", where);
  LLADA_TRY(read.instructions, content_field(question, "instructions", where));
  if (type == "predicate") {
    LLADA_TRY_STATUS(known_fields(question, where, {"type", "name", "instructions"}));
  } else if (type == "choice") {
    read.kind = QuestionKind::choice;
    LLADA_TRY_STATUS(known_fields(question, where, {"type", "name", "instructions", "choices"}));
    LLADA_TRY(read.options, option_list(question, "choices", "value", true, where));
  } else if (type == "score") {
    read.kind = QuestionKind::score;
    LLADA_TRY_STATUS(known_fields(question, where, {"type", "name", "instructions", "levels"}));
    LLADA_TRY(read.options, option_list(question, "levels", "label", false, where));
  } else {
    return invalid("{}.type: found '{}', needed predicate, choice or score", where, type);
  }
  return read;
}

Result<DecideRequest> parse_decisions(const Json& body) {
  DecideRequest request;
  const Json* const input = json_field(body, "input");
  if (input == nullptr) return invalid("input: is missing; needed a text or a list of messages");
  LLADA_TRY(request.state, parse_decide_input(*input, "input"));
  const Json* const questions = json_field(body, "questions");
  if (questions == nullptr || !questions->is_array())
    return wrong_field("questions", questions != nullptr ? *questions : Json(), "a list of questions");
  for (size_t i = 0; i < questions->size(); ++i) {
    LLADA_TRY(auto question, parse_question((*questions)[i], fmt::format("questions[{}]", i)));
    request.questions.push_back(std::move(question));
  }
  LLADA_TRY_STATUS(read_settings(body, request.options));
  LLADA_TRY_STATUS(check_decide(request));
  return request;
}

Result<DecideRequest> parse_systemone(const Json& body) {
  DecideRequest request{.system_one = true};
  const auto state = body.find("state");
  if (state == body.end()) return invalid("state: is missing; needed a text or any JSON value");
  request.state = any_text(*state);
  if (const Json* const common = json_field(body, "instructions")) {
    if (!request.state.empty()) request.state += "\n\n";
    request.state += any_text(*common);
  }
  const Json* const questions = json_field(body, "questions");
  if (questions == nullptr || !questions->is_object())
    return wrong_field("questions", questions != nullptr ? *questions : Json(), "an object of questions by name");
  for (const auto& [id, question] : questions->items()) {
    const std::string where = "questions." + id;
    if (!question.is_object()) return wrong_field(where, question, "an object");
    LLADA_TRY_STATUS(known_fields(question, where, {"type", "instructions", "criteria"}));
    LLADA_TRY(const std::string type, needed_text(question, "type", where));
    DecideQuestion read{.kind = QuestionKind::predicate, .instructions = {}, .name = id};
    if (type == "choice" || type == "score") {
      read.kind = type == "choice" ? QuestionKind::choice : QuestionKind::score;
    } else if (type != "noul") {
      return invalid("{}.type: found '{}', needed noul, choice or score", where, type);
    }
    if (const Json* const instructions = json_field(question, "instructions"))
      read.instructions = any_text(*instructions);
    LLADA_TRY(read.options, criteria_options(question, read.kind, where));
    if (read.kind == QuestionKind::predicate && read.instructions.empty() && read.options.empty())
      return invalid("{}: found neither instructions nor criteria, needed one", where);
    request.questions.push_back(std::move(read));
  }
  LLADA_TRY_STATUS(read_settings(body, request.options));
  LLADA_TRY_STATUS(read_count(body, "samples", "samples", kMostSamples, request.options.samples));
  if (const Json* const joint = json_field(body, "joint")) {
    if (!joint->is_boolean()) return wrong_field("joint", *joint, "true or false");
    request.options.joint = joint->get<bool>();
  }
  LLADA_TRY_STATUS(check_decide(request));
  return request;
}

Result<DecideRequest> parse_decide(const Json& body) {
  return body.contains("state") ? parse_systemone(body) : parse_decisions(body);
}

Result<DecideRequest> read_decide(std::string_view text, const std::string& source) {
  // A request of 400 questions with 255 options each.
  constexpr JsonLimits kRequestLimits{.depth = 64, .values = size_t{1} << 20, .run_bytes = size_t{1} << 26};
  LLADA_TRY(const JsonDocument body, parse_ordered_object(text, source, kRequestLimits));
  auto request = parse_decide(body.root);
  if (!request) return invalid("{}: {}", source, request.error().message);
  return request;
}

std::string decide_text(const DecideRequest& request, const DecideResult& result, const std::string& model) {
  return json_line(request.system_one ? systemone_json(request, result, model)
                                      : decisions_json(request, result, model));
}

Json decisions_json(const DecideRequest& request, const DecideResult& result, const std::string& model) {
  Json answers = Json::array();
  for (size_t i = 0; i < result.answers.size(); ++i) {
    const DecideQuestion& q = request.questions[i];
    const DecideAnswer& a = result.answers[i];
    Json one = {{"type", name(q.kind)}, {"name", q.name.empty() ? Json() : Json(q.name)}};
    if (q.kind == QuestionKind::predicate) {
      one["probability"] = a.probabilities[0];
    } else {
      Json list = Json::array();
      for (size_t o = 0; o < q.options.size(); ++o) {
        if (q.kind == QuestionKind::choice)
          list.push_back({{"value", value_json(q.options[o])}, {"probability", a.probabilities[o]}});
        else
          list.push_back({{"label", q.options[o].text}, {"value", o}, {"probability", a.probabilities[o]}});
      }
      if (q.kind == QuestionKind::choice)
        one["choice"] = value_json(q.options[a.best]);
      else
        one["score"] = a.score;
      one["confidence"] = a.confidence;
      one["probabilities"] = std::move(list);
    }
    one["diagnostics"] = diagnostics_json(a);
    answers.push_back(std::move(one));
  }
  Json all = {{"object", "decision"}, {"model", model}, {"answers", std::move(answers)}, {"usage", usage_json(result)}};
  add_warnings(request, result, all);
  return all;
}

Json systemone_json(const DecideRequest& request, const DecideResult& result, const std::string& model) {
  Json answers = Json::object();
  for (size_t i = 0; i < result.answers.size(); ++i) {
    const DecideQuestion& q = request.questions[i];
    const DecideAnswer& a = result.answers[i];
    Json one;
    if (q.kind == QuestionKind::predicate) {
      one = {{"type", "noul"}, {"noul", a.probabilities[0]}};
    } else {
      one["type"] = name(q.kind);
      Json list = Json::object(), legend = Json::object();
      for (size_t o = 0; o < q.options.size(); ++o) {
        const std::string key = q.kind == QuestionKind::choice ? q.options[o].text : std::to_string(o);
        list[key] = a.probabilities[o];
        legend[key] = level_text(q.options[o]);
      }
      if (q.kind == QuestionKind::choice)
        one["choice"] = value_json(q.options[a.best]);
      else
        one["score"] = a.score, one["legend"] = std::move(legend);
      one["confidence"] = a.confidence;
      one["probabilities"] = std::move(list);
    }
    one["diagnostics"] = diagnostics_json(a);
    answers[q.name] = std::move(one);
  }
  Json all = {{"model", model}, {"answers", std::move(answers)}, {"usage", usage_json(result)}};
  if (request.options.joint) all["joint"] = {{"canvases", result.canvases}};
  add_warnings(request, result, all);
  return all;
}

std::string temperatures_text(const std::array<double, kQuestionKinds>& temperatures, const std::string& model,
                              const std::array<size_t, kQuestionKinds>& questions) {
  Json values, counts;
  for (size_t k = 0; k < kQuestionKinds; ++k) {
    values[std::string(name(static_cast<QuestionKind>(k)))] = temperatures[k];
    counts[std::string(name(static_cast<QuestionKind>(k)))] = questions[k];
  }
  return json_line({{"format", kTemperatures},
                    {"version", 1},
                    {"model", model},
                    {"temperatures", std::move(values)},
                    {"questions", std::move(counts)}});
}

Result<std::array<double, kQuestionKinds>> parse_temperatures(std::string_view text, const std::string& source) {
  LLADA_TRY(auto file, JsonFields::parse(text, source));
  LLADA_TRY_STATUS(file.head(kTemperatures, 1));
  if (const auto model = file.text("model"); !model) return std::unexpected(model.error());
  LLADA_TRY(auto values, file.object("temperatures"));
  LLADA_TRY(auto counts, file.object("questions"));
  std::array<double, kQuestionKinds> temperatures{};
  for (size_t k = 0; k < kQuestionKinds; ++k) {
    const std::string kind(name(static_cast<QuestionKind>(k)));
    LLADA_TRY(temperatures[k], values.real(kind.c_str(), 1e-3, 1e3));
    if (const auto count = counts.integer(kind.c_str(), 0, INT64_MAX); !count) return std::unexpected(count.error());
  }
  LLADA_TRY_STATUS(values.finish());
  LLADA_TRY_STATUS(counts.finish());
  LLADA_TRY_STATUS(file.finish());
  return temperatures;
}

Result<std::array<double, kQuestionKinds>> load_temperatures(const std::string& path) {
  LLADA_TRY(const std::string text, read_text_file(path));
  return parse_temperatures(text, path);
}

}  // namespace llada
