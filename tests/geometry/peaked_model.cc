#include "geometry/peaked_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "base/random.h"
#include "formats/family.h"
#include "tensor/quantize.h"

namespace llada {
namespace {

constexpr int64_t kGroup = 32;  // inputs that share a scale in Q4_0
constexpr int64_t kOrbit = 8, kTurn = kGroup / kOrbit;
constexpr uint64_t kSeed = 16;

// A group of 32 integers whose largest is -8, so that Q4_0's scale is theirs. Every group has these in
// another order, so all tokens are equally long and no key is louder than another.
constexpr std::array<int, kGroup> kIntegers = {-8, -7, -6, -5, -5, -4, -4, -3, -3, -2, -2, -1, -1, -1, 0, 0,
                                               0,  0,  1,  1,  1,  2,  2,  3,  3,  4,  4,  5,  6,  6,  7, 7};

constexpr double kTokenScale = 0.125;  // of a token's integers
constexpr double kConstant = -1;       // what the last group of every token holds
// Root mean square of a token's elements, for the widths used here within a tenth.
constexpr double kTokenSize = 0.56;
constexpr double kSharpness = 64;  // score of the key that is looked for, above the mean of the others

// Rounded to so many significant bits.
double rounded(double v, int bits) {
  int exponent = 0;
  const double mantissa = std::frexp(v, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(mantissa, bits)), exponent - bits);
}

class Maker {
 public:
  Maker(const PeakedSpec& g, const WeightInfo& w, uint64_t index) : g_(g), c_(g.config), w_(w), index_(index) {
    const size_t dot = w.layer < 0 ? 0 : w.name.find('.', 4) + 1;
    leaf_ = w.name.substr(dot, w.name.rfind('.') - dot);
    bias_ = w.name.ends_with(".bias");
  }

  void row(int64_t r, std::vector<float>& out) {
    std::ranges::fill(out, 0.0f);
    key_ = random_key(kSeed, index_, static_cast<uint64_t>(r));
    if (w_.dims[1] == 1) return vector(out);
    if (leaf_ == "token_embd") return token(r, out);
    if (leaf_ == "attn_q" || leaf_ == "attn_k") return query_or_key(r, leaf_ == "attn_q", out);
    if (leaf_ == "attn_v" && w_.layer == 0) {
      for (int64_t g = 0; g < groups(); ++g) random_group(g, g == r / kGroup ? 0 : 0x1p-8, out);
      out[static_cast<size_t>(r)] = 2;
      return;
    }
    if (leaf_ == "attn_output" && w_.layer == 0) return output(r, out);
    const bool down = leaf_.starts_with("ffn_down");
    const double scale = !down ? 0x1p-6 : c_.family == &kLladaMoeFamily ? 0x1p-7 : 0x1p-8;
    for (int64_t g = 0; g < groups(); ++g) random_group(g, scale, out);
  }

 private:
  int64_t groups() const { return w_.dims[0] / kGroup; }
  int64_t copied() const { return c_.kv_heads * c_.head_dim; }  // leading elements of a token
  double noise(int64_t i) const { return 2 * draw(key_, static_cast<uint64_t>(i)) - 1; }

  void vector(std::vector<float>& out) const {
    for (int64_t i = 0; i < w_.dims[0]; ++i) {
      double v = 0.1 * noise(i);
      if (leaf_ == "attn_q_norm" || leaf_ == "attn_k_norm") {
        v = strong(i) ? std::sqrt(kSharpness / std::sqrt(static_cast<double>(c_.head_dim))) : 1.3 + v;
      } else if (leaf_ == "output_norm") {
        v = 0.25 + 0.5 * v;
      } else if (!bias_) {
        v += 1;
      }
      out[static_cast<size_t>(i)] = static_cast<float>(v);
    }
  }

  static std::array<int, kGroup> shuffled(uint64_t key, int64_t group) {
    std::array<int, kGroup> values = kIntegers;
    for (int64_t i = kGroup - 1; i > 0; --i) {
      const auto other =
          static_cast<int64_t>(draw(key, static_cast<uint64_t>(group * kGroup + i)) * static_cast<double>(i + 1));
      std::swap(values[static_cast<size_t>(i)], values[static_cast<size_t>(other)]);
    }
    return values;
  }
  void random_group(int64_t group, double scale, std::vector<float>& out) const {
    if (scale == 0) return;
    const auto values = shuffled(key_, group);
    for (int64_t i = 0; i < kGroup; ++i)
      out[static_cast<size_t>(group * kGroup + i)] = static_cast<float>(values[static_cast<size_t>(i)] * scale);
  }

