// A model file's description of the model: geometry, quirks and token ids, the same record for every file format.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/query_scale.h"
#include "base/uniform_canvas.h"
#include "base/yarn.h"
#include "formats/diffusion_gemma.h"

namespace llada {

struct Family;  // family.h
struct RoundedScheme;
extern const Family kLladaFamily, kLladaMoeFamily, kLlada2Family, kDreamFamily, kDiffusionGemmaFamily;

// Which two elements of a head rotate together: (2j, 2j+1) or (j, j + rotary/2).
enum class RopePairing { adjacent, half_split };

struct ModelConfig {
  const Family* family = &kLladaFamily;
  std::string name;  // general.name or the folder's name

  int64_t layers = 0;
  int64_t width = 0;  // d_model
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t ffn_width = 0;  // dense feed-forward; 0 when every layer is a mixture
  int64_t vocab = 0;
  int64_t context = 0;  // positions the model was trained for

  float rms_eps = 1e-5f;
  float rope_theta = 10000.0f;
  int64_t rotary_dims = 0;  // leading elements of a head that rotate; head_dim unless partial
  RopePairing rope_pairing = RopePairing::half_split;
  std::optional<Yarn> yarn = {};  // rotary positions of a longer context
  QueryScale query_scale = {};    // with it all elements of a head rotate
  bool shift_logits = false;      // row i-1 predicts position i (Dream)
  bool qk_norm = false;           // RMSNorm per head on q and k before RoPE
  bool qkv_bias = false;
  bool tied_head = false;  // no output matrix: the embedding table is the head

  // Mixture of experts; 0 or false where the model is dense.
  int64_t experts = 0, experts_used = 0, expert_ffn_width = 0;
  bool norm_topk = false;       // the gates of the experts used sum to expert_scale
  bool sigmoid_router = false;  // sigmoid of each score; a bias takes part in the choice (LLaDA2)
  int64_t expert_groups = 0, expert_groups_used = 0;
  float expert_scale = 1;
  // > 0: the rows of a block of expert_block positions, counted from 0, choose so many experts together, and each row
  // its own among these; there are no groups then (LLaDA2.2).
  int64_t expert_capacity = 0, expert_block = 0;
  int64_t dense_layers = 0;             // leading layers with a dense feed-forward of ffn_width
  int64_t shared_expert_ffn_width = 0;  // an expert that every row passes; 0: none

  // Block-causal attention over blocks counted from position 0; 0: full; -1: not said, of an autoregressive model's
  // architecture alone.
  int64_t attention_block = 0;
  // The blocks are counted from the end of the prompt, and text before the current one is read causally. There row i -
  // 1 predicts position i (Nemotron-Labs-Diffusion). Where there are blocks.
  bool causal_text = false;
  // Decided tokens are read first, causally, and masks behind them (WeDLM); attention_block is the window of positions
  // that are decided together.
  bool decided_first = false;
  bool prompt_ends_block = false;  // blocks are counted from the end of the prompt; the first may be shorter
  bool cuts_last_block = false;    // the last block ends with the answer, and is not filled up with masks
  UniformCanvas canvas = {};       // length > 0: answers are decided in canvases of random tokens, there is no mask

  std::optional<DiffusionGemma> gemma = {};  // of that family

  int32_t mask_id = -1, bos_id = -1, eos_id = -1, pad_id = -1, eot_id = -1;  // -1: not given
  std::vector<int32_t> end_ids = {};                                         // that end an answer beside eos and eot
  // Special tokens that are edits, no text (LLaDA2.2): one deletes the token at its position, one inserts a mask there.
  int32_t delete_id = -1, split_id = -1;

  // How other software has rounded a folder's weights; null: they are as they were trained.
  std::shared_ptr<const RoundedScheme> rounded = {};

  // A sentence for each setting of the file that is ignored, as the published code ignores it.
  std::vector<std::string> notes = {};
  // The same for ignored parts of the files that change nothing; `inspect` shows them.
  std::vector<std::string> remarks = {};
};

// Facts about a model that the user gives because its file lacks them or is wrong. -1, absent: not given.
struct Overrides {
  int32_t mask_id = -1;
  int64_t attention_block = -1;
  std::optional<bool> shift_logits = {};
};

}  // namespace llada
