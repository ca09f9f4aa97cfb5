// How the parts of the options write their lists: an entry is made of a member, and says the rest by name.
#pragma once
#include <cmath>
#include <string>
#include <type_traits>

#include "base/numbers.h"
#include "decode/fields.h"
#include "decode/removed.h"

namespace llada::decode {

template <class T>
Status read_number(std::string_view text, T& out, const Field& f) {
  T value{};
  const auto [end, error] = llada::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range)
    return invalid("found '{}', which is out of range; needed {}", text, needed(f));
  if (error != std::errc() || end != text.data() + text.size() || text.empty())
    return invalid("found '{}', needed {}", text, needed(f));
  out = value;
  return {};
}

template <class T>
Status read_value(const Field& f, std::string_view text, T& out) {
  if constexpr (std::is_same_v<T, bool>) {
    if (text != "true" && text != "false") return invalid("found '{}', needed {}", text, needed(f));
    out = text == "true";
    return {};
  } else if constexpr (std::is_enum_v<T>) {
    if (const std::string_view instead = replaced_by(f.key, text); !instead.empty())
      return invalid("found '{}', which was removed: {}", text, instead);
    LLADA_TRY(out, from_name<T>(text));
    return {};
  } else if (!text.empty() && (text == f.word || text == f.second_word)) {
    out = static_cast<T>(text == f.word ? -1 : -2);
    return {};
  } else {
    LLADA_TRY_STATUS(read_number(text, out, f));
    // Written as a number, -1 is a mistake rather than the word.
    return !f.word.empty() && text.starts_with('-') ? invalid("found '{}', needed {}", text, needed(f)) : Status();
  }
}

template <class T>
std::string show_value(const Field& f, T value) {
  if constexpr (std::is_enum_v<T>) {
    return std::string(name(value));
  } else {
    if constexpr (std::is_same_v<T, int64_t>)
      for (const auto& [number, word] : {std::pair(-1, f.word), std::pair(-2, f.second_word)})
        if (value == number && !word.empty()) return std::string(word);
    return fmt::format("{}", value);
  }
}

template <class T>
bool in_range(const Field& f, T value) {
  if constexpr (std::is_enum_v<T>) {
    return !name(value).empty();
  } else if constexpr (std::is_same_v<T, bool>) {
    return true;
  } else {
    const auto x = static_cast<double>(value);
    const Range& r = f.range;
    if ((!f.word.empty() && x == -1) || (!f.second_word.empty() && x == -2)) return true;
    return std::isfinite(x) && (r.above_least ? x > r.least : x >= r.least) &&
           (r.below_most ? x < r.most : x <= r.most);
  }
}

// A Field being written.
struct Entry : Field {
  constexpr Entry(FieldGroup part, std::string_view name, std::string_view value_name, std::string_view text) {
    group = part, key = name, unit = value_name, help = text;
  }
  constexpr Entry in(Range r) { return range = r, *this; }
  constexpr Entry or_word(std::string_view text) { return word = text, *this; }
  constexpr Entry or_second_word(std::string_view text) { return second_word = text, *this; }
  constexpr Entry or_all() { return or_word("all"); }
  constexpr Entry tuned(std::string_view values) { return tune = values, *this; }
  constexpr Entry also(std::string_view flags) { return aliases = flags, *this; }
  constexpr Entry for_rules(unsigned bits) { return rules = bits, *this; }
  constexpr Entry for_rule(Acceptance rule) { return for_rules(rule_bit(rule)); }
  constexpr Entry of(Revision way) { return revision = way, *this; }
  constexpr Entry often() { return basic = true, *this; }
};

template <auto Member>
Entry field(FieldGroup group, std::string_view key, std::string_view unit, std::string_view help) {
  using T = std::remove_cvref_t<decltype(std::declval<DecodeOptions>().*Member)>;
  Entry f(group, key, unit, help);
  if constexpr (std::is_enum_v<T>) f.words = words(T{});
  f.read = [](const Field& self, std::string_view text, DecodeOptions& o) { return read_value(self, text, o.*Member); };
  f.show = [](const Field& self, const DecodeOptions& o) { return show_value(self, o.*Member); };
  f.check = [](const Field& self, const DecodeOptions& o) -> Status {
    if (in_range(self, o.*Member)) return {};
    if constexpr (std::is_enum_v<T>)
      return invalid("{}: found a value that has no name, needed {}", self.key, needed(self));
    else
      return invalid("{}: found {}, needed {}", self.key, o.*Member, needed(self));
  };
  return f;
}

inline constexpr Range kPositions{1, kMaxGenLength}, kSteps{0, kMaxSteps}, kShare{0, 1};
inline constexpr Range kAboveZero{.above_least = true}, kShareAboveZero{0, 1, true, false};

}  // namespace llada::decode
