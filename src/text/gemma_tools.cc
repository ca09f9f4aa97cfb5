#include "text/gemma_tools.h"

#include <algorithm>

#include "json/parse.h"
#include "text/call_syntax.h"
#include "text/chat_writer.h"
#include "text/json_text.h"

namespace llada {
namespace {

const std::string kQuote(kGemmaQuote);

std::string upper_case(std::string text) {
  for (char& c : text)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return text;
}

// A type as Jinja's filter `upper` prints it: a list in Python's form.
std::string type_text(const Json& type) {
  if (type.is_null()) return "";
  if (!type.is_array()) return upper_case(type.is_string() ? type.get<std::string>() : type.dump());
  std::string out;
  for (const Json& item : type)
    out += (out.empty() ? "'" : ", '") + (item.is_string() ? item.get<std::string>() : item.dump()) + "'";
  return upper_case("[" + out + "]");
}

Json member(const Json& object, const char* name) {
  return object.is_object() && object.contains(name) ? object[name] : Json();
}

// Whether Python takes the value for true.
bool holds(const Json& value) {
  if (value.is_string()) return !value.get_ref<const std::string&>().empty();
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number()) return value != 0;
  return !value.empty();
}

std::string as_text(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

std::string quoted_list(const Json& names) {
  std::string out;
  for (const Json& name : names) out += (out.empty() ? "" : ",") + kQuote + as_text(name) + kQuote;
  return "[" + out + "]";
}

// As format_argument() of the templates has it there, names of members are quoted.
std::string argument(const Json& value) {
  std::string out;
  if (value.is_object()) {
    for (const auto& [key, item] : sorted_members(value))
      out += (out.empty() ? "" : ",") + kQuote + key + kQuote + ":" + argument(*item);
    return "{" + out + "}";
  }
  if (!value.is_array()) return spelled(value, CallForm::gemma);
  for (const Json& item : value) out += (out.empty() ? "" : ",") + argument(item);
  return "[" + out + "]";
}

std::string parameters_text(const Json& properties, bool only_others = false);

std::string items_text(const Json& items) {
  std::string out;
  for (const auto& [key, value] : sorted_members(items)) {
    if (value->is_null()) continue;
    if (!out.empty()) out += ',';
    if (key == "properties") {
      out += "properties:{" + parameters_text(*value) + "}";
    } else if (key == "required") {
      out += "required:" + quoted_list(*value);
    } else if (key == "type" && value->is_array()) {
      Json types = Json::array();
      for (const Json& type : *value) types.push_back(upper_case(as_text(type)));
      out += "type:" + argument(types);
    } else {
      out += key + ":" + (key == "type" ? argument(upper_case(as_text(*value))) : argument(*value));
    }
  }
  return out;
}

std::string parameter_text(const Json& value) {
  std::string out;
  const auto add = [&](const std::string& text) { out += (out.empty() ? "" : ",") + text; };
  const Json type = member(value, "type"), properties = member(value, "properties");
  const std::string kind = type_text(type);
  if (const Json description = member(value, "description"); holds(description))
    add("description:" + kQuote + as_text(description) + kQuote);
  if (const Json listed = member(value, "enum"); kind == "STRING" && holds(listed)) add("enum:" + argument(listed));
  if (const Json items = member(value, "items"); kind == "ARRAY" && items.is_object() && holds(items))
    add("items:{" + items_text(items) + "}");
  if (holds(member(value, "nullable"))) add("nullable:true");
  if (kind == "OBJECT") {
    const bool named = properties.is_object();
    add("properties:{" + parameters_text(named ? properties : value, !named) + "}");
    if (const Json required = member(value, "required"); holds(required)) add("required:" + quoted_list(required));
  }
  add("type:" + kQuote + kind + kQuote);
  return out;
}

// only_others: of an object without properties the templates show its other keywords as if they were some.
std::string parameters_text(const Json& properties, bool only_others) {
  constexpr std::string_view kStandard[] = {"description", "type", "properties", "required", "nullable"};
  std::string out;
  for (const auto& [key, value] : sorted_members(properties))
    if (!only_others || std::ranges::find(kStandard, key) == std::end(kStandard))
      out += (out.empty() ? "" : ",") + key + ":{" + parameter_text(*value) + "}";
  return out;
}

// The JSON of a function that is declared.
Json parsed(std::string_view text) {
  constexpr JsonLimits kLimits{.depth = 100, .values = 100'000, .run_bytes = size_t{1} << 24};
  auto read = parse_json_document(text, "", kLimits);
  return read ? std::move(read->root) : Json();
}

}  // namespace

void write_declaration(ChatWriter& out, std::string_view function) {
  const Json shown = parsed(function);
  std::string text = "declaration:" + as_text(member(shown, "name")) + "{description:" + kQuote;
  if (const Json description = member(shown, "description"); description.is_string())
    text += description.get<std::string>();
  text += kQuote;
  if (const Json parameters = member(shown, "parameters"); holds(parameters)) {
    text += ",parameters:{";
    if (const Json properties = member(parameters, "properties"); holds(properties))
      text += "properties:{" + parameters_text(properties) + "},";
    if (const Json required = member(parameters, "required"); holds(required))
      text += "required:" + quoted_list(required) + ",";
    // The templates close the parameters behind their type, and only there.
    if (const Json type = member(parameters, "type"); holds(type))
      text += "type:" + kQuote + type_text(type) + kQuote + "}";
  }
  out.control("<|tool>").marked(text + "}").control("<tool|>");
}

void write_call(ChatWriter& out, std::string_view name, std::string_view arguments) {
  out.control("<|tool_call>").text("call:").text(name);
  const size_t begin = std::min(arguments.find_first_not_of(" \t\r\n"), arguments.size());
  const bool object = arguments.substr(begin).starts_with('{');
  const auto spelled = object ? spelled_text(arguments, CallForm::gemma) : std::nullopt;
  if (spelled)
    out.marked(*spelled);
  else if (object)
    out.text(arguments);
  else
    out.text("{").text(arguments).text("}");
  out.control("<tool_call|>");
}

void write_response(ChatWriter& out, std::string_view name, std::string_view content) {
  out.control("<|tool_response>").text("response:").text(name).text("{value:");
  out.control("<|\"|>").text(content).control("<|\"|>").text("}").control("<tool_response|>");
}

std::string GemmaArguments::take(std::string& bytes) {
  std::string json;
  size_t at = 0;
  for (; at < bytes.size() && !complete(); ++at) read(bytes[at], json);
  bytes.erase(0, at);
  return json;
}

void GemmaArguments::close(std::string& json) {
  if (!open_.empty()) {
    json += open_.back() == '{' ? '}' : ']';
    open_.pop_back();
  }
  at_ = open_.empty() ? At::behind : At::after;
}

// A number, true, false or none; anything else, which no form lets pass, is a string.
void GemmaArguments::end_word(std::string& json) {
  if (word_ == "None")
    json += "null";
  else if (word_ == "true" || word_ == "false" || word_ == "null")
    json += word_;
  else if (is_json_number(word_))
    json += word_;
  else
    json += Json(word_).dump(-1, ' ', false, Json::error_handler_t::replace);
  word_.clear();
  at_ = At::after;
}

void GemmaArguments::read(char c, std::string& json) {
  const bool quote = c == kGemmaQuote[0];
  switch (at_) {
    case At::value:
      if (c == '{' || c == '[') {
        json += c;
        open_ += c;
        first_ = true;
        if (c == '{') at_ = At::key;
      } else if (c == '}' || c == ']') {
        if (!first_) json += "null";  // a value was begun, by a name or a comma
        close(json);
      } else if (quote) {
        json += '"';
        at_ = At::string;
      } else if (c != ' ' && c != ',') {
        word_ = c;
        at_ = At::word;
      }
      return;
    case At::key:
      if (c == '}' && word_.empty()) return close(json);
      if (quote) {
        at_ = At::quoted_key;
      } else if (c == ':') {
        if (!std::exchange(first_, false)) json += ", ";
        json += Json(std::exchange(word_, {})).dump(-1, ' ', false, Json::error_handler_t::replace) + ": ";
        at_ = At::value;
      } else if (!word_.empty() || (c != ' ' && c != ',')) {
        word_ += c;
      }
      return;
    case At::quoted_key:
      quote ? void(at_ = At::key) : void(word_ += c);
      return;
    case At::string: {
      if (quote) {
        json += '"';
        at_ = At::after;
      } else if (static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '\\') {
        const std::string escaped = Json(std::string(1, c)).dump();
        json += escaped.substr(1, escaped.size() - 2);
      } else {
        json += c;
      }
      return;
    }
    case At::word:
      if (c != ',' && c != '}' && c != ']') return void(word_ += c);
      end_word(json);
      [[fallthrough]];
    case At::after:
      if (c == '}' || c == ']') return close(json);
      if (c != ',') return;
      first_ = false;
      at_ = open_.ends_with('{') ? At::key : At::value;
      if (at_ == At::value) json += ", ";
      return;
    case At::behind:
      return;
  }
}

}  // namespace llada
