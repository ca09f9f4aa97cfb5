// A small LLaDA2 with random weights as files: a Hugging Face folder (F32, with the tokenizer of the shipped
// mixture) and a GGUF file, both of the same SmallModel whose forward is written in double arithmetic.
#pragma once
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "devices/small_model.h"
#include "formats/convert_metadata.h"
#include "golden.h"

namespace llada {

inline ModelConfig tiny_llada2(int64_t block) {
  ModelConfig c = small_llada2();
  c.attention_block = block;
  c.layers = 2;  // the first dense, the second of experts
  c.vocab = 1024;
  c.context = 96;
  c.rms_eps = 1e-5f;
  c.rope_theta = 10000;
  c.mask_id = 1005;
  c.eos_id = c.pad_id = 1001;
  return c;
}

inline std::string hf_name(const WeightInfo& w) {
  static constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"attn_norm", "input_layernorm"},
      {"attn_q_norm", "attention.query_layernorm"},
      {"attn_k_norm", "attention.key_layernorm"},
      {"attn_output", "attention.dense"},
      {"ffn_norm", "post_attention_layernorm"},
      {"ffn_gate_inp", "mlp.gate"},
      {"ffn_gate", "mlp.gate_proj"},
      {"ffn_up", "mlp.up_proj"},
      {"ffn_down", "mlp.down_proj"},
      {"ffn_gate_shexp", "mlp.shared_experts.gate_proj"},
      {"ffn_up_shexp", "mlp.shared_experts.up_proj"},
      {"ffn_down_shexp", "mlp.shared_experts.down_proj"},
      {"ffn_gate_exps", "gate_proj"},
      {"ffn_up_exps", "up_proj"},
      {"ffn_down_exps", "down_proj"}};
  if (w.name == "token_embd.weight") return "model.word_embeddings.weight";
  if (w.name == "output_norm.weight") return "model.norm.weight";
  if (w.name == "output.weight") return "lm_head.weight";
  const std::string layer = fmt::format("model.layers.{}.", w.layer);
  if (w.name.ends_with("exp_probs_b.bias")) return layer + "mlp.gate.expert_bias";
  const size_t from = w.name.find('.', 4) + 1;
  const std::string leaf = w.name.substr(from, w.name.rfind('.') - from);
  for (const auto& [ours, theirs] : kNames)
    if (leaf == ours)
      return layer + (w.expert >= 0 ? fmt::format("mlp.experts.{}.", w.expert) : "") + std::string(theirs) +
             ".weight";
  throw std::runtime_error("no name for " + w.name);
}

