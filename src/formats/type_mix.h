// Which type each matrix of a file gets: all the same, or the mixes that llama.cpp's names stand for ("q4_k_m"). Those
// give more bits to the matrices where errors cost most. Source: the rules of llama.cpp's quantizer, as its library
// applies them (tests/data/type_mixes.txt). Not done: its rule for models of 80 layers, and mixes of the types that
// cannot be written.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "formats/model_config.h"
#include "tensor/dtype.h"
#include "tensor/view.h"

namespace llada {

enum class MixRule : uint8_t { none, q2_k, q3_k_s, q3_k_m, q3_k_l, q4_k_s, q4_k_m, q5_k_s, q5_k_m, q6_k, iq4 };

struct TypeMix {
  std::string_view name;  // as on the command line
  DType type;             // of most matrices
  uint32_t file_type;     // llama.cpp's general.file_type
  MixRule rule;           // none: every matrix has `type`
};

std::span<const TypeMix> type_mixes();
const TypeMix* find_type_mix(std::string_view name);  // in any case; q4_k is q4_k_m; null: none
std::string type_mix_names(std::string_view between, std::string_view before_last);

// Half of the layers: the first and the last eighth, and every third between them. Mixes give them more bits.
bool gets_more_bits(int64_t layer, int64_t layers);

// For rows that are no multiple of 256: the type in groups of 32 that takes the place of one in groups of 256.
DType in_smaller_groups(DType type);

// The types of one file's matrices, asked for in the order of the layers.
class TypeChooser {
 public:
  // value_matrices: how many matrices of attention values the model has. weighted: an importance matrix is given.
  TypeChooser(const TypeMix& mix, const ModelConfig& config, int64_t value_matrices, bool weighted)
      : mix_(mix), config_(config), value_matrices_(value_matrices), weighted_(weighted) {}

  DType choose(std::string_view name, const Shape& shape);
  int64_t fallbacks() const { return fallbacks_; }  // matrices whose rows do not fit the mix's type

 private:
  DType preferred(std::string_view name, const Shape& shape);
  DType of_values();
  DType of_attention_output() const;
  DType of_down(int64_t layer) const;

  const TypeMix& mix_;
  const ModelConfig& config_;
  int64_t value_matrices_, values_seen_ = 0, fallbacks_ = 0;
  bool weighted_;
};

}  // namespace llada
