#include "study/presets.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "formats/expectations.h"
#include "formats/family.h"
#include "formats/type_mix.h"

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

struct Size {
  int64_t layers, width, heads, kv_heads, head_dim, ffn_width, vocab, context;
};

// Whole heads rotate, their halves paired.
Preset of_size(std::string_view name, const Family* family, std::string title, const Size& size, float rms_eps,
               float rope_theta) {
  Preset p;
  p.name = name;
  ModelConfig& c = p.config;
  c.family = family, c.name = std::move(title);
  c.layers = size.layers, c.width = size.width, c.ffn_width = size.ffn_width;
  c.heads = size.heads, c.kv_heads = size.kv_heads, c.head_dim = c.rotary_dims = size.head_dim;
  c.vocab = size.vocab, c.context = size.context;
  c.rms_eps = rms_eps, c.rope_theta = rope_theta;
  return p;
}

Preset llada_8b(std::string_view name, std::string title) {
  Preset p = of_size(name, &kLladaFamily, std::move(title), {32, 4096, 32, 32, 128, 12288, 126464, 4096}, 1e-5f, 5e5f);
  ModelConfig& c = p.config;
  c.rope_pairing = RopePairing::adjacent;
  c.mask_id = 126336, c.bos_id = 126080, c.eos_id = c.pad_id = 126081, c.eot_id = 126348;
  p.control_tokens = {{126080, "<|startoftext|>"},     {126081, "<|endoftext|>"},     {126336, "<|mdm_mask|>"},
                      {126346, "<|start_header_id|>"}, {126347, "<|end_header_id|>"}, {126348, "<|eot_id|>"}};
  p.pre_tokenizer = "bailingmoe", p.chat_template = kLlamaHeaders, p.add_bos = true;
  return p;
}

Preset dream_7b() {
  Preset p = of_size("dream-7b", &kDreamFamily, "Dream-v0-Instruct-7B", {28, 3584, 28, 4, 128, 18944, 152064, 131072},
                     1e-6f, 1e6f);
  ModelConfig& c = p.config;
  c.shift_logits = c.qkv_bias = true;
  c.mask_id = 151666, c.bos_id = 151665, c.eos_id = c.pad_id = 151643, c.eot_id = 151645;
  p.control_tokens = {{151643, "<|endoftext|>"},
                      {151644, "<|im_start|>"},
                      {151645, "<|im_end|>"},
                      {151665, "<|beginoftext|>"},
                      {151666, "<|mask|>"}};
  p.pre_tokenizer = "qwen2", p.chat_template = kChatMl, p.nfc = true;
  return p;
}

Preset llada_moe_7b() {
  Preset p = of_size("llada-moe-7b", &kLladaMoeFamily, "LLaDA-MoE-7B-A1B-Instruct",
                     {16, 2048, 16, 16, 128, 0, 157184, 8192}, 1e-5f, 5e4f);
  ModelConfig& c = p.config;
  c.qk_norm = true;
  c.experts = 64, c.experts_used = 8, c.expert_ffn_width = 1024;
  c.mask_id = 156895, c.eos_id = c.pad_id = 156892;
  p.control_tokens = {{156892, "<|endoftext|>"}, {156895, "<|mask|>"}};
  p.pre_tokenizer = "llada-moe", p.chat_template = kRoleTags;
  return p;
}

Preset llada2_mini() {
  Preset p =
      of_size("llada2-mini", &kLlada2Family, "LLaDA2.0-mini", {20, 2048, 16, 4, 128, 5120, 157184, 32768}, 1e-6f, 6e5f);
  ModelConfig& c = p.config;
  c.rotary_dims = 64;
  c.qk_norm = true;
  c.experts = 256, c.experts_used = 8, c.expert_ffn_width = c.shared_expert_ffn_width = 512;
  c.norm_topk = c.sigmoid_router = true;
  c.expert_groups = 8, c.expert_groups_used = 4, c.expert_scale = 2.5f;
  c.dense_layers = 1;
  c.attention_block = 32;
  c.mask_id = 156895, c.eos_id = c.pad_id = 156892;
  p.control_tokens = {{156892, "<|endoftext|>"}, {156895, "<|mask|>"}};
  p.pre_tokenizer = "bailingmoe2", p.chat_template = kRoleTags;
  return p;
}

Preset diffusion_gemma_26b() {
  Preset p = of_size("diffusion-gemma-26b", &kDiffusionGemmaFamily, "diffusiongemma-26B-A4B-it",
                     {30, 2816, 16, 8, 256, 2112, 262144, 262144}, 1e-6f, 1e4f);
  ModelConfig& c = p.config;
  c.qk_norm = c.tied_head = true;
  c.experts = 128, c.experts_used = 8, c.expert_ffn_width = 704;
  c.norm_topk = true;
  c.canvas.length = 256;
  c.gemma = DiffusionGemma{
      .window = 1024, .kv_heads = 2, .head_dim = 512, .rope_theta = 1e6f, .rotary_dims = 128, .logit_cap = 30};
  c.gemma->global = global_layers(c.layers);
  c.bos_id = 2, c.eos_id = 1, c.pad_id = 0, c.eot_id = 106, c.end_ids = {50};
  p.control_tokens = {{0, "<pad>"}, {1, "<eos>"}, {2, "<bos>"}, {50, "<|tool_response>"}, {106, "<turn|>"}};
  p.pre_tokenizer = "gpt-2";
  return p;
}

