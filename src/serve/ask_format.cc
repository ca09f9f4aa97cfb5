// The form of the answer as each protocol's clients ask for it.
#include "decode/fields.h"
#include "serve/ask.h"
#include "text/utf8.h"

namespace llada::serve {

using nlohmann::json;

namespace {

constexpr int64_t kObjectLevels = 3;  // of json_object, which says no number

// The value at a path; null: it is not there.
const json* value_at(Body& body, const std::vector<std::string>& path) {
  const json* at = body.find(path.front());
  for (size_t i = 1; i < path.size() && at != nullptr; ++i) {
    const auto member = at->find(path[i]);  // the end, of what is no object
    at = member == at->end() || member->is_null() ? nullptr : &*member;
  }
  return at;
}

Done put_option(Body& body, const std::string& name, const char* key, json value) {
  const json* options = body.find("llada");
  json own = options == nullptr ? json::object() : *options;
  if (!own.is_object()) return {};  // refused by whoever reads it
  if (own.contains("json_schema") || own.contains("json_object"))
    return refuse(fmt::format("{}: llada says it too; needed one of the two", name), name);
  own[key] = std::move(value);
  body.put("llada", std::move(own));
  return {};
}

// The schema at the path, whose members keep their order.
Done put_schema(Body& body, const std::string& name, const std::vector<std::string>& path) {
  LLADA_TRY(const auto schema, body.in_order(path));
  if (!schema || !schema->is_object()) {
    const std::string inside = fmt::format("{}", fmt::join(path, ".")).substr(name.size());
    return refuse(fmt::format("{}: needed {}{}a JSON schema", name, inside.empty() ? "" : inside.substr(1),
                              inside.empty() ? "" : ", "),
                  name);
  }
  const std::string text = schema->dump();
  decode::DecodeOptions scratch;
  if (const Status read = set_field(scratch, "json_schema", text); !read)
    return refuse(fmt::format("{}.{}", name, read.error().message), name);
  return put_option(body, name, "json_schema", text);
}

// An object with a type. schema: where a json_schema's stands below it.
Done read_typed(Body& body, std::vector<std::string> path, std::initializer_list<const char*> schema) {
  const json* format = value_at(body, path);
  if (format == nullptr) return {};
  const std::string name = fmt::format("{}", fmt::join(path, "."));
  if (!format->is_object() || !format->value("type", json()).is_string())
    return wrong(name, *format, "{\"type\": \"text\"}, json_object or json_schema");
  const auto type = (*format)["type"].get<std::string>();
  if (type == "text") return {};
  if (type == "json_object") return put_option(body, name, "json_object", kObjectLevels);
  if (type != "json_schema")
    return refuse(fmt::format("{}: found type {}, needed text, json_object or json_schema", name, in_quotes(type)),
                  name);
  path.insert(path.end(), schema.begin(), schema.end());
  return put_schema(body, name, path);
}

}  // namespace

Done read_format(Body& body, Shape shape) {
  switch (shape) {
    case Shape::chat:
    case Shape::completion:
    case Shape::fim:
      return read_typed(body, {"response_format"}, {"json_schema", "schema"});
    case Shape::response:
      return read_typed(body, {"text", "format"}, {"schema"});
    case Shape::message:
      LLADA_TRY_STATUS(read_typed(body, {"output_format"}, {"schema"}));
      return read_typed(body, {"output_config", "format"}, {"schema"});
    case Shape::ollama_chat:
    case Shape::ollama_text: {
      const json* format = body.find("format");
      if (format == nullptr || *format == "") return {};
      if (*format == "json") return put_option(body, "format", "json_object", kObjectLevels);
      if (!format->is_object()) return wrong("format", *format, "\"json\" or a JSON schema");
      return put_schema(body, "format", {"format"});
    }
    case Shape::llama:
      return body.find("json_schema") == nullptr ? Done() : put_schema(body, "json_schema", {"json_schema"});
    case Shape::infill:
      return {};
  }
  return {};
}

}  // namespace llada::serve
