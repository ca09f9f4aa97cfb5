// The form of the answer as each protocol's clients ask for it.
#include <algorithm>

#include "serve/protocols/reading.h"

namespace llada::serve {
namespace {

constexpr const char* kObjectLevels = "3";  // of json_object, which says no number

// A member may ask for nothing, whatever its name.
std::string unless_idle(const Fields&, const std::string&, const Json& value) {
  return asks_nothing(value) ? "" : "this field is not supported here";
}

// Texts of which the answer is one.
Wished choice_wish(const std::string& name, const Json& list) {
  const auto is_text = [](const Json& item) { return item.is_string(); };
  if (!list.is_array() || !std::ranges::all_of(list, is_text)) return wrong(name, list, "a list of texts");
  std::string text;
  for (const Json& item : list) {
    if (!text.empty()) text += '|';
    for (const char c : item.get_ref<const std::string&>()) {
      if (c == '|' || c == '\\') text += '\\';
      text += c;
    }
  }
  return FormWish{name, "choice", std::move(text), true, name};
}

Wished regex_wish(const std::string& name, const Json& value) {
  if (!value.is_string()) return wrong(name, value, "a regular expression");
  return FormWish{name, "regex", value.get<std::string>(), true, name};
}

// One kind of form under another program's name; name: what errors call it.
Wished kind_wish(const Fields& body, std::string_view kind, const std::string& name, const Json& value) {
  if (kind == "choice") return choice_wish(name, value);
  if (kind == "regex") return regex_wish(name, value);
  if (kind == "json") return schema_form(body, name, value, name);
  if (value != true) return wrong(name, value, "true or false");
  return object_form(name);
}

// Fields of vLLM's, SGLang's and llama-server's clients.
Wished others_wish(Fields& body) {
  constexpr std::pair<const char*, const char*> kFields[] = {{"guided_json", "json"},
                                                             {"guided_choice", "choice"},
                                                             {"guided_regex", "regex"},
                                                             {"json_schema", "json"},
                                                             {"regex", "regex"}};
  std::optional<FormWish> wish;
  const auto add = [&](std::string_view kind, const std::string& name, const Json& value) -> Done {
    if (asks_nothing(value)) return {};
    if (wish) return refuse(fmt::format("{}: {} says it too; needed one of the two", name, wish->name), name);
    LLADA_TRY(wish, kind_wish(body, kind, name, value));
    return {};
  };
  for (const auto& [name, kind] : kFields)
    if (const Json* value = body.find(name)) LLADA_TRY_STATUS(add(kind, name, *value));
  const std::string name = "structured_outputs";
  if (!body.has(name)) return wish;
  LLADA_TRY(Fields object, body.object(name));
  object.object_by(unless_idle);
  for (const char* kind : {"json", "regex", "choice", "json_object"})
    if (const Json* value = object.find(kind)) LLADA_TRY_STATUS(add(kind, object.path(kind), *value));
  LLADA_TRY_STATUS(object.finish());
  return wish;
}

}  // namespace

FormWish object_form(const std::string& name) { return {name, "json_object", kObjectLevels, true, name}; }

// name: the field that asks for it, as errors have it. A schema may also be sent as its text.
Wished schema_form(const Fields& body, const std::string& name, const Json& schema, const std::string& where,
                   bool strict) {
  if (!schema.is_object() && !schema.is_string()) return wrong(where, schema, "a JSON schema");
  std::string text = schema.is_string() ? schema.get<std::string>() : body.text_of(schema);
  return FormWish{name, "json_schema", std::move(text), strict, where};
}

// An object with a type at a path. OpenAI's chats have a schema in a member json_schema, its later protocol and
// Anthropic's have it beside the type, and so have llama-server's clients with either type.
Wished read_typed_form(Fields& body, std::initializer_list<const char*> path, bool inside) {
  body.find(*path.begin());  // counts as read
  Fields format = body;
  for (const char* member : path) {
    if (!format.has(member)) return std::nullopt;
    LLADA_TRY(format, format.object(member));
  }
  format.object_by(unless_idle);
  const std::string name = format.path("");
  LLADA_TRY(const std::string type, format.text("type"));
  if (type == "text") {
    LLADA_TRY_STATUS(format.finish());
    return std::nullopt;
  }
  const bool is_object = type == "json_object";
  if (!is_object && type != "json_schema") return wrong(name + ".type", type, "text, json_object or json_schema");
  Fields described = format;
  if (inside && !is_object && format.has("json_schema")) {
    if (format.has("schema"))
      return refuse(fmt::format("{}: found schema and json_schema, needed one of the two", name), name);
    LLADA_TRY_STATUS(format.finish());
    LLADA_TRY(described, format.object("json_schema"));
    described.object_by(unless_idle);
  }
  described.ignore({"name", "description"});
  const Json* schema = described.find("schema");
  LLADA_TRY(const bool strict, described.boolean("strict", false));
  LLADA_TRY_STATUS(described.finish());
  if (schema == nullptr && is_object) return object_form(name);
  if (schema == nullptr)
    return refuse(fmt::format("{}: needed {}schema, a JSON schema", name, inside ? "json_schema." : ""), name);
  return schema_form(body, name, *schema, described.path("schema"), strict);
}

Wished read_response_format(Fields& body) { return read_typed_form(body, {"response_format"}, true); }

Wished read_any_format(Fields& body) {
  LLADA_TRY(auto own, read_response_format(body));
  LLADA_TRY(auto other, others_wish(body));
  if (own && other)
    return refuse(fmt::format("{}: {} says it too; needed one of the two", other->name, own->name), other->name);
  return own ? own : other;
}

}  // namespace llada::serve
