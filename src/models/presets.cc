#include "models/presets.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "formats/expectations.h"
#include "formats/family.h"

namespace llada {
namespace {

constexpr std::string_view kLlamaHeaders =
    "{{'<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + message['content'] | trim + "
    "'<|eot_id|>'}}";
constexpr std::string_view kChatMl =
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}";
constexpr std::string_view kRoleTags =
    "{{'<role>' + message['role'] + '</role>' + message['content'] + '<|role_end|>'}}";

// DiffusionGemma's pattern; the last layer is always global.
std::vector<bool> global_layers(int64_t layers) {
  std::vector<bool> global;
  for (int64_t i = 0; i < layers; ++i) global.push_back(i % 6 == 5 || i + 1 == layers);
  return global;
}

Preset llada_8b(std::string_view name, std::string title) {
  return {.name = name,
          .config = {.family = &kLladaFamily,
                     .name = std::move(title),
                     .layers = 32,
                     .width = 4096,
                     .heads = 32,
                     .kv_heads = 32,
                     .head_dim = 128,
                     .ffn_width = 12288,
                     .vocab = 126464,
                     .context = 4096,
                     .rms_eps = 1e-5f,
                     .rope_theta = 500000,
                     .rotary_dims = 128,
                     .rope_pairing = RopePairing::adjacent,
                     .mask_id = 126336,
                     .bos_id = 126080,
                     .eos_id = 126081,
                     .pad_id = 126081,
                     .eot_id = 126348},
          .control_tokens = {{126080, "<|startoftext|>"},
                             {126081, "<|endoftext|>"},
                             {126336, "<|mdm_mask|>"},
                             {126346, "<|start_header_id|>"},
                             {126347, "<|end_header_id|>"},
                             {126348, "<|eot_id|>"}},
          .pre_tokenizer = "bailingmoe",
          .chat_template = kLlamaHeaders,
          .add_bos = true};
}

Preset dream_7b() {
  return {.name = "dream-7b",
          .config = {.family = &kDreamFamily,
                     .name = "Dream-v0-Instruct-7B",
                     .layers = 28,
                     .width = 3584,
                     .heads = 28,
                     .kv_heads = 4,
                     .head_dim = 128,
                     .ffn_width = 18944,
                     .vocab = 152064,
                     .context = 131072,
                     .rms_eps = 1e-6f,
                     .rope_theta = 1e6f,
                     .rotary_dims = 128,
                     .rope_pairing = RopePairing::half_split,
                     .shift_logits = true,
                     .qkv_bias = true,
                     .mask_id = 151666,
                     .bos_id = 151665,
                     .eos_id = 151643,
                     .pad_id = 151643,
                     .eot_id = 151645},
          .control_tokens = {{151643, "<|endoftext|>"},
                             {151644, "<|im_start|>"},
                             {151645, "<|im_end|>"},
                             {151665, "<|beginoftext|>"},
                             {151666, "<|mask|>"}},
          .pre_tokenizer = "qwen2",
          .chat_template = kChatMl,
          .nfc = true};
}

Preset llada_moe_7b() {
  return {.name = "llada-moe-7b",
          .config = {.family = &kLladaMoeFamily,
                     .name = "LLaDA-MoE-7B-A1B-Instruct",
                     .layers = 16,
                     .width = 2048,
                     .heads = 16,
                     .kv_heads = 16,
                     .head_dim = 128,
                     .vocab = 157184,
                     .context = 8192,
                     .rms_eps = 1e-5f,
                     .rope_theta = 50000,
                     .rotary_dims = 128,
                     .rope_pairing = RopePairing::half_split,
                     .qk_norm = true,
                     .experts = 64,
                     .experts_used = 8,
                     .expert_ffn_width = 1024,
                     .mask_id = 156895,
                     .eos_id = 156892,
                     .pad_id = 156892},
          .control_tokens = {{156892, "<|endoftext|>"}, {156895, "<|mask|>"}},
          .pre_tokenizer = "llada-moe",
          .chat_template = kRoleTags};
}

Preset llada2_mini() {
  return {.name = "llada2-mini",
          .config = {.family = &kLlada2Family,
                     .name = "LLaDA2.0-mini",
                     .layers = 20,
                     .width = 2048,
                     .heads = 16,
                     .kv_heads = 4,
                     .head_dim = 128,
                     .ffn_width = 5120,
                     .vocab = 157184,
                     .context = 32768,
                     .rms_eps = 1e-6f,
                     .rope_theta = 600000,
                     .rotary_dims = 64,
                     .rope_pairing = RopePairing::half_split,
                     .qk_norm = true,
                     .experts = 256,
                     .experts_used = 8,
                     .expert_ffn_width = 512,
                     .norm_topk = true,
                     .sigmoid_router = true,
                     .expert_groups = 8,
                     .expert_groups_used = 4,
                     .expert_scale = 2.5f,
                     .dense_layers = 1,
                     .shared_expert_ffn_width = 512,
                     .attention_block = 32,
                     .mask_id = 156895,
                     .eos_id = 156892,
                     .pad_id = 156892},
          .control_tokens = {{156892, "<|endoftext|>"}, {156895, "<|mask|>"}},
          .pre_tokenizer = "bailingmoe2",
          .chat_template = kRoleTags};
}

Preset diffusion_gemma_26b() {
  Preset p = {.name = "diffusion-gemma-26b",
              .config = {.family = &kDiffusionGemmaFamily,
                         .name = "diffusiongemma-26B-A4B-it",
                         .layers = 30,
                         .width = 2816,
                         .heads = 16,
                         .kv_heads = 8,
                         .head_dim = 256,
                         .ffn_width = 2112,
                         .vocab = 262144,
                         .context = 262144,
                         .rms_eps = 1e-6f,
                         .rope_theta = 1e4f,
                         .rotary_dims = 256,
                         .qk_norm = true,
                         .tied_head = true,
                         .experts = 128,
                         .experts_used = 8,
                         .expert_ffn_width = 704,
                         .norm_topk = true,
                         .canvas = {.length = 256},
                         .gemma = DiffusionGemma{.window = 1024,
                                                 .kv_heads = 2,
                                                 .head_dim = 512,
                                                 .rope_theta = 1e6f,
                                                 .rotary_dims = 128,
                                                 .logit_cap = 30},
                         .bos_id = 2,
                         .eos_id = 1,
                         .pad_id = 0,
                         .eot_id = 106,
                         .end_ids = {50}},
              .control_tokens = {{0, "<pad>"}, {1, "<eos>"}, {2, "<bos>"}, {50, "<|tool_response>"}, {106, "<turn|>"}},
              .pre_tokenizer = "gpt-2",
              .chat_template = ""};
  p.config.gemma->global = global_layers(p.config.layers);
  return p;
}

// Ministral 3 8B.
Preset nemotron_8b() {
  return {.name = "nemotron-8b",
          .config = {.family = find_family("nemotron-labs-diffusion"),
                     .name = "Nemotron-Labs-Diffusion-8B",
                     .layers = 34,
                     .width = 4096,
                     .heads = 32,
                     .kv_heads = 8,
                     .head_dim = 128,
                     .ffn_width = 14336,
                     .vocab = 131072,
                     .context = 262144,
                     .rms_eps = 1e-5f,
                     .rope_theta = 1e6f,
                     .rotary_dims = 128,
                     .rope_pairing = RopePairing::half_split,
                     .yarn = Yarn{.factor = 16, .original_context = 16384, .attention_factor = 1},
                     .query_scale = {0.1, 16384},
                     .attention_block = 32,
                     .causal_text = true,
                     .mask_id = 100,
                     .bos_id = 1,
                     .eos_id = 2,
                     .pad_id = 11,
                     .end_ids = {11}},
          .control_tokens = {{1, "<s>"}, {2, "</s>"}, {11, "<pad>"}, {100, "<mask>"}},
          .pre_tokenizer = "gpt-2",
          .chat_template = "",
          .add_bos = true};
}

struct QwenShape {
  int64_t layers, width, heads, ffn_width;
  bool tied = false;
};

// Qwen3's layers, with 8 K/V heads of 128.
Preset qwen3(std::string_view name, std::string_view family, std::string title, int64_t block, const QwenShape& shape) {
  return {.name = name,
          .config = {.family = find_family(family),
                     .name = std::move(title),
                     .layers = shape.layers,
                     .width = shape.width,
                     .heads = shape.heads,
                     .kv_heads = 8,
                     .head_dim = 128,
                     .ffn_width = shape.ffn_width,
                     .vocab = 151936,
                     .context = 32768,
                     .rms_eps = 1e-6f,
                     .rope_theta = 1e6f,
                     .rotary_dims = 128,
                     .rope_pairing = RopePairing::half_split,
                     .qk_norm = true,
                     .tied_head = shape.tied,
                     .attention_block = block,
                     .mask_id = 151669,
                     .eos_id = 151643,
                     .pad_id = 151643,
                     .eot_id = 151645},
          .control_tokens = {{151643, "<|endoftext|>"},
                             {151644, "<|im_start|>"},
                             {151645, "<|im_end|>"},
                             {151669, "<|MASK|>"}},
          .pre_tokenizer = "qwen2",
          .chat_template = kChatMl,
          .nfc = true};
}

// Its special tokens are the last here and the first as published: a made vocabulary has its words before them.
Preset illada_8b() {
  Preset p = llada_8b("illada-8b", "iLLaDA-8B-Instruct");
  p.config.kv_heads = 8;
  p.config.ffn_width = 14336;
  p.config.vocab = 155136;
  p.config.context = 8192;
  p.config.tied_head = true;
  return p;
}

Preset tiny() {
  Preset p = llada_8b("tiny", "tiny");
  p.config.layers = 2;
  p.config.width = p.config.ffn_width = 256;
  p.config.heads = p.config.kv_heads = 4;
  p.config.head_dim = p.config.rotary_dims = 64;
  p.config.vocab = 1024;
  p.config.mask_id = 1006;
  p.config.bos_id = 1000;
  p.config.eos_id = p.config.pad_id = 1001;
  p.config.eot_id = 1009;
  for (size_t i = 0; i < p.control_tokens.size(); ++i)
    p.control_tokens[i].id = std::array{1000, 1001, 1006, 1007, 1008, 1009}[i];
  return p;
}

std::vector<Preset> presets() {
  return {llada_8b("llada-8b", "LLaDA-8B-Instruct"),
          llada_8b("llada-1.5", "LLaDA-1.5"),
          dream_7b(),
          llada_moe_7b(),
          llada2_mini(),
          illada_8b(),
          qwen3("qwen3-0.6b", "a2d-qwen3", "Qwen3-0.6B-diffusion-mdlm-v0.1", 0, {28, 1024, 16, 3072, true}),
          qwen3("sdar-1.7b", "sdar", "SDAR-1.7B-Chat", 4, {28, 2048, 16, 6144}),
          qwen3("sdar-8b", "sdar", "SDAR-8B-Chat", 4, {36, 4096, 32, 12288}),
          diffusion_gemma_26b(),
          nemotron_8b(),
          tiny()};
}

}  // namespace

