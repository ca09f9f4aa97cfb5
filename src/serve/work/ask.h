// A request to the engine, whatever route it came by: prompts and how they are decoded, how many answers, and how they
// are sent back. The fields are OpenAI's; those that only this engine has stand in `llada`, with the keys of
// decode/fields.h and `preset`.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/decode_choice.h"
#include "engine/infill_text.h"
#include "engine/ready_request.h"
#include "serve/work/answer_bytes.h"
#include "serve/work/answer_writer.h"
#include "serve/http/body.h"
#include "serve/work/service.h"

namespace llada::serve {

// Of the reply. The last four are Anthropic's, Ollama's two, and llama-server's /completion.
enum class Shape { chat, completion, fim, infill, response, message, ollama_chat, ollama_text, llama };
// How a stream shows the denoising beside final text: not at all; the whole text so far in every event, as Mercury
// does; every step with its edits.
enum class Watch { none, replace, frames };

// A form of the answer that a field asks for.
struct FormWish {
  std::string name;       // of the field, as errors have it
  std::string key, text;  // the option of `llada` that says the same, and its value
  bool strict = true;     // of a schema: what cannot be followed is refused, else left out with a warning
  std::string where;      // of a schema: where it stands
};

struct Decoding;

struct Ask {
  MakeWriter writer = nullptr;                    // of its answers
  std::vector<Request> asked = {};                // one per prompt, until they are prepared
  std::vector<Ready> requests = {};               // these, from then on
  std::vector<AnswerBytes> bytes = {};            // of an answer to each
  std::shared_ptr<const Decoding> decoding = {};  // until then
  int64_t each = 1;                               // answers to each of them, which share it (request_of)
  std::vector<std::string> echoed = {};           // by prompt: its text before the answer; none: no answer has one
  std::vector<InfillGap> gaps = {};               // of infilling, which has one request
  bool whole_text = false;                 // of infilling: the answer is the text with its gaps filled, not one gap's
  std::vector<std::string> stop = {};      // where the engine does not look for them itself: of infilling, beside tools
  std::string preset = {};                 // that was used
  std::string note = {};                   // one line: wishes that could not be met or were left out
  std::vector<std::string> warnings = {};  // of wishes that have no effect here, a line each; the note has them too
  bool scores_prompt = false;              // log-probabilities of the prompt's tokens before those of the answer's
  bool drops_answer = false;               // those of the prompt alone
  bool stream = false, logprobs = false;
  bool think = false;  // of a conversation: the model shall think, and its thoughts are part of the reply
  bool calls = false;  // the answers may call tools (tools.h)
  bool include_usage = false, usage_in_pieces = false;  // of a stream: behind the last piece; so far, in each
  bool progress = false;                                // of a stream: events while a long prompt is computed
  std::vector<std::pair<int32_t, double>> logit_bias = {};
  std::optional<FormWish> form = {};
  std::string prompt_field = {};  // where the prompt stood, which the context may have left too little room beside
  int64_t alternatives = 0;       // most probable tokens beside each log-probability
  Json repeated = {};             // of /v1/responses: the fields of the request that its answer has, too
  Watch watch = Watch::none;
  std::shared_ptr<void> held = {};  // its waiting_bytes() in the admission's count
};

inline constexpr int64_t kMostAlternatives = 20;  // as OpenAI's

// The readers of parts that routes share; each refuses with the name of the field.
//
// Decoding: temperature, top_p, top_k, min_p, seed, ignore_eos, llada, and how long the answer may be, under any of
// `lengths`, the first before the others, -1 for as long as it needs; of infilling, whose gaps say how many tokens
// there are, none of these. kind: of the model, as for DecodeChoice::resolve().
struct Decoding {
  DecodeChoice choice;
  bool insists = false;                    // on a length, as `llada.gen_length` does; else the context's room is enough
  std::string unused = {};                 // ways of sampling that a form of the answer leaves no room for
  std::vector<std::string> left_out = {};  // of a schema, a line each
};
Answered<Decoding> read_decoding(Fields& body, const Ask& ask, const decode::ModelKind& kind, bool infill,
                                 std::initializer_list<const char*> lengths = {"max_completion_tokens", "max_tokens"});
// Whether a wish to think has an effect: in conversations, of a model with a channel for thoughts.
bool can_think(const Service& service, Shape shape);
// The fields of all shapes: model, stream, stream_options, diffusing, response_format, and those without effect.
Answered<Ask> read_ask(Service& service, Fields& body, Shape shape);
// model: any name, but where the server is strict about it. Ollama's clients put a tag behind it.
Done check_model(Service& service, Fields& body);
Answered<int64_t> read_count(Service& service, Fields& body);  // n
Done read_logprobs(Fields& body, Ask& ask);                    // of shapes where it is a number
Done read_chat_logprobs(Fields& body, Ask& ask);               // of those where it is a switch, beside top_logprobs
// The conversation (ask_messages.cc): `messages`, or of /v1/responses `input`, a text or a list of items.
Answered<std::vector<ChatMessage>> read_messages(Fields& body, Shape shape);
// A text, or a list of parts that are texts; nothing where it is not there.
Answered<std::optional<std::string>> read_system(Fields& body);
Answered<std::vector<std::string>> read_stop(Fields& body, const std::string& name = "stop");
// Wishes about thinking, verbosity and the chat template. The result is a line for each kind that has no effect
// (ask_hints.cc). response: of /v1/responses. think: of a route and a model with thoughts, set where they are wished
// for; else null.
Answered<std::vector<std::string>> read_wishes(Fields& body, bool response, bool* think);
// The same where a prompt alone is the answer: the lines go into the reply as `warnings`. Whether it is to think.
Answered<bool> read_prompt_wishes(Service& service, Fields& body, Shape shape, bool tools, Json& reply);
// Switches thoughts off, with a warning, where the answer has tools or a form. Before the conversation is laid out.
Done think_without_form(Service& service, Ask& ask, const Decoding& decoding);
// These, and ways of sampling that only others have: a line for each kind that has no effect.
Answered<std::vector<std::string>> read_without_effect(Fields& body, bool response, bool* think);

// logit_bias, and its place in a request's options, beside which some of them have no meaning (ask_bias.cc).
Done read_logit_bias(Service& service, Fields& body, Ask& ask);
Done apply_logit_bias(const Service& service, const Ask& ask, decode::DecodeOptions& options);

// The form of the answer as the shape's protocol has it, or under the names of vLLM, SGLang and llama-server.
Answered<std::optional<FormWish>> read_format(Fields& body, Shape shape);

// Fields of /v1/responses that this server cannot follow: previous_response_id, include, background and others, each
// refused but for values that change nothing.
Done read_unstored(Fields& body);

void add_note(Ask& ask, std::string_view note);
// Refuses a wish that has no effect where the server is strict.
Done unless_strict(const Service& service, const std::string& warning);
Done add_warning(Service& service, Ask& ask, const std::string& warning);

// Token ids of a conversation, or of a text that is taken as it is; errors are about `field`.
Answered<std::vector<int32_t>> conversation_ids(Service& service, std::span<const ChatMessage> messages,
                                                const std::string& field, bool think = false);
Answered<std::vector<int32_t>> text_ids(Service& service, std::string_view text, const std::string& field);

// Puts the requests for prompts times n answers into `ask`; prompts are those of the field `field`. Sampled answers
// have a seed of their own: seed, seed + 1, ... by index. Refused: too many.
Done make_requests(Service& service, Ask& ask, const std::string& field, std::vector<std::vector<int32_t>> prompts,
                   Decoding decoding, int64_t n, const std::vector<std::string>& stop = {});
// Prepares them: makes their form, which may take seconds, and sees whether they can be answered. Notes what a client
// should know of it, such as an answer that cannot be as long as was asked for.
Done prepare_requests(Service& service, Ask& ask);

// That of an answer, by its index: the answers to a prompt follow one another, each with the next seed.
inline size_t prompt_of(const Ask& ask, size_t index) { return index / static_cast<size_t>(ask.each); }
inline const ReadyRequest& ready_of(const Ask& ask, size_t index) { return *ask.requests[prompt_of(ask, index)]; }
inline const Request& request_of(const Ask& ask, size_t index) { return ready_of(ask, index).request; }
// What it holds while it waits: the form's text, tokens, biases.
double waiting_bytes(const Ask& ask);

// The most answers that a request may ask for: more than an idle server can take on is refused for good.
int64_t most_answers(const Service& service);

// Whether so many could be taken on at all, of which `prompts` are asked for n times each.
Done check_count(Service& service, int64_t prompts, int64_t n);

// A prompt that leaves no room for an answer, as clients know it by its code; they shorten it then.
std::unexpected<ApiError> too_long(const std::string& field, const std::string& message);
// Refuses so, before it is cut to tokens, a text that can never fit.
Done check_bytes(Service& service, size_t bytes, const std::string& field);

}  // namespace llada::serve