  void token(int64_t t, std::vector<float>& out) const {
    const bool mask = t == c_.mask_id, follows = t < c_.vocab / kOrbit * kOrbit - kOrbit;
    const uint64_t orbit = random_key(kSeed + 1, index_, static_cast<uint64_t>(t / kOrbit));
    // The mask has nothing where the others have what is copied, and is as long all the same.
    const double random = static_cast<double>(groups() - 1), own = random - static_cast<double>(copied() / kGroup);
    const double scale = mask ? rounded(kTokenScale * std::sqrt(random / own), 4) : kTokenScale;
    for (int64_t g = 0; g < groups(); ++g) {
      const bool shared = g < copied() / kGroup;
      if (shared && mask) continue;
      const auto values = shuffled(shared && follows ? orbit : key_, g);
      const int64_t turned = shared && follows ? t % kOrbit * kTurn : 0;
      for (int64_t i = 0; i < kGroup; ++i)
        out[static_cast<size_t>(g * kGroup + (i + turned) % kGroup)] =
            static_cast<float>(g + 1 == groups() ? kConstant : values[static_cast<size_t>(i)] * scale);
    }
  }

  // The pair of elements that rotates together, or -1.
  int64_t pair(int64_t i) const { return i < c_.rotary_dims ? i % (c_.rotary_dims / 2) : -1; }
  double frequency(int64_t pair) const {
    return std::pow(static_cast<double>(c_.rope_theta),
                    -2.0 * static_cast<double>(pair) / static_cast<double>(c_.rotary_dims));
  }
  // Elements that rotate fast tell positions apart.
  bool strong(int64_t i) const { return pair(i) >= 0 && frequency(pair(i)) > 0.06; }

  void query_or_key(int64_t r, bool query, std::vector<float>& out) const {
    const int64_t head = r / c_.head_dim, i = r % c_.head_dim;
    const bool copies = w_.layer == 0 && (!query || head % (c_.heads / c_.kv_heads) == 0);
    double scale = copies ? 0x1p-8 : query ? 0x1p-5 : 0x1p-6;
    if (!copies && c_.qk_norm && strong(i)) scale = 0x1p-9;
    double signal = 0;
    if (copies && strong(i)) {
      int64_t pairs = 0;
      while (2 * pairs < c_.rotary_dims && strong(pairs)) ++pairs;
      const double size =
          std::sqrt(kSharpness * std::sqrt(static_cast<double>(c_.head_dim)) / static_cast<double>(pairs));
      const double angle = query ? static_cast<double>(g_.offset) * frequency(pair(i)) : 0;
      signal =
          rounded(size * kTokenSize / -kConstant * (i < c_.rotary_dims / 2 ? std::cos(angle) : -std::sin(angle)), 8);
      if (std::fabs(signal) < 0.01) signal = 0;
    }
    for (int64_t g = 0; g < groups(); ++g) random_group(g, signal != 0 && g + 1 == groups() ? 0 : scale, out);
    if (signal != 0) out[static_cast<size_t>((groups() - 1) * kGroup + r % kGroup)] = static_cast<float>(signal);
  }

  void output(int64_t r, std::vector<float>& out) const {
    const int64_t shared = c_.heads / c_.kv_heads, d = c_.head_dim;
    int64_t from = -1;
    if (r < copied()) {
      const int64_t i = r % d, turned = i / kGroup * kGroup + (i + kGroup - kTurn) % kGroup;
      from = r / d * shared * d + turned;
    }
    for (int64_t g = 0; g < groups(); ++g) {
      const bool copies = g * kGroup / d % shared == 0;
      random_group(g, from / kGroup == g && from >= 0 ? 0 : copies ? 0x1p-9 : 0x1p-7, out);
    }
    if (from >= 0) out[static_cast<size_t>(from)] = 2;
  }

