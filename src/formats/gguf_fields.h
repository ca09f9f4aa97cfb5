// Typed reading of GGUF metadata with error lines that name file, key, found and needed. Private to formats/.
#pragma once
#include <limits>
#include <string>

#include "formats/gguf.h"
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
  // A token id; -1 when absent.
  Result<int32_t> token(const std::string& key) const {
    LLADA_TRY(const auto id, integer(key, -1));
    if (file_.find(key) != nullptr && (id < 0 || id > std::numeric_limits<int32_t>::max()))
      return invalid("{}: {} is {}, a token id needed", name_, key, id);
    return static_cast<int32_t>(id);
  }

 private:
  template <class T, class Convert>
  Result<T> read(const std::string& key, const std::optional<T>& absent, std::string_view needed,
                 Convert convert) const {
    const GgufValue* value = file_.find(key);
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
};

}  // namespace llada
