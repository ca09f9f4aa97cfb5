// From a configuration to the forward that it needs.
#include "models/model_graph.h"

namespace llada {

Result<ModelGraph> build_model(const ModelConfig& config) {
  switch (config.architecture) {
    case Architecture::llada:
    case Architecture::llada_moe:
    case Architecture::dream:
      return build_transformer(config);
    case Architecture::llada2:
      // The forward is there (transformer.cc); decoding in blocks counted from position 0 is not.
      return invalid("architecture llada2 can be inspected and converted, but this version cannot run it");
  }
  return invalid("unknown architecture");
}

}  // namespace llada
