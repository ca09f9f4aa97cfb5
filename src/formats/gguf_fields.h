// Typed reading of GGUF metadata with error lines that name file, key, found and needed. Private to formats/.
#pragma once
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "formats/gguf.h"
#include "formats/gguf_model.h"
#include "formats/printable.h"

namespace llada {

class GgufFields {
 public:
  GgufFields(const GgufFile& file, std::string_view name) : file_(file), name_(name) {}

  // Absent keys give `absent` when it is set, otherwise an error.
  Result<int64_t> integer(const std::string& key, std::optional<int64_t> absent = std::nullopt) const {
    return read<int64_t>(key, absent, "an integer", [](const GgufValue& v) { return v.as_integer(); });
  }
  Result<double> number(const std::string& key, std::optional<double> absent = std::nullopt) const {
    return read<double>(key, absent, "a number", [](const GgufValue& v) { return v.as_number(); });
  }
  // A number from 0 to 1e30, which is finite in single precision.
  Result<double> positive(const std::string& key, std::optional<double> absent = std::nullopt) const {
    LLADA_TRY(const double value, number(key, absent));
    if (value >= 0 && value <= 1e30) return value;
    return invalid("{}: {} is {}, a finite positive number needed", name_, key, value);
  }
  Result<bool> boolean(const std::string& key, std::optional<bool> absent = std::nullopt) const {
    return read<bool>(key, absent, "a boolean", [](const GgufValue& v) { return v.as_bool(); });
  }
  Result<std::string> string(const std::string& key, const std::optional<std::string>& absent = std::nullopt,
                             size_t limit = size_t{1} << 16) const {
    if (const GgufValue* value = file_.find(key); value != nullptr && value->data.size() > limit)
      return invalid("{}: metadata key {} is {} bytes long, at most {} needed", name_, printable(key),
                     value->data.size(), limit);
    return read<std::string>(key, absent, "a string", [](const GgufValue& v) {
      const auto text = v.as_string();
      return text ? std::optional<std::string>(*text) : std::nullopt;
    });
  }
  // Checks an integer key, which may be absent.
  Status only(const std::string& key, std::initializer_list<int64_t> allowed, std::string_view needed) const {
    LLADA_TRY(const auto value, integer(key, *allowed.begin()));
    if (std::ranges::find(allowed, value) != allowed.end()) return {};
    return invalid("{}: {} is {}, {} needed", name_, key, value, needed);
  }
  // Checks a number whose other values change the computation; the key may be absent.
  Status neutral(const std::string& key, std::initializer_list<double> allowed) const {
    LLADA_TRY(const auto value, number(key, *allowed.begin()));
    if (std::ranges::find(allowed, value) != allowed.end()) return {};
    return invalid("{}: {} is {}, {} needed: another value is not computed here", name_, key, value,
                   fmt::join(allowed, " or "));
  }
  // Checks the keys with this prefix that nobody has read: known ones must have a value that changes nothing, unknown
  // ones get a note.
  Status finish(const std::string& prefix, std::vector<std::string>& notes) const;
  // Checks a boolean key that must be false or absent.
  Status off(const std::string& key) const {
    LLADA_TRY(const auto on, boolean(key, false));
    if (on) return invalid("{}: {} is true, false needed", name_, key);
    return {};
  }
  // Null: not there.
  const GgufValue* find(const std::string& key) const {
    const GgufValue* value = file_.find(key);
    if (value != nullptr) asked_.push_back(value->key);
    return value;
  }
  // A token id; -1 when absent.
  Result<int32_t> token(const std::string& key) const {
    LLADA_TRY(const auto id, integer(key, -1));
    if (file_.find(key) != nullptr && (id < 0 || id > std::numeric_limits<int32_t>::max()))
      return invalid("{}: {} is {}, a token id needed", name_, key, id);
    return static_cast<int32_t>(id);
  }
  // llama.cpp's end of a message, and the further ids of a folder's lists beside eos and eot.
  Result<std::vector<int32_t>> further_ends() const {
    constexpr uint64_t kMost = 64;
    std::vector<int32_t> ends;
    LLADA_TRY(const int32_t eom, token("tokenizer.ggml.eom_token_id"));
    if (eom >= 0) ends.push_back(eom);
    const GgufValue* value = file_.find(kKeyEndIds);
    if (value == nullptr) return ends;
    if (value->type != GgufType::array || value->element != GgufType::i32 || value->count > kMost)
      return invalid("{}: {} is {} x {}, at most {} x int32 needed", name_, kKeyEndIds, value->count,
                     gguf_type_name(value->type == GgufType::array ? value->element : value->type), kMost);
    for (uint64_t i = 0; i < value->count; ++i) {
      int32_t one = -1;
      std::copy_n(value->data.data() + 4 * i, 4, reinterpret_cast<std::byte*>(&one));
      if (one < 0) return invalid("{}: {}: found {}, a token id needed", name_, kKeyEndIds, one);
      ends.push_back(one);
    }
    return ends;
  }

 private:
  template <class T, class Convert>
  Result<T> read(const std::string& key, const std::optional<T>& absent, std::string_view needed,
                 Convert convert) const {
    const GgufValue* value = find(key);
    if (value == nullptr) {
      if (absent) return *absent;
      return invalid("{}: metadata key {} is missing, {} needed", name_, printable(key), needed);
    }
    if (const auto converted = convert(*value)) return T(*converted);
    return invalid("{}: metadata key {} is of type {} or out of range, {} needed", name_, printable(key),
                   gguf_type_name(value->type), needed);
  }

  const GgufFile& file_;
  std::string_view name_;
  mutable std::vector<std::string_view> asked_;  // keys of the file
};

}  // namespace llada