inline void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// m holds F32. q, k and v become one matrix, as published.
inline void write_hf_folder(const SmallModel& m, const std::string& folder) {
  std::filesystem::create_directories(folder);
  const ModelConfig& c = m.config;
  std::string header, data;
  for (size_t i = 0; i < m.graph.weights.size(); ++i) {
    const WeightInfo& w = m.graph.weights[i];
    const size_t begin = data.size();
    const auto add = [&](size_t at) {
      data.append(reinterpret_cast<const char*>(m.storage[at].data()), m.storage[at].size());
    };
    add(i);
    std::string name,
        shape = w.dims[1] == 1 ? fmt::format("{}", w.dims[0]) : fmt::format("{},{}", w.dims[1], w.dims[0]);
    if (w.name.ends_with("attn_q.weight")) {
      add(i + 1), add(i + 2);
      name = fmt::format("model.layers.{}.attention.query_key_value.weight", w.layer);
      shape = fmt::format("{},{}", (c.heads + 2 * c.kv_heads) * c.head_dim, c.width);
      i += 2;
    } else {
      name = hf_name(w);
    }
    header += fmt::format(R"({}"{}":{{"dtype":"F32","shape":[{}],"data_offsets":[{},{}]}})",
                          header.empty() ? "{" : ",", name, shape, begin, data.size());
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const uint64_t length = header.size();
  write_bytes(folder + "/model.safetensors",
              std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + data);
  write_bytes(
      folder + "/config.json",
      fmt::format(
          R"({{"architectures":["LLaDA2MoeModelLM"],"model_type":"llada2_moe","vocab_size":{},"rms_norm_eps":{},)"
          R"("rope_theta":{},"mask_token_id":{},"eos_token_id":{},"pad_token_id":{},"hidden_size":{},)"
          R"("num_hidden_layers":{},"num_attention_heads":{},"num_key_value_heads":{},"head_dim":{},)"
          R"("max_position_embeddings":{},"num_experts":{},"num_experts_per_tok":{},"moe_intermediate_size":{},)"
          R"("moe_shared_expert_intermediate_size":{},"num_shared_experts":1,"n_group":{},"topk_group":{},)"
          R"("routed_scaling_factor":{},"first_k_dense_replace":{},"intermediate_size":{},"rotary_dim":{},)"
          R"("norm_topk_prob":true,"use_qk_norm":true}})",
          c.vocab, c.rms_eps, c.rope_theta, c.mask_id, c.eos_id, c.pad_id, c.width, c.layers, c.heads,
          c.kv_heads, c.head_dim, c.context, c.experts, c.experts_used, c.expert_ffn_width,
          c.shared_expert_ffn_width, c.expert_groups, c.expert_groups_used, c.expert_scale, c.dense_layers,
          c.ffn_width, c.rotary_dims));
  for (const char* file : {"tokenizer.json", "tokenizer_config.json"})
    std::filesystem::copy_file(std::string(LLADA_SOURCE_DIR "/models/tiny-llada-moe/") + file,
                               folder + "/" + file, std::filesystem::copy_options::overwrite_existing);
}

// Without a tokenizer; the experts of a layer are one tensor.
inline void write_gguf(const SmallModel& m, const std::string& path) {
  GgufWriter out;
  if (const auto status = add_metadata(out, m.config, nullptr, DType::F32); !status)
    throw std::runtime_error(status.error().message);
  std::vector<std::vector<size_t>> parts;
  for (size_t i = 0; i < m.graph.weights.size(); ++i) {
    const WeightInfo& w = m.graph.weights[i];
    if (w.expert > 0) {
      parts.back().push_back(i);
      continue;
    }
    Shape shape = m.views[i].shape;
    if (w.expert == 0) shape.dims[2] = m.config.experts, shape.rank = 3;
    out.add_tensor(w.name, m.views[i].type, shape);
    parts.push_back({i});
  }
  const auto status = out.write(path, [&](size_t index, AtomicFile& file) -> Status {
    for (const size_t i : parts[index])
      LLADA_TRY_STATUS(file.write(m.storage[i].data(), m.storage[i].size()));
    return {};
  });
  if (!status) throw std::runtime_error(status.error().message);
}

// Softmax in double over all logits; the token is never the mask.
struct Guess {
  int32_t token = -1;
  double probability = 0;
};
inline Guess guess(const std::vector<double>& logits, int32_t mask) {
  double sum = 0;
  Guess best;
  for (size_t t = 0; t < logits.size(); ++t) {
    sum += std::exp(logits[t]);
    if (static_cast<int32_t>(t) != mask &&
        (best.token < 0 || logits[t] > logits[static_cast<size_t>(best.token)]))
      best.token = static_cast<int32_t>(t);
  }
  best.probability = std::exp(logits[static_cast<size_t>(best.token)]) / sum;
  return best;
}

// LLaDA2's generate() (edit < 0) and LLaDA2.1's with edits, from the published description: the whole window
// up to the current block is computed again from its tokens in every step, in double, without a store.
// per_step: the least number of masks that a step decides.
inline std::vector<int32_t> reference_llada2(const SmallModel& m, std::vector<int32_t> tokens, int64_t gen,
                                             int64_t per_step, double threshold, double edit) {
  const auto prompt = static_cast<int64_t>(tokens.size());
  const int64_t block = m.config.attention_block;
  const int32_t mask = m.config.mask_id;
  tokens.resize(static_cast<size_t>((prompt + gen + block - 1) / block * block), mask);
  for (int64_t b = prompt / block * block; b < static_cast<int64_t>(tokens.size()); b += block) {
    for (int64_t alone = 0;;) {
      const auto masks = std::count(tokens.begin() + b, tokens.begin() + b + block, mask);
      if (masks == 0 && (edit < 0 || alone++ == 16)) break;
      const std::vector<int32_t> window(tokens.begin(), tokens.begin() + b + block);
      const auto from = static_cast<size_t>(b);
      const Rows logits = reference_forward(m, window, from);
      std::vector<std::pair<double, int64_t>> order;  // of the masks
      bool changed = false;
      for (int64_t p = std::max(b, prompt); p < b + block; ++p) {
        const auto i = static_cast<size_t>(p);
        const Guess g = guess(logits[i - from], mask);
        if (window[i] == mask) {
          order.emplace_back(-g.probability, p);
        } else if (edit >= 0 && g.token != window[i] && g.probability > edit) {
          tokens[i] = g.token, changed = true;
        }
      }
      std::ranges::sort(order);
      for (size_t k = 0; k < order.size(); ++k) {
        if (static_cast<int64_t>(k) >= per_step && !(-order[k].first > threshold)) break;
        const auto i = static_cast<size_t>(order[k].second);
        tokens[i] = guess(logits[i - from], mask).token, changed = true;
      }
      if (!changed) break;
    }
  }
  tokens.resize(static_cast<size_t>(prompt + gen));
  return {tokens.begin() + prompt, tokens.end()};
}

}  // namespace llada
