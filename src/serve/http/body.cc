#include "serve/http/body.h"

#include <algorithm>
#include <array>
#include <chrono>

namespace llada::serve {
namespace {

constexpr JsonLimits kBodyLimits{.depth = 64, .values = size_t{1} << 20, .run_bytes = size_t{1} << 26};

bool is_zero(const Json& v) { return v.is_number() && v.get<double>() == 0; }
bool is_one(const Json& v) { return v.is_number() && v.get<double>() == 1; }
bool is_false(const Json& v) { return v.is_boolean() && !v.get<bool>(); }
bool is_true(const Json& v) { return v.is_boolean() && v.get<bool>(); }
bool is_either(const Json& v) { return v.is_boolean(); }
bool is_empty(const Json& v) {
  return v.is_structured() ? v.empty() : v.is_string() && v.get_ref<const std::string&>().empty();
}
bool is_any(const Json&) { return true; }
bool is_null(const Json& v) { return v.is_null(); }

// Fields of OpenAI's and others' clients that are accepted with values that change nothing. A field that a route reads
// itself never comes here.
struct Idle {
  const char* name;
  bool (*value)(const Json&);
};
constexpr std::array kIdle = {
    // There is one model; notes of the client's own.
    Idle{"model", is_any}, Idle{"user", is_any}, Idle{"metadata", is_any}, Idle{"store", is_any},
    Idle{"service_tier", is_any}, Idle{"safety_identifier", is_any}, Idle{"prompt_cache_key", is_any},
    Idle{"prompt_cache_retention", is_any}, Idle{"request_id", is_any}, Idle{"priority", is_zero},
    // Of llama-server's clients: its cache, how it samples, more in its reports.
    Idle{"cache_prompt", is_any}, Idle{"id_slot", is_any}, Idle{"n_keep", is_any}, Idle{"n_discard", is_any},
    Idle{"n_cache_reuse", is_any}, Idle{"samplers", is_any}, Idle{"timings_per_token", is_false},
    Idle{"post_sampling_probs", is_false}, Idle{"return_tokens", is_false}, Idle{"lora", is_empty},
    // Tools that are not there.
    Idle{"tools", is_empty}, Idle{"functions", is_empty}, Idle{"parallel_tool_calls", is_any},
    Idle{"max_tool_calls", is_any}, Idle{"tool_choice", [](const Json& v) { return v == "none" || v == "auto"; }},
    Idle{"function_call", [](const Json& v) { return v == "none" || v == "auto"; }},
    // Text alone comes back, without thoughts, without special tokens, without an echo.
    Idle{"modalities", [](const Json& v) { return v == Json::array({"text"}); }}, Idle{"include_reasoning", is_either},
    Idle{"skip_special_tokens", is_true}, Idle{"spaces_between_special_tokens", is_either},
    Idle{"include_stop_str_in_output", is_false}, Idle{"echo", is_false}, Idle{"return_token_ids", is_false},
    Idle{"return_tokens_as_token_ids", is_false}, Idle{"n_probs", is_zero}, Idle{"realtime", is_false},
    Idle{"safe_prompt", is_false}, Idle{"guided_decoding_backend", is_any},
    // The template's answer begins behind the last message.
    Idle{"add_generation_prompt", is_true}, Idle{"continue_final_message", is_false}, Idle{"documents", is_empty},
    // Ways of sampling and of ending that are switched off.
    Idle{"presence_penalty", is_zero}, Idle{"frequency_penalty", is_zero}, Idle{"length_penalty", is_one},
    Idle{"typical_p", is_one}, Idle{"typ_p", is_one}, Idle{"tfs_z", is_one}, Idle{"top_a", is_zero},
    Idle{"min_keep", is_zero}, Idle{"mirostat", is_zero}, Idle{"dynatemp_range", is_zero},
    Idle{"xtc_probability", is_zero}, Idle{"dry_multiplier", is_zero}, Idle{"epsilon_cutoff", is_zero},
    Idle{"eta_cutoff", is_zero}, Idle{"smoothing_factor", is_zero}, Idle{"use_beam_search", is_false},
    Idle{"min_tokens", is_zero}, Idle{"logit_bias", is_empty}, Idle{"stop_token_ids", is_empty},
    Idle{"bad_words", is_empty}, Idle{"grammar", is_empty},
    // Of Anthropic's clients and Ollama's: caches and contexts of theirs, pictures, forms of the answer.
    Idle{"cache_control", is_any}, Idle{"context_management", is_any}, Idle{"inference_geo", is_any},
    Idle{"mcp_servers", is_empty}, Idle{"keep_alive", is_any}, Idle{"images", is_empty}, Idle{"template", is_empty},
    Idle{"context", is_empty}, Idle{"logprobs", is_false}, Idle{"top_logprobs", is_zero},
    // A length by another protocol's name: 0 asks for no text at all.
    Idle{"max_tokens", is_null}, Idle{"max_completion_tokens", is_null}, Idle{"max_output_tokens", is_null},
    Idle{"n_predict", is_null}, Idle{"num_predict", is_null}, Idle{"max_new_tokens", is_null}};

// Of two fields together.
bool idle_beside(std::string_view name, const Json& value, const Fields& body) {
  if (name == "best_of") {
    const Json* n = body.look("n");
    return value == (n == nullptr ? Json(1) : *n);
  }
  if (name == "functions")
    return value.is_array() && body.look("function_call") != nullptr && *body.look("function_call") == "none";
  return false;
}

auto known_as(std::string_view name) {
  return std::ranges::find(kIdle, name, [](const Idle& i) { return std::string_view(i.name); });
}
bool is_known(std::string_view name) { return known_as(name) != kIdle.end(); }

bool idle(std::string_view name, const Json& value, const Fields& body) {
  return (is_known(name) && known_as(name)->value(value)) || idle_beside(name, value, body);
}

// Passes values that change nothing, and where it is not strict those of unknown fields that ask for nothing: of a
// field that is known, `false` or 0 may ask for something.
template <bool strict>
std::string objection(const Fields& body, const std::string& name, const Json& value) {
  if (idle(name, value, body) || (!strict && asks_nothing(value) && !is_known(name))) return "";
  const bool older = name == "functions" || name == "function_call";
  return older ? "found the older form of tools, needed tools and tool_choice"
               : "this field, or this value of it, is not supported here";
}

}  // namespace

std::unexpected<ApiError> wrong(const std::string& name, const Json& found, std::string_view needed) {
  return std::unexpected(ApiError(wrong_value("", name, found, needed).error()));
}

std::unexpected<ApiError> unsupported(const std::string& path) {
  return refuse(path + ": this field is not supported here", path);
}

const Json& member(const Json& object, std::string_view name) {
  static const Json kNone;
  const auto found = object.is_object() ? object.find(name) : object.end();
  return found == object.end() ? kNone : *found;
}

bool asks_nothing(const Json& v) { return v.is_null() || is_false(v) || is_zero(v) || is_empty(v); }

bool changes_nothing(const Fields& body, const std::string& name) {
  const Json* value = body.look(name);
  return value == nullptr || idle(name, *value, body);
}

Answered<Fields> read_body(Exchange& exchange, bool strict) {
  constexpr double kMostSeconds = 10;
  const BodyBytes bytes = exchange.take_body();
  const auto begin = std::chrono::steady_clock::now();
  return read_body(
      bytes.text(),
      [&]() -> Status {
        if (exchange.is_gone()) return failed("the client has gone");
        const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
        if (time.count() > kMostSeconds)
          return invalid("the body: reading it takes more than {} seconds", kMostSeconds);
        return {};
      },
      strict);
}

Answered<Fields> read_body(std::string_view text, const JsonWatch& watch, bool strict) {
  auto document = parse_ordered_object(text, "the body", kBodyLimits, watch);
  if (!document) return std::unexpected(ApiError(400, document.error().message));
  Fields body(std::move(*document), "");
  body.object_by(strict ? objection<true> : objection<false>);
  return body;
}

}  // namespace llada::serve
