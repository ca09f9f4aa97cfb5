// The JSON body of a request, read field by field: a wrong or unknown field is refused by name. null stands for a field
// that is not there, as in OpenAI's own clients.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "formats/json.h"
#include "serve/http.h"

namespace llada::serve {

class Body {
 public:
  static Answered<Body> parse(std::string_view text, const JsonWatch& watch = {});
  // That of the request; ends where its client has gone, or it takes longer than a request could.
  static Answered<Body> parse(Exchange& exchange);

  const nlohmann::json& all() const { return object_; }
  // The value, or null where it is not there. It counts as read.
  const nlohmann::json* find(const std::string& name);
  void put(const std::string& name, nlohmann::json value) { object_[name] = std::move(value); }
  // The value at a path, with the members of its objects in the order in which they were sent; nothing where it is not
  // there. Of bodies that ask for a form of the answer. Refused: more keys there than a form may have.
  Answered<std::optional<nlohmann::ordered_json>> in_order(const std::vector<std::string>& path) const;
  // The text in which each object was sent that stands at a path, where "" is any item of a list, by its place:
  // "messages[0].content[1].input". A name with escapes is not found. Of bodies with calls of tools.
  std::map<std::string, std::string_view> objects_at(const std::vector<std::string_view>& path) const;
  Answered<bool> boolean(const std::string& name, bool otherwise);
  Answered<std::optional<int64_t>> integer(const std::string& name, int64_t least, int64_t most);
  Answered<std::optional<std::string>> text(const std::string& name);
  Answered<std::vector<std::string>> texts(const std::string& name);  // a text, or a list of texts
  Answered<std::vector<int32_t>> tokens(const std::string& name);     // a list of token ids
  void ignore(std::initializer_list<const char*> names);  // harmless here, whatever they say: as if not there

  // Whether it is not there, or has a value that changes nothing.
  bool changes_nothing(const std::string& name) const;
  // Refuses fields that nobody has read, but for null and for values that change nothing.
  Done finish() const;

 private:
  explicit Body(nlohmann::json object) : object_(std::move(object)) {}
  nlohmann::json object_;
  std::string text_;  // where in_order() and objects_at() may be asked
  std::set<std::string> read_;
};

// A whole number, also one that is written as 16.0: JSON has one type of number, and some languages write each so.
std::optional<int64_t> whole_number(const nlohmann::json& value);

// "NAME: found VALUE, needed NEEDED", about the field NAME.
std::unexpected<ApiError> wrong(const std::string& name, const nlohmann::json& found, std::string_view needed);

}  // namespace llada::serve
