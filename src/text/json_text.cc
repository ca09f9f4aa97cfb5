#include "text/json_text.h"

#include <algorithm>
#include <utility>

#include "text/call_syntax.h"

namespace llada {
namespace {

std::string lower_case(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

}  // namespace

std::string spelled(const OrderedJson& value) {
  std::string out;
  const char* separator = "";
  if (value.is_object()) {
    for (const auto& [key, member] : value.items())
      out += std::exchange(separator, ", ") + OrderedJson(key).dump() + ": " + spelled(member);
    return "{" + out + "}";
  }
  if (!value.is_array()) return value.dump();
  for (const auto& item : value) out += std::exchange(separator, ", ") + spelled(item);
  return "[" + out + "]";
}

std::vector<std::pair<std::string, const OrderedJson*>> sorted_members(const OrderedJson& object) {
  std::vector<std::pair<std::string, const OrderedJson*>> members;
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

std::string gemma_spelled(const OrderedJson& value) {
  if (value.is_string())
    return std::string(kGemmaQuote).append(value.get_ref<const std::string&>()).append(kGemmaQuote);
  if (value.is_null()) return "null";  // older templates write Python's None
  std::string out;
  const char* separator = "";
  if (value.is_object()) {
    for (const auto& [key, member] : sorted_members(value))
      out += std::exchange(separator, ",") + gemma_key(key) + ":" + gemma_spelled(*member);
    return "{" + out + "}";
  }
  if (!value.is_array()) return value.dump();
  for (const OrderedJson& item : value) out += std::exchange(separator, ",") + gemma_spelled(item);
  return "[" + out + "]";
}

}  // namespace llada
