// JSON from untrusted files and requests as a tree: nlohmann's reader of events behind limits, with every failure as a
// one-line error. The work is linear in the text, whatever the text holds (of objects: but for sorting their names).
// Deliberately refused: deep nesting, very long strings or white space, duplicate fields, documents with more values
// than `limits` allows.
#pragma once
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/error.h"
#include "json/limits.h"

namespace llada {

using Json = nlohmann::ordered_json;  // members in the order in which they are written

// Asked at every kJsonWatch-th value and field while a document is parsed: an error ends that and is its result.
using JsonWatch = std::function<Status()>;
inline constexpr size_t kJsonWatch = 4096;

// The text of numbers that a tree would write in another way than they were read (1.10, 1e5, more digits than a double
// holds), by their place in the tree. Moving an object or a list leaves the places in it as they are, a copy does not.
using JsonNumbers = std::unordered_map<const Json*, std::string>;

struct JsonDocument {
  Json root;
  JsonNumbers numbers = {};
};

// Any value, with the members of objects in their order. `source` is named in errors.
Result<JsonDocument> parse_json_document(std::string_view text, std::string_view source, const JsonLimits& limits = {},
                                         const JsonWatch& watch = {});
// The same of a document that must be an object.
Result<JsonDocument> parse_ordered_object(std::string_view text, std::string_view source, const JsonLimits& limits = {},
                                          const JsonWatch& watch = {});
// Its tree alone.
Result<Json> parse_json_object(std::string_view text, std::string_view source, const JsonLimits& limits = {},
                               const JsonWatch& watch = {});

// The parser's events, for texts whose tree would be many times their size. One that returns false ends the reading,
// with `status` as its error.
class JsonEvents : public nlohmann::json_sax<Json> {
 public:
  Status status;
  size_t wrong = 0;  // the byte, from 1, where the parser gave up

  virtual bool other() = 0;  // a value of a kind that the reader does not look at
  bool null() override { return other(); }
  bool boolean(bool) override { return other(); }
  bool number_integer(int64_t) override { return other(); }
  bool number_unsigned(uint64_t) override { return other(); }
  bool number_float(double, const std::string&) override { return other(); }
  bool string(std::string&) override { return other(); }
  bool binary(Json::binary_t&) override { return other(); }  // JSON has none
  bool parse_error(size_t place, const std::string&, const Json::exception&) override {
    wrong = place;
    return false;
  }
};
Status read_json_events(std::string_view text, std::string_view source, const JsonLimits& limits, JsonEvents& events);

// JSON text without white space, whose numbers stay as they were read. Bytes that are no UTF-8 become U+FFFD.
std::string json_text(const Json& value, const JsonNumbers& numbers);

}  // namespace llada

extern template class nlohmann::basic_json<nlohmann::ordered_map>;  // compiled once, with parse.cc
