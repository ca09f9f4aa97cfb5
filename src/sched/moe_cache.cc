#include "sched/moe_cache.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace llada {
namespace {

constexpr std::array<std::string_view, std::size(kCacheRules)> kCacheNames = {"mrs", "lru", "lfu", "classlru"};
constexpr int kClasses = 8;  // of ClassLRU

}  // namespace

std::string_view name(CacheRule rule) { return kCacheNames[static_cast<size_t>(rule)]; }

LayerRouting sliced(const LayerRouting& routing, int32_t count) {
  LayerRouting out;
  for (size_t e = 0; e < routing.rows.size(); ++e) {
    out.rows.insert(out.rows.end(), static_cast<size_t>(count), routing.rows[e]);
    out.score.insert(out.score.end(), static_cast<size_t>(count), routing.score[e]);
  }
  return out;
}

ExpertCache::ExpertCache(int32_t layers, int32_t experts, CacheOptions options, int32_t buffer)
    : layers_(layers),
      experts_(experts),
      options_(std::move(options)),
      entries_(static_cast<size_t>(layers) * static_cast<size_t>(experts)),
      books_("plan",
             {.layers = layers, .experts = experts, .slots = int64_t{options_.slots} * layers, .buffer = buffer}) {
  LLADA_CHECK(options_.slots >= 0 && options_.slots <= experts);
}

bool ExpertCache::full(int32_t layer) const {
  return options_.shared ? books_.residents() >= int64_t{options_.slots} * layers_ : count(layer) >= options_.slots;
}

std::vector<int32_t> ExpertCache::residents(int32_t layer) const {
  std::vector<int32_t> out;
  for (int32_t e = 0; e < experts_; ++e)
    if (resident({layer, e})) out.push_back(e);
  return out;
}

void ExpertCache::begin_pass() { ++pass_; }

double ExpertCache::decayed(const Entry& e) const {
  return e.uses * std::exp2(-static_cast<double>(pass_ - e.decayed_at) / options_.half_life);
}

void ExpertCache::observe(int32_t layer, const LayerRouting& routing) {
  LLADA_CHECK(routing.rows.size() == static_cast<size_t>(experts_) && routing.score.size() == routing.rows.size());
  const double alpha =
      std::ranges::max(routing.rows) > 1 ? options_.alpha : std::min(options_.alpha, options_.alpha_row);
  const double sum = std::accumulate(routing.score.begin(), routing.score.end(), 0.0);
  for (int32_t i = 0; i < experts_; ++i) {
    Entry& e = entry({layer, i});
    const auto at = static_cast<size_t>(i);
    const double share = sum > 0 ? std::max(0.0, routing.score[at] / sum) : 0;
    e.score = alpha * std::sqrt(share) + (1 - alpha) * e.score;
    if (routing.rows[at] == 0) continue;
    e.uses = options_.rule == CacheRule::class_lru ? decayed(e) + 1 : e.uses + routing.rows[at];
    e.decayed_at = pass_;
    e.used_at = e.used_in = pass_;
  }
}

double ExpertCache::worth(ExpertId id) const {
  const Entry& e = entry(id);
  switch (options_.rule) {
    case CacheRule::mrs:
      return e.score;
    case CacheRule::lru:
      return static_cast<double>(e.used_at);
    case CacheRule::lfu:
      return e.uses;
    case CacheRule::class_lru: {
      const int level = std::clamp(static_cast<int>(std::log2(1 + decayed(e))), 0, kClasses - 1);
      return -static_cast<double>(pass_ - e.used_at) / (1 << level);
    }
  }
  return 0;
}

std::optional<ExpertCache::Admission> ExpertCache::place_for(ExpertId id, bool wanted) const {
  LLADA_CHECK(!resident(id));
  if (options_.slots == 0) return std::nullopt;
  if (!full(id.layer)) return Admission{};
  std::optional<ExpertId> victim;
  double least = 0;
  for (int32_t l = options_.shared ? 0 : id.layer; l < (options_.shared ? layers_ : id.layer + 1); ++l)
    for (int32_t e = 0; e < experts_; ++e) {
      const ExpertId candidate{l, e};
      if (!resident(candidate) || entry(candidate).used_in == pass_) continue;
      const double w = worth(candidate);
      if (!victim || w < least) victim = candidate, least = w;
    }
  if (!victim) return std::nullopt;
  // LRU and ClassLRU let every newcomer in; the others compare.
  const bool compares = options_.rule != CacheRule::lru && options_.rule != CacheRule::class_lru;
  if (compares && !wanted && worth(id) <= least) return std::nullopt;
  return Admission{victim};
}

void ExpertCache::insert(ExpertId id, const Admission& admission) {
  LLADA_CHECK(!resident(id));
  if (admission.victim) erase(*admission.victim);
  LLADA_CHECK(!full(id.layer));
  LLADA_CHECK(books_.enter(id, ExpertBooks::Where::slot).has_value());
}

void ExpertCache::insert_guess(ExpertId id) { LLADA_CHECK(books_.enter(id, ExpertBooks::Where::buffer).has_value()); }

void ExpertCache::erase(ExpertId id) {
  LLADA_CHECK(books_.holds(id));
  books_.leave(id);
}

}  // namespace llada
