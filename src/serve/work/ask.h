// A request to the engine, whatever protocol it came by: prompts and how they are decoded, how many answers, and how
// they are sent back.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/decode_choice.h"
#include "engine/infill_text.h"
#include "engine/likelihood.h"
#include "engine/ready_request.h"
#include "serve/http/body.h"
#include "serve/work/answer_writer.h"
#include "serve/work/service.h"

namespace llada::serve {

// How a stream shows the denoising beside final text: not at all; the whole text so far in every event, as Mercury
// does; every step with its edits.
enum class Watch { none, replace, frames };

// A form of the answer that a field asks for.
struct FormWish {
  std::string name;       // of the field, as errors have it
  std::string key, text;  // the option of `llada` that says the same, and its value
  bool strict = true;     // of a schema: parts that cannot be followed are refused; false: left out with a warning
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

// How a request is decoded.
struct Decoding {
  DecodeChoice choice;
  bool insists = false;                    // on a length, as `llada.gen_length` does; else the context's room is enough
  std::string unused = {};                 // ways of sampling that a form of the answer leaves no room for
  std::vector<std::string> left_out = {};  // of a schema, a line each
  // Readings of forms that take long, by the field that an error names; prepare_requests() does them.
  std::vector<std::pair<std::string, decode::LateReading>> late = {};
};

void add_note(Ask& ask, std::string_view note);
// Refuses a wish that has no effect where the server is strict.
Done unless_strict(const Service& service, const std::string& warning);
Done add_warning(Service& service, Ask& ask, const std::string& warning);

// The score of a prompt of two or more tokens: of those behind the first, each given those before it.
ScoreRequest prompt_score(const Request& request);
// Memory of an answer: the engine's part, its text in all forms, a stream's notes of its steps, its JSON. prompt_score:
// bytes of the scores of its prompt's tokens, which are computed before it; 0: there are none.
AnswerBytes answer_bytes(const RequestBytes& engine, const Request& request, double prompt_score = 0);

// An error of the engine's, with the field of the body that it is about: its first word.
ApiError about(const DecodeChoice& choice, const Error& error);
// The error of a prompt that leaves no room for an answer, with the code (kTooLong) by which clients shorten it.
std::unexpected<ApiError> too_long(const std::string& field, const std::string& message);

// Prepares the requests: makes their form, which may take seconds, and refuses those that cannot be answered. Adds
// notes for the client, such as that an answer is shortened.
Done prepare_requests(Service& service, Ask& ask);

// That of an answer, by its index: the answers to a prompt follow one another, each with the next seed.
inline size_t prompt_of(const Ask& ask, size_t index) { return index / static_cast<size_t>(ask.each); }
inline const ReadyRequest& ready_of(const Ask& ask, size_t index) { return *ask.requests[prompt_of(ask, index)]; }
inline const Request& request_of(const Ask& ask, size_t index) { return ready_of(ask, index).request; }
// Bytes that it holds while it waits: the form's text, tokens, biases.
double waiting_bytes(const Ask& ask);

}  // namespace llada::serve
