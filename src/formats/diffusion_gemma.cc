// The conditions on DiffusionGemma's configuration.
#include <cmath>
#include <utility>

#include "formats/diffusion_gemma_files.h"
#include "formats/model_record.h"

namespace llada {

float rope_factor(int64_t pair, int64_t rotary_dims) { return 2 * pair < rotary_dims ? 1 : 1e30f; }

Status check_diffusion_gemma(const ModelConfig& c, std::string_view file) {
  const DiffusionGemma& g = *c.gemma;
  if (std::ssize(g.global) != c.layers)
    return invalid("{}: {} layers are said to be sliding or global, {} needed", file, g.global.size(), c.layers);
  LLADA_TRY_STATUS(in_range(file, "number of experts", c.experts, 1, 4096));
  LLADA_TRY_STATUS(in_range(file, "feed-forward width", c.ffn_width, 1, int64_t{1} << 22));
  LLADA_TRY_STATUS(in_range(file, "sliding window", g.window, 1, int64_t{1} << 24));
  LLADA_TRY_STATUS(in_range(file, "key/value heads of global layers", g.kv_heads, 1, c.heads));
  if (c.heads % g.kv_heads != 0)
    return invalid("{}: {} heads over {} key/value heads of global layers, a multiple needed", file, c.heads,
                   g.kv_heads);
  LLADA_TRY_STATUS(in_range(file, "head width of global layers", g.head_dim, 2, 8192));
  if (g.head_dim % 2 != 0)
    return invalid("{}: head width of global layers is {}, an even number needed", file, g.head_dim);
  LLADA_TRY_STATUS(in_range(file, "rotary dimensions of global layers", g.rotary_dims, 0, g.head_dim));
  LLADA_TRY_STATUS(in_range(file, "canvas length", c.canvas.length, 1, int64_t{1} << 16));
  LLADA_TRY_STATUS(in_range(file, "denoising steps", c.canvas.steps, 1, 10000));
  LLADA_TRY_STATUS(in_range(file, "stability threshold", c.canvas.stability_threshold, 1, 1000));
  if (!(std::isfinite(g.rope_theta) && g.rope_theta >= 1))
    return invalid("{}: RoPE base of global layers is {}, a finite number from 1 needed", file, g.rope_theta);
  for (const auto& [what, value] :
       {std::pair{"soft cap of the logits", static_cast<double>(g.logit_cap)},
        std::pair{"lowest temperature", c.canvas.t_min}, std::pair{"highest temperature", c.canvas.t_max},
        std::pair{"entropy bound", c.canvas.entropy_bound},
        std::pair{"confidence threshold", c.canvas.confidence_threshold}})
    if (!(std::isfinite(value) && value > 0))
      return invalid("{}: {} is {}, a finite positive number needed", file, what, value);
  if (c.canvas.t_max <= c.canvas.t_min)
    return invalid("{}: highest temperature is {}, more than the lowest, {}, needed", file, c.canvas.t_max,
                   c.canvas.t_min);
  return {};
}

}  // namespace llada
