// /api/...: Ollama's protocol, as far as one model that is loaded can speak it: what there is, chats, texts.
#include <algorithm>
#include <array>

#include "base/fnv.h"
#include "formats/printable.h"
#include "serve/protocols/adapter.h"

namespace llada::serve {
namespace {

// Lines of JSON, whose text is a message's in a chat, a field of its own otherwise.
class OllamaForm final : public AnswerWriter {
 public:
  OllamaForm(AnswerHead head, bool chat) : AnswerWriter(std::move(head)), chat_(chat) {}

  std::string whole(const FinishedAnswer& answer, const Json& usage) const override {
    Json json = piece(answer.text, true);
    if (!answer.thoughts.empty()) place(json)["thinking"] = answer.thoughts;
    // Nanoseconds; the model was loaded before, and a prompt is not computed apart from its answer.
    const auto time = static_cast<int64_t>(usage.at("seconds").get<double>() * 1e9);
    json.update({{"done_reason", answer.reason == "tool_calls" ? "stop" : answer.reason},
                 {"total_duration", time},
                 {"load_duration", 0},
                 {"prompt_eval_count", usage.at("prompt_tokens")},
                 {"prompt_eval_duration", 0},
                 {"eval_count", usage.at("completion_tokens")},
                 {"eval_duration", time}});
    if (!answer.logprobs.is_null()) json["logprobs"] = answer.logprobs;
    return with_calls(std::move(json), answer.calls);
  }
  std::string text(int64_t, const std::string& text, int64_t, Json) override {
    return text.empty() ? "" : dump(piece(text, false)) + '\n';
  }
  std::string thought(int64_t, const std::string& text) override {
    Json json = piece("", false);
    place(json)["thinking"] = text;
    return dump(json) + '\n';
  }
  // This protocol has calls whole.
  std::string call(int64_t, const AnswerPiece& more, int64_t) override {
    if (!more.name.empty()) call_ = {more.name, ""};
    call_.arguments += more.text;
    return more.ends ? with_calls(piece("", false), {&call_, 1}) + '\n' : "";
  }
  std::string end(int64_t, const AnswerEnd& last) override {
    FinishedAnswer answer = last.answer;
    answer.text.clear(), answer.calls.clear(), answer.thoughts.clear();
    return whole(answer, last.all_usage) + '\n';
  }
  std::string failed(const ApiError& error) override { return dump({{"error", error.message}}) + '\n'; }
  std::string ping() override { return dump(piece("", false)) + '\n'; }
  const char* type() const override { return "application/x-ndjson"; }
  Json logprobs(const Model& model, std::span<const ScoredToken> tokens) const override {
    return chat_logprobs(model, tokens, false);
  }

 private:
  Json piece(const std::string& text, bool done) const {
    Json json = {{"model", head_.model}, {"created_at", timestamp(std::chrono::system_clock::now())}};
    if (chat_) {
      json["message"] = {{"role", "assistant"}, {"content", text}};
    } else {
      json["response"] = text;
    }
    json["done"] = done;
    return json;
  }
  // Where a message's fields are.
  static Json& place(Json& json) { return json.contains("message") ? json["message"] : json; }
  static std::string with_calls(Json json, std::span<const ToolCall> calls) {
    if (calls.empty()) return dump(json);
    json["message"]["tool_calls"] = nullptr;
    std::string list;
    for (const ToolCall& call : calls)
      list += (list.empty() ? "[" : ",") + with_value({{"function", {{"name", call.name}, {"arguments", nullptr}}}},
                                                      "arguments", arguments_object(call.arguments));
    return with_value(json, "tool_calls", list + "]");
  }

