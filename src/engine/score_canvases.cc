#include "engine/score_canvases.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/random.h"

namespace llada {
namespace {

// Dream's evaluation masks at least this rate, so that the division by it stays bounded.
constexpr double kLeastRate = 1e-3;

// Collects canvases; equal ones are one, whose targets' weights add up.
class Collection {
 public:
  Collection(const ScoreRequest& request, const decode::SpecialIds& ids)
      : request_(request), ids_(ids), asked_(request.continuations.size(), 0) {}
  // With masks of the last block alone.
  void add_by_block(size_t continuation, const std::vector<int32_t>& masked) {
    const auto prompt = static_cast<int64_t>(request_.prompt.size());
    const auto block = [&](int32_t offset) { return ids_.block_begin(prompt + offset); };
    for (auto at = masked.begin(), next = at; at != masked.end(); at = next) {
      next = std::find_if(at, masked.end(), [&](int32_t offset) { return block(offset) != block(*at); });
      add(continuation, {at, next}, {at, next}, 1, false);
    }
  }

  // padded: with masks behind the text, up to the end of the block.
  void add(size_t continuation, std::vector<int32_t> masked, std::span<const int32_t> wanted, double weight,
           bool padded) {
    const auto prompt = static_cast<int64_t>(request_.prompt.size());
    const auto length = static_cast<int64_t>(request_.continuations[continuation].size());
    int64_t end = prompt + length;
    if (ids_.attention_block > 0) {
      const int64_t block_end = ids_.block_end(prompt + wanted.back());  // nothing behind it is seen
      end = padded ? block_end : std::min(end, block_end);
    }
    std::erase_if(masked, [&](int32_t offset) { return prompt + offset >= end; });
    // All options have the canvas in common that has masks alone behind the prompt.
    const bool common = static_cast<int64_t>(masked.size()) == std::min(end - prompt, length);
    auto key = std::pair(common ? kCommon : continuation, common ? std::vector{static_cast<int32_t>(end)} : masked);
    const auto [known, added] = index_.try_emplace(std::move(key), canvases_.size());
    if (added) canvases_.push_back({continuation, std::move(masked), end, {}});
    std::vector<ScoreTarget>& targets = canvases_[known->second].targets;
    for (const int32_t offset : wanted) {
      const auto same = [&](const ScoreTarget& t) {
        return t.continuation == continuation && t.offset == static_cast<size_t>(offset);
      };
      if (const auto found = std::ranges::find_if(targets, same); found != targets.end()) {
        found->weight += weight;
      } else {
        targets.push_back({continuation, static_cast<size_t>(offset), weight, asked_[continuation]++});
      }
    }
  }

  std::vector<ScoreCanvas> take() { return std::move(canvases_); }

