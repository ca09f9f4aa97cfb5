// A small DiffusionGemma of random weights with a tokenizer and a channel for thoughts, as a file.
#pragma once
#include <string>

#include "must.h"
#include "study/presets.h"
#include "study/synth.h"

namespace llada {

struct TinyGemma {
  static constexpr int32_t kEnd = 1, kTurnEnd = 4, kThought = 5, kThoughtEnd = 6;
  static constexpr int64_t kCanvas = 16, kVocab = 320;
};

// Six layers, the last of which is global. Rows of the ways down are no multiple of 256.
inline Preset tiny_gemma() {
  Preset p = with_layers(find_preset("diffusion-gemma-26b").value(), 6).value();
  ModelConfig& c = p.config;
  c.width = 256, c.heads = 4, c.kv_heads = 2, c.head_dim = c.rotary_dims = 64, c.ffn_width = 96;
  c.vocab = TinyGemma::kVocab, c.context = 2048, c.experts = 4, c.experts_used = 2, c.expert_ffn_width = 32;
  c.canvas.length = TinyGemma::kCanvas;
  c.gemma->window = 20, c.gemma->kv_heads = 1, c.gemma->head_dim = 128, c.gemma->rotary_dims = 32;
  c.eot_id = TinyGemma::kTurnEnd, c.end_ids = {};
  p.control_tokens = {{0, "<pad>"},
                      {TinyGemma::kEnd, "<eos>"},
                      {2, "<bos>"},
                      {3, "<|turn>"},
                      {TinyGemma::kTurnEnd, "<turn|>"},
                      {TinyGemma::kThought, "<|channel>"},
                      {TinyGemma::kThoughtEnd, "<channel|>"},
                      {7, "<|think|>"}};
  p.chat_template = R"({{- '<|turn>model\n<|channel>thought\n<channel|>' -}})";
  return p;
}

inline std::string write_tiny_gemma(const std::string& path, DType type = DType::F32, const Preset& p = tiny_gemma()) {
  must(synthesize_file(path, {.preset = p, .type = type}, {.threads = 1}));
  return path;
}

}  // namespace llada
