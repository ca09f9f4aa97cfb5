// Reads members of a JSON object by name and type, for files and requests from outside. A member that is null counts as
// left out. An error is one line with the source, the path from the root, the value found and the one needed: "file:3:
// tools[3].name: found 3, needed a string".
#pragma once
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "json/parse.h"

namespace llada {

// The value as text, cut to the length of an error's line.
std::string shown(const Json& value);
// "PATH: found VALUE, needed NEEDED" behind the source, where there is one; about the field PATH.
std::unexpected<Error> wrong_value(std::string_view source, std::string_view path, const Json& found,
                                   std::string_view needed);
// A whole number, also one that is written as 16.0: JSON has one type of number, and some languages write each so.
std::optional<int64_t> whole_number(const Json& value);

class Fields {
 public:
  // The names of one member; the first that is there counts.
  class Names {
   public:
    Names(std::string_view name) : one_(name) {}    // NOLINT: names stand for themselves
    Names(const char* name) : one_(name) {}         // NOLINT
    Names(const std::string& name) : one_(name) {}  // NOLINT
    Names(std::initializer_list<std::string_view> names) : several_(names) {}
    const std::string_view* begin() const { return several_.size() > 0 ? several_.begin() : &one_; }
    const std::string_view* end() const { return several_.size() > 0 ? several_.end() : &one_ + 1; }

   private:
    std::string_view one_;
    std::initializer_list<std::string_view> several_;
  };

  // Why a member that nobody has read is refused; empty: it is harmless.
  using Objection = std::string (*)(const Fields& fields, const std::string& name, const Json& value);

  static Result<Fields> parse(std::string_view text, std::string source, const JsonLimits& limits = {});
  // The object is a document's root, which this owns, or a tree that outlives this.
  Fields(JsonDocument document, std::string source);
  explicit Fields(const Json& object, std::string source = {}, std::string path = {});
  // The same of a value that must be an object.
  static Result<Fields> of(const Json& value, std::string source, std::string path);

  const std::string& source() const { return source_; }
  const Json& all() const { return *object_; }
  std::string path(std::string_view name) const;  // from the root; of "" that of the object itself
  // JSON text of a value of this document, with its numbers as they were read.
  std::string text_of(const Json& value) const;

  // The value, or null where it is not there. It counts as read.
  const Json* find(Names names) const;
  // The same, without counting.
  const Json* look(std::string_view name) const;
  bool has(Names names) const { return find(names) != nullptr; }
  std::string_view spelling(Names names) const;  // the name that is there, or the first
  // Gives the member this value from now on.
  void put(const std::string& name, Json value);
  // Treats the members as left out, whatever they are.
  void ignore(Names names);

  // Where a member is left out: `otherwise`, or an error if there is none.
  Result<bool> boolean(Names names, std::optional<bool> otherwise = {}) const;
  Result<int64_t> integer(Names names, int64_t least, int64_t most, std::optional<int64_t> otherwise = {}) const;
  Result<double> real(Names names, double least, double most, std::optional<double> otherwise = {}) const;  // finite
  Result<std::string> text(Names names, std::optional<std::string> otherwise = {}) const;
  Result<std::optional<int64_t>> optional_integer(Names names, int64_t least, int64_t most) const;
  Result<std::optional<std::string>> optional_text(Names names) const;
  Result<std::vector<std::string>> texts(Names names) const;  // a string, a list of strings, or nothing
  Result<Fields> object(Names names) const;
  Result<const Json*> list(Names names) const;
  Result<std::vector<Fields>> objects(Names names) const;  // a list of them
  // Lists of numbers in range, and lists of lists of exactly `width` entries that `item` reads.
  Result<std::vector<int32_t>> integers(Names names, int64_t least, int64_t most) const;
  Result<std::vector<double>> reals(Names names, double least, double most) const;
  Status tuples(Names names, size_t width, const std::function<Status(const Json&)>& item) const;
  // Checks the members `format` and `version`, with which every file that we write begins.
  Status head(std::string_view format, int64_t version) const;
  // Checks a string that names the file's origin. `made` ("made", "measured") and `who` ("this run") are words of the
  // error.
  Status same(Names names, const std::string& needed, std::string_view made, std::string_view who) const;

  // Refuses the members that nobody has read and that `objection` does not let pass.
  Status finish() const;
  void object_by(Objection objection) { objection_ = objection; }

  // Errors about a member.
  std::unexpected<Error> wrong(std::string_view name, const Json& found, std::string_view needed) const;
  std::unexpected<Error> unfit(Names names, std::string_view needed) const;  // found another value, or none
  std::unexpected<Error> fault(std::string_view name, std::string_view message) const;

 private:
  static constexpr size_t kNowhere = SIZE_MAX;
  size_t place_of(std::string_view name) const;

  std::shared_ptr<const JsonDocument> document_;  // null: the tree is another owner's
  const Json* object_;
  std::string source_, path_;  // path_: with the dot behind it
  Objection objection_ = nullptr;
  // Filled at the first search of an object with many members, since ordered objects are searched one by one.
  mutable std::unordered_map<std::string_view, size_t> places_;
  mutable std::vector<bool> read_;  // by place
  std::map<std::string, Json, std::less<>> put_;
};

}  // namespace llada