 private:
  static constexpr size_t kCommon = static_cast<size_t>(-1);
  const ScoreRequest& request_;
  const decode::SpecialIds ids_;
  std::vector<int64_t> asked_;  // targets of each continuation so far
  std::vector<ScoreCanvas> canvases_;
  std::map<std::pair<size_t, std::vector<int32_t>>, size_t> index_;
};

std::vector<int32_t> offsets(int64_t begin, int64_t end, int64_t step = 1) {
  std::vector<int32_t> list;
  for (int64_t i = begin; i < end; i += step) list.push_back(static_cast<int32_t>(i));
  return list;
}

// The number that decides whether a draw masks an offset.
double chance(uint64_t seed, int64_t draw, int32_t offset) {
  return uniform(seed, static_cast<uint64_t>(draw), static_cast<uint64_t>(offset), kPositionDraw);
}

// The `count` offsets of [begin, end) with the smallest random numbers, ascending: any subset is as likely as another.
std::vector<int32_t> random_offsets(int64_t begin, int64_t end, int64_t count, uint64_t seed, int64_t draw) {
  std::vector<int32_t> list = offsets(begin, end);
  std::ranges::nth_element(list, list.begin() + count, {}, [&](int32_t offset) { return chance(seed, draw, offset); });
  list.resize(static_cast<size_t>(count));
  std::ranges::sort(list);
  return list;
}

// A uniform number of a whole batch of draws over the tokens behind `begin`.
double batch_uniform(const ScoreOptions& o, int64_t first_draw, int64_t begin) {
  return uniform(o.seed, static_cast<uint64_t>(first_draw), static_cast<uint64_t>(begin), kPositionDraw - 1);
}

void add_counts(Collection& to, const ScoreOptions& o, size_t c, int64_t begin, int64_t end) {
  const int64_t length = end - begin;
  const double share = 1 / static_cast<double>(o.draws);
  for (int64_t first = 0; first < o.draws; first += o.batch) {
    const int64_t draws = std::min(o.batch, o.draws - first);
    const auto k = 1 + static_cast<int64_t>(batch_uniform(o, first, begin) * static_cast<double>(length));
    const std::vector<int64_t> counts = stratified_counts(length, draws, k);
    for (int64_t i = 0; i < draws; ++i) {
      const int64_t count = counts[static_cast<size_t>(i)];
      const std::vector<int32_t> masked = random_offsets(begin, end, count, o.seed, first + i);
      to.add(c, masked, masked, share * static_cast<double>(length) / static_cast<double>(count), true);
    }
  }
}

void add_rates(Collection& to, const ScoreOptions& o, size_t c, int64_t begin, int64_t end) {
  for (int64_t first = 0; first < o.draws; first += o.batch) {
    const int64_t draws = std::min(o.batch, o.draws - first);
    for (int64_t i = 0; i < draws; ++i) {
      const double u = batch_uniform(o, first, begin) + static_cast<double>(i) / static_cast<double>(draws);
      const double rate = (1 - kLeastRate) * (u - std::floor(u)) + kLeastRate;
      std::vector<int32_t> masked = offsets(begin, end);
      std::erase_if(masked, [&](int32_t offset) { return chance(o.seed, first + i, offset) >= rate; });
      if (!masked.empty()) to.add(c, masked, masked, 1 / (rate * static_cast<double>(o.draws)), true);
    }
  }
}

void add_monte_carlo(Collection& to, const ScoreRequest& request, size_t c, const decode::SpecialIds& ids) {
  const ScoreOptions& o = request.options;
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  const auto text_end = static_cast<int64_t>(request.continuations[c].size());
  const int64_t length = text_end - o.fixed_tail;
  for (int64_t begin = 0, end; begin < length; begin = end) {
    end = length;
    if (ids.attention_block > 0) end = std::min(end, ids.block_end(prompt + begin) - prompt);
    if (end - begin == 1) {  // every draw would be this one
      const auto only = static_cast<int32_t>(begin);
      to.add(c, {only}, {&only, 1}, 1, true);
    } else if (o.mask_rates) {
      add_rates(to, o, c, begin, end);
    } else {
      add_counts(to, o, c, begin, end);
    }
  }
}

}  // namespace

std::vector<int32_t> ScoreCanvas::tokens(const ScoreRequest& request, int32_t mask) const {
  std::vector<int32_t> all = request.prompt;
  const std::vector<int32_t>& text = request.continuations[continuation];
  all.insert(all.end(), text.begin(), text.end());
  all.resize(static_cast<size_t>(end), mask);
  for (const int32_t offset : masked) all[request.prompt.size() + static_cast<size_t>(offset)] = mask;
  return all;
}

std::vector<bool> ScoreCanvas::decided(const ScoreRequest& request) const {
  const size_t prompt = request.prompt.size();
  std::vector<bool> all(prompt + request.continuations[continuation].size(), true);
  all.resize(static_cast<size_t>(end), false);
  for (const int32_t offset : masked) all[prompt + static_cast<size_t>(offset)] = false;
  return all;
}

std::vector<int64_t> stratified_counts(int64_t length, int64_t draws, int64_t first) {
  std::vector<int64_t> counts;
  for (int64_t i = 0; i < draws; ++i) {
    const double step = static_cast<double>(length) / static_cast<double>(draws);
    const auto x = static_cast<int64_t>(std::nearbyint(static_cast<double>(first) + static_cast<double>(i) * step));
    counts.push_back((x - 1) % length + 1);
  }
  return counts;
}

std::vector<ScoreCanvas> score_canvases(const ScoreRequest& request, const decode::SpecialIds& model) {
  const ScoreOptions& o = request.options;
  const decode::SpecialIds ids = model.behind(std::ssize(request.prompt));
  Collection all(request, ids);
  for (size_t c = 0; c < request.continuations.size(); ++c) {
    const auto length = static_cast<int64_t>(request.continuations[c].size());
    if (o.method == ScoreMethod::monte_carlo) {
      add_monte_carlo(all, request, c, ids);
    } else if (o.method == ScoreMethod::pseudo) {
      const int64_t groups = o.groups > 0 ? std::min(o.groups, length) : length;
      for (int64_t group = 0; group < groups; ++group) {
        const std::vector<int32_t> together = offsets(group, length, groups);
        if (ids.kind().keeps_finished())  // text before a block is finished
          all.add_by_block(c, together);
        else
          all.add(c, together, together, 1, false);
      }
    } else {
      for (int64_t i = 0; i < length; ++i) {
        const auto wanted = static_cast<int32_t>(i);
        all.add(c, offsets(i, length), {&wanted, 1}, 1, true);
      }
    }
  }
  return all.take();
}

}  // namespace llada
