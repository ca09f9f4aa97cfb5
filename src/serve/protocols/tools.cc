// Tools of a request are read and used (reading.h).
#include <algorithm>
#include <set>
#include <utility>

#include "decode/form_options.h"
#include "formats/printable.h"
#include "serve/protocols/reading.h"
#include "text/json_text.h"
#include "text/tool_calls.h"
#include "text/utf8.h"

namespace llada::serve {
namespace {

struct Tool {
  std::string name;
  Json shown, called;  // to the model; name and parameters
};

// Whether a function stands inside its tool, as in chats, or its members beside the type.
bool inside(const Dialect& dialect) { return dialect.calls == Calls::in_messages; }

std::unexpected<ApiError> too_many(const char* field, size_t found) {
  return refuse(fmt::format("{}: found {} tools, needed {} at most", field, found, kMostTools), field);
}

// Members of a tool or its function that say nothing to a model here.
bool is_idle(std::string_view member) {
  constexpr std::string_view kIdle[] = {"type",           "strict",        "cache_control", "eager_input_streaming",
                                        "input_examples", "defer_loading", "output_schema"};
  return std::ranges::find(kIdle, member) != std::end(kIdle);
}

// What has no properties is an object without members, as clients mean it; not any object.
bool has_no_properties(const Json& schema) {
  constexpr std::string_view kNotes[] = {"title", "description", "$schema"};
  for (const auto& [key, value] : schema.items())
    if (key == "type" ? value != "object" : std::ranges::find(kNotes, key) == std::end(kNotes)) return false;
  return true;
}

// A function, wherever it stands: chats have it inside its tool, the newer protocols have its members beside the type.
Answered<Tool> read_function(const Json& function, const std::string& where, const char* parameters, bool strict) {
  if (!function.is_object()) return wrong(where, function, "an object with name and " + std::string(parameters));
  const Json &name = member(function, "name"), &description = member(function, "description"),
             &schema = member(function, parameters), &fits = member(function, "strict");
  if (!name.is_string() || !is_tool_name(name.get_ref<const std::string&>()))
    return wrong(where + ".name", name, fmt::format("1 to {} letters, digits, _, -, ., : and /", kMostToolName));
  if (!description.is_null() && !description.is_string()) return wrong(where + ".description", description, "a text");
  if (!schema.is_null() && !schema.is_object())
    return wrong(fmt::format("{}.{}", where, parameters), schema, "a JSON schema");
  if (!fits.is_null() && !fits.is_boolean()) return wrong(where + ".strict", fits, "true or false");
  for (const auto& [key, value] : function.items())
    if (key != "name" && key != "description" && key != parameters && !asks_nothing(value) && !is_idle(key))
      return unsupported(fmt::format("{}.{}", where, key));
  Tool tool{.name = name.get<std::string>(), .shown = Json::object(), .called = {{"name", name}}};
  // In the order in which they stand, as templates show them.
  for (const auto& [key, value] : function.items())
    if (!value.is_null() && !is_idle(key)) tool.shown[key == parameters ? "parameters" : key] = value;
  if (!schema.is_null()) tool.called["parameters"] = schema;
  tool.called["where"] = fmt::format("{}.{}", where, parameters);
  // An absent strict is true in /v1/responses, and false elsewhere.
  if (fits.is_null() ? !strict : fits == false) tool.called["loose"] = true;
  if (schema.is_object() && has_no_properties(schema))
    tool.called["parameters"] = {{"type", "object"}, {"properties", Json::object()}};
  return tool;
}

Answered<std::vector<Tool>> read_list(Fields& body, const Dialect& dialect) {
  const Json* list = body.find("tools");
  if (!list->is_array()) return wrong("tools", *list, "a list of functions");
  if (list->size() > kMostTools) return too_many("tools", list->size());
  std::vector<Tool> tools;
  std::set<std::string> names;
  for (const Json& item : *list) {
    const std::string where = fmt::format("tools[{}]", tools.size());
    const Json& type = member(item, "type");
    const bool anthropic = dialect.calls == Calls::blocks;
    const char* kind = anthropic ? "custom" : "function";
    if (!(anthropic && type.is_null()) && type != kind)
      return wrong(where + ".type", type, fmt::format("{}: this server has no tools of its own", kind));
    const Json& function = inside(dialect) ? member(item, "function") : item;
    LLADA_TRY(Tool tool, read_function(function, inside(dialect) ? where + ".function" : where,
                                       anthropic ? "input_schema" : "parameters", dialect.calls == Calls::items));
    if (!names.insert(tool.name).second)
      return refuse(fmt::format("{}: found the name {} a second time", where, tool.name), where);
    tools.push_back(std::move(tool));
  }
  return tools;
}

struct Choice {
  std::string mode = "auto";           // none, auto, required
  std::vector<std::string> only = {};  // which may be called; none: all
  bool one = false;                    // call at most
};

Answered<Choice> read_choice(Fields& body, const Dialect& dialect) {
  const bool anthropic = dialect.calls == Calls::blocks;
  Choice choice;
  const Json* value = body.find("tool_choice");
  if (!anthropic) {
    LLADA_TRY(const bool parallel, body.boolean("parallel_tool_calls", true));
    choice.one = !parallel;
  }
  if (value == nullptr) return choice;
  const char* needed =
      anthropic ? "a type: auto, any, none, or tool with a name" : "none, auto, required, or a function with its name";
  const Json type = anthropic || value->is_object() ? member(*value, "type") : *value;
  const auto name_of = [&](const Json& item) {
    const Json& name = member(inside(dialect) ? member(item, "function") : item, "name");
    return name.is_string() ? name.get<std::string>() : "";
  };
  if (anthropic) choice.one = member(*value, "disable_parallel_tool_use") == true;
  if (type == "none" || type == "auto" || type == "required" || type == "any") {
    choice.mode = type == "any" ? "required" : type.get<std::string>();
    return choice;
  }
  if (type == "allowed_tools" && !anthropic) {
    const Json allowed = inside(dialect) ? member(*value, "allowed_tools") : *value;
    choice.mode = member(allowed, "mode") == "required" ? "required" : "auto";
    const Json& listed = member(allowed, "tools");
    if (listed.size() > kMostTools) return too_many("tool_choice", listed.size());
    for (const Json& item : listed) choice.only.push_back(name_of(item));
    if (choice.only.empty()) return wrong("tool_choice", *value, "allowed_tools with a list of tools");
    return choice;
  }
  if (type != (anthropic ? "tool" : "function") || name_of(*value).empty()) return wrong("tool_choice", *value, needed);
  choice.mode = "required", choice.only = {name_of(*value)}, choice.one = true;
  return choice;
}

}  // namespace

Answered<ToolUse> read_tools(Fields& body, const Dialect& dialect) {
  const Json* given = body.find("tools");
  LLADA_TRY(const Choice choice, read_choice(body, dialect));
  ToolUse use;
  if (given == nullptr || (given->is_array() && given->empty())) {
    if (choice.mode == "required") return wrong("tool_choice", *body.find("tool_choice"), "tools beside it");
    return use;
  }
  if (choice.mode == "none") return use;
  LLADA_TRY(const std::vector<Tool> tools, read_list(body, dialect));
  Json called = Json::array();
  for (const Tool& tool : tools) {
    use.functions.push_back(spelled(tool.shown));
    if (choice.only.empty() || std::ranges::count(choice.only, tool.name) > 0) called.push_back(tool.called);
  }
  for (const std::string& name : choice.only)
    if (std::ranges::count(tools, name, &Tool::name) == 0)
      return refuse(fmt::format("tool_choice: found {}, which is no name of a tool", in_quotes(name)), "tool_choice");
  use.list = called.dump();
  use.must_call = choice.mode == "required";
  use.most = choice.one ? 1 : 0;
  return use;
}

Done use_tools(Service& service, const ToolUse& use, Ask& ask, Decoding& decoding, std::vector<ChatMessage>& messages,
               std::vector<std::string>& stop) {
  if (use.functions.empty()) return {};
  if (ask.watch == Watch::replace)
    return refuse("diffusing: found true beside tools, needed false or \"frames\"", "diffusing");
  decode::LateReading late;
  const auto dropped = decode::set_tools(decoding.choice.options, use.list, use.must_call, use.most,
                                         service.model().chat_format().calls, &late);
  if (!dropped) return refuse(dropped.error().message, "tools");
  if (late) decoding.late.emplace_back("tools", std::move(late));
  for (const std::string& line : *dropped) LLADA_TRY_STATUS(add_warning(service, ask, printable(line, 300)));
  show_tools(service.model().chat_format(), use.functions, messages);
  ask.calls = true;
  ask.stop = std::exchange(stop, {});
  return {};
}

}  // namespace llada::serve
