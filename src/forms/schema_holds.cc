// Whether a value that stands in a schema fits one, by the specification, as far as that is known without a model.
#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

#include "forms/schema_document.h"

namespace llada::forms {

bool is_of_type(const Json& value, std::string_view type) {
  if (type == "integer")
    return value.is_number_integer() ||
           (value.is_number_float() && value.get<double>() == std::floor(value.get<double>()));
  return type == "any" || (type == "string" && value.is_string()) || (type == "number" && value.is_number()) ||
         (type == "boolean" && value.is_boolean()) || (type == "null" && value.is_null()) ||
         (type == "array" && value.is_array()) || (type == "object" && value.is_object());
}

// 1 and 1.0 are the same, and members have no order.
std::string canonical(const Json& value) {
  if (value.is_number_float() && is_of_type(value, "integer"))
    if (const double number = value.get<double>(); number > -0x1p63 && number < 0x1p64)
      return number < 0 ? fmt::format("{}", static_cast<int64_t>(number))
                        : fmt::format("{}", static_cast<uint64_t>(number));
  if (!value.is_structured()) return spelled(value);
  std::vector<std::string> parts;
  for (const auto& [key, part] : value.items())
    parts.push_back(value.is_object() ? fmt::format("{}:{}", Json(key).dump(), canonical(part)) : canonical(part));
  if (value.is_object()) std::ranges::sort(parts);
  return fmt::format("{}{}", value.is_object() ? '{' : '[', fmt::join(parts, ","));
}

bool same_value(const Json& a, const Json& b) { return canonical(a) == canonical(b); }

namespace {

// Kleene's logic of three values.
using Truth = std::optional<bool>;
Truth negated(Truth a) { return a ? Truth(!*a) : a; }
Truth with(Truth a, Truth b) {
  if (a == false || b == false) return false;
  return a && b ? Truth(true) : Truth();
}

class Validator {
 public:
  Validator(Document& document, const Json& schema, const Json& value, int depth)
      : document_(document), s_(schema), v_(value), depth_(depth) {}

  Truth all() {
    if (s_.is_boolean()) return s_.get<bool>();
    // Members are searched one by one.
    const auto looked = std::ssize(s_) * (v_.is_object() ? std::ssize(v_) : 1);
    if (!s_.is_object() || depth_ > 40 || !document_.budget().spend(2) || !document_.budget().step(10 * looked))
      return {};
    if (const Json& to = member("$ref"); to.is_string()) {
      const auto target = document_.follow(s_, to.get_ref<const std::string&>());
      Truth there = target ? fits(**target, v_) : Truth();
      if (document_.draft() < 2019) return there;
      truth_ = with(truth_, there);
    }
    for (const auto& [key, value] : s_.items()) {
      truth_ = with(truth_, keyword(key, value));
      if (truth_ == false) break;
    }
    return truth_;
  }

 private:
  Truth fits(const Json& schema, const Json& value) { return holds(document_, schema, value, depth_ + 1); }
  const Json& member(const char* key) const {
    static const Json none;
    const auto at = s_.find(key);
    return at == s_.end() ? none : *at;
  }

  Truth every(const Json& list, const Json& value, bool all) {
    Truth truth = all;
    if (!list.is_array()) return {};
    for (const Json& schema : list)
      truth = all ? with(truth, fits(schema, value)) : negated(with(negated(truth), negated(fits(schema, value))));
    return truth;
  }

  Truth compared(const Json& bound, auto compare) const {
    if (!v_.is_number() || bound.is_boolean()) return true;
    if (!bound.is_number()) return {};
    return compare(v_.get<double>(), bound.get<double>());
  }

  Truth counted(size_t found, const Json& bound, bool least) const {
    if (!bound.is_number()) return {};
    const auto size = static_cast<double>(found);
    return least ? size >= bound.get<double>() : size <= bound.get<double>();
  }

