// From a configuration to the forward that it needs.
#include "models/weight_list.h"

namespace llada {

Result<Program> ModelGraph::program(StepShape shape) const {
  if (shape.pass == Pass::encode && !encodes)
    return invalid("the model has no pass that encodes a prompt: it computes prompt and canvas together");
  return forward(shape);
}

Result<ModelGraph> build_model(const ModelConfig& config) {
  LLADA_TRY(ModelGraph model, config.gemma ? build_diffusion_gemma(config) : build_transformer(config));
  model.layers = static_cast<int>(config.layers);
  model.kv_heads = static_cast<int>(config.kv_heads);
  model.head_dim = static_cast<int>(config.head_dim);
  model.width = config.width;
  model.vocab = config.vocab;
  model.context = config.context;
  return model;
}

}  // namespace llada
