// Writes tests/data/geometry/NAME.json: what the forward in double arithmetic says of every peaked model over
// a long prompt, and the answer of the published loop over it. usage: make_goldens FOLDER [NAME...].
// tools/geometry_goldens.sh builds and calls it.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "geometry/peaked_model.h"

namespace llada {
namespace {

constexpr int64_t kPrompt = 1150, kAnswer = 48, kBlock = 32;
constexpr double kThreshold = 0.9;

struct Guess {
  int32_t token = -1;
  double probability = 0, margin = 0;  // margin: of the logits
};

Guess guess(const std::vector<double>& logits, int32_t mask) {
  const double top = std::ranges::max(logits);
  double sum = 0, best = -HUGE_VAL, second = -HUGE_VAL;
  Guess g;
  for (size_t t = 0; t < logits.size(); ++t) {
    sum += std::exp(logits[t] - top);
    if (static_cast<int32_t>(t) == mask) continue;
    if (logits[t] > best) {
      second = best, best = logits[t], g.token = static_cast<int32_t>(t);
    } else {
      second = std::max(second, logits[t]);
    }
  }
  g.probability = std::exp(best - top) / sum;
  g.margin = best - second;
  return g;
}

// Block after block, everything computed again from its tokens in every step: all above the threshold is
// decided, and always the best. A block-causal model sees nothing behind its block and counts blocks from
// position 0.
nlohmann::json generate(const PeakedSpec& g, const SmallModel& m, std::vector<int32_t> tokens) {
  const bool causal = m.config.attention_block > 0;
  const int64_t block = causal ? m.config.attention_block : kBlock;
  const int32_t mask = m.config.mask_id;
  const auto prompt = static_cast<int64_t>(tokens.size());
  int64_t end = prompt + kAnswer, forwards = 0;
  if (causal) end = (end + block - 1) / block * block;
  tokens.resize(static_cast<size_t>(end), mask);
  double least_probability = 1, least_margin = HUGE_VAL;
  for (int64_t b = causal ? prompt / block * block : prompt; b < end; b += block) {
    for (;;) {
      std::vector<int32_t> masks, rows;
      for (int64_t p = b; p < std::min(end, b + block); ++p)
        if (tokens[static_cast<size_t>(p)] == mask) {
          masks.push_back(static_cast<int32_t>(p));
          const auto row = static_cast<int32_t>(m.config.shift_logits ? std::max<int64_t>(p - 1, 0) : p);
          rows.push_back(row);
        }
      if (masks.empty()) break;
      const std::vector<int32_t> seen(tokens.begin(), causal ? tokens.begin() + b + block : tokens.end());
      const Rows logits = reference_logits(m, seen, rows);
      ++forwards;
      std::vector<Guess> guesses;
      for (const auto& row : logits) guesses.push_back(guess(row, mask));
      const auto best = std::ranges::max_element(guesses, {}, &Guess::probability) - guesses.begin();
      for (size_t i = 0; i < masks.size(); ++i) {
        const Guess& found = guesses[i];
        if (!(found.probability > kThreshold) && static_cast<long>(i) != best) continue;
        tokens[static_cast<size_t>(masks[i])] = found.token;
        least_probability = std::min(least_probability, found.probability);
        least_margin = std::min(least_margin, found.margin);
      }
    }
  }
  const std::vector<int32_t> answer(tokens.begin() + prompt, tokens.begin() + prompt + kAnswer);
  if (answer != answer_to(g, {tokens.begin(), tokens.begin() + prompt}, kAnswer))
    std::fprintf(stderr, "%s: the answer is not the one that was built in\n", g.name.c_str());
  return {{"block", block},   {"threshold", kThreshold},      {"forwards", forwards},
          {"tokens", answer}, {"least_margin", least_margin}, {"least_probability", least_probability}};
}

nlohmann::json row_of(int32_t position, const std::vector<double>& logits) {
  const auto n = static_cast<double>(logits.size());
  const double mean = std::accumulate(logits.begin(), logits.end(), 0.0) / n;
  double squares = 0;
  for (const double l : logits) squares += (l - mean) * (l - mean);
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  constexpr long kTop = 8;
  std::ranges::partial_sort(order, order.begin() + kTop, std::greater<>(),
                            [&](int32_t t) { return logits[static_cast<size_t>(t)]; });
  nlohmann::json some = nlohmann::json::array();
  const auto add = [&](int32_t t) { some.push_back({t, std::round(logits[static_cast<size_t>(t)] * 1e6) / 1e6}); };
  std::for_each(order.begin(), order.begin() + kTop, add);
  for (size_t t = 0; t < logits.size(); t += logits.size() / 100) add(static_cast<int32_t>(t));
  return {{"position", position}, {"mean", mean}, {"deviation", std::sqrt(squares / n)}, {"some", some}};
}

nlohmann::json golden(const PeakedSpec& g) {
  const SmallModel m = make_peaked_model(g);
  std::vector<int32_t> tokens = random_prompt(g, kPrompt);
  nlohmann::json out = {{"checksum", fmt::format("{:016x}", checksum(m))}, {"prompt", kPrompt}, {"answer", kAnswer}};
  out["generation"] = generate(g, m, tokens);
  tokens.resize(tokens.size() + static_cast<size_t>(kAnswer), m.config.mask_id);
  const std::vector<int32_t> positions = {0, 700, 1023, 1149, 1150, 1160, 1197};
  const Rows logits = reference_logits(m, tokens, positions);
  for (size_t i = 0; i < positions.size(); ++i) out["rows"].push_back(row_of(positions[i], logits[i]));
  return out;
}

}  // namespace
}  // namespace llada

int main(int count, char** arguments) {
  if (count < 2) {
    std::fprintf(stderr, "usage: make_goldens FOLDER [NAME...]\n");
    return 2;
  }
  const std::vector<std::string> wanted(arguments + 2, arguments + count);
  for (const llada::PeakedSpec& g : llada::peaked_specs()) {
    if (!wanted.empty() && std::ranges::find(wanted, g.name) == wanted.end()) continue;
    const nlohmann::json golden = llada::golden(g);
    std::ofstream(std::string(arguments[1]) + "/" + g.name + ".json") << golden.dump() << "\n";
    const auto& run = golden["generation"];
    std::printf("%-10s %3d forwards, least probability %.6f, least margin %.3f\n", g.name.c_str(),
                run["forwards"].get<int>(), run["least_probability"].get<double>(), run["least_margin"].get<double>());
    std::fflush(stdout);
  }
  return 0;
}
