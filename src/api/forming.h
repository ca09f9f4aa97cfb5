// An answer while it forms, as llada.h shows it: the canvas from the answer's first token (of an infilled text from its
// first) with the confidence of every token, kept up with the edits of the steps.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/request.h"

namespace llada::api {

struct Forming {
  std::shared_ptr<const Model> model;
  int64_t begin = 0;      // where it begins in the engine's canvas
  decode::Canvas canvas;  // of the answer alone
  std::vector<float> confidences;
  std::vector<int32_t> states;     // LLADA_TOKEN_...
  std::vector<const char*> texts;  // of the tokens, in the tokenizer; empty where there is none
  std::vector<size_t> text_sizes;

  static Forming of(std::shared_ptr<const Model> model, const Request& request);
  // Edits as the engine counts positions. Those behind the answer (padding) are left out of `changed`.
  void apply(std::span<const decode::Edit> edits, std::vector<int32_t>* changed);
  // The end of a request: what differs was settled without a step (the tail behind an end token).
  void finish(std::span<const int32_t> tokens);
  int64_t masked() const;

 private:
  void set(size_t at, int32_t token, decode::TokenState state, double confidence);
};

}  // namespace llada::api
