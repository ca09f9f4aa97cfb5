#include "study/ladder.h"

#include <algorithm>
#include <cmath>

namespace llada {
namespace {

// Tokens per pass that the published times imply (see simulate.h): a fit, as no other number can make these two lines.
constexpr double kMbsdTokensPerPass = 128 / 103.5, kRevisionTokensPerPass = 128 / 15.2;

// What samplers reach: LLaDA-8B on GSM8K by a threshold without training (Fast-dLLM) and with it (d3LLM's table);
// LLaDA2.0-mini at a threshold of 0.95, and LLaDA2.1-mini's fast mode.
constexpr TokensRange kOfLlada = {2.77, 9.11,
                                  "implied by the published times; ends: LLaDA-8B on GSM8K by a threshold without "
                                  "training, and by weights trained for it"};
constexpr TokensRange kOfLlada2 = {
    2.55, 5.34, "LLaDA2.0-mini, published; ends: at a threshold of 0.95, and LLaDA2.1-mini's fast mode"};
constexpr double kThresholdTokensPerPass = 2.6;  // LLaDA2.0-mini

// Tokens that revision checks in a pass of the CPU's path, as the presets have it.
constexpr int32_t kRevisedRows = 8;

bool checks(Fills f) { return f == Fills::checks || f == Fills::drafts_and_checks; }
bool drafts(Fills f) { return f == Fills::drafts || f == Fills::drafts_and_checks; }

constexpr LineSpec kLines[] = {
    {"CPU", true, false, "plan", false, 1},
    {"+ prefix K/V", true, true, "plan", false, 1},
    {"+ NPU", false, true, "drop-all", false, 1},
    {"+ SOMR", false, true, "plan", true, 1},
    {"+ MBSD", false, true, "plan", true, kMbsdTokensPerPass, Fills::drafts},
    {"+ revision", false, true, "plan", true, kRevisionTokensPerPass, Fills::drafts_and_checks},
};
constexpr double kWithoutMbsd = 1 / kMbsdTokensPerPass;
constexpr LineSpec kBeside[] = {
    {"CPU, same", true, true, "plan", false, 1, Fills::drafts_and_checks, 1},
    {"CPU, one each", true, true, "plan", false, 1, Fills::nothing, 0, true},
    {"NPU, one each", false, true, "plan", true, 1, Fills::nothing, 0, true},
    {"- prefix K/V", false, false, "plan", true, 1, Fills::drafts_and_checks, 1},
    {"- SOMR", false, true, "drop-all", false, 1, Fills::drafts_and_checks, 1},
    {"- MBSD", false, true, "plan", true, 1, Fills::checks, kWithoutMbsd},
    {"- revision", false, true, "plan", true, kMbsdTokensPerPass, Fills::drafts},
    {"+ CPU's share", false, true, "plan", true, 1, Fills::drafts_and_checks, 1, false, true},
};
constexpr LineSpec kBlockLines[] = {
    {"CPU", true, false, "plan", false, 1},
    {"+ prefix K/V", true, true, "plan", false, 1},
    {"+ NPU", false, true, "drop-all", false, 1},
    {"+ SOMR", false, true, "plan", true, 1},
    {"+ threshold", false, true, "plan", true, kThresholdTokensPerPass},
};
constexpr LineSpec kBesideBlocks[] = {
    {"CPU, same", true, true, "plan", false, 1, Fills::nothing, 1},
    {"CPU, one each", true, true, "plan", false, 1, Fills::nothing, 0, true},
    {"NPU, one each", false, true, "plan", true, 1, Fills::nothing, 0, true},
    {"- prefix K/V", false, false, "plan", true, 1, Fills::nothing, 1},
    {"- SOMR", false, true, "drop-all", false, 1, Fills::nothing, 1},
    {"+ CPU's share", false, true, "plan", true, 1, Fills::nothing, 1, false, true},
};
constexpr double kCanvasTokensPerPass = 256.0 / 48;  // DiffusionGemma, as it is published
// Keys and values of the text before a canvas are always kept.
constexpr LineSpec kCanvasLines[] = {
    {"CPU", true, true, "plan", false, kCanvasTokensPerPass},
    {"+ NPU", false, true, "drop-all", false, kCanvasTokensPerPass},
    {"+ SOMR", false, true, "plan", true, kCanvasTokensPerPass},
};

// The prompt, then each canvas as often as it takes; one that another follows is encoded.
std::vector<SimulatedPass> canvas_passes(const Ladder& s, int64_t prompt, double tokens_per_pass) {
  const auto rows = static_cast<int32_t>(s.canvas);
  auto keys = static_cast<int32_t>(prompt);
  std::vector<SimulatedPass> list;
  if (prompt > 0) list.push_back({.rows = keys, .keys = keys, .encode = true});
  const int64_t steps = std::max<int64_t>(1, std::llround(static_cast<double>(rows) / tokens_per_pass));
  for (int64_t begin = 0; begin < s.gen; begin += rows) {
    if (begin > 0) list.push_back({.rows = rows, .keys = keys, .encode = true});
    keys += rows;
    list.insert(list.end(), static_cast<size_t>(steps), {.rows = rows, .wanted = rows, .keys = keys});
  }
  return list;
}

// One token after the other, each a row of its own, as an autoregressive model of this shape would write them.
std::vector<SimulatedPass> one_by_one(int64_t prompt, int64_t gen) {
  std::vector<SimulatedPass> list;
  auto keys = static_cast<int32_t>(prompt);
  if (prompt > 0) list.push_back({.rows = keys, .wanted = 1, .keys = keys});
  for (int64_t i = prompt > 0 ? 1 : 0; i < gen; ++i) list.push_back({.rows = 1, .wanted = 1, .keys = ++keys});
  return list;
}

// Blocks left to right, each with its share of the passes; without prefix K/V every pass is a full one.
std::vector<SimulatedPass> block_passes(const Ladder& s, const LineSpec& line, int64_t prompt, double tokens_per_pass,
                                        bool wanted_all) {
  const auto canvas = static_cast<int32_t>(prompt + s.gen);
  const int64_t blocks = (s.gen + s.block - 1) / s.block;
  const int64_t passes =
      std::max(blocks, static_cast<int64_t>(std::llround(static_cast<double>(s.gen) / tokens_per_pass)));
  std::vector<SimulatedPass> list;
  for (int64_t b = 0; b < blocks; ++b) {
    const auto length = static_cast<int32_t>(std::min(s.block, s.gen - b * s.block));
    const int64_t share = (b + 1) * passes / blocks - b * passes / blocks;
    const auto seen = s.causal_blocks ? static_cast<int32_t>(prompt + b * s.block) + length : canvas;
    // The first pass of a block-causal block makes the K/V of the one before it final.
    const int32_t first = !s.causal_blocks ? canvas : b == 0 ? seen : static_cast<int32_t>(s.block) + length;
    for (int64_t i = 0; i < share; ++i) {
      SimulatedPass pass{.rows = !line.prefix_kv ? seen : i > 0 ? length : first, .keys = seen};
      const auto undecided = static_cast<int32_t>(length - i * length / share);
      pass.wanted = drafts(line.fills) ? length : std::max(1, undecided);
      // The first pass of a run finds nothing to check.
      if (checks(line.fills) && !list.empty()) {
        const int32_t sparse = kRevisedRows + static_cast<int32_t>(std::lround(tokens_per_pass));
        // One processor computes them in line with the pass.
        (line.host_only ? pass.rows : pass.sparse) += sparse;
        (line.host_only ? pass.wanted : pass.sparse_wanted) += kRevisedRows;
      }
      if (wanted_all) pass.wanted = pass.rows;
      list.push_back(pass);
    }
  }
  return list;
}

}  // namespace

size_t Ladder::somr() const {
  return static_cast<size_t>(std::ranges::find(lines, true, &LineSpec::planned) - lines.begin());
}

std::vector<SimulatedPass> Ladder::passes(const LineSpec& line, int64_t prompt, double tokens_per_pass,
                                          bool wanted_all) const {
  if (line.autoregressive) return one_by_one(prompt, gen);
  if (canvas > 0) return canvas_passes(*this, prompt, tokens_per_pass);
  return block_passes(*this, line, prompt, tokens_per_pass, wanted_all);
}

Ladder ladder_of(const ModelConfig& config, int64_t gen) {
  const int64_t canvas = config.canvas.length, block = config.attention_block;
  if (canvas > 0)
    return {.lines = kCanvasLines,
            .beside = {},
            .range = nullptr,
            .canvas = canvas,
            .gen = (gen + canvas - 1) / canvas * canvas,
            .block = canvas};
  if (block > 0)
    return {.lines = kBlockLines,
            .beside = kBesideBlocks,
            .range = block == 32 ? &kOfLlada2 : nullptr,
            .gen = gen,
            .block = std::min(block, gen),
            .causal_blocks = true};
  return {.lines = kLines, .beside = kBeside, .range = &kOfLlada, .gen = gen, .block = std::min<int64_t>(32, gen)};
}

}  // namespace llada
