#include "json/parse.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <utility>
#include <vector>

template class nlohmann::basic_json<nlohmann::ordered_map>;

namespace llada {
namespace {

// The text of a number that has none of its own (JsonNumbers): the shortest that is read as the same double.
std::string_view number_text(double value, std::array<char, 32>& space) {
  const auto end = std::to_chars(space.data(), space.data() + space.size() - 2, value).ptr;
  std::string_view text(space.data(), static_cast<size_t>(end - space.data()));
  if (text.find_first_of(".en") != std::string_view::npos) return text;
  end[0] = '.', end[1] = '0';
  return {space.data(), text.size() + 2};
}

// Makes the tree from the parser's events. nlohmann's own parsing looks for each member of an ordered object among all
// before it, and with a callback through what a list holds already whenever an object in it ends.
class TreeBuilder {
 public:
  explicit TreeBuilder(const JsonWatch& watch) : watch_(watch) {}

  Status status;     // of the watch
  size_t wrong = 0;  // the byte, from 1, where the parser gave up

  Json take() { return std::move(root_); }
  const std::string& duplicate() const { return duplicate_; }  // the first field that was found twice; empty: none
  // Of the numbers that the tree writes otherwise: their place among all that are no natural numbers, and their text.
  std::vector<std::pair<size_t, std::string>>& spelled() { return spelled_; }

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_unsigned(Json::number_unsigned_t value) { return add(value); }
  bool number_integer(Json::number_integer_t value) {
    if (value == 0) spelled_.emplace_back(numbers_, "-0");
    ++numbers_;
    return add(value);
  }
  bool number_float(Json::number_float_t value, const std::string& text) {
    std::array<char, 32> space;
    if (number_text(value, space) != text) spelled_.emplace_back(numbers_, text);
    ++numbers_;
    return add(value);
  }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(Json::binary_t&) { return false; }  // JSON has none
  bool start_object(size_t) { return open(true); }
  bool start_array(size_t) { return open(false); }
  bool end_array() {
    place(Json(std::move(open_.back().items)), open_.size() - 1);
    open_.pop_back();
    return true;
  }
  bool end_object() {
    auto& members = open_.back().members;
    note_duplicate(members);
    Json::object_t object;
    object.reserve(members.size());
    for (auto& [name, value] : members) object.emplace_back(std::move(name), std::move(value));
    place(Json(std::move(object)), open_.size() - 1);
    open_.pop_back();
    return true;
  }
  bool key(std::string& name) {
    open_.back().members.emplace_back(std::move(name), nullptr);
    return go_on();
  }
  bool parse_error(size_t place, const std::string&, const nlohmann::detail::exception&) {
    wrong = place;
    return false;
  }

 private:
  using Members = std::vector<std::pair<std::string, Json>>;
  struct Open {
    bool is_object;
    Members members = {};
    Json::array_t items = {};
  };

  // In the innermost of the first `depth` lists and objects that are open.
  void place(Json value, size_t depth) {
    if (depth == 0)
      root_ = std::move(value);
    else if (open_[depth - 1].is_object)
      open_[depth - 1].members.back().second = std::move(value);
    else
      open_[depth - 1].items.push_back(std::move(value));
  }
  bool add(Json value) {
    place(std::move(value), open_.size());
    return go_on();
  }
  bool open(bool is_object) {
    open_.push_back({.is_object = is_object});
    return go_on();
  }
  void note_duplicate(const Members& members) {
    if (!duplicate_.empty() || members.size() < 2) return;
    std::vector<std::string_view> names;
    names.reserve(members.size());
    for (const auto& member : members) names.emplace_back(member.first);
    std::ranges::sort(names);
    const auto twice = std::ranges::adjacent_find(names);
    if (twice != names.end())
      duplicate_ = Json(twice->substr(0, 100)).dump(-1, ' ', true, Json::error_handler_t::replace);
  }
  bool go_on() {
    if (!watch_ || ++events_ % kJsonWatch != 0) return true;
    status = watch_();
    return status.has_value();
  }

