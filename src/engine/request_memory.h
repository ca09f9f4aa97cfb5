// The most memory that a request holds, counted before it begins: admission keeps to a budget by it.
//
// Counted: keys and values with their versions and digests, the old ones beside the new while a store grows; logits
// that are kept for sampling, alternatives and scores. Also a form, and its solver's memory of each position; the
// answer's tokens, alternatives and text; the strategy's memory of each position. Not counted, since no request alone
// owns it: the scratch memory of a device, which is as large as its largest forward needed. Nor are the pages of a
// PrefixCache, which has a budget of its own.
#pragma once
#include <cstdint>

#include "engine/decide.h"
#include "engine/likelihood.h"
#include "engine/model.h"
#include "engine/ready_request.h"

namespace llada {

// For a request whose canvas may come to so many positions. form may be null.
RequestBytes request_bytes(const Model& model, const Request& request, const forms::TokenForm* form, int64_t positions);

// For a score by the method `chain` that check_score() lets pass, in forwards of at most `rows` rows.
double score_bytes(const Model& model, const ScoreRequest& request, int64_t rows);

// For decisions, in forwards of at most `rows` rows.
double decide_bytes(const Model& model, const DecideSize& size, int64_t rows);

}  // namespace llada
