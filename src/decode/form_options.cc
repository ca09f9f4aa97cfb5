#include "decode/form_options.h"

#include <utility>

#include "decode/field_entry.h"
#include "forms/tool_form.h"

namespace llada::decode {
namespace {

// For callers that name the field themselves.
void drop_key(forms::FormKind kind, std::string& message) {
  const std::string before = fmt::format("{}: ", forms::key_of(kind));
  if (message.starts_with(before)) message.erase(0, before.size());
}

template <auto Member, forms::FormKind kind>
Entry form_entry(std::string_view unit, std::string_view help) {
  Entry f(FieldGroup::form, forms::key_of(kind), unit, help);
  f.text = true;
  f.read = [](const Field& self, std::string_view text, DecodeOptions& o) -> Status {
    if (text.empty()) return invalid("found '', needed {}; without it the answer is free", self.unit);
    const forms::Form form{kind, std::string(text)};
    // A form that takes longer is refused when it is made.
    if (auto known = forms::check_form(form, nullptr, "$", forms::Budget::kFewSteps); !known) {
      drop_key(kind, known.error().message);
      return std::unexpected(known.error());
    }
    o.*Member = text;
    if (kind == forms::FormKind::json_schema) o.loose_schema = false;
    return {};
  };
  f.show = [](const Field&, const DecodeOptions& o) { return o.*Member; };
  f.check = [](const Field&, const DecodeOptions&) -> Status { return {}; };
  return f;
}

}  // namespace

std::span<const Field> form_fields() {
  using O = FormOptions;
  using enum forms::FormKind;
  // clang-format off
  static const Field kFields[] = {
    form_entry<&O::choice, choice>("A|B|...", "the answer is one of these texts"),
    form_entry<&O::regex, regex>("REGEX", "the whole answer fits the regular expression"),
    form_entry<&O::json_schema, json_schema>("FILE|JSON", "the answer is JSON that is valid by the schema"),
    field<&O::json_object>(FieldGroup::form, "json_object", "N",
        "the answer is a JSON object of at most N levels; 0: it need not be").in({0, forms::kMostLevels}),
    form_entry<&O::form_template, form_template>("TEXT",
        "the answer is this text with its typed gaps filled, as in {\"age\": <int 0..150>}"),
  };
  // clang-format on
  return kFields;
}

namespace {

using Read = std::function<Result<bool>(std::vector<std::string>& lines, int64_t steps)>;

// The lines for what is left out, or with `late` no more than a few steps, and there the rest.
Result<std::vector<std::string>> check(const Read& read, LateReading* late) {
  std::vector<std::string> lines;
  LLADA_TRY(const bool known, read(lines, late != nullptr ? forms::Budget::kFewSteps : forms::Budget::kMostSteps));
  if (known) return lines;
  *late = [read] { return check(read, nullptr); };
  return std::vector<std::string>();
}

}  // namespace

Result<std::vector<std::string>> set_tools(FormOptions& o, std::string_view tools, bool must_call, int64_t most,
                                           CallForm calls, LateReading* late) {
  o.tools.clear();
  const auto said = must_call ? std::nullopt : form_of(o);
  forms::Form form{forms::FormKind::tools, forms::tools_text(tools, said, !must_call, most, calls)};
  LLADA_TRY(auto left_out,
            check([form](auto& lines, int64_t steps) { return check_form(form, &lines, "$", steps); }, late));
  o.tools = std::move(form.text);
  return left_out;
}

Result<std::vector<std::string>> set_schema(FormOptions& o, std::string_view schema, bool strict,
                                            std::string_view where, LateReading* late) {
  const forms::Form form{forms::FormKind::json_schema, std::string(schema), !strict};
  const auto read = [form, where = std::string(where)](auto& lines, int64_t steps) {
    auto known = forms::check_form(form, &lines, where, steps);
    if (known) return known;
    std::string& message = known.error().message;
    drop_key(form.kind, message);
    if (!message.starts_with(where)) message = fmt::format("{}: {}", where, message);
    return known;
  };
  LLADA_TRY(auto left_out, check(read, late));
  o.json_schema = form.text, o.loose_schema = form.loose;
  return left_out;
}

std::optional<forms::Form> form_of(const FormOptions& o) {
  using enum forms::FormKind;
  if (!o.tools.empty()) return forms::Form{forms::FormKind::tools, o.tools};
  if (!o.choice.empty()) return forms::Form{choice, o.choice};
  if (!o.regex.empty()) return forms::Form{regex, o.regex};
  if (!o.json_schema.empty()) return forms::Form{json_schema, o.json_schema, o.loose_schema};
  if (o.json_object > 0) return forms::Form{json_object, std::to_string(o.json_object)};
  if (!o.form_template.empty()) return forms::Form{form_template, o.form_template};
  return {};
}

}  // namespace llada::decode
