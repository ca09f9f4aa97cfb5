// /openapi.json: the server's description of itself, for clients that are made from it and for programs that test it.
// The bodies of requests stand in openapi.json; the routes, the decoding options and the most answers come from the
// program. Fields that are accepted and change nothing are not listed.
#include <cmath>

#include "decode/fields.h"
#include "engine/decode_preset.h"
#include "serve/protocols/adapter.h"
#include "serve/protocols/page.h"

namespace llada::serve {
namespace {

Json reference(const char* name) { return {{"$ref", std::string("#/components/schemas/") + name}}; }

Json option_schema(const decode::Field& field) {
  Json schema;
  if (field.is_switch()) {
    schema["type"] = "boolean";
  } else if (!field.words.empty()) {
    schema = {{"type", "string"}, {"enum", field.words}};
  } else if (field.key == "latency_table" || field.text) {
    schema["type"] = "string";
  } else {
    schema["type"] = field.unit == "N" ? "integer" : "number";
    if (std::isfinite(field.range.least))
      schema[field.range.above_least ? "exclusiveMinimum" : "minimum"] = field.range.least;
    if (std::isfinite(field.range.most))
      schema[field.range.below_most ? "exclusiveMaximum" : "maximum"] = field.range.most;
    if (!field.word.empty()) {
      schema = {{"anyOf", {schema, {{"const", field.word}}}}};
      if (!field.second_word.empty()) schema["anyOf"].push_back({{"const", field.second_word}});
    }
  }
  schema["description"] = field.help;
  return schema;
}

Json options_schema() {
  Json properties = {{"preset", {{"type", "string"}, {"enum", decode_presets()}}}};
  for (const decode::Field& field : decode::fields()) properties[std::string(field.key)] = option_schema(field);
  return {{"type", "object"},
          {"properties", std::move(properties)},
          {"required", Json::array()},
          {"additionalProperties", false}};
}

// The file with the most answers of one request in its places, and with the fields that all routes read which decode.
Json schemas(int64_t most) {
  constexpr std::string_view kPlace = "\"@most@\"";
  std::string text(openapi_schemas());
  for (size_t at = text.find(kPlace); at != std::string::npos; at = text.find(kPlace, at))
    text.replace(at, kPlace.size(), std::to_string(most));
  Json all = parse_json_object(text, "openapi", kOwnJson).value();
  Json& bodies = all["bodies"];
  for (Json* schema :
       {&all["schemas"]["Chat"], &all["schemas"]["Completion"], &bodies["/v1/fim/completions"], &bodies["/infill"]}) {
    Json properties = all["decoding"];
    properties.update((*schema)["properties"]);
    (*schema)["properties"] = std::move(properties);
  }
  for (const char* length : {"max_tokens", "max_completion_tokens"}) bodies["/infill"]["properties"].erase(length);
  all["schemas"]["Options"] = options_schema();
  return all;
}

std::string method_of(const Route& route) {
  return route.method == "POST" ? "post" : route.method == "DELETE" ? "delete" : "get";
}

Json operation_of(const Route& route, const Json& bodies) {
  const std::string path(route.path);
  const bool post = route.method == "POST" && !path.ends_with("/cancel");
  const Json anything = {{"schema", Json::object()}};
  const char* given = path == "/"                  ? "text/html"
                      : path == "/metrics"         ? "text/plain"
                      : path.ends_with("/content") ? "application/octet-stream"
                                                   : "application/json";
  Json answer = {{given, anything}};
  if (route.streams) answer[path.starts_with("/api/") ? "application/x-ndjson" : "text/event-stream"] = anything;
  Json operation = {{"operationId", method_of(route) + " " + path},
                    {"responses",
                     {{"200", {{"description", "the answer"}, {"content", std::move(answer)}}},
                      {"default",
                       {{"description", "a refusal or an error"},
                        {"content", {{"application/json", {{"schema", reference("Error")}}}}}}}}}};
  const char* type = path == "/v1/files" ? "multipart/form-data" : "application/json";
  if (post) operation["requestBody"] = {{"required", true}, {"content", {{type, {{"schema", bodies.at(path)}}}}}};
  if (path.contains(kPathId))
    operation["parameters"] =
        Json::array({{{"name", "id"}, {"in", "path"}, {"required", true}, {"schema", {{"type", "string"}}}}});
  return operation;
}

HttpReply openapi(Service& service, const HttpRequest&) {
  Json all = schemas(most_answers(service));
  Json paths = Json::object();
  for (const Route& route : routes())
    paths[std::string(route.path)][method_of(route)] = operation_of(route, all["bodies"]);
  return json_reply({{"openapi", "3.1.0"},
                     {"info", {{"title", "llada serve"}, {"version", "1"}}},
                     {"paths", std::move(paths)},
                     {"components", {{"schemas", std::move(all["schemas"])}}}});
}

}  // namespace

Protocol openapi_protocol() {
  static constexpr Route kRoutes[] = {{"GET", "/openapi.json", get<openapi>, false, true}};
  return {kRoutes};
}

}  // namespace llada::serve
