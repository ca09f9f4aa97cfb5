#include "geometry/model_files.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "formats/convert_metadata.h"
#include "formats/diffuse_llada2.h"
#include "formats/family.h"

namespace llada {
namespace {

using Names = std::span<const std::pair<std::string_view, std::string_view>>;

constexpr std::pair<std::string_view, std::string_view> kOlmo[] = {
    {"attn_norm", "attn_norm"}, {"attn_q", "q_proj"},        {"attn_k", "k_proj"},
    {"attn_v", "v_proj"},       {"attn_output", "attn_out"}, {"ffn_norm", "ff_norm"},
    {"ffn_gate", "ff_proj"},    {"ffn_up", "up_proj"},       {"ffn_down", "ff_out"}};
constexpr std::pair<std::string_view, std::string_view> kStandard[] = {
    {"attn_norm", "input_layernorm"},    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},      {"attn_v", "self_attn.v_proj"},
    {"attn_q_norm", "self_attn.q_norm"}, {"attn_k_norm", "self_attn.k_norm"},
    {"attn_output", "self_attn.o_proj"}, {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate_inp", "mlp.gate"},        {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},           {"ffn_down", "mlp.down_proj"},
    {"ffn_gate_exps", "gate_proj"},      {"ffn_up_exps", "up_proj"},
    {"ffn_down_exps", "down_proj"}};
constexpr std::pair<std::string_view, std::string_view> kLlada2[] = {{"attn_norm", "input_layernorm"},
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

std::string hf_name(const ModelConfig& c, const WeightInfo& w) {
  const bool olmo = c.family == &kLladaFamily, llada2 = c.family == &kLlada2Family;
  const std::string stem = olmo ? "model.transformer." : "model.";
  if (w.name == "token_embd.weight")
    return stem + (olmo ? "wte" : llada2 ? "word_embeddings" : "embed_tokens") + ".weight";
  if (w.name == "output_norm.weight") return stem + (olmo ? "ln_f" : "norm") + ".weight";
  if (w.name == "output.weight") return olmo ? stem + "ff_out.weight" : "lm_head.weight";
  const std::string layer = fmt::format("{}{}.{}.", stem, olmo ? "blocks" : "layers", w.layer);
  if (w.name.ends_with("exp_probs_b.bias")) return layer + "mlp.gate.expert_bias";
  const size_t from = w.name.find('.', 4) + 1, to = w.name.rfind('.');
  const Names names = olmo ? Names(kOlmo) : llada2 ? Names(kLlada2) : Names(kStandard);
  for (const auto& [ours, theirs] : names)
    if (w.name.substr(from, to - from) == ours)
      return layer + (w.expert >= 0 ? fmt::format("mlp.experts.{}.", w.expert) : "") + std::string(theirs) +
             w.name.substr(to);
  throw std::runtime_error("no name for " + w.name);
}

std::string config_json(const ModelConfig& c) {
  const bool llada2 = c.family == &kLlada2Family;
  std::string text = fmt::format(
      R"({{"architectures":["{}"],"vocab_size":{},"rms_norm_eps":{},"rope_theta":{},"mask_token_id":{},"eos_token_id":{},)"
      R"("pad_token_id":{},"hidden_size":{},"num_hidden_layers":{},"num_attention_heads":{},"num_key_value_heads":{},)"
      R"("head_dim":{},"max_position_embeddings":{},"{}":{})",
      c.family->classes.front(), c.vocab, c.rms_eps, c.rope_theta, c.mask_id, c.eos_id, c.pad_id, c.width, c.layers,
      c.heads, c.kv_heads, c.head_dim, c.context, c.family == &kLladaFamily ? "weight_tying" : "tie_word_embeddings",
      c.tied_head);
  if (c.ffn_width > 0) text += fmt::format(R"(,"intermediate_size":{})", c.ffn_width);
  if (c.experts > 0)
    text += fmt::format(
        R"(,"num_experts":{},"num_experts_per_tok":{},"moe_intermediate_size":{},"norm_topk_prob":{},"use_qk_norm":{})",
        c.experts, c.experts_used, c.expert_ffn_width, c.norm_topk, c.qk_norm);
  if (!c.family->block_keys.empty())
    text += fmt::format(R"(,"{}":{})", c.family->block_keys.front(), c.attention_block);
  if (llada2)
    text +=
        fmt::format(R"(,"moe_shared_expert_intermediate_size":{},"num_shared_experts":1,"n_group":{},"topk_group":{},)"
                    R"("routed_scaling_factor":{},"first_k_dense_replace":{},"rotary_dim":{})",
                    c.shared_expert_ffn_width, c.expert_groups, c.expert_groups_used, c.expert_scale, c.dense_layers,
                    c.rotary_dims);
  if (c.expert_capacity > 0)
    text += fmt::format(R"(,"expert_capacity":{},"block_size":{})", c.expert_capacity, c.expert_block);
  if (c.query_scale.beta > 0)
    text += fmt::format(R"(,"rope_parameters":{{"llama_4_scaling_beta":{},"original_max_position_embeddings":{}}})",
                        c.query_scale.beta, c.query_scale.period);
  if (c.delete_id >= 0) text += fmt::format(R"(,"delete_token_id":{},"split_token_id":{})", c.delete_id, c.split_id);
  return text + "}";
}

void write_bytes(const std::string& path, std::string_view bytes) { std::ofstream(path, std::ios::binary) << bytes; }

std::string_view bytes_of(const SmallModel& m, size_t i) {
  return {reinterpret_cast<const char*>(m.storage[i].data()), m.storage[i].size()};
}

}  // namespace

// LLaDA2's q, k and v become one matrix, as published.
void write_hf_folder(const SmallModel& m, const std::string& folder, bool tied_head_too) {
  std::filesystem::create_directories(folder);
  const ModelConfig& c = m.config;
  std::string header;
  std::vector<std::string_view> data;
  size_t end = 0;
  const auto add = [&](const std::string& name, const std::string& shape,
                       std::initializer_list<std::string_view> parts) {
    const size_t begin = end;
    for (const std::string_view part : parts) data.push_back(part), end += part.size();
    header += fmt::format(R"({}"{}":{{"dtype":"F32","shape":[{}],"data_offsets":[{},{}]}})", header.empty() ? "{" : ",",
                          name, shape, begin, end);
  };
  for (size_t i = 0; i < m.graph.weights.size(); ++i) {
    const WeightInfo& w = m.graph.weights[i];
    if (c.family == &kLlada2Family && w.name.ends_with("attn_q.weight")) {
      add(fmt::format("model.layers.{}.attention.query_key_value.weight", w.layer),
          fmt::format("{},{}", (c.heads + 2 * c.kv_heads) * c.head_dim, c.width),
          {bytes_of(m, i), bytes_of(m, i + 1), bytes_of(m, i + 2)});
      i += 2;
    } else {
      add(hf_name(c, w), w.dims[1] == 1 ? fmt::format("{}", w.dims[0]) : fmt::format("{},{}", w.dims[1], w.dims[0]),
          {bytes_of(m, i)});
    }
  }
  const std::string unread(static_cast<size_t>(c.vocab * c.width * 4), '?');
  if (tied_head_too) add(hf_name(c, {.name = "output.weight"}), fmt::format("{},{}", c.vocab, c.width), {unread});
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const uint64_t length = header.size();
  std::ofstream out(folder + "/model.safetensors", std::ios::binary);
  out << std::string_view(reinterpret_cast<const char*>(&length), sizeof length) << header;
  for (const std::string_view part : data) out << part;
  write_bytes(folder + "/config.json", config_json(c));
  const std::string shipped = LLADA_SOURCE_DIR "/models/tiny-llada-moe/";
  // With a token for every row of the vocabulary: others are never written.
  std::ifstream tokens(shipped + "tokenizer.json");
  auto tokenizer = nlohmann::ordered_json::parse(tokens);
  auto& added = tokenizer["added_tokens"];
  auto token = added.back();
  token["special"] = false;
  for (int64_t id = std::ssize(tokenizer["model"]["vocab"]) + std::ssize(added); id < c.vocab; ++id) {
    token["id"] = id, token["content"] = "<row" + std::to_string(id) + ">";
    added.push_back(token);
  }
  write_bytes(folder + "/tokenizer.json", tokenizer.dump());
  std::ifstream in(shipped + "tokenizer_config.json");
  std::string tokenizer_config{std::istreambuf_iterator<char>(in), {}};
  const std::string single = "\"llada_single_turn\": true,";  // not so here
  tokenizer_config.erase(tokenizer_config.find(single), single.size());
  write_bytes(folder + "/tokenizer_config.json", tokenizer_config);
}

namespace {

// One tensor for each list of weights, which stand behind each other in it: experts, or q, k and v.
void write_tensors(const SmallModel& m, GgufWriter out, const std::string& path, bool fused,
                   const std::function<std::string(const std::string&)>& name) {
  std::vector<std::vector<size_t>> parts;
  for (size_t i = 0; i < m.graph.weights.size(); ++i) {
    const WeightInfo& w = m.graph.weights[i];
    if (w.expert > 0) {
      parts.back().push_back(i);
      continue;
    }
    Shape shape = m.views[i].shape;
    if (w.expert == 0) shape.dims[2] = m.config.experts, shape.rank = 3;
    parts.push_back({i});
    std::string canonical = w.name;
    if (fused && canonical.ends_with(".attn_q.weight")) {
      canonical.replace(canonical.size() - 8, 1, "qkv");
      for (size_t more = 1; more <= 2; ++more)
        shape.dims[1] += m.views[i + more].shape.dims[1], parts.back().push_back(i + more);
      i += 2;
    }
    out.add_tensor(name(canonical), m.views[parts.back().front()].type, shape);
  }
  const auto status = out.write(path, [&](size_t index, AtomicFile& file) -> Status {
    for (const size_t i : parts[index]) LLADA_TRY_STATUS(file.write(m.storage[i].data(), m.storage[i].size()));
    return {};
  });
  if (!status) throw std::runtime_error(status.error().message);
}

}  // namespace

void write_gguf(const SmallModel& m, const std::string& path) {
  GgufWriter out;
  if (const auto status = add_metadata(out, m.config, nullptr, file_type(DType::F32)); !status)
    throw std::runtime_error(status.error().message);
  write_tensors(m, std::move(out), path, false, [](const std::string& name) { return name; });
}

void write_diffuse_llada2(const SmallModel& m, const std::string& path) {
  write_tensors(m, testing_models::diffuse_llada2_metadata(m.config), path, true, testing_models::diffuse_llada2_name);
}

ModelFile in_memory(const SmallModel& m) {
  ModelRecord record{.format = "made", .config = m.config, .tensors = {}, .by_name = {}, .tokenizer = {}};
  for (size_t i = 0; i < m.graph.weights.size(); ++i) {
    const WeightInfo& w = m.graph.weights[i];
    const std::string name =
        w.expert < 0 ? w.name : fmt::format("{}.{}.weight", w.name.substr(0, w.name.rfind('.')), w.expert);
    record.tensors.push_back({name, name, m.views[i], 0});
  }
  if (const auto status = index_tensors(record, m.config.name); !status)
    throw std::runtime_error(status.error().message);
  return ModelFile::in_memory(m.config.name, std::move(record));
}

}  // namespace llada