  const bool chat_;
  ToolCall call_;  // that is being written
};

std::unique_ptr<AnswerWriter> write_text(AnswerHead head, const Ask&) {
  return std::make_unique<OllamaForm>(std::move(head), false);
}

Json ollama_error(int, const std::string& message) { return {{"error", message}}; }

// The word json, a schema, or OpenAI's object.
Wished read_format(Fields& body) {
  const Json* format = body.find("format");
  if (format == nullptr || *format == "") return std::nullopt;
  if (*format == "json") return object_form("format");
  if (!format->is_object()) return wrong("format", *format, "\"json\" or a JSON schema");
  const Json type = format->value("type", Json());
  if (type == "json_object" || type == "json_schema" || type == "text") return read_typed_form(body, {"format"}, true);
  return schema_form(body, "format", *format, "format");
}

constexpr Dialect kChats{.writer = write_ollama_chat,
                         .converses = true,
                         .form = read_format,
                         .idle = {"thinking", "cache_control", "tool_name"},
                         .needs_ids = false,
                         .lengths = {"num_predict"}};
constexpr Dialect kTexts{.writer = write_text, .converses = true, .form = read_format, .lengths = {"num_predict"}};
constexpr Dialect kBetween{.writer = write_text, .biased = true, .form = read_format};

constexpr const char* kProtocol = "0.35.0";  // the version of Ollama whose requests are read here

Json details() {
  return {{"parent_model", ""},   {"format", "gguf"},        {"family", "llada"}, {"families", Json::array({"llada"})},
          {"parameter_size", ""}, {"quantization_level", ""}};
}

std::string created(const Service& service) {
  return timestamp(std::chrono::system_clock::time_point(std::chrono::seconds(service.created())));
}

// digest: tells this file from others by its name and size.
Json entry(const Service& service) {
  const auto size = static_cast<int64_t>(service.model().file().file_bytes());
  Fnv digest;
  digest.add(service.name());
  digest.add(size);
  return {{"name", service.name()},
          {"model", service.name()},
          {"size", size},
          {"digest", fmt::format("{:064x}", digest.hash())},
          {"details", details()}};
}

// The options of generation stand in an object of their own; those that have an effect are read where other protocols
// have them. The result names the others.
Answered<std::string> lift_options(Fields& body) {
  static constexpr std::array<std::string_view, 8> kRead = {"temperature", "top_p", "top_k",       "min_p",
                                                            "seed",        "stop",  "num_predict", "repeat_penalty"};
  const Json* found = body.find("options");
  if (found == nullptr) return std::string();
  if (!found->is_object()) return wrong("options", *found, "an object");
  const Json options = *found;
  std::string others;
  for (const auto& [name, value] : options.items()) {
    if (value.is_null()) continue;
    if (std::ranges::find(kRead, name) == kRead.end()) {
      others += (others.empty() ? "options." : ", options.") + name;
    } else if (name == "num_predict" && value == -2) {
      body.put(name, -1);  // until the context is full
    } else {
      body.put(name, value);
    }
  }
  return printable(others, 300);
}

Answered<Ask> begin_ask(Service& service, Fields& body, const Dialect& dialect) {
  if (body.find("stream") == nullptr) body.put("stream", true);
  LLADA_TRY(const std::string others, lift_options(body));
  LLADA_TRY(Ask ask, read_ask(service, body, dialect));
  LLADA_TRY_STATUS(read_chat_logprobs(body, ask));
  if (!others.empty())
    LLADA_TRY_STATUS(add_warning(service, ask, others + ": of Ollama's runner, without effect here"));
  return ask;
}

Answered<Ask> read_chat_request(Service& service, Fields& body) {
  LLADA_TRY(Ask ask, begin_ask(service, body, kChats));
  LLADA_TRY(auto messages, read_messages(body, kChats));
  return read_talk(service, body, kChats, std::move(ask), std::move(messages));
}

Answered<Ask> read_text_request(Service& service, Fields& body) {
  LLADA_TRY(const auto suffix, body.optional_text("suffix"));
  const bool between = suffix && !suffix->empty();
  LLADA_TRY(Ask ask, begin_ask(service, body, between ? kBetween : kTexts));
  LLADA_TRY(const auto prompt, body.optional_text("prompt"));
  LLADA_TRY(const auto system, body.optional_text("system"));
  LLADA_TRY(const bool raw, body.boolean("raw", false));
  if (between) {
    if (body.find("n") != nullptr) return refuse("n: a reply has one answer here; needed it left out", "n");
    if (ask.logprobs) return refuse("logprobs: not supported with a suffix; needed one of the two", "logprobs");
    if (const auto* length = body.find("num_predict")) body.put("max_tokens", *length);
    return read_between(service, body, std::move(ask));
  }
  LLADA_TRY(const auto stop, read_stop(body));
  LLADA_TRY(Decoding decoding, read_decoding(body, ask, kTexts, kind_of(service)));
  LLADA_TRY_STATUS(body.finish());
  LLADA_TRY_STATUS(think_without_form(service, ask, decoding));
  std::vector<ChatMessage> messages;
  if (system && !system->empty()) messages.push_back({"system", *system});
  messages.push_back({"user", *prompt});
  LLADA_TRY(auto ids,
            raw ? text_ids(service, *prompt, "prompt") : conversation_ids(service, messages, "prompt", ask.think));
  LLADA_TRY_STATUS(make_requests(service, ask, "prompt", {std::move(ids)}, std::move(decoding), 1, stop));
  return ask;
}

// A request that has no text only asks that the model be loaded, which it is.
void answer(Service& service, const std::shared_ptr<Exchange>& exchange, const std::string& text,
            Answered<Ask> (*read)(Service&, Fields&)) {
  auto body = read_body(*exchange, service.options().strict);
  if (!body) return exchange->respond(std::unexpected(body.error()));
  const Json* asked = body->find(text);
  if (asked != nullptr && !(asked->is_structured() || asked->is_string() ? asked->empty() || *asked == "" : false))
    return begin_job(service, exchange, read(service, *body));
  if (const Done known = check_model(service, *body); !known) return exchange->respond(std::unexpected(known.error()));
  Json json = {{"model", service.name()}, {"created_at", timestamp(std::chrono::system_clock::now())}};
  text == "messages" ? json["message"] = {{"role", "assistant"}, {"content", ""}} : json["response"] = "";
  // It stays loaded, whatever is wished.
  const auto* keep = body->find("keep_alive");
  const bool unload = keep != nullptr && (*keep == 0 || *keep == "0" || *keep == "0s");
  json["done"] = true, json["done_reason"] = unload ? "unload" : "load";
  exchange->respond(json_reply(json));
}

void ollama_chat(Service& service, const std::shared_ptr<Exchange>& exchange) {
  answer(service, exchange, "messages", read_chat_request);
}

void ollama_generate(Service& service, const std::shared_ptr<Exchange>& exchange) {
  answer(service, exchange, "prompt", read_text_request);
}

HttpReply ollama_version(Service&, const HttpRequest&) { return json_reply({{"version", kProtocol}}); }

HttpReply ollama_tags(Service& service, const HttpRequest&) {
  Json model = entry(service);
  model["modified_at"] = created(service);
  return json_reply({{"models", Json::array({std::move(model)})}});
}

HttpReply ollama_running(Service& service, const HttpRequest&) {
  Json model = entry(service);
  model["expires_at"] = "9999-12-31T23:59:59Z";  // it stays loaded
  model["size_vram"] = 0;
  model["context_length"] = service.model().context();
  return json_reply({{"models", Json::array({std::move(model)})}});
}

Answered<HttpReply> ollama_show(Service& service, Fields body) {
  if (const auto* name = body.find("name"); name != nullptr && body.find("model") == nullptr) body.put("model", *name);
  LLADA_TRY_STATUS(check_model(service, body));
  LLADA_TRY(const bool verbose, body.boolean("verbose", false));
  static_cast<void>(verbose);
  LLADA_TRY_STATUS(body.finish());
  const Model& model = service.model();
  Json capabilities = Json::array({"completion", "tools"});
  if (takes_gaps(model)) capabilities.push_back("insert");
  const std::string architecture(model.architecture());
  return json_reply({{"modelfile", ""},
                     {"parameters", ""},
                     {"template", model.tokenizer().spec().chat_template},
                     {"details", details()},
                     {"model_info",
                      {{"general.architecture", architecture},
                       {architecture + ".context_length", model.context()},
                       {architecture + ".vocab_size", model.config().vocab}}},
                     {"capabilities", std::move(capabilities)},
                     {"modified_at", created(service)}});
}

}  // namespace

std::unique_ptr<AnswerWriter> write_ollama_chat(AnswerHead head, const Ask&) {
  return std::make_unique<OllamaForm>(std::move(head), true);
}

Protocol ollama_protocol() {
  static constexpr Route kRoutes[] = {{"GET", "/api/version", get<ollama_version>},
                                      {"GET", "/api/tags", get<ollama_tags>},
                                      {"GET", "/api/ps", get<ollama_running>},
                                      {"POST", "/api/show", post<ollama_show>},
                                      answers("/api/chat", ollama_chat),
                                      answers("/api/generate", ollama_generate)};
  return {kRoutes, "/api/", ollama_error};
}

}  // namespace llada::serve
