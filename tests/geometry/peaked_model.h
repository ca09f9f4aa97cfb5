// Models of other shapes than the shipped ones, made of nothing but a counter: tied heads, heads of 64 and
// 128, grouped K/V heads, widths that are no multiple of 256, contexts of 2,048. Their weights are random,
// but one thing is built in so that the best token wins by far and rounding cannot change an answer: in the
// first layer a head per K/V head looks exactly `offset` positions back and writes the follower of the token
// that it finds there. Tokens come in orbits of eight that follow each other in a circle. So every answer is
// known in advance, whatever the device, the stored type and the order of decisions: position p holds the
// follower of what position p - offset holds. The rest (the other heads, all feed-forwards, the other layers)
// is noise that logits show and answers do not.
//
// All matrices are small integers times powers of two, or a single value in a group of 32, so that F16, BF16
// and Q4_0 hold exactly what F32 holds: what such a file computes differs by the rounding of activations
// alone.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "geometry/reference_forward.h"

namespace llada {

struct PeakedSpec {
  std::string name;
  ModelConfig config;
  int64_t offset = 0;
};

// Every family but DiffusionGemma with tied head, heads of 64, grouped K/V; "far" looks back over more keys than attention
// reads in floats; "large" has heads of 128 and a vocabulary of 100,000.
const std::vector<PeakedSpec>& peaked_specs();
const PeakedSpec& peaked_spec(const std::string& name);  // throws where there is none

SmallModel make_peaked_model(const PeakedSpec& spec, DType type = DType::F32);

// Of the stored bytes of all weights.
uint64_t checksum(const SmallModel& model);

int32_t follower(int32_t token);

// Tokens that have a follower.
std::vector<int32_t> random_prompt(const PeakedSpec& spec, int64_t length, uint64_t seed = 1);

// `tokens` with its masks replaced by what the model says.
std::vector<int32_t> completed(const PeakedSpec& spec, std::vector<int32_t> tokens);
// What the model answers after the prompt. The first token of a block behind causal text is that of the row before it,
// which looks one further back.
std::vector<int32_t> answer_to(const PeakedSpec& spec, const std::vector<int32_t>& prompt, int64_t length);

}  // namespace llada