  const JsonWatch& watch_;
  size_t events_ = 0, numbers_ = 0;  // values and fields; numbers that are no natural ones
  Json root_;
  std::vector<Open> open_;  // lists and objects that have not ended, from the outside
  std::vector<std::pair<size_t, std::string>> spelled_;
  std::string duplicate_;
};

template <class Events>
Status read_events(std::string_view text, std::string_view source, const JsonLimits& limits, Events& events) {
  LLADA_TRY_STATUS(check_json_limits(text, source, limits));
  const bool valid = Json::sax_parse(text, &events);
  LLADA_TRY_STATUS(events.status);
  if (!valid && events.wrong > text.size())
    return invalid("{}: not valid JSON: it ends too early, at byte {}", source, text.size());
  if (!valid) return invalid("{}: not valid JSON at byte {} of {}", source, events.wrong, text.size());
  return {};
}

Result<TreeBuilder> build(std::string_view text, std::string_view source, const JsonLimits& limits,
                          const JsonWatch& watch) {
  TreeBuilder builder(watch);
  LLADA_TRY_STATUS(read_events(text, source, limits, builder));
  if (!builder.duplicate().empty()) return invalid("{}: field {} appears twice", source, builder.duplicate());
  return builder;
}

// Places of the numbers of `spelled`, which both stand in the order of the text. met: numbers before `value`.
void find_numbers(const Json& value, std::vector<std::pair<size_t, std::string>>& spelled, size_t& met,
                  JsonNumbers& out) {
  if (value.is_structured()) {
    for (const Json& inner : value) find_numbers(inner, spelled, met, out);
  } else if (value.is_number() && !value.is_number_unsigned()) {
    const size_t found = out.size();
    if (found < spelled.size() && spelled[found].first == met) out.emplace(&value, std::move(spelled[found].second));
    ++met;
  }
}

void write(const Json& value, const JsonNumbers& numbers, std::string& out) {
  const auto text = [](const auto& scalar) { return scalar.dump(-1, ' ', false, Json::error_handler_t::replace); };
  const char* separator = "";
  if (value.is_object()) {
    out += '{';
    for (const auto& [name, inner] : value.get_ref<const Json::object_t&>()) {
      out.append(std::exchange(separator, ",")).append(text(Json(name))) += ':';
      write(inner, numbers, out);
    }
    out += '}';
  } else if (value.is_array()) {
    out += '[';
    for (const Json& inner : value) {
      out += std::exchange(separator, ",");
      write(inner, numbers, out);
    }
    out += ']';
  } else {
    const auto number = value.is_number() ? numbers.find(&value) : numbers.end();
    std::array<char, 32> space;
    if (number != numbers.end())
      out += number->second;
    else if (value.is_number_float())
      out += number_text(value.get<double>(), space);
    else
      out += text(value);
  }
}

}  // namespace

Result<JsonDocument> parse_json_document(std::string_view text, std::string_view source, const JsonLimits& limits,
                                         const JsonWatch& watch) {
  LLADA_TRY(auto built, build(text, source, limits, watch));
  JsonDocument document{.root = built.take()};
  size_t met = 0;
  document.numbers.reserve(built.spelled().size());
  if (!built.spelled().empty()) find_numbers(document.root, built.spelled(), met, document.numbers);
  return document;
}

Result<JsonDocument> parse_ordered_object(std::string_view text, std::string_view source, const JsonLimits& limits,
                                          const JsonWatch& watch) {
  LLADA_TRY(JsonDocument document, parse_json_document(text, source, limits, watch));
  if (!document.root.is_object()) return invalid("{}: the JSON is not an object", source);
  return document;
}

Result<Json> parse_json_object(std::string_view text, std::string_view source, const JsonLimits& limits,
                               const JsonWatch& watch) {
  LLADA_TRY(JsonDocument document, parse_ordered_object(text, source, limits, watch));
  return std::move(document.root);
}

Status read_json_events(std::string_view text, std::string_view source, const JsonLimits& limits, JsonEvents& events) {
  return read_events(text, source, limits, events);
}

std::string json_text(const Json& value, const JsonNumbers& numbers) {
  std::string out;
  write(value, numbers, out);
  return out;
}

}  // namespace llada
