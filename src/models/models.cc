// From a configuration to the forward that it needs.
#include "models/model_graph.h"

namespace llada {

Result<Program> ModelGraph::program(StepShape shape) const {
  if (shape.pass == Pass::encode && !encodes)
    return invalid("the model has no pass that encodes a prompt: it computes prompt and canvas together");
  return forward(shape);
}

Result<ModelGraph> build_model(const ModelConfig& config) {
  switch (config.architecture) {
    case Architecture::llada:
    case Architecture::llada_moe:
    case Architecture::dream:
    case Architecture::llada2:
      return build_transformer(config);
  }
  return invalid("unknown architecture");
}

}  // namespace llada
