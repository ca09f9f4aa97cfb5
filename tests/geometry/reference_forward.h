// A model whose weights lie in memory, and its forward written a second time in plain double arithmetic,
// straight from the formulas: the reference that every device and the recorded numbers of tests/data/geometry
// are held to. It knows every architecture and shares nothing with the kernels but the definition of the
// stored types.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "models/model_graph.h"
#include "tensor/view.h"

namespace llada {

// What layers of families have that no file of a supported architecture asks for: the reference computes it by itself,
// variants.h puts it into programs.
struct Variant {
  std::vector<KeyWindow> windows = {};  // of the layers, in turn; empty: none
  float cap = 0, logit_cap = 0;         // of scaled scores, of logits; 0: none
  float scale = 0;                      // of scores; 0: 1 / sqrt(head_dim)
  bool gelu = false;                    // by tanh, for silu
  bool gelu_in_experts = false;         // the same in the routed experts alone, not in a shared one
  bool plain_norms = false;             // the feed-forward's and, where there are, the heads' have no weight
  std::vector<float> divisors = {};     // of the rotary frequencies, by pair
  int32_t prompt = 0;                   // so many positions read nothing behind themselves
  bool canvas_norm = false;             // rows behind the prompt are normalised (no weight) when they are embedded
};

struct SmallModel {
  ModelConfig config;
  ModelGraph graph;
  std::vector<std::vector<std::byte>> storage;  // by weight of the graph
  std::vector<TensorView> views;

  // Of a layer that rotates otherwise than the rest: changes theta, rotary_dims, pairing. Empty: all are alike.
  std::function<void(ModelConfig&, int layer)> rotary;

  Variant variant;

  // Gets every matrix of a layer with the rows that it is multiplied by; may be empty.
  std::function<void(const std::string& name, int expert, const std::vector<double>& rows)> watch = {};

  size_t index(const std::string& name, int expert = -1) const;  // throws where there is none
  ModelConfig rotary_of(int layer) const;
};

using Rows = std::vector<std::vector<double>>;

// Logits of every position from `from` on, all of them computed together; no causal mask but the block-causal
// one where the model has it, and the variant's.
Rows reference_forward(const SmallModel& model, const std::vector<int32_t>& tokens, size_t from = 0);

// The same at the given positions, ascending.
Rows reference_logits(const SmallModel& model, const std::vector<int32_t>& tokens,
                      const std::vector<int32_t>& positions);

// down(silu(gate h) * up h).
std::vector<double> reference_swiglu(const std::vector<double>& h, const std::vector<double>& gate_weight,
                                     const std::vector<double>& up_weight, const std::vector<double>& down_weight);

void add_to(std::vector<double>& x, const std::vector<double>& y, double scale = 1);

}  // namespace llada
