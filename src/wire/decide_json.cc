#include "wire/decide_json.h"

#include <set>

#include "json/fields.h"
#include "json/lines.h"
#include "text/text_file.h"

namespace llada {
namespace {

constexpr std::string_view kTemperatures = "llada-decide-temperatures";

std::string any_text(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// A string, or a list of parts.
Result<std::string> content_text(const Fields& fields, const char* name) {
  constexpr const char* kNeeded = "a string or a list of parts";
  const Json* content = fields.find(name);
  if (content != nullptr && content->is_string()) return content->get<std::string>();
  if (content == nullptr || !content->is_array()) return fields.unfit(name, kNeeded);
  LLADA_TRY(const auto parts, fields.objects(name));
  std::string text;
  for (const Fields& part : parts) {
    LLADA_TRY(const std::string type, part.text("type"));
    if (type != "input_json" && type != "refusal" && type != "input_text" && type != "output_text")
      return part.wrong("type", type, "input_text, input_json, output_text or refusal");
    if (!text.empty()) text += '\n';
    if (type != "input_json") {
      LLADA_TRY(const std::string words, part.text(type == "refusal" ? "refusal" : "text"));
      text += words;
    } else if (const Json* data = part.find("data"); data != nullptr && data->is_structured()) {
      text += any_text(*data);
    } else {
      return part.unfit("data", "an object or a list of objects");
    }
  }
  return text;
}

// An entry of a conversation, as it is read to the model. calls: ids of tool calls so far.
Result<std::string> entry_text(const Fields& entry, std::set<std::string>& calls) {
  LLADA_TRY(const std::string type, entry.text("type", "message"));
  if (type == "message") {
    LLADA_TRY(const std::string role, entry.text("role"));
    if (role != "user" && role != "assistant" && role != "system" && role != "developer")
      return entry.wrong("role", role, "user, assistant, system or developer");
    LLADA_TRY(const std::string text, content_text(entry, "content"));
    return role + ": " + text;
  }
  LLADA_TRY(const std::string id, entry.text("call_id"));
  if (type == "function_call" || type == "custom_tool_call") {
    LLADA_TRY(const std::string name, entry.text("name"));
    LLADA_TRY(const std::string input, entry.text(type == "function_call" ? "arguments" : "input"));
    calls.insert(id);
    return fmt::format("call of {}: {}", name, input);
  }
  if (type != "function_call_output" && type != "custom_tool_call_output")
    return entry.wrong("type", type,
                       "message, function_call, function_call_output, custom_tool_call or custom_tool_call_output");
  if (!calls.contains(id)) return entry.wrong("call_id", id, "that of a call before it");
  LLADA_TRY(const std::string output, content_text(entry, "output"));
  return "result: " + output;
}

// A string, or a conversation as lines "role: text"; tool calls and their outputs stand there, too.
Result<std::string> input_text(const Fields& body) {
  constexpr const char *kName = "input", *kNeeded = "a string or a list of messages";
  const Json* input = body.find(kName);
  if (input != nullptr && input->is_string()) return input->get<std::string>();
  if (input == nullptr || !input->is_array()) return body.unfit(kName, kNeeded);
  LLADA_TRY(const auto entries, body.objects(kName));
  std::set<std::string> calls;
  std::string text;
  for (const Fields& entry : entries) {
    LLADA_TRY(const std::string one, entry_text(entry, calls));
    if (!text.empty()) text += "\n\n";
    text += one;
  }
  return text;
}

Result<std::vector<DecideOption>> option_list(const Fields& question, const char* name, const char* value_name,
                                              bool booleans) {
  LLADA_TRY(const auto entries, question.objects(name));
  std::vector<DecideOption> options;
  for (const Fields& entry : entries) {
    const Json* const value = entry.find(value_name);
    if (value == nullptr || !(value->is_string() || (booleans && value->is_boolean())))
      return entry.unfit(value_name, booleans ? "a string, true or false" : "a string");
    LLADA_TRY(const std::string description, entry.text("description", ""));
    LLADA_TRY_STATUS(entry.finish());
    options.push_back({any_text(*value), description, value->is_boolean()});
  }
  return options;
}

Status read_settings(const Fields& body, DecideOptions& options) {
  if (!body.has("llada")) return {};
  LLADA_TRY(const Fields given, body.object("llada"));
  LLADA_TRY(const std::string labels, given.text("labels", "letters"));
  if (labels != "letters" && labels != "values") return given.wrong("labels", labels, "letters or values");
  if (labels == "values") options.labels = DecideLabels::values;
  LLADA_TRY(options.rotations, given.integer("rotations", 1, kMostRotations, options.rotations));
  LLADA_TRY(options.samples, given.integer("samples", 1, kMostSamples, options.samples));
  LLADA_TRY(options.joint, given.boolean("joint", options.joint));
  return given.finish();
}

// Criteria of a question of /v1/systemone.
Result<std::vector<DecideOption>> criteria_options(const Fields& question, QuestionKind kind) {
  std::vector<DecideOption> options;
  if (kind == QuestionKind::score) {
    LLADA_TRY(const Json* levels, question.list("criteria"));
    for (const Json& level : *levels) options.push_back({any_text(level)});
    return options;
  }
  if (kind == QuestionKind::predicate && !question.has("criteria")) return options;
  LLADA_TRY(const Fields criteria, question.object("criteria"));
  const auto meaning = [](const Json* value) {
    return value == nullptr || value->is_null() ? std::string() : any_text(*value);
  };
  if (kind == QuestionKind::predicate) {
    for (const char* value : {"true", "false"}) options.push_back({value, meaning(criteria.find(value))});
    LLADA_TRY_STATUS(criteria.finish());
    return options;
  }
  for (const auto& [value, description] : criteria.all().items()) options.push_back({value, meaning(&description)});
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

Json answer_json(const DecideQuestion& q, const DecideAnswer& a, bool system_one) {
  const bool predicate = q.kind == QuestionKind::predicate, choice = q.kind == QuestionKind::choice;
  Json one = {{"type", system_one && predicate ? "noul" : name(q.kind)}};
  if (!system_one) one["name"] = q.name.empty() ? Json() : Json(q.name);
  if (predicate) {
    one[system_one ? "noul" : "probability"] = a.probabilities[0];
  } else {
    Json list = system_one ? Json::object() : Json::array(), legend = Json::object();
    for (size_t o = 0; o < q.options.size(); ++o) {
      const DecideOption& option = q.options[o];
      const Json probability = a.probabilities[o];
      if (system_one) {
        const std::string key = choice ? option.text : std::to_string(o);
        list[key] = probability, legend[key] = level_text(option);
      } else if (choice) {
        list.push_back({{"value", value_json(option)}, {"probability", probability}});
      } else {
        list.push_back({{"label", option.text}, {"value", o}, {"probability", probability}});
      }
    }
    one[choice ? "choice" : "score"] = choice ? value_json(q.options[a.best]) : Json(a.score);
    if (system_one && !choice) one["legend"] = std::move(legend);
    one["confidence"] = a.confidence;
    one["probabilities"] = std::move(list);
  }
  one["diagnostics"] = {{"label_mass", a.label_mass}, {"argmax_is_label", a.best_is_label}};
  return one;
}

}  // namespace

Result<DecideQuestion> parse_question(const Fields& question) {
  LLADA_TRY(const std::string type, question.text("type"));
  DecideQuestion read;
  LLADA_TRY(read.name, question.text("name", ""));
  LLADA_TRY(read.instructions, content_text(question, "instructions"));
  if (type == "choice") {
    read.kind = QuestionKind::choice;
    LLADA_TRY(read.options, option_list(question, "choices", "value", true));
  } else if (type == "score") {
    read.kind = QuestionKind::score;
    LLADA_TRY(read.options, option_list(question, "levels", "label", false));
  } else if (type != "predicate") {
    return question.wrong("type", type, "predicate, choice or score");
  }
  return read;
}

Result<DecideRequest> parse_decisions(const Fields& body) {
  DecideRequest request;
  LLADA_TRY(request.state, input_text(body));
  LLADA_TRY(const auto questions, body.objects("questions"));
  for (const Fields& given : questions) {
    LLADA_TRY(auto question, parse_question(given));
    LLADA_TRY_STATUS(given.finish());
    request.questions.push_back(std::move(question));
  }
  LLADA_TRY_STATUS(read_settings(body, request.options));
  LLADA_TRY_STATUS(check_decide(request));
  return request;
}

Result<DecideRequest> parse_systemone(const Fields& body) {
  DecideRequest request{.system_one = true};
  const Json* state = body.find("state");
  if (!body.all().contains("state")) return body.unfit("state", "a string or any JSON value");
  request.state = any_text(state == nullptr ? Json() : *state);
  if (const Json* const common = body.find("instructions")) {
    if (!request.state.empty()) request.state += "\n\n";
    request.state += any_text(*common);
  }
  LLADA_TRY(const Fields questions, body.object("questions"));
  for (const auto& [id, value] : questions.all().items()) {
    LLADA_TRY(const Fields question, Fields::of(value, questions.source(), questions.path(id)));
    LLADA_TRY(const std::string type, question.text("type"));
    DecideQuestion read{.kind = QuestionKind::predicate, .instructions = {}, .name = id};
    if (type == "choice" || type == "score") {
      read.kind = type == "choice" ? QuestionKind::choice : QuestionKind::score;
    } else if (type != "noul") {
      return question.wrong("type", type, "noul, choice or score");
    }
    if (const Json* const instructions = question.find("instructions")) read.instructions = any_text(*instructions);
    LLADA_TRY(read.options, criteria_options(question, read.kind));
    LLADA_TRY_STATUS(question.finish());
    if (read.kind == QuestionKind::predicate && read.instructions.empty() && read.options.empty())
      return questions.fault(id, "found neither instructions nor criteria, needed one");
    request.questions.push_back(std::move(read));
  }
  LLADA_TRY_STATUS(read_settings(body, request.options));
  LLADA_TRY(request.options.samples, body.integer("samples", 1, kMostSamples, request.options.samples));
  LLADA_TRY(request.options.joint, body.boolean("joint", request.options.joint));
  LLADA_TRY_STATUS(check_decide(request));
  return request;
}

Result<DecideRequest> parse_decide(const Fields& body) {
  return body.all().contains("state") ? parse_systemone(body) : parse_decisions(body);
}

Result<DecideRequest> read_decide(std::string_view text, const std::string& source) {
  // A request of 400 questions with 255 options each.
  constexpr JsonLimits kRequestLimits{.depth = 64, .values = size_t{1} << 20, .run_bytes = size_t{1} << 26};
  LLADA_TRY(JsonDocument body, parse_ordered_object(text, source, kRequestLimits));
  auto request = parse_decide(Fields(std::move(body), ""));
  if (!request) return invalid("{}: {}", source, request.error().message);
  return request;
}

Json decide_json(const DecideRequest& request, const DecideResult& result, const std::string& model) {
  Json answers = request.system_one ? Json::object() : Json::array(), all = Json::object();
  for (size_t i = 0; i < result.answers.size(); ++i) {
    const DecideQuestion& question = request.questions[i];
    Json one = answer_json(question, result.answers[i], request.system_one);
    request.system_one ? void(answers[question.name] = std::move(one)) : answers.push_back(std::move(one));
  }
  if (!request.system_one) all["object"] = "decision";
  all.update({{"model", model}, {"answers", std::move(answers)}, {"usage", usage_json(result)}});
  if (request.system_one && request.options.joint) all["joint"] = {{"canvases", result.canvases}};
  add_warnings(request, result, all);
  return all;
}

std::string decide_text(const DecideRequest& request, const DecideResult& result, const std::string& model) {
  return json_line(decide_json(request, result, model));
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
  LLADA_TRY(auto file, Fields::parse(text, source));
  LLADA_TRY_STATUS(file.head(kTemperatures, 1));
  if (const auto model = file.text("model"); !model) return std::unexpected(model.error());
  LLADA_TRY(auto values, file.object("temperatures"));
  LLADA_TRY(auto counts, file.object("questions"));
  std::array<double, kQuestionKinds> temperatures{};
  for (size_t k = 0; k < kQuestionKinds; ++k) {
    const std::string kind(name(static_cast<QuestionKind>(k)));
    LLADA_TRY(temperatures[k], values.real(kind, 1e-3, 1e3));
    if (const auto count = counts.integer(kind, 0, INT64_MAX); !count) return std::unexpected(count.error());
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
