#include "forms/tool_form.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "forms/form.h"
#include "forms/json_schema.h"
#include "forms/json_values.h"
#include "json/fields.h"
#include "text/tool_calls.h"

namespace llada::forms {
namespace {

// Whether every text is an object's.
bool is_object(const Expression& e) {
  switch (e.kind) {
    case Expression::Kind::never:
      return true;
    case Expression::Kind::text:
      return e.text.starts_with('{');
    case Expression::Kind::sequence:
      return !e.parts.empty() && is_object(*e.parts.front());
    case Expression::Kind::either:
      return std::ranges::all_of(e.parts, [](const Expr& part) { return is_object(*part); });
    default:
      return false;
  }
}

Result<Expr> arguments(const Fields& tool, CallForm form, Budget& budget, std::vector<std::string>* warnings) {
  const Json* parameters = tool.find("parameters");
  if (parameters == nullptr) return text("{}");
  LLADA_TRY(const bool loose, tool.boolean("loose", false));
  LLADA_TRY(const std::string place, tool.text("where", tool.path("parameters")));
  auto read = parse_json_schema(parameters->dump(), budget,
                                {.loose = loose, .spelling = form, .where = place, .warnings = warnings});
  if (!read && !read.error().message.starts_with(place)) return invalid("{}: {}", place, read.error().message);
  if (read && !is_object(**read)) return invalid("{}: found a schema of other values, needed one of objects", place);
  return read;
}

Result<Expr> call_of(const Fields& tool, CallForm form, std::set<std::string>& names, Budget& budget,
                     std::vector<std::string>* warnings) {
  LLADA_TRY(const std::string name, tool.text("name"));
  if (!is_tool_name(name))
    return tool.unfit("name", fmt::format("1 to {} letters, digits, _, -, ., : and /", kMostToolName));
  if (!names.insert(name).second) return tool.unfit("name", "a name that no tool before it has");
  LLADA_TRY_STATUS(budget.spend(16 + name.size()));
  LLADA_TRY(Expr given, arguments(tool, form, budget, warnings));
  const CallSyntax syntax = syntax_of(form);
  return sequence({text(std::string(syntax.begin) + name + std::string(syntax.middle)), std::move(given),
                   text(std::string(syntax.end))});
}

// Of the text beside the calls, which is there.
Result<Expr> text_of(const Fields& root, CallForm calls, Budget& budget) {
  const Json& said = *root.find("text");
  // No character has a byte that stands for a control token.
  if (said == "free" && calls == CallForm::gemma) return repeat(any_letter(Letters::plain), 0, -1);
  if (said == "free") return without(std::string(syntax_of(calls).mark));
  if (!said.is_object()) return root.unfit("text", "null, free or a form");
  LLADA_TRY(const Fields form, root.object("text"));
  LLADA_TRY(const int64_t kind, form.integer("kind", 0, static_cast<int64_t>(FormKind::tools) - 1));
  LLADA_TRY(std::string text, form.text("form"));
  LLADA_TRY(const bool loose, form.boolean("loose", false));
  return parse_form({static_cast<FormKind>(kind), std::move(text), loose}, budget);
}

}  // namespace

std::string tools_text(std::string_view tools, const std::optional<Form>& said, bool free, int64_t most,
                       CallForm form) {
  const Json text =
      said   ? Json{{"kind", static_cast<unsigned>(said->kind)}, {"form", said->text}, {"loose", said->loose}}
      : free ? Json("free")
             : Json();
  return fmt::format(R"({{"tools": {}, "text": {}, "most": {}, "gemma": {}}})", tools,
                     text.dump(-1, ' ', false, Json::error_handler_t::replace), most, form == CallForm::gemma);
}

Result<Expr> parse_tools(std::string_view given, Budget& budget, std::vector<std::string>* warnings) {
  // Of several schemas, each of which has the limits of one when it is read.
  LLADA_TRY(JsonDocument read,
            parse_ordered_object(given, "tools", {.depth = 80, .values = 20'000, .run_bytes = size_t{1} << 16}));
  const Fields root(std::move(read), "");
  LLADA_TRY(const auto tools, root.objects("tools"));
  if (tools.empty() || tools.size() > kMostTools)
    return root.fault("tools", fmt::format("found {}, needed 1 to {}", tools.size(), kMostTools));
  LLADA_TRY(const int64_t most, root.integer("most", 0, 1000, 0));
  LLADA_TRY(const bool gemma, root.boolean("gemma", false));
  const CallForm form = gemma ? CallForm::gemma : CallForm::json;
  std::set<std::string> names;
  std::vector<Expr> calls;
  for (const Fields& tool : tools) {
    LLADA_TRY(Expr call, call_of(tool, form, names, budget, warnings));
    calls.push_back(std::move(call));
  }
  const Expr one = either(std::move(calls));
  const Expr next = sequence({text(std::string(syntax_of(form).between)), one});
  Expr all = most == 1 ? one : sequence({one, repeat(next, 0, most - 1)});
  if (!root.has("text")) return all;
  LLADA_TRY(Expr said, text_of(root, form, budget));
  if (*root.find("text") != "free") return either({std::move(said), std::move(all)});
  return sequence({std::move(said), repeat(std::move(all), 0, 1)});
}

}  // namespace llada::forms
