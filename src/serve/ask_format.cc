// The form of the answer as OpenAI's clients ask for it.
#include "decode/fields.h"
#include "serve/ask.h"
#include "text/utf8.h"

namespace llada::serve {

using nlohmann::json;

static constexpr int64_t kObjectLevels = 3;  // of json_object, which says no number

Done read_format(Body& body, const json& format) {
  const std::string name = "response_format";
  if (!format.is_object() || !format.value("type", json()).is_string())
    return wrong(name, format, "{\"type\": \"text\"}, json_object or json_schema");
  const auto type = format["type"].get<std::string>();
  if (type == "text") return {};
  if (type != "json_object" && type != "json_schema")
    return refuse(fmt::format("{}: found type {}, needed text, json_object or json_schema", name, in_quotes(type)),
                  name);
  const json* options = body.find("llada");
  json own = options == nullptr ? json::object() : *options;
  if (!own.is_object()) return {};  // refused by whoever reads it
  if (own.contains("json_schema") || own.contains("json_object"))
    return refuse(fmt::format("{}: llada says it too; needed one of the two", name), name);
  if (type == "json_object") {
    own["json_object"] = kObjectLevels;
  } else {
    LLADA_TRY(const auto schema, body.in_order({"response_format", "json_schema", "schema"}));
    if (!schema || !schema->is_object())
      return refuse(fmt::format("{}: needed json_schema.schema, a JSON schema", name), name);
    const std::string text = schema->dump();
    decode::DecodeOptions scratch;
    if (const Status read = set_field(scratch, "json_schema", text); !read)
      return refuse(fmt::format("{}.{}", name, read.error().message), name);
    own["json_schema"] = text;
  }
  body.put("llada", std::move(own));
  return {};
}

}  // namespace llada::serve
