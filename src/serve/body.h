// The JSON body of a request, read field by field: a wrong or unknown field is refused by name. null stands for a field
// that is not there, as in OpenAI's own clients.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "json/parse.h"
#include "serve/http.h"

namespace llada::serve {

class Body {
 public:
  static Answered<Body> parse(std::string_view text, const JsonWatch& watch = {});
  // That of the request; ends where its client has gone, or it takes longer than a request could.
  static Answered<Body> parse(Exchange& exchange, bool strict);

  // The value, or null where it is not there. It counts as read.
  const Json* find(const std::string& name);
  // The same, without counting.
  const Json* look(const std::string& name) const;
  void put(const std::string& name, Json value) { fields_[name] = std::move(value); }
  Json all() const;  // as an object
  // JSON text of a value in an object or a list of this body, with the numbers as they were sent.
  std::string text_of(const Json& value) const { return json_text(value, numbers_); }
  Answered<bool> boolean(const std::string& name, bool otherwise);
  Answered<std::optional<int64_t>> integer(const std::string& name, int64_t least, int64_t most);
  Answered<std::optional<std::string>> text(const std::string& name);
  Answered<std::vector<std::string>> texts(const std::string& name);  // a text, or a list of texts
  Answered<std::vector<int32_t>> tokens(const std::string& name);     // a list of token ids
  void ignore(std::initializer_list<const char*> names);  // harmless here, whatever they say: as if not there

  // Whether it is not there, or has a value that changes nothing.
  bool changes_nothing(const std::string& name) const;
  // Refuses fields that nobody has read, but for values that change nothing, as those do that ask for nothing.
  Done finish() const;
  void be_strict(bool strict) { strict_ = strict; }  // an unknown field is refused whatever its value

 private:
  explicit Body(JsonDocument document);
  std::map<std::string, Json> fields_;
  JsonNumbers numbers_;
  std::set<std::string> read_;
  bool strict_ = false;
};

// Null, false, 0, and what is empty.
bool asks_nothing(const Json& value);

// A whole number, also one that is written as 16.0: JSON has one type of number, and some languages write each so.
std::optional<int64_t> whole_number(const Json& value);

// "NAME: found VALUE, needed NEEDED", about the field NAME.
std::unexpected<ApiError> wrong(const std::string& name, const Json& found, std::string_view needed);

}  // namespace llada::serve
