// Definitions of tools and conversations with their calls and results, in each protocol, from the JSON of a body to a
// prompt and an automaton: no input may crash, every refusal is one line, and what is read as a call of an answer is
// one that the form lets pass. The first byte says which protocol, and how the model writes calls.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "decode/form_options.h"
#include "forms/form.h"
#include "serve/protocols/reading.h"
#include "text/byte_alphabet.h"
#include "text/json_text.h"
#include "text/tool_calls.h"
#include "text/utf8.h"

namespace {

using namespace llada;

void need(bool holds) {
  if (!holds) std::abort();
}

template <class T>
bool answered(const std::expected<T, serve::ApiError>& answer) {
  if (!answer) need(answer.error().status == 400 && !answer.error().message.contains('\n'));
  return answer.has_value();
}

const Tokenizer& tokenizer() {
  static const Tokenizer made = [] {
    TokenizerSpec spec;
    spec.pre = "gpt-2";
    for (int byte = 0; byte < 256; ++byte)
      spec.tokens.push_back(to_byte_alphabet(std::string(1, static_cast<char>(byte))));
    spec.kinds.assign(spec.tokens.size(), TokenKind::normal);
    for (const char* control : {"<|turn>", "<turn|>", "<|tool>", "<tool|>", "<|tool_call>", "<tool_call|>", "<|\"|>"}) {
      spec.tokens.emplace_back(control);
      spec.kinds.push_back(TokenKind::control);
    }
    return *Tokenizer::create(std::move(spec), "fuzz");
  }();
  return made;
}

// Numbers that no double holds are JSON, too, but the parser refuses them.
std::string without_exponents(std::string_view json) {
  std::string out;
  bool quoted = false;
  for (size_t at = 0; at < json.size(); ++at) {
    const char c = json[at];
    const bool digit_before = !out.empty() && out.back() >= '0' && out.back() <= '9';
    if (!quoted && (c == 'e' || c == 'E') && digit_before) {
      const size_t begin = at + 1 < json.size() && (json[at + 1] == '+' || json[at + 1] == '-') ? at + 2 : at + 1;
      const size_t end = std::min(json.find_first_not_of("0123456789", begin), json.size());
      need(end > begin);
      at = end - 1;
      continue;
    }
    out += c;
    if (quoted && c == '\\' && at + 1 < json.size())
      out += json[++at];
    else if (c == '"')
      quoted = !quoted;
  }
  return out;
}

// However the bytes of an answer are cut, they are read the same, and complete arguments are JSON.
void read_pieces(std::string_view bytes, CallForm form) {
  const AnswerWithCalls whole = read_calls(bytes, form);
  CallReader reader(form);
  std::string text, all;
  for (size_t at = 0; at < bytes.size(); ++at)
    for (const AnswerPiece& piece : reader.take(bytes.substr(at, 1), at + 1 == bytes.size()))
      (piece.call < 0 ? text : all) += piece.text;
  need(text == whole.text);
  std::string joined;
  for (const ToolCall& call : whole.calls) joined += call.arguments;
  need(all.starts_with(joined));
  for (const ToolCall& call : whole.calls)
    need(form == CallForm::json || call.arguments.size() > 300 ||
         Json::accept(without_exponents(to_valid_utf8(call.arguments))));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0 || size > 4096) return 0;
  using serve::Calls;
  static constexpr serve::Dialect kDialects[] = {{},
                                                 {.messages = "input", .part = "input_text", .calls = Calls::items},
                                                 {.calls = Calls::blocks},
                                                 {.needs_ids = false}};
  const serve::Dialect& dialect = kDialects[data[0] % 4];
  const CallForm form = data[0] / 4 % 2 > 0 ? CallForm::gemma : CallForm::json;
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  read_pieces(all.substr(1), form);
  auto body = serve::read_body({reinterpret_cast<const char*>(data) + 1, size - 1});
  if (!answered(body)) return 0;
  decode::FormOptions wished;
  if (const auto wish = serve::read_any_format(*body); answered(wish) && *wish && (*wish)->key == "json_schema")
    if (const auto read = decode::set_schema(wished, (*wish)->text, (*wish)->strict, (*wish)->where); !read)
      need(!read.error().message.contains('\n'));
  auto messages = serve::read_messages(*body, dialect);
  const auto use = serve::read_tools(*body, dialect);
  if (answered(messages)) {
    const ChatFormat format = detect_chat_format(tokenizer());
    need(format.calls == CallForm::gemma);
    if (use && !use->functions.empty()) show_tools(format, use->functions, *messages);
    need(render_chat(tokenizer(), format, *messages, true).has_value());
  }
  if (!answered(use) || use->functions.empty()) return 0;
  decode::FormOptions options;
  if (const auto dropped = decode::set_tools(options, use->list, use->must_call, use->most, form); !dropped) {
    need(!dropped.error().message.contains('\n'));
    return 0;
  }
  const auto automaton = forms::automaton_of(*decode::form_of(options));
  if (!automaton) {
    need(!automaton.error().message.contains('\n'));
    return 0;
  }
  // A call of the model, with the last object of the body as its arguments.
  std::string_view object = all.substr(std::min(all.rfind('{'), all.size()));
  if (object.ends_with("}}")) object.remove_suffix(1);
  const ToolCall call{"f", std::string(object)};
  if (form == CallForm::gemma) {
    const auto value = Json::parse(call.arguments, nullptr, false);
    if (!value.is_object()) return 0;
    const std::string text =
        "\xF8"
        "call:f" +
        spelled(value, CallForm::gemma) + "\xF9";
    if (!automaton->fits(text)) return 0;
    const AnswerWithCalls read = read_calls(text, form);
    need(read.text.empty() && read.calls.size() == 1);
    need(nlohmann::json::parse(read.calls[0].arguments) == nlohmann::json::parse(value.dump()));
    return 0;
  }
  const std::string text = text_with_calls("", {&call, 1});
  if (!automaton->fits(text)) return 0;
  const AnswerWithCalls read = read_calls(text);
  need(read.text.empty() && read.calls.size() == 1 && read.calls[0].arguments == call.arguments);
  return 0;
}