  const PeakedSpec& g_;
  const ModelConfig& c_;
  const WeightInfo& w_;
  uint64_t index_, key_ = 0;
  std::string leaf_;
  bool bias_ = false;
};

ModelConfig common(const Family* family) {
  ModelConfig c{.family = family,
                .name = "peaked",
                .layers = 3,
                .width = 384,
                .heads = 6,
                .kv_heads = 2,
                .head_dim = 64,
                .ffn_width = 416,
                .vocab = 3001,
                .context = 2048,
                .rotary_dims = 64,
                .tied_head = true};
  c.mask_id = 3000, c.eos_id = c.pad_id = 2999;
  return c;
}

std::vector<PeakedSpec> make_specs() {
  ModelConfig dream = common(&kDreamFamily);
  dream.qkv_bias = dream.shift_logits = true;
  dream.rms_eps = 1e-6f;

  ModelConfig moe = common(&kLladaMoeFamily);
  moe.qk_norm = true;
  moe.ffn_width = 0;
  moe.experts = 8, moe.experts_used = 2, moe.expert_ffn_width = 96;

  ModelConfig llada2 = common(&kLlada2Family);
  llada2.qk_norm = true;
  llada2.rms_eps = 1e-6f;
  llada2.rotary_dims = 32;
  llada2.attention_block = 32;
  llada2.experts = 8, llada2.experts_used = 2, llada2.expert_ffn_width = 96;
  llada2.shared_expert_ffn_width = 160, llada2.dense_layers = 1;
  llada2.sigmoid_router = llada2.norm_topk = true;
  llada2.expert_groups = 4, llada2.expert_groups_used = 2, llada2.expert_scale = 2.5f;

  ModelConfig sdar = common(find_family("sdar"));
  sdar.qk_norm = true;
  sdar.rms_eps = 1e-6f;
  sdar.attention_block = 4;

  ModelConfig fast_dllm = common(find_family("fast-dllm-v2"));
  fast_dllm.qkv_bias = fast_dllm.shift_logits = true;
  fast_dllm.rms_eps = 1e-6f;
  fast_dllm.attention_block = 16;

  ModelConfig nemotron = common(find_family("nemotron-labs-diffusion"));
  nemotron.attention_block = 32;
  nemotron.causal_text = true;
  nemotron.query_scale = {0.1, 32};

  ModelConfig qwen3 = sdar;
  qwen3.family = find_family("a2d-qwen3");
  qwen3.attention_block = 0;

  ModelConfig qwen2 = fast_dllm;
  qwen2.family = find_family("a2d-qwen2");
  qwen2.attention_block = 0, qwen2.shift_logits = false;

  ModelConfig sdar_moe = sdar;
  sdar_moe.family = find_family("sdar_moe");
  sdar_moe.ffn_width = 0;
  sdar_moe.experts = 8, sdar_moe.experts_used = 2, sdar_moe.expert_ffn_width = 96;
  sdar_moe.norm_topk = true;

  ModelConfig rnd1 = sdar_moe;
  rnd1.family = find_family("rnd1");
  rnd1.attention_block = 0, rnd1.shift_logits = true;

  ModelConfig diffcoder = common(find_family("stable-diffcoder"));
  diffcoder.attention_block = 4;

  ModelConfig wedlm = common(find_family("wedlm"));
  wedlm.qk_norm = true;
  wedlm.rms_eps = 1e-6f;
  wedlm.attention_block = 16;
  wedlm.decided_first = true;

  ModelConfig large = common(&kLladaFamily);
  large.layers = 2;
  large.width = 256, large.heads = 2, large.kv_heads = 1, large.head_dim = large.rotary_dims = 128;
  large.ffn_width = 288;
  large.vocab = 100000;
  large.mask_id = 99999, large.eos_id = large.pad_id = 99998;

  return {{"llada", common(&kLladaFamily), 24},
          {"dream", dream, 40},
          {"llada_moe", moe, 24},
          {"llada2", llada2, 37},
          {"sdar", sdar, 37},
          {"fast_dllm", fast_dllm, 37},
          {"nemotron", nemotron, 37},
          {"qwen3", qwen3, 24},
          {"qwen2", qwen2, 40},
          {"sdar_moe", sdar_moe, 37},
          {"rnd1", rnd1, 24},
          {"diffcoder", diffcoder, 37},
          {"wedlm", wedlm, 37},
          {"far", common(&kLladaFamily), 1111},
          {"large", large, 24}};
}

}  // namespace

