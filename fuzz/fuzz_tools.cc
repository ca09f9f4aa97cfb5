// Definitions of tools and conversations with their calls and results, in each protocol, from the JSON of a body to an
// automaton: no input may crash, every refusal is one line, and what is read as a call of an answer is one that the
// form lets pass. The first byte says which protocol.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "decode/form_options.h"
#include "forms/form.h"
#include "serve/tools.h"
#include "text/tool_calls.h"

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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0 || size > 4096) return 0;
  constexpr serve::Shape kShapes[] = {serve::Shape::chat, serve::Shape::response, serve::Shape::message,
                                      serve::Shape::ollama_chat};
  const serve::Shape shape = kShapes[data[0] % 4];
  auto body = serve::Body::parse({reinterpret_cast<const char*>(data) + 1, size - 1});
  if (!answered(body)) return 0;
  answered(serve::read_format(*body, shape));
  answered(serve::read_messages(*body, shape, ChatFormat()));
  const auto use = serve::read_tools(*body, shape);
  if (!answered(use) || use->functions.empty()) return 0;
  decode::FormOptions options;
  if (const auto dropped = decode::set_tools(options, use->list, use->must_call, use->most); !dropped) {
    need(!dropped.error().message.contains('\n'));
    return 0;
  }
  const auto automaton = forms::automaton_of(*decode::form_of(options));
  if (!automaton) {
    need(!automaton.error().message.contains('\n'));
    return 0;
  }
  // A call of the model, with arguments that the input ends with.
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const ToolCall call{"f", std::string(all.substr(all.rfind('{') == std::string_view::npos ? size : all.rfind('{')))};
  const std::string text = text_with_calls("", {&call, 1});
  if (!automaton->fits(text)) return 0;
  const AnswerWithCalls read = read_calls(text);
  need(read.text.empty() && read.calls.size() == 1 && read.calls[0].arguments == call.arguments);
  return 0;
}
