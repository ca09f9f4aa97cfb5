#include "serve/body.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

namespace llada::serve {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr JsonLimits kBodyLimits{.depth = 64, .values = size_t{1} << 20, .run_bytes = size_t{1} << 26};

// Fields and values with objects whose text is read (in_order, objects_at).
constexpr const char* kWritten[] = {"json_schema",       "\"tools\"",    "\"format\"",
                                    "\"output_format\"", "\"tool_use\"", "\"tool_calls\"", "\"function_call\""};

// Where the string ends that begins at `at`, in JSON.
size_t end_of_string(std::string_view json, size_t at) {
  for (++at; at < json.size() && json[at] != '"'; ++at)
    if (json[at] == '\\') ++at;
  return std::min(at + 1, json.size());
}

// The same of an object.
size_t end_of_object(std::string_view json, size_t at) {
  int depth = 0;
  do {
    const char c = json[at];
    if (c == '{') ++depth;
    if (c == '}') --depth;
    at = c == '"' ? end_of_string(json, at) : at + 1;
  } while (depth > 0 && at < json.size());
  return at;
}

bool is_zero(const json& v) { return v.is_number() && v.get<double>() == 0; }
bool is_one(const json& v) { return v.is_number() && v.get<double>() == 1; }
bool is_false(const json& v) { return v.is_boolean() && !v.get<bool>(); }
bool is_true(const json& v) { return v.is_boolean() && v.get<bool>(); }
bool is_either(const json& v) { return v.is_boolean(); }
bool is_empty(const json& v) {
  return v.is_structured() ? v.empty() : v.is_string() && v.get_ref<const std::string&>().empty();
}
bool is_any(const json&) { return true; }

// Fields of OpenAI's and others' clients that are accepted with values that change nothing. A field that a route reads
// itself never comes here.
struct Idle {
  const char* name;
  bool (*value)(const json&);
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
    Idle{"max_tool_calls", is_any}, Idle{"tool_choice", [](const json& v) { return v == "none" || v == "auto"; }},
    Idle{"function_call", [](const json& v) { return v == "none" || v == "auto"; }},
    // Text alone comes back, without thoughts, without special tokens, without an echo.
    Idle{"modalities", [](const json& v) { return v == json::array({"text"}); }}, Idle{"include_reasoning", is_either},
    Idle{"skip_special_tokens", is_true}, Idle{"spaces_between_special_tokens", is_either},
    Idle{"include_stop_str_in_output", is_false}, Idle{"echo", is_false}, Idle{"return_token_ids", is_false},
    Idle{"return_tokens_as_token_ids", is_false}, Idle{"n_probs", is_zero}, Idle{"realtime", is_false},
    Idle{"safe_prompt", is_false},
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
    Idle{"context", is_empty}, Idle{"logprobs", is_false}, Idle{"top_logprobs", is_zero}};

// Of two fields together.
bool idle_beside(const std::string& name, const json& value, const json& body) {
  if (name == "best_of") {
    const json n = body.value("n", json());
    return value == (n.is_null() ? json(1) : n);
  }
  if (name == "functions") return value.is_array() && body.value("function_call", json()) == "none";
  return false;
}

bool idle(const std::string& name, const json& value, const json& body) {
  const auto known = std::ranges::find(kIdle, name, [](const Idle& i) { return std::string_view(i.name); });
  return (known != kIdle.end() && known->value(value)) || idle_beside(name, value, body);
}

}  // namespace

std::unexpected<ApiError> wrong(const std::string& name, const json& found, std::string_view needed) {
  std::string text = found.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return refuse(fmt::format("{}: found {}, needed {}", name, text, needed), name);
}

std::optional<int64_t> whole_number(const json& value) {
  if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
  if (value.is_number_integer()) return value.get<int64_t>();
  constexpr double kMost = int64_t{1} << 53;  // above it a double stands for several whole numbers
  const double number = value.is_number_float() ? value.get<double>() : 0.5;
  if (std::abs(number) > kMost || std::trunc(number) != number) return std::nullopt;
  return static_cast<int64_t>(number);
}

Answered<Body> Body::parse(Exchange& exchange) {
  constexpr double kMostSeconds = 10;
  const BodyBytes bytes = exchange.take_body();
  const auto begin = std::chrono::steady_clock::now();
  return parse(bytes.text(), [&]() -> Status {
    if (exchange.is_gone()) return failed("the client has gone");
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    if (time.count() > kMostSeconds) return invalid("the body: reading it takes more than {} seconds", kMostSeconds);
    return {};
  });
}

Answered<Body> Body::parse(std::string_view text, const JsonWatch& watch) {
  auto object = parse_json_object(text, "the body", kBodyLimits, watch);
  if (!object) return std::unexpected(ApiError(400, object.error().message));
  Body body(std::move(*object));
  if (std::ranges::any_of(kWritten, [&](const char* name) { return text.contains(name); })) body.text_ = text;
  return body;
}

