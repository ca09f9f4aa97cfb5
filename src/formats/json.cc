#include "formats/json.h"

#include <string>
#include <utility>
#include <vector>

#include "formats/printable.h"

namespace llada {
namespace {

using nlohmann::json;

// Makes the tree from the parser's events. nlohmann's own parsing with a callback also looks through what a list holds
// already whenever an object in it ends, which is quadratic.
class TreeBuilder {
 public:
  explicit TreeBuilder(const JsonWatch& watch) : watch_(watch) {}

  json take() { return std::move(root_); }
  const std::string& duplicate() const { return duplicate_; }  // the first field that appeared twice; empty: none
  const Status& stopped() const { return stopped_; }           // by the watch

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(json::number_integer_t value) { return add(value); }
  bool number_unsigned(json::number_unsigned_t value) { return add(value); }
  bool number_float(json::number_float_t value, const std::string&) { return add(value); }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(json::binary_t&) { return false; }  // JSON has none
  bool start_object(size_t) { return open(json::object()); }
  bool start_array(size_t) { return open(json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    auto& fields = open_.back()->get_ref<json::object_t&>();
    const auto [field, is_new] = fields.try_emplace(std::move(name));
    if (!is_new && duplicate_.empty()) duplicate_ = fmt::format("\"{}\"", printable(field->first));
    value_of_field_ = &field->second;
    return go_on();
  }
  bool parse_error(size_t, const std::string&, const json::exception&) { return false; }

 private:
  // A list grows only while none of its values is open, so what open_ points to stays where it is.
  json& place(json value) {
    if (open_.empty()) return root_ = std::move(value);
    if (!open_.back()->is_array()) return *value_of_field_ = std::move(value);
    auto& list = open_.back()->get_ref<json::array_t&>();
    list.push_back(std::move(value));
    return list.back();
  }
  bool add(json value) {
    place(std::move(value));
    return go_on();
  }
  bool open(json value) {
    open_.push_back(&place(std::move(value)));
    return go_on();
  }
  bool close() {
    open_.pop_back();
    return true;
  }
  bool go_on() {
    if (!watch_ || ++events_ % kJsonWatch != 0) return true;
    stopped_ = watch_();
    return stopped_.has_value();
  }

  const JsonWatch& watch_;
  size_t events_ = 0;  // values and fields
  json root_;
  std::vector<json*> open_;  // lists and objects that have not ended, from the outside
  json* value_of_field_ = nullptr;
  std::string duplicate_;
  Status stopped_;
};

}  // namespace

Result<json> parse_json_object(std::string_view text, std::string_view file, const JsonLimits& limits,
                               const JsonWatch& watch) {
  LLADA_TRY_STATUS(check_json_limits(text, file, limits));
  TreeBuilder builder(watch);
  const bool valid = json::sax_parse(text, &builder);
  LLADA_TRY_STATUS(builder.stopped());
  if (!valid) return invalid("{}: not valid JSON", file);
  if (!builder.duplicate().empty()) return invalid("{}: field {} appears twice", file, builder.duplicate());
  json root = builder.take();
  if (!root.is_object()) return invalid("{}: the JSON is not an object", file);
  return root;
}

std::string value_text(const nlohmann::json& value) {
  if (value.is_string()) return fmt::format("\"{}\"", printable(value.get_ref<const std::string&>()));
  if (value.is_boolean()) return value.get<bool>() ? "true" : "false";
  if (value.is_number_integer())
    return value.is_number_unsigned() ? fmt::to_string(value.get<uint64_t>()) : fmt::to_string(value.get<int64_t>());
  if (value.is_number_float()) return fmt::to_string(value.get<double>());
  return fmt::format("of type {}", value.type_name());
}

}  // namespace llada
