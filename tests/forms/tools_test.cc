// Answers beside tools as automata: what fits, what a call mark in free text may not do, and that the model's own
// probabilities decide between text and calls.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "forms/form.h"
#include "forms/solve.h"
#include "forms/tool_form.h"
#include "rows.h"
#include "text/json_text.h"
#include "text/tool_calls.h"

namespace llada::forms {
namespace {

const std::string kAdd =
    R"({"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}})";
const std::string kPing = R"({"name": "ping"})";
const std::string kAddCall = "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 12}}\n</tool_call>";
const std::string kPingCall = "<tool_call>\n{\"name\": \"ping\", \"arguments\": {}}\n</tool_call>";

Automaton automaton(const std::string& tools, const std::optional<Form>& said, bool free, int64_t most) {
  auto made = automaton_of({FormKind::tools, tools_text("[" + tools + "]", said, free, most)});
  EXPECT_TRUE(made) << made.error().message;
  return *made;
}

TEST(ToolForm, WhatFits) {
  const std::string both = kAdd + ", " + kPing, two = kAddCall + "\n" + kPingCall;
  const Automaton must = automaton(both, {}, false, 0), may = automaton(both, {}, true, 0);
  const Automaton one = automaton(both, {}, false, 1),
                  form = automaton(both, Form{FormKind::choice, "yes|no"}, true, 1);
  for (const std::string& text : {kAddCall, kPingCall}) {
    EXPECT_TRUE(must.fits(text) && may.fits(text) && one.fits(text) && form.fits(text)) << text;
    EXPECT_TRUE(may.fits("Let me see \xe2\x96\x91 <tool.\n" + text)) << text;
    EXPECT_FALSE(must.fits("x" + text) || must.fits(text + "\n") || may.fits(text + " ") || form.fits("yes" + text));
  }
  EXPECT_TRUE(must.fits(two) && may.fits("a" + two));
  EXPECT_FALSE(one.fits(two) || form.fits(two));
  EXPECT_TRUE(may.fits("") && may.fits("<tool_cal") && may.fits("<<tool_call<tool_call") && form.fits("no"));
  EXPECT_FALSE(must.fits("") || form.fits("maybe"));
  for (const char* wrong : {"<tool_call>", "<tool_call>\n{\"name\": \"sub\", \"arguments\": {}}\n</tool_call>",
                            "<tool_call>\n{\"name\": \"ping\", \"arguments\": {\"a\": 1}}\n</tool_call>",
                            "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": \"1\"}}\n</tool_call>"})
    EXPECT_FALSE(must.fits(wrong) || may.fits(wrong) || may.fits("a<" + std::string(wrong))) << wrong;
}

// Against searching: texts of the letters that the mark is made of.
TEST(ToolForm, FreeTextHasNoMark) {
  std::mt19937 random(3);
  for (const char* mark : {"<tool_call>", "aab", "abab", "a", "aaa"}) {
    const auto made = compile(without(mark));
    ASSERT_TRUE(made);
    EXPECT_LE(made->states(), std::ssize(std::string(mark)) * 1 + 8);
    const std::string letters = std::string(mark) + "ab<";
    for (int i = 0; i < 3000; ++i) {
      std::string text;
      for (unsigned n = random() % 16; n > 0; --n)
        text += random() % 9 == 0   ? "é"
                : random() % 4 == 0 ? std::string(mark).substr(0, random() % 12)
                                    : std::string(1, letters[random() % letters.size()]);
      EXPECT_EQ(made->fits(text), !text.contains(mark)) << mark << ": " << text;
    }
    EXPECT_FALSE(made->fits("\xc3")) << "half a character";
  }
}

