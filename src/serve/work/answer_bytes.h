// Memory of a server's answer: the engine's part, its text in all forms, a stream's notes of its steps, its JSON.
#pragma once
#include "engine/likelihood.h"
#include "engine/ready_request.h"
#include "serve/work/waiting_room.h"

namespace llada::serve {

// prompt_score: bytes of the scores of its prompt's tokens, which are computed before it; 0: there are none.
AnswerBytes answer_bytes(const RequestBytes& engine, const Request& request, double prompt_score = 0);

// The score of a prompt of two or more tokens.
ScoreRequest prompt_score(const Request& request);

}  // namespace llada::serve
