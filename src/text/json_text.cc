#include "text/json_text.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <unordered_map>
#include <utility>

namespace llada {
namespace {

std::string lower_case(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

// Readers of JSON hold numbers as doubles, and some refuse one beyond: the largest stands for it.
std::string held(std::string_view word) {
  const std::string text(word);
  const double value = std::strtod(text.c_str(), nullptr);
  return std::isinf(value) ? Json(std::copysign(std::numeric_limits<double>::max(), value)).dump() : text;
}

// One pass over JSON text, whose numbers stay as they are written. The library's parser reads strings alone: it makes a
// double of a number that is no int64, and searches an ordered object for every member.
class Speller {
 public:
  Speller(std::string_view json, CallForm form) : left_(json), gemma_(form == CallForm::gemma) {}

  std::optional<std::string> spell() {
    std::string out;
    if (!value(out)) return std::nullopt;
    skip_white();
    return left_.empty() ? std::optional(std::move(out)) : std::nullopt;
  }

 private:
  void skip_white() { left_.remove_prefix(std::min(left_.find_first_not_of(" \t\r\n"), left_.size())); }

  bool take(char c) {
    skip_white();
    if (!left_.starts_with(c)) return false;
    left_.remove_prefix(1);
    return true;
  }

  std::optional<std::string> string() {
    skip_white();
    size_t end = 1;
    while (end < left_.size() && left_[end] != '"') end += left_[end] == '\\' ? 2 : 1;
    if (!left_.starts_with('"') || end >= left_.size()) return std::nullopt;
    const std::string_view text = left_.substr(0, end + 1);
    const auto read = parse_json_document(text, "", kOwnJson);
    left_.remove_prefix(text.size());
    return read && read->root.is_string() ? std::optional(read->root.get<std::string>()) : std::nullopt;
  }

  std::string quoted(const std::string& text) const {
    return gemma_ ? std::string(kGemmaQuote).append(text).append(kGemmaQuote) : Json(text).dump();
  }

  bool value(std::string& out) {
    skip_white();
    if (left_.starts_with('"')) {
      const auto text = string();
      if (text) out += quoted(*text);
      return text.has_value();
    }
    if (take('{')) return object(out);
    if (take('[')) return array(out);
    const std::string_view word = left_.substr(0, left_.find_first_of(",]} \t\r\n"));
    if (word != "true" && word != "false" && word != "null" && !is_json_number(word)) return false;
    out += gemma_ ? std::string(word) : held(word);
    left_.remove_prefix(word.size());
    return true;
  }

  bool array(std::string& out) {
    out += '[';
    for (bool first = true; !take(']'); first = false) {
      if (!first && !take(',')) return false;
      if (!first) out += comma();
      if (!value(out)) return false;
    }
    out += ']';
    return true;
  }

  bool object(std::string& out) {
    struct Member {
      std::string lower, text;
    };
    std::vector<Member> members;
    std::unordered_map<std::string, size_t> places;  // of a name that comes twice the last value counts
    for (bool first = true; !take('}'); first = false) {
      if (!first && !take(',')) return false;
      const auto name = string();
      if (!name || !take(':')) return false;
      std::string text = gemma_ ? gemma_key(*name) + ":" : quoted(*name) + ": ";
      if (!value(text)) return false;
      const auto [place, is_new] = places.emplace(*name, members.size());
      if (is_new) members.push_back({gemma_ ? lower_case(*name) : "", {}});
      members[place->second].text = std::move(text);
    }
    if (gemma_) std::ranges::stable_sort(members, {}, &Member::lower);
    const char* separator = "{";
    for (const Member& member : members) out.append(std::exchange(separator, comma())).append(member.text);
    out += members.empty() ? "{}" : "}";
    return true;
  }

  const char* comma() const { return gemma_ ? "," : ", "; }

  std::string_view left_;
  const bool gemma_;
};

}  // namespace

std::optional<std::string> spelled_text(std::string_view json, CallForm form) {
  if (!check_json_limits(json, "", {.depth = 100, .values = size_t{1} << 20, .run_bytes = size_t{1} << 26}))
    return std::nullopt;
  return Speller(json, form).spell();
}

std::string spelled(const Json& value, CallForm form) {
  return Speller(value.dump(-1, ' ', false, Json::error_handler_t::replace), form).spell().value_or("");
}

bool is_json_number(std::string_view text) {
  const auto digits = [&](bool any) {
    const size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
    const bool lone_zero = any || !text.starts_with('0') || end == 1;
    text.remove_prefix(end);
    return end > 0 && lone_zero;
  };
  if (text.starts_with('-')) text.remove_prefix(1);
  if (!digits(false)) return false;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    if (!digits(true)) return false;
  }
  if (!text.starts_with('e') && !text.starts_with('E')) return text.empty();
  text.remove_prefix(text.substr(1).starts_with('+') || text.substr(1).starts_with('-') ? 2 : 1);
  return digits(true) && text.empty();
}

std::vector<std::pair<std::string, const Json*>> sorted_members(const Json& object) {
  std::vector<std::pair<std::string, const Json*>> members;
  if (!object.is_object()) return members;
  for (const auto& [key, value] : object.items()) members.emplace_back(key, &value);
  std::ranges::stable_sort(members, {}, [](const auto& member) { return lower_case(member.first); });
  return members;
}

std::string gemma_key(std::string_view name) {
  const auto ends = [](char c) {
    return static_cast<unsigned char>(c) <= ' ' || std::string_view(":,[]{}").contains(c);
  };
  if (!name.empty() && std::ranges::none_of(name, ends)) return std::string(name);
  return std::string(kGemmaQuote).append(name).append(kGemmaQuote);
}

}  // namespace llada
