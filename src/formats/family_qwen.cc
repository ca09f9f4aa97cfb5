// Diffusion models that are Qwen's layers: Qwen2 (biases on q, k and v), Qwen3 (norms on q and k) and its mixture. The
// families differ in which positions a row sees, in the row that predicts a position, and in names.
#include "formats/family.h"

namespace llada {
namespace {

constexpr std::string_view kSdarClasses[] = {"SDARForCausalLM"}, kSdarTypes[] = {"sdar"};
constexpr std::string_view kSdarMoeClasses[] = {"SDARMoeForCausalLM"}, kSdarMoeTypes[] = {"sdar_moe"};
// Its two revisions call it by two names.
constexpr std::string_view kSdarBlock[] = {"block_length", "block_size"};
constexpr std::string_view kA2dQwen3Classes[] = {"A2DQwen3LMHeadModel"}, kA2dQwen3Types[] = {"a2d-qwen3"};
constexpr std::string_view kA2dQwen2Classes[] = {"A2DQwen2LMHeadModel"}, kA2dQwen2Types[] = {"a2d-qwen2"};
constexpr std::string_view kRnd1Classes[] = {"RND1LM"}, kRnd1Types[] = {"rnd1"};
constexpr std::string_view kFastDllmClasses[] = {"Fast_dLLM_QwenForCausalLM"}, kFastDllmTypes[] = {"Fast_dLLM_Qwen"};
constexpr std::string_view kFastDllmBlock[] = {"bd_size"};
constexpr std::string_view kWedlmClasses[] = {"WeDLMForCausalLM"}, kWedlmTypes[] = {"wedlm"};
constexpr std::string_view kQwen2Classes[] = {"Qwen2ForCausalLM"}, kQwen2Types[] = {"qwen2"};
constexpr std::string_view kQwen3Classes[] = {"Qwen3ForCausalLM"}, kQwen3Types[] = {"qwen3"};
constexpr std::string_view kQwen3MoeClasses[] = {"Qwen3MoeForCausalLM"}, kQwen3MoeTypes[] = {"qwen3_moe"};

// SDAR's dynamic sampler (arXiv 2510.06303) without its draws: all above the threshold, or the schedule's share.
constexpr FamilyPreset kSdarPresets[] = {{"sdar", "--accept llada2 --threshold 0.9 --kv block --early-stop block"}};

// Fast-dLLM v2's loop, in its sub-blocks, which ends with the mask that was the last one before an end token.
constexpr FamilyPreset kFastDllmPresets[] = {
    {"fast-dllm-v2", "--accept llada2 --threshold 0.9 --block-length 8 --kv block --early-stop answer"}};

// RND1's loop over 256 positions at once, without its draws.
constexpr FamilyPreset kRnd1Presets[] = {{"rnd1", "--accept rnd1 --gen-length 256 --block-length 4096 --steps 256"}};

// WeDLM's window with the numbers of its own engine.
constexpr FamilyPreset kWedlmPresets[] = {{"wedlm", "--accept wedlm --entropy-bound 0.4 --kv block"}};

constexpr Family qwen2() {
  Family f;
  f.qkv_bias = true, f.rms_eps = 1e-6, f.context = 32768, f.kv_heads = 32;
  return f;
}

constexpr Family qwen3() {
  Family f;
  f.head_norms = HeadNorms::usual, f.rms_eps = 1e-6, f.context = 32768, f.kv_heads = 32, f.head_dim = 128;
  return f;
}

constexpr Family qwen3_moe() {
  Family f = qwen3();
  f.router = Router::softmax, f.gates = Gates::as_said;
  f.experts = 128, f.experts_used = 8, f.kv_heads = 4, f.head_dim = {};
  return f;
}

// Qwen2's or Qwen3's, as the file says.
constexpr Family wedlm() {
  Family f;
  f.bias_unless_said = true, f.head_norms = HeadNorms::where_said;
  f.rms_eps = 1e-6, f.context = 32768, f.kv_heads = 32;
  f.decided_first = true;
  return f;
}

constexpr Family named(Family f, std::string_view name, FamilyNames classes, FamilyNames types) {
  f.name = name, f.classes = classes, f.model_types = types;
  return f;
}

constexpr Family with_mask(Family f, int32_t id) {
  f.mask_id = id;
  return f;
}

constexpr Family in_blocks(Family f, int64_t block, FamilyNames keys = {}) {
  f.attention_block = block, f.block_keys = keys;
  return f;
}

constexpr Family in_named_blocks(Family f, std::string_view word, int64_t block) {
  f.block_word = word, f.named_block = block, f.prompt_ends_block = true;
  return f;
}

constexpr Family shifted(Family f) {
  f.shift_logits = true;
  return f;
}

constexpr Family autoregressive(Family f) {
  f.autoregressive = true, f.attention_block = -1;
  return f;
}

constexpr Family sampled(Family f, std::span<const FamilyPreset> presets) {
  f.presets = presets;
  return f;
}

constexpr int32_t kQwen3Mask = 151669;  // behind Qwen3's own tokens; from the models' cards
constexpr int32_t kFastDllmMask = 151665;

constexpr Family kQwenFamilies[] = {
    // SDAR and TraDo.
    sampled(in_blocks(with_mask(named(qwen3(), "sdar", kSdarClasses, kSdarTypes), kQwen3Mask), 4, kSdarBlock),
            kSdarPresets),
    in_blocks(with_mask(named(qwen3_moe(), "sdar_moe", kSdarMoeClasses, kSdarMoeTypes), kQwen3Mask), 4, kSdarBlock),
    // dllm-hub's small models; one class for full attention (mdlm) and blocks (bd3lm), which the name alone tells.
    in_named_blocks(with_mask(named(qwen3(), "a2d-qwen3", kA2dQwen3Classes, kA2dQwen3Types), kQwen3Mask), "bd3lm", 32),
    in_named_blocks(with_mask(named(qwen2(), "a2d-qwen2", kA2dQwen2Classes, kA2dQwen2Types), kFastDllmMask), "bd3lm",
                    32),
    sampled(shifted(with_mask(named(qwen3_moe(), "rnd1", kRnd1Classes, kRnd1Types), kQwen3Mask)), kRnd1Presets),
    // Fast-dLLM v2 (arXiv 2509.26328).
    sampled(
        shifted(in_blocks(with_mask(named(qwen2(), "fast-dllm-v2", kFastDllmClasses, kFastDllmTypes), kFastDllmMask),
                          32, kFastDllmBlock)),
        kFastDllmPresets),
    // Its window is its engine's, since no file gives it.
    sampled(in_blocks(with_mask(named(wedlm(), "wedlm", kWedlmClasses, kWedlmTypes), kFastDllmMask), 16),
            kWedlmPresets),
    autoregressive(named(qwen2(), "qwen2", kQwen2Classes, kQwen2Types)),
    autoregressive(named(qwen3(), "qwen3", kQwen3Classes, kQwen3Types)),
    autoregressive(named(qwen3_moe(), "qwen3moe", kQwen3MoeClasses, kQwen3MoeTypes)),
};

}  // namespace

std::span<const Family> qwen_families() { return kQwenFamilies; }

}  // namespace llada