  Truth keyword(const std::string& key, const Json& k) {
    if (key == "type") {
      const auto is = [&](const Json& type) {
        return type.is_string() && is_of_type(v_, type.get_ref<const std::string&>());
      };
      return k.is_array() ? std::ranges::any_of(k, is) : is(k);
    }
    if (key == "const") return document_.same(v_, k);
    if (key == "enum") return k.is_array() && document_.lists(k, v_);
    if (key == "minimum")
      return member("exclusiveMinimum") == true ? compared(k, std::greater<>()) : compared(k, std::greater_equal<>());
    if (key == "maximum")
      return member("exclusiveMaximum") == true ? compared(k, std::less<>()) : compared(k, std::less_equal<>());
    if (key == "exclusiveMinimum") return compared(k, std::greater<>());
    if (key == "exclusiveMaximum") return compared(k, std::less<>());
    if (key == "multipleOf" || key == "divisibleBy") {
      if (!v_.is_number()) return true;
      if (!v_.is_number_integer() || !k.is_number_integer() || k == 0) return {};
      return v_.get<int64_t>() % k.get<int64_t>() == 0;
    }
    if (v_.is_string()) {
      const auto& text = v_.get_ref<const std::string&>();
      const auto starts = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; };
      if (key == "minLength" || key == "maxLength")
        return counted(static_cast<size_t>(std::ranges::count_if(text, starts)), k, key == "minLength");
      if (key == "pattern") {
        const Automaton* found = k.is_string() ? document_.pattern(k.get<std::string>()) : nullptr;
        static_cast<void>(document_.budget().step(std::ssize(text)));
        return found == nullptr ? Truth() : Truth(found->fits(text));
      }
    }
    if (v_.is_array() || v_.is_object())
      if (const auto told = v_.is_array() ? of_list(key, k) : of_object(key, k)) return *told;
    if (key == "allOf" || key == "anyOf") return every(k, v_, key == "allOf");
    if (key == "not") return negated(fits(k, v_));
    if (key == "oneOf") {
      size_t fitting = 0;
      for (const Json& schema : k) {
        const Truth one = fits(schema, v_);
        if (!one) return {};
        fitting += *one;
      }
      return fitting == 1;
    }
    if (key == "if") {
      const Truth condition = fits(k, v_);
      if (!condition) return {};
      const Json& branch = member(*condition ? "then" : "else");
      return branch.is_null() ? Truth(true) : fits(branch, v_);
    }
    if (key == "$dynamicRef" || key == "$recursiveRef") return {};
    return true;
  }

  // Nothing: the keyword is not about lists.
  std::optional<Truth> of_list(const std::string& key, const Json& k) {
    if (key == "minItems" || key == "maxItems") return counted(v_.size(), k, key == "minItems");
    const bool tuple = key == "prefixItems" || (key == "items" && k.is_array());
    if (tuple || key == "items") {
      const Json& first = member("prefixItems");
      Truth truth = true;
      for (size_t i = !tuple && first.is_array() ? first.size() : 0; i < v_.size(); ++i)
        if (!tuple || i < k.size()) truth = with(truth, fits(tuple ? k[i] : k, v_[i]));
      return truth;
    }
    if (key == "additionalItems" && member("items").is_array()) {
      Truth truth = true;
      for (size_t i = member("items").size(); i < v_.size(); ++i) truth = with(truth, fits(k, v_[i]));
      return truth;
    }
    if (key == "uniqueItems" && k == true) {
      return canonical_values(v_).size() == v_.size();
    }
    if (key == "contains" || key == "unevaluatedItems") return std::optional<Truth>(std::in_place);
    return {};
  }

  std::optional<Truth> of_object(const std::string& key, const Json& k) {
    if (key == "minProperties" || key == "maxProperties") return counted(v_.size(), k, key == "minProperties");
    if (key == "required") {
      if (!k.is_array()) return true;
      return std::ranges::all_of(
          k, [&](const Json& name) { return name.is_string() && v_.contains(name.get_ref<const std::string&>()); });
    }
    Truth truth = true;
    if (key == "properties" && k.is_object()) {
      for (const auto& [name, schema] : k.items())
        if (const auto at = v_.find(name); at != v_.end()) truth = with(truth, fits(schema, *at));
      return truth;
    }
    if (key == "propertyNames") {
      for (const auto& [name, value] : v_.items()) truth = with(truth, fits(k, Json(name)));
      return truth;
    }
    const Json &declared = member("properties"), &patterns = member("patternProperties");
    if (key == "patternProperties" || key == "additionalProperties") {
      for (const auto& [name, value] : v_.items()) {
        bool matched = declared.is_object() && declared.contains(name);
        for (const auto& [regex, schema] : patterns.items()) {
          const Automaton* found = document_.pattern(regex);
          if (found == nullptr || !document_.budget().step(10 + std::ssize(name)))
            return std::optional<Truth>(std::in_place);
          if (!found->fits(name)) continue;
          matched = true;
          if (key == "patternProperties") truth = with(truth, fits(schema, value));
        }
        if (key == "additionalProperties" && !matched) truth = with(truth, fits(k, value));
      }
      return truth;
    }
    if (key == "dependencies" || key == "dependentRequired" || key == "dependentSchemas") {
      for (const auto& [name, needs] : k.items()) {
        if (!v_.contains(name)) continue;
        if (needs.is_array())
          for (const Json& other : needs)
            truth = with(truth, other.is_string() && v_.contains(other.get_ref<const std::string&>()));
        else
          truth = with(truth, fits(needs, v_));
      }
      return truth;
    }
    if (key == "unevaluatedProperties") return std::optional<Truth>(std::in_place);
    return {};
  }

  Document& document_;
  const Json &s_, &v_;
  const int depth_;
  Truth truth_ = true;
};

}  // namespace

std::optional<bool> holds(Document& document, const Json& schema, const Json& value, int depth) {
  return Validator(document, schema, value, depth).all();
}

}  // namespace llada::forms
