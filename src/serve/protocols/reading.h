// The body of a request, as far as protocols have the same fields: readers of them, each of which refuses with the name
// of the field. The fields are OpenAI's; those that only this engine has stand in `llada`, with the keys of
// decode/fields.h and `preset`. Each protocol says in its Dialect where it differs.
#pragma once
#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/http/body.h"
#include "serve/work/ask.h"

namespace llada::serve {

// Where a conversation has calls of tools.
enum class Calls {
  in_messages,  // in messages; results are messages with the role tool, and a tool has its function in a member
  items,        // as items beside messages (/v1/responses)
  blocks,       // as blocks of a message's content (Anthropic)
};

using Wished = Answered<std::optional<FormWish>>;

struct Dialect {
  MakeWriter writer = nullptr;
  bool converses = false;  // an answer may have thoughts
  bool frames = false;     // a stream may show the denoising (`diffusing`)
  bool biased = false;     // logit_bias
  Wished (*form)(Fields& body) = nullptr;
  const char* messages = "messages";                  // the field of a conversation's messages
  std::string_view part = "text", other_part = part;  // the types of parts that are text
  std::array<std::string_view, 3> idle = {};          // fields of a message that are ignored
  Calls calls = Calls::in_messages;
  bool needs_ids = true;      // the result of a call must name it
  const char* stop = "stop";  // the field of stop texts; null: there is none
  // The fields of the answer's length, of which the first that is there counts; -1: as long as it needs. Infilling
  // reads none, since its gaps have their lengths.
  std::array<const char*, 2> lengths = {"max_completion_tokens", "max_tokens"};
  bool infills = false;
};

// The fields of all dialects: model, stream, stream_options, diffusing, the form, and those without effect.
Answered<Ask> read_ask(Service& service, Fields& body, const Dialect& dialect);
// model: any name, but where the server is strict about it. Ollama's clients put a tag behind it.
Done check_model(Service& service, Fields& body);
Answered<int64_t> read_count(Service& service, Fields& body);  // n
Done read_logprobs(Fields& body, Ask& ask);                    // where it is a number
Done read_chat_logprobs(Fields& body, Ask& ask);               // where it is a switch, beside top_logprobs
Answered<std::vector<std::string>> read_stop(Fields& body, const std::string& name = "stop");

// Temperature, top_p, top_k, min_p, seed, ignore_eos, llada, and the length.
Answered<Decoding> read_decoding(Fields& body, const Ask& ask, const Dialect& dialect, const decode::ModelKind& kind);
inline decode::ModelKind kind_of(const Service& service) { return service.model().special_ids().kind(); }

// Tools: functions that the model may call (tools.cc). They are shown to it (text/tool_calls.h), the answer is held to
// text and calls whose arguments fit the functions' schemas (forms/tool_form.h), and is read as text and calls.
struct ToolUse {
  std::vector<std::string> functions = {};  // shown to the model, a line of JSON each; none: there are no tools
  std::string list = {};                    // of the functions that may be called, for decode::set_tools()
  bool must_call = false;
  int64_t most = 0;  // calls; 0: any number
};

// tools, tool_choice, parallel_tool_calls, as the protocol has them.
Answered<ToolUse> read_tools(Fields& body, const Dialect& dialect);

// Has a request use them: conversation, options and the reading of its answers. stop: of the request, which the server
// looks for itself then, in text alone.
Done use_tools(Service& service, const ToolUse& use, Ask& ask, Decoding& decoding, std::vector<ChatMessage>& messages,
               std::vector<std::string>& stop);

// The conversation (conversation.cc).
Answered<std::vector<ChatMessage>> read_messages(Fields& body, const Dialect& dialect);
// A text, or a list of parts that are texts; nothing where it is not there.
Answered<std::optional<std::string>> read_system(Fields& body);

// A conversation with all that stands beside it, once the fields that only its protocol has have been read. also: reads
// further fields.
Answered<Ask> read_talk(Service& service, Fields& body, const Dialect& dialect, Ask ask,
                        std::vector<ChatMessage> messages, int64_t answers = 1,
                        const std::function<Done(Ask& ask, const Decoding& decoding, const ToolUse& tools)>& also = {});
// The same where its tokens alone are asked for: shows the tools to the model; whether it is to think, and warnings in
// the reply.
Answered<bool> read_talk_prompt(Service& service, Fields& body, const Dialect& dialect,
                                std::vector<ChatMessage>& messages, Json& reply);

// A text, a list of texts, a list of token ids, or a list of such lists, in `prompt`.
Answered<std::vector<std::vector<int32_t>>> read_prompts(Service& service, Fields& body);

// Wishes about thinking, verbosity and the chat template, and ways of sampling that only others have: a line for each
// kind that has no effect (ask_hints.cc). think: set where thoughts are wished for; null: the answer has none.
Answered<std::vector<std::string>> read_without_effect(Fields& body, const Dialect& dialect, bool* think);
// `think` in a conversation with a model that has a channel for thoughts, else null.
bool* if_it_thinks(const Service& service, const Dialect& dialect, bool& think);
// Switches thoughts off, with a warning, where the answer has tools or a form. Before the conversation is laid out.
Done think_without_form(Service& service, Ask& ask, const Decoding& decoding);

// logit_bias, and its place in a request's options, beside which some of them have no meaning (ask_bias.cc).
Done read_logit_bias(Service& service, Fields& body, Ask& ask);
Done apply_logit_bias(const Service& service, const Ask& ask, decode::DecodeOptions& options);

// Forms of the answer (ask_format.cc). An object with a type, whose schema stands in its member json_schema (`inside`)
// or beside the type:
Wished read_typed_form(Fields& body, std::initializer_list<const char*> path, bool inside);
// The same in response_format.
Wished read_response_format(Fields& body);
// That, or a form under the names of vLLM, SGLang and llama-server.
Wished read_any_format(Fields& body);
// A schema alone; any object.
Wished schema_form(const Fields& body, const std::string& name, const Json& schema, const std::string& where,
                   bool strict = false);
FormWish object_form(const std::string& name);

// Token ids of a conversation, or of a text that is taken as it is; errors are about `field`.
Answered<std::vector<int32_t>> conversation_ids(Service& service, std::span<const ChatMessage> messages,
                                                const std::string& field, bool think = false);
Answered<std::vector<int32_t>> text_ids(Service& service, std::string_view text, const std::string& field);
// Refuses a text that can never fit, before it is cut into tokens.
Done check_bytes(Service& service, size_t bytes, const std::string& field);

// Puts the requests for prompts times n answers into `ask`; prompts are those of the field `field`. Sampled answers
// have a seed of their own: seed, seed + 1, ... by index. Refused: too many.
Done make_requests(Service& service, Ask& ask, const std::string& field, std::vector<std::vector<int32_t>> prompts,
                   Decoding decoding, int64_t n, const std::vector<std::string>& stop = {});
// The most answers that a request may ask for: more than an idle server can take on is refused for good.
int64_t most_answers(const Service& service);
// Whether so many could be taken on at all, of which `prompts` are asked for n times each.
Done check_count(Service& service, int64_t prompts, int64_t n);

}  // namespace llada::serve