const std::vector<PeakedSpec>& peaked_specs() {
  static const std::vector<PeakedSpec> list = make_specs();
  return list;
}

const PeakedSpec& peaked_spec(const std::string& name) {
  const auto found = std::ranges::find(peaked_specs(), name, &PeakedSpec::name);
  if (found == peaked_specs().end()) throw std::runtime_error("no peaked model " + name);
  return *found;
}

SmallModel make_peaked_model(const PeakedSpec& g, DType type) {
  SmallModel m;
  m.config = g.config;
  m.graph = *build_model(m.config);
  std::vector<float> row;
  for (size_t i = 0; i < m.graph.weights.size(); ++i) {
    const WeightInfo& w = m.graph.weights[i];
    const bool vector = w.dims[1] == 1, floats = vector || w.name.ends_with("ffn_gate_inp.weight");
    const DType stored = floats ? DType::F32 : w.dims[0] % traits(type).elements == 0 ? type : DType::F16;
    TensorView view{nullptr, stored, {{w.dims[0], w.dims[1], 1, 1}, vector ? 1 : 2}};
    auto& bytes = m.storage.emplace_back(static_cast<size_t>(view.bytes()));
    view.data = bytes.data();
    row.resize(static_cast<size_t>(w.dims[0]));
    Maker maker(g, w, i);
    for (int64_t r = 0; r < w.dims[1]; ++r) {
      maker.row(r, row);
      quantize_row(stored, row.data(), bytes.data() + r * row_bytes(stored, w.dims[0]), w.dims[0]);
    }
    m.views.push_back(view);
  }
  return m;
}

uint64_t checksum(const SmallModel& model) {
  uint64_t sum = 0;
  for (const auto& bytes : model.storage)
    for (size_t i = 0; i < bytes.size();
         i += 4) {  // every type's groups, and so its rows here, are whole words or halves
      uint32_t word = 0;
      std::memcpy(&word, bytes.data() + i, std::min<size_t>(4, bytes.size() - i));
      sum = mix64(sum ^ word);
    }
  return sum;
}

int32_t follower(int32_t token) { return token / kOrbit * kOrbit + (token + 1) % kOrbit; }

std::vector<int32_t> random_prompt(const PeakedSpec& g, int64_t length, uint64_t seed) {
  std::vector<int32_t> tokens;
  const int64_t most = g.config.vocab / kOrbit * kOrbit - kOrbit;
  for (int64_t p = 0; p < length; ++p)
    tokens.push_back(
        static_cast<int32_t>(uniform(kSeed + 2, seed, static_cast<uint64_t>(p), 0) * static_cast<double>(most)));
  return tokens;
}

// Row p - 1 of a model with shifted logits answers for position p, so it looks one further back.
std::vector<int32_t> completed(const PeakedSpec& g, std::vector<int32_t> tokens) {
  const auto back = static_cast<size_t>(g.offset + (g.config.shift_logits ? 1 : 0));
  for (size_t p = 0; p < tokens.size(); ++p) {
    if (tokens[p] != g.config.mask_id) continue;
    if (p < back) throw std::runtime_error("a mask with nothing to look back to");
    tokens[p] = follower(tokens[p - back]);
  }
  return tokens;
}

std::vector<int32_t> answer_to(const PeakedSpec& g, const std::vector<int32_t>& prompt, int64_t length) {
  std::vector<int32_t> tokens = prompt;
  if (g.config.causal_text) {
    for (int64_t i = 0; i < length; ++i) {
      const int64_t back = g.offset + (i % g.config.attention_block == 0);
      tokens.push_back(follower(tokens[tokens.size() - static_cast<size_t>(back)]));
    }
    return {tokens.begin() + std::ssize(prompt), tokens.end()};
  }
  tokens.resize(prompt.size() + static_cast<size_t>(length), g.config.mask_id);
  tokens = completed(g, std::move(tokens));
  return {tokens.begin() + static_cast<std::ptrdiff_t>(prompt.size()), tokens.end()};
}

}  // namespace llada
