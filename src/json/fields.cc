#include "json/fields.h"

#include <algorithm>
#include <cmath>

namespace llada {
namespace {

// An error about the field at a path, behind the source, where there is one.
std::unexpected<Error> field_error(std::string_view source, std::string_view path, std::string_view message) {
  std::string text;
  if (!source.empty()) text.append(source).append(": ");
  const size_t begin = text.size();
  for (const char c : path)  // on one line, whatever names it has
    text += static_cast<unsigned char>(c) < 0x20 ? fmt::format("\\x{:02x}", c) : std::string(1, c);
  const size_t end = text.size();
  text.append(": ").append(message);
  return std::unexpected(Error{ErrorKind::invalid_input, std::move(text), static_cast<uint32_t>(begin),
                               static_cast<uint32_t>(end - begin)});
}

// The number where it is in range.
std::optional<int64_t> whole(const Json& value, int64_t least, int64_t most) {
  const auto number = whole_number(value);
  return number && *number >= least && *number <= most ? number : std::nullopt;
}
std::optional<double> finite(const Json& value, double least, double most) {
  const double number = value.is_number() ? value.get<double>() : NAN;
  return std::isfinite(number) && number >= least && number <= most ? std::optional(number) : std::nullopt;
}

std::string whole_needed(int64_t least, int64_t most) {
  constexpr int64_t kAny = int64_t{1} << 53;  // bounds beyond it are of our numbers, not of the field
  if (most > kAny && least < -kAny) return "a whole number";
  return most > kAny ? fmt::format("a whole number from {}", least)
                     : fmt::format("a whole number from {} to {}", least, most);
}
std::string finite_needed(double least, double most) { return fmt::format("a number from {} to {}", least, most); }

}  // namespace

std::string shown(const Json& value) {
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

std::unexpected<Error> wrong_value(std::string_view source, std::string_view path, const Json& found,
                                   std::string_view needed) {
  return field_error(source, path, fmt::format("found {}, needed {}", shown(found), needed));
}

std::optional<int64_t> whole_number(const Json& value) {
  if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
  if (value.is_number_integer()) return value.get<int64_t>();
  constexpr double kMost = int64_t{1} << 53;  // above it a double stands for several whole numbers
  const double number = value.is_number_float() ? value.get<double>() : 0.5;
  if (!(std::abs(number) <= kMost) || std::trunc(number) != number) return std::nullopt;
  return static_cast<int64_t>(number);
}

Result<Fields> Fields::parse(std::string_view text, std::string source, const JsonLimits& limits) {
  LLADA_TRY(JsonDocument document, parse_ordered_object(text, source, limits));
  return Fields(std::move(document), std::move(source));
}

Fields::Fields(JsonDocument document, std::string source)
    : Fields(document.root, std::move(source)) {  // what moves keeps its places (JsonNumbers)
  document_ = std::make_shared<const JsonDocument>(std::move(document));
  object_ = &document_->root;
}

Fields::Fields(const Json& object, std::string source, std::string path)
    : object_(&object), source_(std::move(source)), path_(std::move(path)), read_(object.size()) {
  if (!path_.empty()) path_ += '.';
}

Result<Fields> Fields::of(const Json& value, std::string source, std::string path) {
  if (!value.is_object()) return wrong_value(source, path, value, "an object");
  return Fields(value, std::move(source), std::move(path));
}

std::string Fields::path(std::string_view name) const {
  if (name.empty()) return path_.substr(0, path_.size() - std::min<size_t>(path_.size(), 1));
  return path_ + std::string(name);
}

std::string Fields::text_of(const Json& value) const {
  static const JsonNumbers kNone;
  return json_text(value, document_ ? document_->numbers : kNone);
}

size_t Fields::place_of(std::string_view name) const {
  constexpr size_t kFew = 24;
  const auto& members = object_->get_ref<const Json::object_t&>();
  if (members.size() > kFew) {
    if (places_.empty())
      for (size_t i = 0; const auto& member : members) places_.emplace(member.first, i++);
    const auto found = places_.find(name);
    return found == places_.end() ? kNowhere : found->second;
  }
  const auto found =
      std::ranges::find(members, name, [](const auto& member) { return std::string_view(member.first); });
  return found == members.end() ? kNowhere : static_cast<size_t>(found - members.begin());
}

const Json* Fields::look(std::string_view name) const {
  if (!put_.empty())
    if (const auto found = put_.find(name); found != put_.end())
      return found->second.is_null() ? nullptr : &found->second;
  const size_t place = place_of(name);
  if (place == kNowhere) return nullptr;
  const Json& value = object_->get_ref<const Json::object_t&>().begin()[static_cast<std::ptrdiff_t>(place)].second;
  return value.is_null() ? nullptr : &value;
}

const Json* Fields::find(Names names) const {
  for (const std::string_view name : names) {
    if (const size_t place = place_of(name); place != kNowhere) read_[place] = true;
    if (const Json* value = look(name)) return value;
  }
  return nullptr;
}

std::string_view Fields::spelling(Names names) const {
  for (const std::string_view name : names)
    if (look(name) != nullptr) return name;
  return *names.begin();
}

void Fields::put(const std::string& name, Json value) {
  find(name);
  put_[name] = std::move(value);
}

void Fields::ignore(Names names) {
  for (const std::string_view name : names) put(std::string(name), nullptr);
}

std::unexpected<Error> Fields::wrong(std::string_view name, const Json& found, std::string_view needed) const {
  return wrong_value(source_, path(name), found, needed);
}

std::unexpected<Error> Fields::fault(std::string_view name, std::string_view message) const {
  return field_error(source_, path(name), message);
}

std::unexpected<Error> Fields::unfit(Names names, std::string_view needed) const {
  const std::string_view name = spelling(names);
  if (const Json* found = look(name)) return wrong(name, *found, needed);
  return fault(fmt::format("{}", fmt::join(names, " or ")), fmt::format("is missing; needed {}", needed));
}

Result<bool> Fields::boolean(Names names, std::optional<bool> otherwise) const {
  const Json* value = find(names);
  if (value == nullptr && otherwise) return *otherwise;
  if (value == nullptr || !value->is_boolean()) return unfit(names, "true or false");
  return value->get<bool>();
}

Result<std::optional<int64_t>> Fields::optional_integer(Names names, int64_t least, int64_t most) const {
  const Json* value = find(names);
  if (value == nullptr) return std::nullopt;
  const auto number = whole(*value, least, most);
  if (!number) return unfit(names, whole_needed(least, most));
  return number;
}

Result<int64_t> Fields::integer(Names names, int64_t least, int64_t most, std::optional<int64_t> otherwise) const {
  LLADA_TRY(const auto number, optional_integer(names, least, most));
  if (!number && !otherwise) return unfit(names, whole_needed(least, most));
  return number ? *number : *otherwise;
}

Result<double> Fields::real(Names names, double least, double most, std::optional<double> otherwise) const {
  const Json* value = find(names);
  if (value == nullptr && otherwise) return *otherwise;
  const auto number = value == nullptr ? std::nullopt : finite(*value, least, most);
  if (!number) return unfit(names, finite_needed(least, most));
  return *number;
}

Result<std::optional<std::string>> Fields::optional_text(Names names) const {
  const Json* value = find(names);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) return unfit(names, "a string");
  return value->get<std::string>();
}

Result<std::string> Fields::text(Names names, std::optional<std::string> otherwise) const {
  LLADA_TRY(auto found, optional_text(names));
  if (!found && !otherwise) return unfit(names, "a string");
  return found ? std::move(*found) : std::move(*otherwise);
}

Result<std::vector<std::string>> Fields::texts(Names names) const {
  const Json* value = find(names);
  std::vector<std::string> texts;
  if (value == nullptr) return texts;
  if (value->is_string()) return std::vector{value->get<std::string>()};
  if (!value->is_array() || !std::ranges::all_of(*value, [](const Json& item) { return item.is_string(); }))
    return unfit(names, "a string or a list of strings");
  for (const Json& item : *value) texts.push_back(item.get<std::string>());
  return texts;
}

Result<Fields> Fields::object(Names names) const {
  const Json* value = find(names);
  if (value == nullptr) return unfit(names, "an object");
  LLADA_TRY(Fields inner, of(*value, source_, path(spelling(names))));
  inner.document_ = document_;
  return inner;
}

Result<const Json*> Fields::list(Names names) const {
  const Json* value = find(names);
  if (value == nullptr || !value->is_array()) return unfit(names, "a list");
  return value;
}

Result<std::vector<Fields>> Fields::objects(Names names) const {
  LLADA_TRY(const Json* items, list(names));
  std::vector<Fields> objects;
  for (size_t i = 0; i < items->size(); ++i) {
    LLADA_TRY(Fields inner, of((*items)[i], source_, fmt::format("{}[{}]", path(spelling(names)), i)));
    inner.document_ = document_;
    objects.push_back(std::move(inner));
  }
  return objects;
}

Result<std::vector<int32_t>> Fields::integers(Names names, int64_t least, int64_t most) const {
  LLADA_TRY(const Json* items, list(names));
  std::vector<int32_t> out;
  for (const Json& item : *items) {
    const auto number = whole(item, least, most);
    if (!number) return wrong(spelling(names), item, whole_needed(least, most));
    out.push_back(static_cast<int32_t>(*number));
  }
  return out;
}

Result<std::vector<double>> Fields::reals(Names names, double least, double most) const {
  LLADA_TRY(const Json* items, list(names));
  std::vector<double> out;
  for (const Json& item : *items) {
    const auto number = finite(item, least, most);
    if (!number) return wrong(spelling(names), item, finite_needed(least, most));
    out.push_back(*number);
  }
  return out;
}

Status Fields::tuples(Names names, size_t width, const std::function<Status(const Json&)>& item) const {
  LLADA_TRY(const Json* items, list(names));
  for (const Json& entry : *items) {
    if (!entry.is_array() || entry.size() != width)
      return wrong(spelling(names), entry, fmt::format("lists of {}", width));
    LLADA_TRY_STATUS(item(entry));
  }
  return {};
}

Status Fields::head(std::string_view format, int64_t version) const {
  LLADA_TRY(const std::string found, text("format"));
  if (found != format) return wrong("format", found, format);
  if (const auto read = integer("version", version, version); !read) return std::unexpected(read.error());
  return {};
}

Status Fields::same(Names names, const std::string& needed, std::string_view made, std::string_view who) const {
  LLADA_TRY(const std::string found, text(names));
  if (found != needed)
    return invalid("{}: {} with {} '{}', {} has '{}'; name another file", source_, made, *names.begin(), found, who,
                   needed);
  return {};
}

Status Fields::finish() const {
  for (size_t i = 0; const auto& [name, value] : object_->get_ref<const Json::object_t&>()) {
    if (read_[i++] || value.is_null()) continue;
    const std::string why = objection_ == nullptr ? "is not known here" : objection_(*this, name, value);
    if (!why.empty()) return fault(name.substr(0, 200), why);
  }
  return {};
}

}  // namespace llada
