#include "serve/ask.h"

#include <algorithm>

#include "text/utf8.h"

namespace llada::serve {
namespace {

using nlohmann::json;
using Done = std::expected<void, ApiError>;

std::string setting_text(const json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

// One option from a field of the body; `typed` is what errors call it.
Done give(DecodeChoice& choice, const std::string& key, const json& value, const std::string& typed) {
  if (value.is_structured()) return wrong(typed, value, "a number, a text, true or false");
  auto setting = decode::setting(key, setting_text(value));
  if (!setting) return refuse(fmt::format("{}: this is no decoding option (see /v1/llada/options)", typed), typed);
  decode::DecodeOptions scratch;
  if (const Status status = set_field(scratch, key, setting->text); !status)
    return refuse(typed + status.error().message.substr(key.size()), typed);
  setting->typed = typed;
  choice.give(std::move(*setting));
  return {};
}

Done read_llada(Body& body, DecodeChoice& choice, bool infill) {
  const json* options = body.find("llada");
  if (options == nullptr) return {};
  if (!options->is_object()) return wrong("llada", *options, "an object of decoding options");
  for (const auto& [key, value] : options->items()) {
    const std::string typed = "llada." + key;
    if (value.is_null()) continue;
    if (key == "preset") {
      if (!value.is_string()) return wrong(typed, value, "the name of a preset");
      choice.give_preset(value.get<std::string>());
    } else if (infill && key == "gen_length") {
      return refuse("llada.gen_length: not for infilling, where the gaps say it", typed);
    } else {
      LLADA_TRY_STATUS(give(choice, key, value, typed));
    }
  }
  return {};
}

// The field of the body that an error of the engine is about: its first word.
ApiError about(const DecodeChoice& choice, const Error& error) {
  ApiError api(choice.as_typed(error));
  const std::string name = api.message.substr(0, api.message.find_first_of(": "));
  const bool field = name.starts_with("llada.") || name == "temperature" || name == "top_p" || name == "seed" ||
                     name == "stop" || name.starts_with("max_") || decode::find_field(name) != nullptr;
  if (field) api.param = name;
  return api;
}

}  // namespace

Answered<DecodeChoice> read_decoding(Body& body, int64_t attention_block, bool infill) {
  DecodeChoice choice(infill);
  choice.use_default_preset();
  choice.built_in_presets_only("llada.preset");
  const json *newer = body.find("max_completion_tokens"), *older = infill ? nullptr : body.find("max_tokens");
  if (!infill && newer != nullptr) LLADA_TRY_STATUS(give(choice, "gen_length", *newer, "max_completion_tokens"));
  if (newer == nullptr && older != nullptr) LLADA_TRY_STATUS(give(choice, "gen_length", *older, "max_tokens"));
  for (const char* key : {"temperature", "top_p", "seed"})
    if (const json* value = body.find(key)) LLADA_TRY_STATUS(give(choice, key, *value, key));
  LLADA_TRY_STATUS(read_llada(body, choice, infill));
  if (const Status status = choice.resolve(attention_block); !status)
    return std::unexpected(about(choice, status.error()));
  choice.draw_seed();
  return choice;
}

Done read_streaming(Body& body, Ask& ask) {
  LLADA_TRY(ask.stream, body.boolean("stream", false));
  if (const json* options = body.find("stream_options")) {
    if (!options->is_object()) return wrong("stream_options", *options, "an object");
    for (const auto& [key, value] : options->items()) {
      if (key == "include_usage" && value.is_boolean()) {
        ask.include_usage = value.get<bool>();
      } else if (!(key == "include_obfuscation" && value == false)) {
        return refuse(fmt::format("stream_options.{}: this field, or this value of it, is not supported here", key),
                      "stream_options." + key);
      }
    }
  }
  if (const json* watch = body.find("diffusing")) {
    if (*watch == true) {
      ask.watch = Watch::replace;
    } else if (*watch == "frames") {
      ask.watch = Watch::frames;
    } else if (*watch != false) {
      return wrong("diffusing", *watch, "true, false or \"frames\"");
    }
  }
  return {};
}

Done read_format(Body& body) {
  const json* format = body.find("response_format");
  if (format == nullptr) return {};
  const bool typed = format->is_object() && format->contains("type") && format->at("type").is_string();
  if (!typed) return wrong("response_format", *format, "{\"type\": \"text\"}");
  if (const auto type = format->at("type").get<std::string>(); type != "text")
    return refuse(
        fmt::format("response_format: found type {}, needed text; answers are not constrained here", in_quotes(type)),
        "response_format");
  return {};
}

Answered<std::vector<std::string>> read_stop(Body& body) {
  LLADA_TRY(auto stop, body.texts("stop"));
  if (stop.size() > 16) return refuse(fmt::format("stop: found {} texts, needed 16 at most", stop.size()), "stop");
  if (std::ranges::count(stop, "") > 0) return refuse("stop: found '', needed text", "stop");
  return stop;
}

namespace {

// A text, or OpenAI's list of parts, of which text is the one kind here.
Answered<std::string> read_content(const json& content, const std::string& where) {
  if (content.is_null()) return std::string();
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) return wrong(where, content, "a text");
  std::string text;
  for (const json& part : content) {
    if (!part.is_object() || part.value("type", json()) != "text" || !part.contains("text") ||
        !part["text"].is_string())
      return wrong(where, part, "parts of type text");
    text += part["text"].get<std::string>();
  }
  return text;
}

}  // namespace

Answered<std::vector<ChatMessage>> read_messages(Body& body) {
  const json* list = body.find("messages");
  if (list == nullptr) return refuse("messages: needed, a list with at least one message", "messages");
  if (!list->is_array() || list->empty()) return wrong("messages", *list, "a list with at least one message");
  std::vector<ChatMessage> messages;
  for (const json& item : *list) {
    const std::string where = fmt::format("messages[{}]", messages.size());
    if (!item.is_object()) return wrong(where, item, "an object with role and content");
    const json role = item.value("role", json());
    if (role != "system" && role != "developer" && role != "user" && role != "assistant")
      return wrong(where + ".role", role, "system, user or assistant");
    for (const auto& [key, value] : item.items()) {
      const bool idle = value.is_null() || (value.is_array() && value.empty()) || key == "name";
      if (key != "role" && key != "content" && !idle)
        return refuse(fmt::format("{}.{}: this field is not supported here", where, key), where + "." + key);
    }
    LLADA_TRY(std::string content, read_content(item.value("content", json()), where + ".content"));
    messages.push_back({role == "developer" ? "system" : role.get<std::string>(), std::move(content)});
  }
  return messages;
}

int64_t prompt_tokens(const Request& request) {
  return std::ssize(request.tokens) - (request.gaps ? std::ssize(*request.gaps) : 0);
}

Done check(Service& service, const Request& request, const DecodeChoice& choice) {
  if (const Status status = check_request(service.model(), request); !status)
    return std::unexpected(about(choice, status.error()));
  if (const double bytes = kv_bytes(service.model(), request); !service.admission().could_hold(bytes))
    return refuse(fmt::format("the answer needs {:.0f} MB of keys and values; needed {:.0f} MB at most", bytes / 1e6,
                              service.admission().limits().kv_bytes / 1e6),
                  "max_tokens");
  return {};
}

Answered<std::vector<Request>> make_requests(Service& service, const std::vector<std::vector<int32_t>>& prompts,
                                             DecodeChoice& choice, int64_t n, const std::vector<std::string>& stop) {
  const int64_t all = std::ssize(prompts) * n;
  if (all > service.options().most_answers)
    return refuse(fmt::format("found {} prompts and n {}, needed {} answers at most", prompts.size(), n,
                              service.options().most_answers),
                  "n");
  std::vector<Request> requests;
  for (const auto& prompt : prompts) {
    for (int64_t i = 0; i < n; ++i) {
      Request request{.tokens = prompt, .options = choice.options, .stop = stop};
      request.options.seed += static_cast<uint64_t>(i);
      if (i == 0) LLADA_TRY_STATUS(check(service, request, choice));
      requests.push_back(std::move(request));
    }
  }
  return requests;
}

}  // namespace llada::serve