// A model of three positions: what it thinks likely is chosen where it fits, and the rest of a call follows.
TEST(ToolForm, ProbabilitiesDecide) {
  const std::vector<std::string> texts = {"", "<tool_call>", "\n{\"name\": \"ping\", \"arguments\": {}}\n</tool_call>",
                                          "Hi", "!"};
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  auto lifted = TokenForm::create(automaton(kPing, {}, true, 0), Vocabulary(views), {{0}, 0});
  ASSERT_TRUE(lifted);
  Solver solver(std::make_shared<const TokenForm>(*std::move(lifted)), false);
  Track track;
  const auto best = [&](const std::vector<std::vector<float>>& logits) {
    std::vector<RowScores> rows;
    for (const auto& row : logits) rows.push_back(read_row(row, solver.form(), {}));
    std::vector<Slot> slots;
    for (const RowScores& row : rows) slots.push_back({-1, &row});
    std::string text;
    for (const Chosen& chosen : solver.solve(slots, track)) text += texts[static_cast<size_t>(chosen.token)];
    return text;
  };
  EXPECT_EQ(best({{0, 1, 0, 4, 0}, {0, 0, 0, 0, 5}, {3, 0, 0, 0, 0}}), "Hi!");
  EXPECT_EQ(best({{0, 9, 0, 4, 0}, {0, 0, 3, 0, 5}, {3, 0, 0, 0, 0}}), kPingCall);
  // The mark is likely, but nothing of what must follow is.
  EXPECT_EQ(best({{0, 9, 0, 8, 0}, {0, 0, -9, 0, 5}, {3, 0, 0, 0, 0}}), "Hi!");
}

TEST(ToolForm, LooseSchemasLeaveOutWhatIsNotKnown) {
  const std::string schema = R"({"type": "object", "properties": {
      "a": {"type": "string", "pattern": "(?=x)y"}, "b": {"type": "number", "multipleOf": 1e-12, "maximum": 9},
      "c": {"type": "array", "uniqueItems": true, "items": {"type": "integer"}}, "d": {"$ref": "x", "maxLength": 2}},
      "required": ["a", "b", "c", "d"], "minProperties": 5})";
  const std::string tool = R"([{"name": "f", "loose": LOOSE, "parameters": )" + schema + "}]";
  const auto text = [&](const char* loose) {
    std::string with = tool;
    return tools_text(with.replace(with.find("LOOSE"), 5, loose), {}, false, 1);
  };
  EXPECT_FALSE(automaton_of({FormKind::tools, text("false")}));
  std::vector<std::string> dropped;
  ASSERT_TRUE(check_form({FormKind::tools, text("true")}, &dropped));
  std::string places;
  for (const std::string& line : dropped)
    places += line.substr(0, line.find(": ")).substr(std::string("tools[0].parameters.").size()) + " ";
  EXPECT_EQ(places,
            "properties.a.pattern properties.b.multipleOf properties.c.uniqueItems properties.d.$ref "
            "minProperties ");
  const auto made = automaton_of({FormKind::tools, text("true")});
  ASSERT_TRUE(made);
  const auto fits = [&](const std::string& arguments) {
    return made->fits("<tool_call>\n{\"name\": \"f\", \"arguments\": " + arguments + "}\n</tool_call>");
  };
  EXPECT_TRUE(fits(R"({"a": "any", "b": 0.25, "c": [1, 1], "d": "::"})"));
  EXPECT_FALSE(fits(R"({"a": "any", "b": 10, "c": [], "d": "::"})")) << "what is known still counts";
  EXPECT_FALSE(fits(R"({"a": "any", "b": 1, "c": [], "d": ":::"})"));
  EXPECT_FALSE(fits(R"({"a": "any", "b": 1, "c": 2, "d": ""})"));
}