Answered<std::optional<ordered_json>> Body::in_order(const std::vector<std::string>& path) const {
  // An ordered object looks for a key among all that it has: only what is on the path and at its end is kept.
  constexpr size_t kMostKeys = 5000;
  const auto end = path.size();
  std::vector<bool> inside(end + 1, true);  // by depth: the last key is on the path
  std::fill(inside.begin() + 1, inside.end(), false);
  size_t keys = 0;
  const auto kept = [&](int depth, ordered_json::parse_event_t event, ordered_json& key) {
    if (event != ordered_json::parse_event_t::key) return true;
    const auto d = static_cast<size_t>(depth);
    if (d > end) return !inside[end] || ++keys <= kMostKeys;
    inside[d] = inside[d - 1] && key == path[d - 1];
    std::fill(inside.begin() + depth + 1, inside.end(), false);
    return static_cast<bool>(inside[d]);
  };
  // The limits of the whole have been looked at.
  auto value = ordered_json::parse(text_, kept, /*allow_exceptions=*/false);
  if (keys > kMostKeys)
    return refuse(fmt::format("{}: found more than {} keys", fmt::join(path, "."), kMostKeys), path.front());
  for (const std::string& name : path) {
    if (!value.is_object() || !value.contains(name)) return std::nullopt;
    ordered_json inner = std::move(value[name]);
    value = std::move(inner);
  }
  return value;
}

std::map<std::string, std::string_view> Body::objects_at(const std::vector<std::string_view>& path) const {
  struct Level {
    bool list;
    bool on;  // its value that is being read is on the path
    size_t item = 0;
  };
  std::map<std::string, std::string_view> found;
  std::vector<Level> open;
  const std::string_view text = text_;
  const auto goes_on = [&](size_t depth) { return depth < path.size() && (depth == 0 || open[depth - 1].on); };
  const auto place = [&] {
    std::string name;
    for (size_t d = 0; d < open.size(); ++d)
      name += open[d].list ? fmt::format("[{}]", open[d].item) : fmt::format("{}{}", d > 0 ? "." : "", path[d]);
    return name;
  };
  for (size_t at = 0, next = 0; at < text.size(); at = next) {
    const char c = text[at];
    next = at + 1;
    if (c == '"') {
      next = end_of_string(text, at);
      const size_t behind = std::min(text.find_first_not_of(" \t\r\n", next), text.size());
      if (!text.substr(behind).starts_with(':')) continue;
      const size_t depth = open.size() - 1;
      open.back().on = goes_on(depth) && text.substr(at + 1, next - at - 2) == path[depth];
    } else if (c == '{' && open.size() == path.size() && open.back().on) {
      next = end_of_object(text, at);
      found.insert_or_assign(place(), text.substr(at, next - at));
    } else if (c == '{' || c == '[') {
      const bool list = c == '[';
      open.push_back({.list = list, .on = list && goes_on(open.size()) && path[open.size()].empty()});
    } else if (c == '}' || c == ']') {
      open.pop_back();
    } else if (c == ',' && open.back().list) {
      ++open.back().item;
    }
  }
  return found;
}

const json* Body::find(const std::string& name) {
  read_.insert(name);
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

Answered<bool> Body::boolean(const std::string& name, bool otherwise) {
  const json* value = find(name);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) return wrong(name, *value, "true or false");
  return value->get<bool>();
}

Answered<std::optional<int64_t>> Body::integer(const std::string& name, int64_t least, int64_t most) {
  const json* value = find(name);
  if (value == nullptr) return std::nullopt;
  const auto number = whole_number(*value);
  if (!number || *number < least || *number > most)
    return wrong(name, *value, fmt::format("a whole number from {} to {}", least, most));
  return number;
}

Answered<std::optional<std::string>> Body::text(const std::string& name) {
  const json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) return wrong(name, *value, "a text");
  return value->get<std::string>();
}

Answered<std::vector<std::string>> Body::texts(const std::string& name) {
  const json* value = find(name);
  std::vector<std::string> texts;
  if (value == nullptr) return texts;
  if (value->is_string()) return std::vector{value->get<std::string>()};
  const auto is_text = [](const json& item) { return item.is_string(); };
  if (!value->is_array() || !std::ranges::all_of(*value, is_text))
    return wrong(name, *value, "a text or a list of them");
  for (const json& item : *value) texts.push_back(item.get<std::string>());
  return texts;
}

Answered<std::vector<int32_t>> Body::tokens(const std::string& name) {
  const json* value = find(name);
  std::vector<int32_t> ids;
  if (value == nullptr) return ids;
  if (!value->is_array()) return wrong(name, *value, "a list of token ids");
  for (const json& item : *value) {
    const auto id = whole_number(item);
    if (!id || *id < 0 || *id > INT32_MAX) return wrong(name, item, "token ids");
    ids.push_back(static_cast<int32_t>(*id));
  }
  return ids;
}

bool Body::changes_nothing(const std::string& name) const {
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() || idle(name, *found, object_);
}

void Body::ignore(std::initializer_list<const char*> names) {
  for (const char* name : names) object_.erase(name);
}

Done Body::finish() const {
  for (const auto& [name, value] : object_.items()) {
    if (read_.contains(name) || value.is_null() || idle(name, value, object_)) continue;
    const bool older = name == "functions" || name == "function_call";
    return refuse(fmt::format("{}: {}", name,
                              older ? "found the older form of tools, needed tools and tool_choice"
                                    : "this field, or this value of it, is not supported here"),
                  name);
  }
  return {};
}

}  // namespace llada::serve
