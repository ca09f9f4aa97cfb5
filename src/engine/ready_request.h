// Requests that can be answered. A Request says which answer is wanted. prepare() refuses it or makes a
// ReadyRequest of it, once: options that go together and fit the model, the form of the answer, the canvas, the memory
// that it needs. A Session, a Scheduler and an Engine take nothing else, and the answers to one request share it.
#pragma once
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "decode/options.h"
#include "engine/gap_lengths.h"
#include "engine/model.h"

namespace llada {

struct Request {
  std::vector<int32_t> tokens;                    // the prompt; for infilling the whole text
  std::optional<std::vector<int32_t>> gaps = {};  // positions to be filled, whose ids in `tokens` are ignored
  std::vector<InfillGap> auto_gaps = {};  // those whose length is chosen (GapChoice); `tokens` has them at the longest
  decode::DecodeOptions options = {};
  std::vector<std::string> stop = {};  // the answer ends before the first of them; not for infilling
  // Best tokens that are reported for each position, by the forward that decided it.
  int64_t alternatives = 0;
};

// The most that an answer holds (engine/request_memory.h).
struct RequestBytes {
  int64_t positions = 0;            // of the canvas
  double text = 0;                  // of the answer's text alone
  double computed = 0, result = 0;  // bytes while it runs; of its result, once it has ended
};

struct ReadyRequest {
  Request request;                                    // whose options have the length that fits
  std::shared_ptr<const forms::TokenForm> form = {};  // null: the answer is free
  decode::Canvas canvas = {};                         // as it is laid, with the text that the form fixes
  int64_t prompt_tokens = 0;                          // of infilling, the tokens around the gaps
  int64_t most_generated = 0;  // positions behind the prompt that the answer may have; of infilling, in gaps
  int64_t asked_length = 0;    // the length that was asked for, where it was cut to the context; 0: it was not
  RequestBytes bytes = {};     // zeros as long as the model's weights are not loaded
};
using Ready = std::shared_ptr<const ReadyRequest>;

// Why there is no answer, and which part of the request its author could change.
struct Refusal : Error {
  enum class About { other, prompt, length, form };  // a prompt or a length that does not fit; too short for the form
  Refusal(Error error, About about = About::other) : Error(std::move(error)), about(about) {}
  About about;
};

struct Preparation {
  // Cuts a given length to the room that the context leaves; otherwise a longer one is refused.
  bool shortens = false;
  // Says for a request without a length of its own whether it may hold so much. It gets the longest length for which
  // that is so, and at least the length of an ordinary answer.
  std::function<bool(const RequestBytes&)> may_hold = {};
};

std::expected<Ready, Refusal> prepare(const Model& model, Request request, const Preparation& how = {});

// Whether gaps in a text can be filled.
bool takes_gaps(const Model& model);

// Positions of the canvas that a prompt and the answer behind it need, padding of a block-causal model included.
int64_t canvas_positions(const Model& model, int64_t prompt_tokens, int64_t gen_length);

// Positions that the context leaves behind a prompt, less than 1 where it has no room for an answer; kMaxGenLength
// where the model has no bound.
int64_t room_behind(const Model& model, int64_t prompt_tokens);

// Positions that a request's first K/V store has, where its canvas may become `all`: with a length that follows the
// answer, room for an answer of common length.
int64_t first_positions(const Model& model, const Request& request, int64_t all);

// The cost of a long prompt under full attention, where no part of it is ever final, as a sentence without a point.
// Empty for a short one (kPromptPiece) and for other models, which compute a prompt once.
std::string prompt_cost(const Model& model, int64_t prompt_tokens, const decode::DecodeOptions& options);

// Invalid: a token that is no id of the model's vocabulary.
Status check_tokens(const Model& model, std::span<const int32_t> tokens);
// The same for a text that no answer follows. Also invalid: more tokens than the context has room for.
Status check_text(const Model& model, std::span<const int32_t> tokens);

}  // namespace llada