// Gemma's calls: what fits is read back as the JSON that the schema asks for, member by member in their order.
TEST(ToolForm, OfGemma) {
  const std::string tool = R"([{"name": "f", "parameters": {"type": "object", "properties": {
      "z": {"type": "string", "minLength": 1, "maxLength": 3}, "A:b": {"enum": ["x", 1, null, {"k": [true]}]},
      "c": {"type": "array", "items": {"type": "number"}}, "o": {"type": "object", "additionalProperties": {"type": "boolean"}},
      "n": {"type": ["null", "integer"]}, "p": {"type": "string", "pattern": "^a.c$"}, "d": {"type": "string", "format": "date"},
      "any": {}}, "required": ["z"]}}, {"name": "g"}])";
  const auto made = automaton_of({FormKind::tools, tools_text(tool, {}, true, 0, CallForm::gemma)});
  const auto must = automaton_of({FormKind::tools, tools_text(tool, {}, false, 1, CallForm::gemma)});
  ASSERT_TRUE(made && must);
  const auto call = [](const std::string& name, const std::string& arguments) {
    return std::string(kGemmaCall) + "call:" + name + arguments + std::string(kGemmaCallEnd);
  };
  int fitting = 0;
  for (const char* arguments :
       {R"({"z": "ab"})", R"({"A:b": {"k": [true]}, "z": "\n\"}"})", R"({"A:b": null, "c": [1, -2.5], "z": "<|\""})",
        R"({"c": [], "o": {}, "z": "é"})", R"({"n": null, "o": {"k": true, "l_1": false}, "z": "a"})",
        R"({"any": {"a": [1, "x"]}, "d": "2024-02-28", "n": 7, "p": "a\"c", "z": "z"})"}) {
    const auto value = Json::parse(arguments);
    const std::string text = call("f", spelled(value, CallForm::gemma));
    EXPECT_TRUE(must->fits(text) && made->fits("Hi <|tool_call>\n" + text + call("g", "{}"))) << arguments;
    const AnswerWithCalls read = read_calls(text, CallForm::gemma);
    ASSERT_EQ(read.calls.size(), 1u);
    EXPECT_EQ(read.calls[0].arguments, arguments);
    ++fitting;
  }
  EXPECT_EQ(fitting, 6);
  EXPECT_TRUE(must->fits(call("g", "{}")) && made->fits("") && made->fits("any <|tool_call>call:f{}<tool_call|>"));
  EXPECT_TRUE(must->fits(call("f", "{n:None,z:\xFAz\xFA}"))) << "Python's word for null, as older templates have it";
  for (const char* wrong :
       {"{}", "{z:\"ab\"}", "{z:\xFA\xFA}", "{z: \xFAz\xFA}", "{z:\xFAz\xFA,c:[1]}", "{A:b:1,z:\xFAz\xFA}"})
    EXPECT_FALSE(must->fits(call("f", wrong)) || made->fits(call("f", wrong))) << wrong;
  EXPECT_FALSE(must->fits(call("g", "{}") + call("g", "{}")) || made->fits(std::string(kGemmaCall)) ||
               made->fits(call("g", "{}") + "x"));
}

TEST(ToolForm, ErrorsNameTheTool) {
  for (const auto& [tools, says] : std::vector<std::pair<std::string, std::string>>{
           {"5", "tools[0]: found 5, needed an object"},
           {R"({"name": "a b"})", "tools[0].name: found \"a b\", needed 1 to 128 letters"},
           {kAdd + ", " + kAdd, "tools[1].name: found \"add\", needed a name that no tool before it has"},
           {kPing + R"(, {"name": "x", "parameters": {"type": "object", "not": {}}})",
            "tools[1].parameters: no value fits the schema"},
           {R"({"name": "x", "parameters": true})", "tools[0].parameters: found a schema of other values"},
           {R"({"name": "x", "parameters": {"$ref": "#/a"}})", "tools[0].parameters.$ref: found"}}) {
    const auto made = automaton_of({FormKind::tools, tools_text("[" + tools + "]", {}, true, 0)});
    ASSERT_FALSE(made) << tools;
    EXPECT_TRUE(made.error().message.starts_with(says)) << made.error().message;
  }
  for (const char* broken : {"", "[]", "{\"tools\": []}", "{\"tools\": [{\"name\": \"a\"}], \"most\": -1}",
                             "{\"tools\": [{\"name\": \"a\"}], \"text\": {\"kind\": 5, \"form\": \"x\"}}"})
    EXPECT_FALSE(automaton_of({FormKind::tools, broken})) << broken;
}

}  // namespace
}  // namespace llada::forms
