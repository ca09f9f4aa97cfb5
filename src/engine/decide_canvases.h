// Which canvases a request's questions need, and which tokens are looked at in each: pure functions over tokens.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "decode/types.h"

namespace llada {

// Labels of one question as a tree: each node is the text before a requested token. Labels that begin alike share
// nodes.
struct LabelTree {
  struct Node {
    std::vector<int32_t> before;  // tokens of the labels that come this far
    std::vector<int32_t> tokens;  // that are asked for behind them
  };
  struct Place {
    size_t node, token;
  };
  int64_t width = 0;  // tokens of the longest label
  std::vector<Node> nodes;
  std::vector<std::vector<Place>> labels;  // of each label, whose log-probability is the sum of these
};

// Invalid: a label without tokens, two that are the same, one that goes on behind another where no token ends an
// answer (`end` below 0). The error names the label by its number.
Result<LabelTree> label_tree(std::span<const std::vector<int32_t>> labels, int32_t end);

// A slot is the position of a token that is asked for.
struct DecideSlot {
  size_t reading, node;  // of which question and rotation; of its tree
  int64_t position;
};
struct DecideCanvas {
  size_t prompt;              // number of its prompt
  int64_t noise = 0;          // seed of the random tokens of a model without a mask
  std::vector<int32_t> tail;  // behind it; -1 for a mask where the model has none
  std::vector<DecideSlot> slots;
};

// The token that ends an answer; -1: none.
int32_t end_token(const decode::SpecialIds& ids);

// One canvas for each node of the tree behind a prompt of so many tokens.
std::vector<DecideCanvas> question_canvases(size_t reading, const LabelTree& tree, int64_t prompt_tokens,
                                            const decode::SpecialIds& ids);

// Lines of text, each with the slots of its labels behind it and `between` them. They lie on as few canvases behind one
// prompt as a block-causal model allows, whose first slots lie in one block; reading i is line i. Behind these, a
// canvas for every further node of a tree, with the label's beginning in its place and all other slots masked.
struct JointLine {
  std::vector<int32_t> text;
  const LabelTree* tree;
};
std::vector<DecideCanvas> joint_canvases(std::span<const JointLine> lines, std::span<const int32_t> between,
                                         int64_t prompt_tokens, const decode::SpecialIds& ids);

// Tokens that all prompts begin with and whose K/V is final (final_before()) before any row whose logits are wanted; 0
// where the prompts' blocks are counted from different origins.
int64_t shared_prefix(std::span<const std::vector<int32_t>> prompts, std::span<const DecideCanvas> canvases,
                      const decode::SpecialIds& ids);

}  // namespace llada
