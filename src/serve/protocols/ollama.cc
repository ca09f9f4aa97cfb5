// /api/...: Ollama's protocol, as far as one model that is loaded can speak it: what there is, chats, texts.
#include <algorithm>
#include <array>
#include <functional>

#include "base/fnv.h"
#include "formats/printable.h"
#include "serve/protocols/forms.h"
#include "serve/work/job.h"
#include "serve/protocols/routes.h"
#include "serve/protocols/tools.h"

namespace llada::serve {
namespace {

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

Answered<Ask> begin_ask(Service& service, Fields& body, Shape shape) {
  if (body.find("stream") == nullptr) body.put("stream", true);
  LLADA_TRY(const std::string others, lift_options(body));
  LLADA_TRY(Ask ask, read_ask(service, body, shape));
  ask.writer = shape == Shape::ollama_chat ? write_ollama_chat : write_ollama_text;
  if (ask.watch != Watch::none) return refuse("diffusing: not on this route; needed false", "diffusing");
  LLADA_TRY_STATUS(read_chat_logprobs(body, ask));
  if (!others.empty())
    LLADA_TRY_STATUS(add_warning(service, ask, others + ": of Ollama's runner, without effect here"));
  return ask;
}

Done fill(Service& service, Fields& body, Ask& ask, const std::string& field,
          const std::function<Answered<std::vector<int32_t>>()>& prompt, const ToolUse& tools = {},
          std::vector<ChatMessage>* messages = nullptr) {
  LLADA_TRY(auto stop, read_stop(body));
  LLADA_TRY(Decoding decoding, read_decoding(body, ask, service.model().special_ids().kind(), false, {"num_predict"}));
  LLADA_TRY_STATUS(body.finish());
  if (messages != nullptr) LLADA_TRY_STATUS(use_tools(service, tools, ask, decoding, *messages, stop));
  LLADA_TRY_STATUS(think_without_form(service, ask, decoding));
  LLADA_TRY(auto ids, prompt());
  return make_requests(service, ask, field, {std::move(ids)}, std::move(decoding), 1, stop);
}

Answered<Ask> read_chat_request(Service& service, Fields& body) {
  LLADA_TRY(Ask ask, begin_ask(service, body, Shape::ollama_chat));
  LLADA_TRY(auto messages, read_messages(body, Shape::ollama_chat));
  LLADA_TRY(const ToolUse tools, read_tools(body, Shape::ollama_chat));
  LLADA_TRY_STATUS(fill(
      service, body, ask, "messages", [&] { return conversation_ids(service, messages, "messages", ask.think); }, tools,
      &messages));
  return ask;
}

Answered<Ask> read_text_request(Service& service, Fields& body) {
  LLADA_TRY(Ask ask, begin_ask(service, body, Shape::ollama_text));
  LLADA_TRY(const auto prompt, body.optional_text("prompt"));
  LLADA_TRY(const auto system, body.optional_text("system"));
  LLADA_TRY(const auto suffix, body.optional_text("suffix"));
  LLADA_TRY(const bool raw, body.boolean("raw", false));
  if (suffix && !suffix->empty()) {
    if (body.find("n") != nullptr) return refuse("n: a reply here has one answer", "n");
    if (ask.logprobs)
      return refuse("logprobs: text between two others has none here, needed no suffix or logprobs false", "logprobs");
    if (const auto* length = body.find("num_predict")) body.put("max_tokens", *length);
    LLADA_TRY(Ask gap, read_between(service, std::move(body), ask.form));
    gap.writer = ask.writer;
    for (std::string& warning : ask.warnings) {
      if (std::ranges::count(gap.warnings, warning) > 0) continue;
      add_note(gap, warning);
      gap.warnings.push_back(std::move(warning));
    }
    return gap;
  }
  LLADA_TRY_STATUS(fill(service, body, ask, "prompt", [&]() -> Answered<std::vector<int32_t>> {
    if (raw) return text_ids(service, *prompt, "prompt");
    std::vector<ChatMessage> messages;
    if (system && !system->empty()) messages.push_back({"system", *system});
    messages.push_back({"user", *prompt});
    return conversation_ids(service, messages, "prompt", ask.think);
  }));
  return ask;
}

// A request that has no text only asks that the model be loaded, which it is.
void answer(Service& service, const std::shared_ptr<Exchange>& exchange, const std::string& text,
            Answered<Ask> (*read)(Service&, Fields&)) {
  auto body = read_body(*exchange, service.options().strict);
  if (!body) return exchange->respond(error_reply(body.error()));
  const Json* asked = body->find(text);
  if (asked != nullptr && !(asked->is_structured() || asked->is_string() ? asked->empty() || *asked == "" : false))
    return begin_job(service, exchange, read(service, *body));
  if (const Done known = check_model(service, *body); !known) return exchange->respond(error_reply(known.error()));
  Json json = {{"model", service.name()}, {"created_at", timestamp(std::chrono::system_clock::now())}};
  text == "messages" ? json["message"] = {{"role", "assistant"}, {"content", ""}} : json["response"] = "";
  // It stays loaded, whatever is wished.
  const auto* keep = body->find("keep_alive");
  const bool unload = keep != nullptr && (*keep == 0 || *keep == "0" || *keep == "0s");
  json["done"] = true, json["done_reason"] = unload ? "unload" : "load";
  exchange->respond(json_reply(json));
}

}  // namespace

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

}  // namespace llada::serve