Result<Preset> find_preset(std::string_view name) {
  std::string names;
  for (Preset& preset : presets()) {
    if (preset.name == name) return std::move(preset);
    names += (names.empty() ? "" : ", ") + std::string(preset.name);
  }
  return invalid("preset: found '{}', needed one of {}", name, names);
}

Result<PresetSpec> parse_preset(std::string_view spec) {
  const size_t colon = spec.find(':');
  LLADA_TRY(auto preset, find_preset(spec.substr(0, colon)));
  const auto type = colon == std::string_view::npos ? DType::Q4_0 : dtype_from_name(spec.substr(colon + 1));
  if (!type) return invalid("preset: found the type '{}', needed one such as q4_0 or f16", spec.substr(colon + 1));
  return PresetSpec{std::move(preset), *type};
}

Result<Preset> with_layers(Preset preset, int64_t layers) {
  if (layers < 1 || layers > 1024) return invalid("layers: found {}, needed 1 to 1024", layers);
  preset.config.layers = layers;
  if (preset.config.gemma) preset.config.gemma->global = global_layers(layers);
  return preset;
}

namespace {

// llama-quantize's choice of half the layers: the first and the last eighth, and every third between.
bool has_more_bits(int64_t layer, int64_t layers) {
  return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
}

// The head, and the matrices of values and of ways down, the former counted among the layers that have one.
void give_more_bits(const ModelConfig& config, std::vector<PresetTensor>& tensors) {
  const int64_t valued = std::ranges::count(config.gemma->global, false);
  int64_t value = 0;
  for (PresetTensor& t : tensors) {
    if (t.name == "token_embd.weight") t.more_bits = true;
    if (t.name.ends_with("attn_v.weight")) t.more_bits = has_more_bits(value++, valued);
    if (t.layer >= 0 && t.name.contains("ffn_down") && t.shape.rank > 1)
      t.more_bits = has_more_bits(t.layer, config.layers);
  }
}

DType in_smaller_groups(DType type) {
  switch (type) {
    case DType::Q4_K:
      return DType::Q5_0;
    case DType::Q5_K:
      return DType::Q5_1;
    case DType::Q6_K:
      return DType::Q8_0;
    case DType::Q2_K:
    case DType::Q3_K:
    case DType::TQ1_0:
    case DType::TQ2_0:
      return DType::Q4_0;
    default:
      return DType::IQ4_NL;
  }
}

}  // namespace

std::vector<PresetTensor> tensors_of(const Preset& preset) {
  std::vector<PresetTensor> list;
  for_each_expected(preset.config, false, [&](const ExpectedTensor& expected) {
    if (!expected.required) return true;  // the head of a model that takes the embedding for it
    const bool in_layer = expected.name.starts_with("blk.");
    list.push_back({std::string(expected.name), expected.shape, in_layer ? std::atoi(expected.name.data() + 4) : -1});
    return true;
  });
  if (preset.config.gemma) give_more_bits(preset.config, list);
  return list;
}

int64_t parameters_of(const Preset& preset) {
  int64_t sum = 0;
  for (const PresetTensor& tensor : tensors_of(preset)) sum += tensor.shape.elements();
  return sum;
}

DType stored_type(const PresetTensor& tensor, DType type) {
  if (tensor.shape.rank == 1 || tensor.name.ends_with("ffn_gate_inp.weight")) return DType::F32;
  if (type == DType::Q4_K && tensor.more_bits) type = DType::Q6_K;
  const auto fits = [&] { return tensor.shape.columns() % traits(type).elements == 0; };
  if (!fits() && traits(type).elements == 256) type = in_smaller_groups(type);
  return fits() ? type : DType::F16;
}

}  // namespace llada
