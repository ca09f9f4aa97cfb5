#include "serve/work/answer_bytes.h"

#include <algorithm>
#include <cmath>

namespace llada::serve {

// The tokens behind the first, each given those before it.
ScoreRequest prompt_score(const Request& request) {
  ScoreRequest score{.prompt = {request.tokens.front()},
                     .continuations = {{request.tokens.begin() + 1, request.tokens.end()}}};
  score.options.top = request.alternatives;
  return score;
}

AnswerBytes answer_bytes(const RequestBytes& engine, const Request& request, double prompt_score) {
  constexpr double kTextCopies = 12;     // valid UTF-8, JSON with every byte escaped, the reply
  constexpr double kJsonOfToken = 1024;  // one token with its log-probability, or its edit
  constexpr double kJsonOfText = 32;     // a byte of a token's text in a list of bytes
  constexpr double kNotes = 128;         // steps of blocks that wait for a slow reader
  const auto positions = static_cast<double>(engine.positions);
  const double each = 1 + static_cast<double>(request.alternatives);
  const double notes =
      (positions + kNotes * static_cast<double>(request.options.block_length)) * 2 * sizeof(decode::Edit);
  // One after the other; the scores stay.
  const double bytes = std::max(engine.computed, prompt_score) + kTextCopies * engine.text + notes +
                       each * (positions * kJsonOfToken + kJsonOfText * engine.text);
  // The result, and the prompt's scores; of a stream its own text and tokens, confidences, notes that were not read.
  const double score = sizeof(TokenScore) + each * sizeof(TokenScore::Alternative);
  const double kept = engine.result + (prompt_score > 0 ? positions * score : 0) + 2 * engine.text +
                      positions * (sizeof(int32_t) + sizeof(double)) + notes;
  return {std::ceil(std::max(bytes, kept)), std::ceil(kept)};
}

}  // namespace llada::serve
