// Strict reading of the project's own JSON files (recordings, references, presets) from disks that nobody
// vouches for: one object per text, every field known, present and in range. An error is one line that names
// the place, the field, what was found and what was needed.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "json/parse.h"

namespace llada {

// One JSON object whose fields must all be read. `where` ("file:3") stands before every error.
class JsonFields {
 public:
  static Result<JsonFields> parse(std::string_view text, std::string where);
  JsonFields(Json object, std::string where) : object_(std::move(object)), where_(std::move(where)) {}

  bool has(const char* name) const { return object_.contains(name); }
  bool has_object(const char* name) const { return has(name) && object_.at(name).is_object(); }
  const Json& all() const { return object_; }
  Result<int64_t> integer(const char* name, int64_t least, int64_t most);
  Result<double> real(const char* name, double least, double most);  // finite
  Result<std::string> text(const char* name);
  Result<JsonFields> object(const char* name);
  // Lists of numbers in range, and lists of lists of exactly `width` entries that `item` reads.
  Result<std::vector<int32_t>> integers(const char* name, int64_t least, int64_t most);
  Result<std::vector<double>> reals(const char* name, double least, double most);
  Status tuples(const char* name, size_t width, const std::function<Status(const Json&)>& item);

  // What every file begins with: `format` and `version` as they are needed.
  Status head(std::string_view format, int64_t version);
  // A text that says what the file was made from. `made` ("made", "measured") and `who` ("this run") are words of the
  // error.
  Status same(const char* name, const std::string& needed, std::string_view made, std::string_view who);

  // Invalid when a field is left that nobody asked for.
  Status finish() const;
  const std::string& where() const { return where_; }

 private:
  Result<const Json*> take(const char* name);
  Json object_;
  std::string where_;
  std::vector<std::string> taken_;
};

// A value that was found, short enough for an error's line.
std::string shown(const Json& value);

// Valid UTF-8 on one line with its end, whatever bytes the values hold.
std::string json_line(const Json& object);

// Calls visit(line, "source:number") for every line that is not empty; the first error ends it.
Status for_each_json_line(std::string_view text, const std::string& source,
                          const std::function<Status(std::string_view line, std::string where)>& visit);

}  // namespace llada
