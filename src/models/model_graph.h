// A model as the rest of the engine sees it: the list of its weights, and its forward pass as a program for
// any step shape.
#pragma once
#include <functional>
#include <vector>

#include "formats/model_config.h"
#include "graph/program.h"

namespace llada {

struct ModelGraph {
  std::vector<WeightInfo> weights;
  std::function<Program(StepShape)> forward;  // of the shape's pass
  bool encodes = false;                       // a pass of its own encodes a prompt (Pass::encode)

  // forward(shape). Invalid: the model does not have the shape's pass.
  Result<Program> program(StepShape shape) const;

  // The geometry of the K/V store per position and layer.
  int layers = 0, kv_heads = 0, head_dim = 0;
  std::vector<KvHeads> kv_by_layer = {};  // by layer where these differ; otherwise empty
  int64_t width = 0, vocab = 0;
  int64_t context = 0;  // positions the model was trained for
  // The keys that a row of a canvas reads. Rows of an encoded prompt follow KeyRule::causal(), as do rows below a
  // position that a step gives.
  KeyRule keys;
};

// Invalid: an architecture whose decoding rules are not built in.
Result<ModelGraph> build_model(const ModelConfig& config);

}  // namespace llada
