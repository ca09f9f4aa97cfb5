#include "serve/body.h"

#include <algorithm>
#include <array>
#include <chrono>

namespace llada::serve {
namespace {

using nlohmann::json;

constexpr JsonLimits kBodyLimits{.depth = 16, .values = size_t{1} << 20, .run_bytes = size_t{1} << 26};

// Fields of OpenAI's and others' clients that ask for nothing else than what is done, with the values that do.
struct Harmless {
  const char* name;
  bool (*value)(const json&);  // null: any
};
bool is_zero(const json& v) { return v.is_number() && v.get<double>() == 0; }
bool is_one(const json& v) { return v.is_number() && v.get<double>() == 1; }
bool is_empty(const json& v) { return (v.is_array() || v.is_object()) && v.empty(); }
bool is_false(const json& v) { return v.is_boolean() && !v.get<bool>(); }
bool no_tool(const json& v) { return v == "none" || v == "auto"; }
constexpr std::array kHarmless = {Harmless{"user", nullptr},
                                  Harmless{"metadata", nullptr},
                                  Harmless{"store", nullptr},
                                  Harmless{"service_tier", nullptr},
                                  Harmless{"safety_identifier", nullptr},
                                  Harmless{"prompt_cache_key", nullptr},
                                  Harmless{"cache_prompt", nullptr},
                                  Harmless{"parallel_tool_calls", nullptr},
                                  Harmless{"presence_penalty", is_zero},
                                  Harmless{"frequency_penalty", is_zero},
                                  Harmless{"logit_bias", is_empty},
                                  Harmless{"tools", is_empty},
                                  Harmless{"functions", is_empty},
                                  Harmless{"tool_choice", no_tool},
                                  Harmless{"function_call", no_tool},
                                  Harmless{"best_of", is_one},
                                  Harmless{"realtime", is_false}};

bool harmless(const std::string& name, const json& value) {
  const auto known = std::ranges::find_if(kHarmless, [&](const Harmless& h) { return name == h.name; });
  return known != kHarmless.end() && (known->value == nullptr || known->value(value));
}

}  // namespace

std::unexpected<ApiError> wrong(const std::string& name, const json& found, std::string_view needed) {
  std::string text = found.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return refuse(fmt::format("{}: found {}, needed {}", name, text, needed), name);
}

Answered<Body> Body::parse(const Exchange& exchange) {
  constexpr double kMostSeconds = 10;
  const auto begin = std::chrono::steady_clock::now();
  return parse(exchange.request.body, [&]() -> Status {
    if (exchange.is_gone()) return failed("the client has gone");
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    if (time.count() > kMostSeconds) return invalid("the body: reading it takes more than {} seconds", kMostSeconds);
    return {};
  });
}

Answered<Body> Body::parse(std::string_view text, const JsonWatch& watch) {
  auto object = parse_json_object(text, "the body", kBodyLimits, watch);
  if (!object) return std::unexpected(ApiError(400, object.error().message));
  return Body(std::move(*object));
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
  const bool fits = value->is_number_unsigned() ? value->get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX)
                                                : value->is_number_integer();
  const int64_t number = fits ? value->get<int64_t>() : 0;
  if (!fits || number < least || number > most)
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
    if (!item.is_number_integer() || item < 0 || item > INT32_MAX) return wrong(name, item, "token ids");
    ids.push_back(item.get<int32_t>());
  }
  return ids;
}

void Body::ignore(std::initializer_list<const char*> names) {
  for (const char* name : names) object_.erase(name);
}

std::expected<void, ApiError> Body::finish() const {
  for (const auto& [name, value] : object_.items())
    if (!read_.contains(name) && !value.is_null() && !harmless(name, value))
      return refuse(fmt::format("{}: this field, or this value of it, is not supported here", name), name);
  return {};
}

}  // namespace llada::serve
