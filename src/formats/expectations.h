// The tensors of an architecture with their shapes in storage order ({in, out}), in the order in which a forward uses
// them. Readers check files against this list, and models take their weights from it.
#pragma once
#include <functional>
#include <string_view>

#include "formats/model_config.h"
#include "tensor/view.h"

namespace llada {

struct ExpectedTensor {
  std::string_view name;  // canonical; valid during the call
  Shape shape;
  bool required;
};

inline Shape vector_of(int64_t n) { return {{n, 1, 1, 1}, 1}; }
inline Shape matrix(int64_t in, int64_t out) { return {{in, out, 1, 1}, 2}; }
inline Shape stack(int64_t in, int64_t out, int64_t count) { return {{in, out, count, 1}, 3}; }

// Calls visit for every tensor that the model may have, until it returns false. split_experts: the experts of
// a layer are separate tensors.
void for_each_expected(const ModelConfig& config, bool split_experts,
                       const std::function<bool(const ExpectedTensor&)>& visit);

}  // namespace llada
