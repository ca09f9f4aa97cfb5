// /openapi.json: the server's description of itself, for clients that are made from it and for programs that test it.
// Fields that are accepted and change nothing are not listed. The decoding options come from their one list.
#include <array>
#include <cmath>

#include "decode/fields.h"
#include "engine/decode_preset.h"
#include "serve/ask.h"
#include "serve/routes.h"

namespace llada::serve {
namespace {

Json reference(const std::string& name) { return {{"$ref", "#/components/schemas/" + name}}; }
Json string_schema() { return {{"type", "string"}}; }
Json list_of(Json items) { return {{"type", "array"}, {"items", std::move(items)}}; }
Json boolean_schema() { return {{"type", "boolean"}}; }
Json integer_schema(int64_t least) { return {{"type", "integer"}, {"minimum", least}}; }

Json at_most(const char* keyword, int64_t most, Json schema) {
  schema[keyword] = most;
  return schema;
}

Json object_schema(Json properties, Json required = Json::array()) {
  return {{"type", "object"}, {"properties", std::move(properties)}, {"required", std::move(required)}};
}

Json option_schema(const decode::Field& field) {
  Json schema;
  if (field.is_switch()) {
    schema = boolean_schema();
  } else if (!field.words.empty()) {
    schema = {{"type", "string"}, {"enum", field.words}};
  } else if (field.key == "latency_table") {
    schema = string_schema();
  } else {
    schema["type"] = field.unit == "N" ? "integer" : "number";
    if (std::isfinite(field.range.least))
      schema[field.range.above_least ? "exclusiveMinimum" : "minimum"] = field.range.least;
    if (std::isfinite(field.range.most))
      schema[field.range.below_most ? "exclusiveMaximum" : "maximum"] = field.range.most;
    if (!field.word.empty()) schema = {{"anyOf", {schema, {{"const", field.word}}}}};
  }
  schema["description"] = field.help;
  return schema;
}

Json llada_schema() {
  Json properties = {{"preset", {{"type", "string"}, {"enum", Json::array()}}}};
  for (const std::string_view name : decode_presets()) properties["preset"]["enum"].push_back(name);
  for (const decode::Field& field : decode::fields()) properties[std::string(field.key)] = option_schema(field);
  Json schema = object_schema(std::move(properties));
  schema["additionalProperties"] = false;
  return schema;
}

// What every route that decodes reads.
Json decoding_properties() {
  return {{"model", string_schema()},
          {"max_tokens", integer_schema(-1)},
          {"max_completion_tokens", integer_schema(-1)},
          {"temperature", {{"type", "number"}, {"minimum", 0}, {"maximum", 1e6}}},
          {"top_p", {{"type", "number"}, {"minimum", 0}, {"maximum", 1}}},
          {"top_k", integer_schema(-1)},
          {"min_p", {{"type", "number"}, {"minimum", 0}, {"maximum", 1}}},
          {"seed", {{"type", "integer"}}},
          {"ignore_eos", boolean_schema()},
          {"stop", {{"anyOf", {string_schema(), list_of(string_schema())}}}},
          {"stream", boolean_schema()},
          {"stream_options",
           object_schema({{"include_usage", boolean_schema()}, {"continuous_usage_stats", boolean_schema()}})},
          {"diffusing", {{"enum", {true, false, "frames"}}}},
          {"llada", reference("Options")}};
}

Json request_schema(Json own, const Json& required) {
  Json properties = decoding_properties();
  properties.update(own);
  return object_schema(std::move(properties), required);
}

Json messages_schema() {
  const Json message =
      object_schema({{"role", {{"enum", {"system", "developer", "user", "assistant"}}}}, {"content", string_schema()}},
                    {"role", "content"});
  Json list = list_of(message);
  list["minItems"] = 1;
  return list;
}

Json alternatives_schema() { return {{"type", "integer"}, {"minimum", 0}, {"maximum", kMostAlternatives}}; }

// most: answers of one request, as in what follows.
Json count_schema(int64_t most) { return at_most("maximum", most, integer_schema(1)); }

Json chat_schema(int64_t most) {
  return request_schema({{"messages", messages_schema()},
                         {"n", count_schema(most)},
                         {"logprobs", boolean_schema()},
                         {"top_logprobs", alternatives_schema()},
                         {"response_format", object_schema({{"type", {{"const", "text"}}}}, {"type"})}},
                        {"messages"});
}

Json completion_schema(int64_t most) {
  const Json ids = list_of(integer_schema(0));
  Json prompts = Json::array({string_schema(), ids, at_most("maxItems", most, list_of(string_schema())),
                              at_most("maxItems", most, list_of(ids))});
  return request_schema({{"prompt", {{"anyOf", std::move(prompts)}}},
                         {"suffix", string_schema()},
                         {"n", count_schema(most)},
                         {"echo", boolean_schema()},
                         {"logprobs", alternatives_schema()}},
                        {"prompt"});
}

Json response_schema() {
  const Json part =
      object_schema({{"type", {{"enum", {"input_text", "output_text"}}}}, {"text", string_schema()}}, {"type", "text"});
  const Json message = object_schema({{"type", {{"const", "message"}}},
                                      {"role", {{"enum", {"system", "developer", "user", "assistant"}}}},
                                      {"content", {{"anyOf", {string_schema(), list_of(part)}}}}},
                                     {"role", "content"});
  Json list = list_of(message);
  list["minItems"] = 1;
  return object_schema({{"model", string_schema()},
                        {"input", {{"anyOf", {string_schema(), list}}}},
                        {"instructions", string_schema()},
                        {"max_output_tokens", integer_schema(-1)},
                        {"temperature", {{"type", "number"}, {"minimum", 0}, {"maximum", 1e6}}},
                        {"top_p", {{"type", "number"}, {"minimum", 0}, {"maximum", 1}}},
                        {"seed", {{"type", "integer"}}},
                        {"include", list_of(string_schema())},
                        {"truncation", {{"enum", {"auto", "disabled"}}}},
                        {"stream", boolean_schema()},
                        {"llada", reference("Options")}},
                       {"input"});
}

Json infill_schema() {
  Json schema = request_schema({{"text", string_schema()},
                                {"input_prefix", string_schema()},
                                {"input_suffix", string_schema()},
                                {"prompt", string_schema()},
                                {"n_predict", integer_schema(-1)},
                                {"input_extra", list_of(object_schema({{"text", string_schema()}}, {"text"}))}},
                               Json::array());
  for (const char* length : {"max_tokens", "max_completion_tokens"}) schema["properties"].erase(length);
  return schema;
}

// The body of each route that takes one.
Json body_schema(std::string_view path, int64_t most) {
  if (path == "/v1/chat/completions") return reference("Chat");
  if (path == "/v1/completions") return reference("Completion");
  if (path == "/v1/responses") return response_schema();
  if (path == "/v1/fim/completions")
    return request_schema({{"prompt", string_schema()}, {"suffix", string_schema()}, {"n", count_schema(most)}},
                          {"prompt"});
  if (path == "/infill") return infill_schema();
  if (path == "/tokenize")
    return object_schema(
        {{"prompt", string_schema()}, {"content", string_schema()}, {"add_special_tokens", boolean_schema()}});
  if (path == "/detokenize") return object_schema({{"tokens", list_of(integer_schema(0))}}, {"tokens"});
  if (path == "/apply-template") return object_schema({{"messages", messages_schema()}}, {"messages"});
  return object_schema(Json::object());
}

bool streams(std::string_view path) {
  return path.ends_with("completions") || path == "/v1/responses" || path == "/infill";
}

Json operation_of(const Route& route, int64_t most) {
  const bool post = route.method == "POST";
  const Json anything = {{"schema", Json::object()}};
  Json answer = {{post || route.path != "/" ? "application/json" : "text/html", anything}};
  if (route.path == "/metrics") answer = {{"text/plain", anything}};
  if (streams(route.path)) answer["text/event-stream"] = anything;
  Json operation = {{"operationId", std::string(route.method == "POST" ? "post " : "get ").append(route.path)},
                    {"responses",
                     {{"200", {{"description", "the answer"}, {"content", std::move(answer)}}},
                      {"default",
                       {{"description", "a refusal or an error"},
                        {"content", {{"application/json", {{"schema", reference("Error")}}}}}}}}}};
  if (post)
    operation["requestBody"] = {{"required", true},
                                {"content", {{"application/json", {{"schema", body_schema(route.path, most)}}}}}};
  if (route.path.ends_with(kPathId))
    operation["parameters"] =
        Json::array({{{"name", "id"}, {"in", "path"}, {"required", true}, {"schema", string_schema()}}});
  return operation;
}

Json description(int64_t most) {
  Json paths = Json::object();
  for (const Route& route : routes())
    paths[std::string(route.path)][route.method == "POST" ? "post" : "get"] = operation_of(route, most);
  const Json error = object_schema({{"message", string_schema()},
                                    {"type", string_schema()},
                                    {"param", {{"type", {"string", "null"}}}},
                                    {"code", {{"type", {"string", "integer", "null"}}}}},
                                   {"message", "type"});
  return {{"openapi", "3.1.0"},
          {"info", {{"title", "llada serve"}, {"version", "1"}}},
          {"paths", std::move(paths)},
          {"components",
           {{"schemas",
             {{"Chat", chat_schema(most)},
              {"Completion", completion_schema(most)},
              {"Options", llada_schema()},
              {"Error", object_schema({{"error", error}}, {"error"})}}}}}};
}

}  // namespace

void answer_openapi(Service& service, const std::shared_ptr<Exchange>& exchange) {
  exchange->respond(json_reply(description(most_answers(service))));
}

}  // namespace llada::serve
