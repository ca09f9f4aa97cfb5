#include "serve/protocols/reading.h"

#include <algorithm>
#include <utility>

#include "decode/removed.h"
#include "engine/prompt.h"
#include "formats/printable.h"
#include "text/tool_calls.h"
#include "text/utf8.h"

namespace llada::serve {
namespace {

std::string setting_text(const Fields& body, const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  const auto whole = value.is_number_float() ? whole_number(value) : std::nullopt;
  return whole ? fmt::to_string(*whole) : body.text_of(value);
}

// One option from a field of the body; `typed` is what errors call it.
Done give(DecodeChoice& choice, const Fields& body, const std::string& key, const Json& value,
          const std::string& typed) {
  if (value.is_structured() && key != "json_schema") return wrong(typed, value, "a number, a text, true or false");
  auto setting = decode::setting(key, setting_text(body, value));
  if (!setting) {
    const std::string_view instead = decode::replaced_by(key);
    return refuse(instead.empty() ? fmt::format("{}: this is no decoding option (see /v1/llada/options)", typed)
                                  : fmt::format("{}: was removed: {}", typed, instead),
                  typed);
  }
  decode::DecodeOptions scratch;
  if (const Status status = set_field(scratch, key, setting->text); !status)
    return refuse(typed + status.error().message.substr(key.size()), typed);
  setting->typed = typed;
  choice.give(std::move(*setting));
  return {};
}

Done read_llada(Fields& body, DecodeChoice& choice, bool infill) {
  const Json* options = body.find("llada");
  if (options == nullptr) return {};
  if (!options->is_object()) return wrong("llada", *options, "an object of decoding options");
  for (const auto& [key, value] : options->items()) {
    const std::string typed = "llada." + key;
    if (value.is_null()) continue;
    if (key == "preset") {
      if (!value.is_string() || value == "") return wrong(typed, value, "the name of a preset");
      choice.give_preset(value.get<std::string>());
    } else if (infill && key == "gen_length") {
      return refuse("llada.gen_length: not for infilling, where the gaps say it", typed);
    } else {
      LLADA_TRY_STATUS(give(choice, body, key, value, typed));
    }
  }
  return {};
}

// How long the answer may be. A client does not know what the context has room for, so more than there can be is no
// mistake, and -1 leaves it open, as with llama-server.
Done read_length(Fields& body, const Dialect& dialect, DecodeChoice& choice) {
  bool given = false;
  for (const char* name : dialect.lengths) {
    if (name == nullptr) continue;
    const Json* value = body.find(name);
    if (value == nullptr || *value == -1 || std::exchange(given, true)) continue;
    const bool huge = value->is_number() && *value > decode::kMaxGenLength;
    LLADA_TRY_STATUS(give(choice, body, "gen_length", huge ? Json(decode::kMaxGenLength) : *value, name));
  }
  return {};
}

// Whether the answer shall fit a form, or may call tools.
bool asks_for_form(const Fields& body) {
  const Json* choice = body.look("tool_choice");
  const bool none =
      choice != nullptr && (choice->is_object() ? choice->value("type", Json()) == "none" : *choice == "none");
  if (!changes_nothing(body, "tools") && !none) return true;
  const Json* own = body.look("llada");
  constexpr std::string_view kForms[] = {"choice", "regex", "json_schema", "json_object", "template"};
  return own != nullptr && own->is_object() &&
         std::ranges::any_of(kForms, [&](std::string_view key) { return !own->value(key, Json()).is_null(); });
}

// The options of sampling count only where tokens are sampled: at temperature 0 the best token is taken. A form of the
// answer decides what may be sampled; clients send some of them with every request.
Done read_sampling(Fields& body, DecodeChoice& choice, bool formed, std::string& left_out) {
  const bool samples = choice.options.temperature > 0 && !formed;
  DecodeChoice unused;
  for (const char* key : {"top_p", "top_k", "min_p"}) {
    const Json* value = body.find(key);
    if (value == nullptr || (key == std::string_view("top_k") && *value == -1)) continue;  // of all, as with vLLM
    LLADA_TRY_STATUS(give(samples ? choice : unused, body, key, *value, key));
    if (formed && choice.options.temperature > 0) left_out += (left_out.empty() ? "" : ", ") + std::string(key);
  }
  return {};
}

// A field's wish as the option that says the same. What of a schema can be followed is known once it is read.
Done give_form(const Fields& body, const FormWish& wish, DecodeChoice& choice) {
  constexpr const char* kAnySchema = "{}";
  const Json* own = body.look("llada");
  if (own != nullptr && own->is_object() && (own->contains("json_schema") || own->contains("json_object")))
    return refuse(fmt::format("{}: llada says it too; needed one of the two", wish.name), wish.name);
  return give(choice, body, wish.key, wish.key == "json_schema" ? kAnySchema : wish.text, wish.name);
}

Done follow_schema(const std::optional<FormWish>& wish, Decoding& decoding) {
  if (!wish || wish->key != "json_schema") return {};
  decode::LateReading late;
  auto left_out = decode::set_schema(decoding.choice.options, wish->text, wish->strict, wish->where, &late);
  if (!left_out) return refuse(left_out.error().message, wish->name);
  if (late) decoding.late.emplace_back(wish->name, std::move(late));
  decoding.left_out = std::move(*left_out);
  return {};
}

// stream, stream_options, diffusing.
Done read_streaming(Fields& body, Ask& ask) {
  LLADA_TRY(ask.stream, body.boolean("stream", false));
  LLADA_TRY(ask.progress, body.boolean("return_progress", false));
  if (const Json* options = body.find("stream_options")) {
    if (!options->is_object()) return wrong("stream_options", *options, "an object");
    for (const auto& [key, value] : options->items()) {
      if (key == "include_usage" && value.is_boolean()) {
        ask.include_usage = value.get<bool>();
      } else if (key == "continuous_usage_stats" && value.is_boolean()) {
        ask.usage_in_pieces = value.get<bool>();
      } else if (!asks_nothing(value) && (key != "include_obfuscation" || !value.is_boolean())) {
        return refuse(fmt::format("stream_options.{}: this field, or this value of it, is not supported here", key),
                      "stream_options." + key);
      }
    }
  }
  if (const Json* watch = body.find("diffusing")) {
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

}  // namespace

Answered<Decoding> read_decoding(Fields& body, const Ask& ask, const Dialect& dialect, const decode::ModelKind& kind) {
  const bool infill = dialect.infills;
  Decoding decoding{.choice = DecodeChoice(infill)};
  DecodeChoice& choice = decoding.choice;
  choice.use_defaults();
  choice.built_in_presets_only("llada.preset");
  if (!infill) LLADA_TRY_STATUS(read_length(body, dialect, choice));
  // The third is Mistral's, the last vLLM's and llama-server's.
  const std::pair<const char*, const char*> named[] = {{"temperature", "temperature"},
                                                       {"seed", "seed"},
                                                       {"random_seed", "seed"},
                                                       {"repeat_penalty", "repeat_penalty"},
                                                       {"repetition_penalty", "repeat_penalty"}};
  const Json* penalty = body.find("repeat_penalty");
  const bool formed = !infill && (ask.form || asks_for_form(body));
  DecodeChoice unused;
  for (const auto& [name, key] : named) {
    const Json* value = body.find(name);
    const bool twice = value != penalty && key == std::string_view("repeat_penalty") && penalty != nullptr;
    if (value == nullptr || (twice && *value == *penalty)) continue;  // some clients send both names
    const bool left_out = formed && key == std::string_view("repeat_penalty");
    LLADA_TRY_STATUS(give(left_out ? unused : choice, body, key, *value, name));
    if (left_out && *value != 1) decoding.unused = name;
  }
  LLADA_TRY(const bool ignore_end, body.boolean("ignore_eos", false));
  if (ignore_end && !infill) LLADA_TRY_STATUS(give(choice, body, "early_stop", "none", "ignore_eos"));
  LLADA_TRY_STATUS(read_llada(body, choice, infill));
  if (ask.form) LLADA_TRY_STATUS(give_form(body, *ask.form, choice));
  if (const Json* own = body.find("llada")) decoding.insists = !own->value("gen_length", Json()).is_null();
  const auto resolve = [&]() -> Done {
    if (const Status status = choice.resolve(kind); !status) return std::unexpected(about(choice, status.error()));
    return {};
  };
  LLADA_TRY_STATUS(resolve());
  LLADA_TRY_STATUS(read_sampling(body, choice, formed, decoding.unused));
  LLADA_TRY_STATUS(resolve());
  LLADA_TRY_STATUS(follow_schema(ask.form, decoding));
  if (ask.drops_answer) static_cast<decode::FormOptions&>(choice.options) = {};  // of an answer that is not there
  choice.draw_seed();
  return decoding;
}

Done check_model(Service& service, Fields& body) {
  const Json* model = body.find("model");
  if (model == nullptr || !service.options().strict_model) return {};
  const std::string name = service.name();
  if (*model == name || *model == name + ":latest") return {};
  return std::unexpected(
      ApiError(404,
               fmt::format("the model {} does not exist; there is {}",
                           printable(model->dump(-1, ' ', true, Json::error_handler_t::replace), 100), in_quotes(name)),
               "model", "model_not_found"));
}

Answered<Ask> read_ask(Service& service, Fields& body, const Dialect& dialect) {
  Ask ask{.writer = dialect.writer};
  LLADA_TRY_STATUS(check_model(service, body));
  LLADA_TRY_STATUS(read_streaming(body, ask));
  if (ask.watch != Watch::none && !dialect.frames)
    return refuse("diffusing: not on this route; needed false", "diffusing");
  LLADA_TRY(const auto warnings, read_without_effect(body, dialect, if_it_thinks(service, dialect, ask.think)));
  for (const std::string& warning : warnings) LLADA_TRY_STATUS(add_warning(service, ask, warning));
  if (dialect.form != nullptr) {
    LLADA_TRY(ask.form, dialect.form(body));
  }
  if (dialect.biased) LLADA_TRY_STATUS(read_logit_bias(service, body, ask));
  return ask;
}

Answered<int64_t> read_count(Service& service, Fields& body) {
  LLADA_TRY(const auto n, body.optional_integer("n", 1, service.options().most_answers));
  return n.value_or(1);
}

Answered<std::vector<std::string>> read_stop(Fields& body, const std::string& name) {
  LLADA_TRY(auto stop, body.texts(name));
  std::erase(stop, "");  // some clients' way to send none
  if (stop.size() > 16) return refuse(fmt::format("{}: found {} texts, needed 16 at most", name, stop.size()), name);
  constexpr size_t kMostBytes = 4096;  // each answer of a request has its own
  for (const std::string& text : stop)
    if (text.size() > kMostBytes)
      return refuse(fmt::format("{}: found a text of {} bytes, needed {} at most", name, text.size(), kMostBytes),
                    name);
  return stop;
}

Done check_bytes(Service& service, size_t bytes, const std::string& field) {
  if (const Status status = service.model().check_length(bytes); !status)
    return too_long(
        field, fmt::format("the prompt is too long: {} bytes; this model's maximum context length is {} tokens", bytes,
                           service.model().context()));
  return {};
}

Answered<std::vector<int32_t>> conversation_ids(Service& service, std::span<const ChatMessage> messages,
                                                const std::string& field, bool think) {
  size_t bytes = 0;
  for (const ChatMessage& message : messages) bytes += message.bytes();
  LLADA_TRY_STATUS(check_bytes(service, bytes, field));
  auto ids = chat_prompt(service.model(), messages, think);
  if (!ids) return refuse(fmt::format("{}: {}", field, ids.error().message), field);
  return std::move(*ids);
}

Answered<std::vector<int32_t>> text_ids(Service& service, std::string_view text, const std::string& field) {
  LLADA_TRY_STATUS(check_bytes(service, text.size(), field));
  auto ids = text_prompt(service.model(), text);
  if (!ids) return refuse(fmt::format("{}: {}", field, ids.error().message), field);
  return std::move(*ids);
}

int64_t most_answers(const Service& service) {
  const RoomLimits& limits = service.options().admission;
  return std::min(service.options().most_answers, limits.running + limits.waiting);
}

Done check_count(Service& service, int64_t prompts, int64_t n) {
  const int64_t most = most_answers(service);
  if (prompts * n > most)
    return refuse(fmt::format("{}: found {} prompts and n {}, needed {} answers at most", n > 1 ? "n" : "prompt",
                              prompts, n, most),
                  n > 1 ? "n" : "prompt");
  return {};
}

Done make_requests(Service& service, Ask& ask, const std::string& field, std::vector<std::vector<int32_t>> prompts,
                   Decoding decoding, int64_t n, const std::vector<std::string>& stop) {
  LLADA_TRY_STATUS(check_count(service, std::ssize(prompts), n));
  LLADA_TRY_STATUS(apply_logit_bias(service, ask, decoding.choice.options));
  for (auto& prompt : prompts)
    ask.asked.push_back({.tokens = std::move(prompt),
                         .options = decoding.choice.options,
                         .stop = stop,
                         .alternatives = ask.alternatives});
  ask.each = n;
  ask.prompt_field = field;
  ask.decoding = std::make_shared<const Decoding>(std::move(decoding));
  return {};
}

Answered<std::vector<std::vector<int32_t>>> read_prompts(Service& service, Fields& body) {
  const Json* value = body.find("prompt");
  std::vector<std::vector<int32_t>> prompts;
  const auto add = [&](const Json& item) -> Done {
    if (item.is_string()) {
      LLADA_TRY(auto ids, text_ids(service, item.get_ref<const std::string&>(), "prompt"));
      prompts.push_back(std::move(ids));
      return {};
    }
    if (!item.is_array() || item.empty()) return wrong("prompt", item, "a text or a list of token ids");
    std::vector<int32_t> ids;
    for (const Json& id : item) {
      const auto number = whole_number(id);
      if (!number || *number < 0 || *number >= service.model().config().vocab)
        return wrong("prompt", id, fmt::format("token ids below {}", service.model().config().vocab));
      ids.push_back(static_cast<int32_t>(*number));
    }
    prompts.push_back(std::move(ids));
    return {};
  };
  if (value == nullptr || (value->is_array() && value->empty()))
    return refuse("prompt: found none, needed a text, token ids, or a list of them", "prompt");
  if (value->is_array() && !value->front().is_number()) {
    LLADA_TRY_STATUS(check_count(service, std::ssize(*value), 1));
    for (const Json& item : *value) LLADA_TRY_STATUS(add(item));
  } else {
    LLADA_TRY_STATUS(add(*value));
  }
  return prompts;
}

Answered<Ask> read_talk(Service& service, Fields& body, const Dialect& dialect, Ask ask,
                        std::vector<ChatMessage> messages, int64_t answers,
                        const std::function<Done(Ask& ask, const Decoding& decoding, const ToolUse& tools)>& also) {
  LLADA_TRY(const ToolUse tools, read_tools(body, dialect));
  std::vector<std::string> stop;
  if (dialect.stop != nullptr) {
    LLADA_TRY(stop, read_stop(body, dialect.stop));
  }
  LLADA_TRY(Decoding decoding, read_decoding(body, ask, dialect, kind_of(service)));
  if (also) LLADA_TRY_STATUS(also(ask, decoding, tools));
  LLADA_TRY_STATUS(body.finish());
  LLADA_TRY_STATUS(use_tools(service, tools, ask, decoding, messages, stop));
  LLADA_TRY_STATUS(think_without_form(service, ask, decoding));
  LLADA_TRY(auto ids, conversation_ids(service, messages, dialect.messages, ask.think));
  LLADA_TRY_STATUS(make_requests(service, ask, dialect.messages, {std::move(ids)}, std::move(decoding), answers, stop));
  return ask;
}

}  // namespace llada::serve
