// Which experts stay on the accelerator: slots, scores, and the rule by which a resident expert makes room. Pure:
// routing in, victims out. moe_run.h decides which experts are moved, and when. Rules:
//   MRS       After HybriMoE (arXiv 2504.05897). An expert's score follows the router's scores of each step:
//             S <- alpha s + (1 - alpha) S. A step of a diffusion model routes many rows at once; its s is the sum
//             over the rows. The publication counts the highest scores alone. Here s is the root of an expert's share
//             of all, so that a single high score says less, and low ones say something.
//   ClassLRU  llama.cpp's, as its description has it: use counts with a half-life, in eight classes by their logarithm.
//             The head of the class with the greatest age / 2^class goes.
//
// The victim is never an expert that the present pass uses. Two earlier implementations evicted those and computed with
// the wrong weights.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "devices/expert_books.h"

namespace llada {

enum class CacheRule : uint8_t { mrs, lru, lfu, class_lru };
inline constexpr CacheRule kCacheRules[] = {CacheRule::mrs, CacheRule::lru, CacheRule::lfu, CacheRule::class_lru};
std::string_view name(CacheRule rule);

// The decision of one layer's router in one step.
struct LayerRouting {
  std::vector<int32_t> rows;  // per expert: rows that chose it
  std::vector<float> score;   // per expert: the router's scores summed over the rows; chosen or not
};

struct CacheOptions {
  CacheRule rule = CacheRule::mrs;
  int32_t slots = 0;  // of one layer; with `shared` the layers' slots are one pool
  bool shared = false;
  double alpha = 0.5;       // weight of the present step in MRS
  double alpha_row = 0.15;  // the same where no expert has more than one row, which says little of the next step
  double half_life = 128;   // steps, ClassLRU
};

// The routing of the slices of experts, `count` to each: every slice of an expert has the expert's rows and score.
LayerRouting sliced(const LayerRouting& routing, int32_t count);

class ExpertCache {
 public:
  // buffer: experts that can be there on a guess, beside the residents.
  ExpertCache(int32_t layers, int32_t experts, CacheOptions options, int32_t buffer = 0);

  const ExpertBooks& books() const { return books_; }
  bool resident(ExpertId id) const { return books_.resident(id); }
  int32_t count(int32_t layer) const { return books_.residents(layer); }
  bool full(int32_t layer) const;
  std::vector<int32_t> residents(int32_t layer) const;

  // A pass begins: all experts that it will use count as used by it.
  void begin_pass();
  // The layer's routing in this pass: scores, counts and ages move on, and its experts are safe until the pass
  // ends.
  void observe(int32_t layer, const LayerRouting& routing);
  // Safe from eviction until the pass ends, without counting as used (a prediction).
  void protect(ExpertId id) { entry(id).used_in = pass_; }

  struct Admission {
    std::optional<ExpertId> victim;  // none: a free slot
  };
  // Whether `id` may become resident, and in whose place. Nothing: it should not, because every resident
  // expert is in use by this pass or worth more. `wanted` overrules the comparison of worth.
  std::optional<Admission> place_for(ExpertId id, bool wanted = false) const;
  void insert(ExpertId id, const Admission& admission);
  void insert_guess(ExpertId id);
  void erase(ExpertId id);  // a resident or a guess

  // The higher, the longer it stays: the score with MRS, with the other rules the number that they order by.
  double worth(ExpertId id) const;

 private:
  struct Entry {
    double score = 0;        // MRS
    double uses = 0;         // LFU: all; ClassLRU: decayed
    int64_t used_at = -1;    // pass of the last use; -1: never
    int64_t used_in = -1;    // pass in which it is safe
    int64_t decayed_at = 0;  // ClassLRU: pass up to which `uses` has decayed
  };
  Entry& entry(ExpertId id) { return entries_[static_cast<size_t>(id.layer * experts_ + id.expert)]; }
  const Entry& entry(ExpertId id) const { return entries_[static_cast<size_t>(id.layer * experts_ + id.expert)]; }
  double decayed(const Entry& e) const;

  int32_t layers_, experts_;
  CacheOptions options_;
  std::vector<Entry> entries_;
  ExpertBooks books_;
  int64_t pass_ = 0;
};

}  // namespace llada