// Ministral 3 8B.
Preset nemotron_8b() {
  Preset p = of_size("nemotron-8b", find_family("nemotron-labs-diffusion"), "Nemotron-Labs-Diffusion-8B",
                     {34, 4096, 32, 8, 128, 14336, 131072, 262144}, 1e-5f, 1e6f);
  ModelConfig& c = p.config;
  c.yarn = Yarn{.factor = 16, .original_context = 16384, .attention_factor = 1};
  c.query_scale = {0.1, 16384};
  c.attention_block = 32, c.causal_text = true;
  c.mask_id = 100, c.bos_id = 1, c.eos_id = 2, c.pad_id = 11, c.end_ids = {11};
  p.control_tokens = {{1, "<s>"}, {2, "</s>"}, {11, "<pad>"}, {100, "<mask>"}};
  p.pre_tokenizer = "gpt-2", p.add_bos = true;
  return p;
}

// Qwen3's layers, with 8 K/V heads of 128.
Preset qwen3(std::string_view name, std::string_view family, std::string title, int64_t block, int64_t layers,
             int64_t width, int64_t heads, int64_t ffn_width) {
  Preset p = of_size(name, find_family(family), std::move(title),
                     {layers, width, heads, 8, 128, ffn_width, 151936, 32768}, 1e-6f, 1e6f);
  ModelConfig& c = p.config;
  c.qk_norm = true;
  c.attention_block = block;
  c.mask_id = 151669, c.eos_id = c.pad_id = 151643, c.eot_id = 151645;
  p.control_tokens = {
      {151643, "<|endoftext|>"}, {151644, "<|im_start|>"}, {151645, "<|im_end|>"}, {151669, "<|MASK|>"}};
  p.pre_tokenizer = "qwen2", p.chat_template = kChatMl, p.nfc = true;
  return p;
}

Preset qwen3_0_6b() {
  Preset p = qwen3("qwen3-0.6b", "a2d-qwen3", "Qwen3-0.6B-diffusion-mdlm-v0.1", 0, 28, 1024, 16, 3072);
  p.config.tied_head = true;
  return p;
}

// Its special tokens are the last here and the first as published: a made vocabulary has its words before them.
Preset illada_8b() {
  Preset p = llada_8b("illada-8b", "iLLaDA-8B-Instruct");
  ModelConfig& c = p.config;
  c.kv_heads = 8, c.ffn_width = 14336, c.vocab = 155136, c.context = 8192;
  c.tied_head = true;
  return p;
}

Preset tiny() {
  Preset p = llada_8b("tiny", "tiny");
  ModelConfig& c = p.config;
  c.layers = 2, c.width = c.ffn_width = 256, c.heads = c.kv_heads = 4, c.head_dim = c.rotary_dims = 64;
  c.vocab = 1024, c.mask_id = 1006, c.bos_id = 1000, c.eos_id = c.pad_id = 1001, c.eot_id = 1009;
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
          qwen3_0_6b(),
          qwen3("sdar-1.7b", "sdar", "SDAR-1.7B-Chat", 4, 28, 2048, 16, 6144),
          qwen3("sdar-8b", "sdar", "SDAR-8B-Chat", 4, 36, 4096, 32, 12288),
          diffusion_gemma_26b(),
          nemotron_8b(),
          tiny()};
}

}  // namespace

std::vector<std::string_view> preset_names() {
  std::vector<std::string_view> names;
  for (const Preset& preset : presets()) names.push_back(preset.name);
  return names;
}

Result<Preset> find_preset(std::string_view name) {
  for (Preset& preset : presets())
    if (preset.name == name) return std::move(preset);
  return invalid("preset: found '{}', needed one of {}", name, fmt::join(preset_names(), ", "));
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

// The head, and the matrices of values and of ways down, the former counted among the layers that have one.
void give_more_bits(const ModelConfig& config, std::vector<PresetTensor>& tensors) {
  const int64_t valued = std::ranges::count(config.gemma->global, false);
  int64_t value = 0;
  for (PresetTensor& t : tensors) {
    if (t.name == "token_embd.weight") t.more_bits = true;
    if (t.name.ends_with("attn_v.weight")) t.more_bits = gets_more_bits(value++, valued);
    if (t.layer >= 0 && t.name.contains("ffn_down") && t.shape.rank > 1)
      t.more_bits = gets_more_bits(t.layer, config.layers);
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
  if (!fits()) type = in_smaller_groups(type);
  return fits() ? type : DType::F16;
}

}  // namespace llada
