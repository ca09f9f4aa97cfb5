// The form of the answer as each protocol's clients ask for it.
#include <algorithm>

#include "serve/protocols/reading.h"
#include "text/utf8.h"

namespace llada::serve {
namespace {

constexpr const char* kObjectLevels = "3";  // of json_object, which says no number

std::string path_text(const std::vector<std::string>& path) { return fmt::format("{}", fmt::join(path, ".")); }

// The value at a path; null: it is not there.
const Json* value_at(Fields& body, const std::vector<std::string>& path) {
  const Json* at = body.find(path.front());
  for (size_t i = 1; i < path.size() && at != nullptr; ++i) {
    const auto member = at->find(path[i]);  // the end, of what is no object
    at = member == at->end() || member->is_null() ? nullptr : &*member;
  }
  return at;
}

}  // namespace

FormWish object_form(const std::string& name) { return {name, "json_object", kObjectLevels, true, name}; }

// name: the field that asks for it, as errors have it. A schema may also be sent as its text.
Wished schema_form(const Fields& body, const std::string& name, const Json& schema, const std::string& where,
                   const Json& strict) {
  if (!schema.is_object() && !schema.is_string()) return wrong(where, schema, "a JSON schema");
  if (!strict.is_null() && !strict.is_boolean()) return wrong(where, strict, "strict: true or false");
  std::string text = schema.is_string() ? schema.get<std::string>() : body.text_of(schema);
  return FormWish{name, "json_schema", std::move(text), strict == true, where};
}

namespace {

Done check_members(const Json& object, const std::string& name, std::initializer_list<std::string_view> known) {
  for (const auto& [key, value] : object.items())
    if (!asks_nothing(value) && std::ranges::find(known, key) == known.end())
      return refuse(fmt::format("{}.{}: this field is not supported here", name, key), name + "." + key);
  return {};
}

}  // namespace

// An object with a type. OpenAI's chats have a schema in a member json_schema, its later protocol and Anthropic's have
// it beside the type, and so have llama-server's clients with either type.
Wished read_typed_form(Fields& body, const std::vector<std::string>& path, bool inside) {
  const Json* format = value_at(body, path);
  if (format == nullptr) return std::nullopt;
  const std::string name = path_text(path);
  if (!format->is_object() || !format->value("type", Json()).is_string())
    return wrong(name, *format, "{\"type\": \"text\"}, json_object or json_schema");
  const auto type = (*format)["type"].get<std::string>();
  if (type != "text" && type != "json_object" && type != "json_schema")
    return refuse(fmt::format("{}: found type {}, needed text, json_object or json_schema", name, in_quotes(type)),
                  name);
  const auto member = [](const Json& object, const char* key) {
    const auto found = object.find(key);
    return found == object.end() || found->is_null() ? nullptr : &*found;
  };
  const Json *schema = member(*format, "schema"), *described = format, *wrapped = member(*format, "json_schema");
  std::string where = name;
  if (type == "text") {
    LLADA_TRY_STATUS(check_members(*format, name, {"type"}));
    return std::nullopt;
  }
  if (inside && type == "json_schema") {
    LLADA_TRY_STATUS(check_members(*format, name, {"type", "schema", "json_schema"}));
    if (wrapped != nullptr) {
      if (!wrapped->is_object()) return wrong(name + ".json_schema", *wrapped, "an object with a schema");
      if (schema != nullptr)
        return refuse(fmt::format("{}: found schema and json_schema, needed one of the two", name), name);
      where += ".json_schema", described = wrapped, schema = member(*wrapped, "schema");
      LLADA_TRY_STATUS(check_members(*wrapped, where, {"name", "description", "schema", "strict"}));
    }
  } else {
    LLADA_TRY_STATUS(check_members(*format, name, {"type", "schema", "name", "description", "strict"}));
  }
  if (schema == nullptr && type == "json_object") return object_form(name);
  if (schema == nullptr)
    return refuse(fmt::format("{}: needed {}schema, a JSON schema", name, inside ? "json_schema." : ""), name);
  return schema_form(body, name, *schema, where + ".schema", described->value("strict", Json()));
}

namespace {

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
  const Json* object = body.find(name);
  if (object == nullptr) return wish;
  if (!object->is_object()) return wrong(name, *object, "an object with json, regex, choice or json_object");
  LLADA_TRY_STATUS(check_members(*object, name, {"json", "regex", "choice", "json_object"}));
  for (const auto& [kind, value] : object->items())
    LLADA_TRY_STATUS(add(kind, fmt::format("{}.{}", name, kind), value));
  return wish;
}

}  // namespace

Wished read_response_format(Fields& body) { return read_typed_form(body, {"response_format"}, true); }

Wished read_any_format(Fields& body) {
  LLADA_TRY(auto own, read_response_format(body));
  LLADA_TRY(auto other, others_wish(body));
  if (own && other)
    return refuse(fmt::format("{}: {} says it too; needed one of the two", other->name, own->name), other->name);
  return own ? own : other;
}

}  // namespace llada::serve
