// From a configuration to the forward that it needs.
#include "models/model_graph.h"

namespace llada {

Result<Program> ModelGraph::program(StepShape shape) const {
  if (shape.pass == Pass::encode && !encodes)
    return invalid("the model has no pass that encodes a prompt: it computes prompt and canvas together");
  return forward(shape);
}

Result<ModelGraph> build_model(const ModelConfig& config) {
  return config.gemma ? build_diffusion_gemma(config) : build_transformer(config);
}

}  // namespace llada
