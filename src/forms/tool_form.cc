#include "forms/tool_form.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "forms/form.h"
#include "forms/json_schema.h"
#include "forms/json_values.h"
#include "json/parse.h"
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

Result<Expr> arguments(const Json& tool, const std::string& where, CallForm form, Budget& budget,
                       std::vector<std::string>* warnings) {
  if (!tool.contains("parameters")) return text("{}");
  const bool loose = tool.contains("loose") && tool["loose"] == true;
  const std::string place =
      tool.contains("where") && tool["where"].is_string() ? tool["where"].get<std::string>() : where + ".parameters";
  auto read = parse_json_schema(tool["parameters"].dump(), budget,
                                {.loose = loose, .spelling = form, .where = place, .warnings = warnings});
  if (!read && !read.error().message.starts_with(place)) return invalid("{}: {}", place, read.error().message);
  if (read && !is_object(**read)) return invalid("{}: found a schema of other values, needed one of objects", place);
  return read;
}

Result<Expr> call_of(const Json& tool, const std::string& where, CallForm form, std::set<std::string>& names,
                     Budget& budget, std::vector<std::string>* warnings) {
  if (!tool.is_object() || !tool.contains("name") || !tool["name"].is_string() ||
      !is_tool_name(tool["name"].get_ref<const std::string&>()))
    return invalid("{}.name: needed 1 to {} letters, digits, _, -, ., : and /", where, kMostToolName);
  const auto name = tool["name"].get<std::string>();
  if (!names.insert(name).second) return invalid("{}.name: found {} a second time", where, name);
  LLADA_TRY_STATUS(budget.spend(16 + name.size()));
  LLADA_TRY(Expr given, arguments(tool, where, form, budget, warnings));
  const CallSyntax syntax = syntax_of(form);
  return sequence({text(std::string(syntax.begin) + name + std::string(syntax.middle)), std::move(given),
                   text(std::string(syntax.end))});
}

Result<Expr> text_of(const Json& said, CallForm calls, Budget& budget) {
  if (said == "free") {
    // No character has a byte that stands for a control token.
    if (calls == CallForm::gemma) return repeat(any_letter(Letters::plain), 0, -1);
    return without(std::string(syntax_of(calls).mark));
  }
  const auto member = [&](const char* key) { return said.is_object() && said.contains(key) ? said[key] : Json(); };
  const Json kind = member("kind"), form = member("form");
  if (!kind.is_number_unsigned() || kind.get<uint64_t>() >= static_cast<uint64_t>(FormKind::tools) || !form.is_string())
    return invalid("text: found {}, needed null, free or a form", spelled(said).substr(0, 60));
  return parse_form({static_cast<FormKind>(kind.get<int>()), form.get<std::string>(), member("loose") == true}, budget);
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
  LLADA_TRY(const JsonDocument read,
            parse_json_document(given, "tools", {.depth = 80, .values = 20'000, .run_bytes = size_t{1} << 16}));
  const Json& root = read.root;
  const auto known = [&](const char* key) { return root.is_object() && root.contains(key); };
  if (!known("tools") || !root["tools"].is_array() || root["tools"].empty() || root["tools"].size() > kMostTools)
    return invalid("needed 1 to {} tools", kMostTools);
  const Json most = known("most") ? root["most"] : Json(0);
  if (!most.is_number_unsigned() || most.get<uint64_t>() > 1000) return invalid("most: needed 0 to 1000 calls");
  const CallForm form = known("gemma") && root["gemma"] == true ? CallForm::gemma : CallForm::json;
  std::set<std::string> names;
  std::vector<Expr> calls;
  for (const Json& tool : root["tools"]) {
    LLADA_TRY(Expr call, call_of(tool, fmt::format("tools[{}]", calls.size()), form, names, budget, warnings));
    calls.push_back(std::move(call));
  }
  const Expr one = either(std::move(calls));
  const auto further = most.get<int64_t>() - 1;
  const Expr next = sequence({text(std::string(syntax_of(form).between)), one});
  Expr all = further == 0 ? one : sequence({one, repeat(next, 0, further)});
  if (!known("text") || root["text"].is_null()) return all;
  LLADA_TRY(Expr said, text_of(root["text"], form, budget));
  if (root["text"] != "free") return either({std::move(said), std::move(all)});
  return sequence({std::move(said), repeat(std::move(all), 0, 1)});
}

}  // namespace llada::forms
