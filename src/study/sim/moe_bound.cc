#include "study/sim/moe_bound.h"

#include <algorithm>
#include <iterator>
#include <vector>

namespace llada {
namespace {

// Nearly the greatest value of a concave function from `low` to `high`, by golden sections.
template <class F>
double most(const F& f, double low, double high) {
  constexpr int kRounds = 14;
  constexpr double kGolden = 0.6180339887;
  double a = high - kGolden * (high - low), b = low + kGolden * (high - low), at_a = f(a), at_b = f(b);
  for (int i = 0; i < kRounds; ++i) {
    if (at_a < at_b) {
      low = a, a = b, at_a = at_b;
      b = low + kGolden * (high - low), at_b = f(b);
    } else {
      high = b, b = a, at_b = at_a;
      a = high - kGolden * (high - low), at_a = f(a);
    }
  }
  return std::max(at_a, at_b);
}

struct Prices {
  double host = 0, device = 0, link = 0;  // of a second
  double place = 0;                       // of a place from one step to the next
};

double host_s(const ExpertCosts& costs, int32_t rows) { return costs.host_s(rows); }
double device_s(const ExpertCosts& costs, int32_t rows) { return costs.device_s(rows) - costs.device_joined_s(); }

// The cheapest way through an expert's uses: each is computed by a unit, and the expert is kept until the next or not.
double cheapest(const ExpertCosts& costs, const std::vector<ExpertUse>& uses, const Prices& prices) {
  const double move = prices.link * costs.move_s();
  double kept = 0, gone = 0;
  int32_t before = -1;
  for (const ExpertUse& use : uses) {
    const double host = prices.host * host_s(costs, use.rows), device = prices.device * device_s(costs, use.rows);
    const double there = std::min(kept + prices.place * (use.step - before), std::min(kept, gone) + move);
    gone = std::min(kept, gone) + host;
    kept = there + std::min(device, host);
    before = use.step;
  }
  return std::min(kept, gone);
}

// The least time of a layer beyond the prices of its experts, so many for a second of each unit: of a layer that is the
// accelerator's alone, or of one with experts on the host, which pays the host's start.
double beyond(const ExpertCosts& costs, const KnownRun::Layer& layer, double host, double device) {
  const double alone = layer.other_s + (1 - device) * layer.device_s;
  const double shared = host > 1 ? std::max(layer.other_s, costs.host_first_s + layer.host_s) - host * layer.host_s
                                 : device * layer.other_s + host * costs.host_first_s;
  return std::min(alone, shared);
}

}  // namespace

void add_use(const ExpertCosts& costs, const ExpertUse& use, std::vector<ExpertUse>& uses, KnownRun::Layer& layer) {
  uses.push_back(use);
  layer.host_s += host_s(costs, use.rows), layer.device_s += device_s(costs, use.rows);
}

// Weak duality: whatever the prices, no schedule costs less than they say.
double known_run_lower_bound(const ExpertCosts& costs, const KnownRun& run) {
  const double saved = std::max(costs.move_s(), costs.host_s(1) + costs.host_first_s);  // by a place, at most
  const auto at = [&](double link, double host) {
    // Prices that add up to one suit layers whose units share the work. One above it suits those that the accelerator
    // computes sooner than the host starts.
    const double device = std::max(0.0, 1 - host);
    double sum = run.between_s;
    for (const KnownRun::Layer& layer : run.layers) sum += beyond(costs, layer, host, device);
    return most(
        [&](double place) {
          double cost = (1 - link) * sum - place * static_cast<double>(run.places) * run.steps;
          for (const std::vector<ExpertUse>& uses : run.uses)
            cost += cheapest(costs, uses, {(1 - link) * host, (1 - link) * device, link, place});
          return cost;
        },
        0, saved);
  };
  const auto over_links = [&](double least, double greatest) {
    return most([&](double link) { return most([&](double host) { return at(link, host); }, least, greatest); }, 0, 1);
  };
  double dearest = 1;
  for (const KnownRun::Layer& layer : run.layers)
    if (layer.host_s > 0) dearest = std::max(dearest, 1 + costs.host_first_s / layer.host_s);
  return std::max(over_links(0, 1), dearest > 1 ? over_links(1, dearest) : 0);
}

double plan_lower_bound(const ExpertCosts& costs, std::span<const ExpertLoad> loads, const PlanStart& start,
                        bool divisible) {
  struct Item {
    double host, device;
    bool resident;
  };
  std::vector<Item> items;
  double low = 0, from_memory = 0;
  for (const ExpertLoad& load : loads) {
    // Starts that others may share are nobody's here.
    const double on_host = costs.host_s(load.rows) - costs.host_joined_s();
    const double on_device = costs.device_s(load.rows) - costs.device_joined_s();
    items.push_back({on_host, on_device, load.resident});
    const double reach = load.resident ? start.device_s + on_device : start.link_s + costs.move_s();
    if (!divisible) low = std::max(low, std::min(start.host_s + costs.host_first_s + on_host, reach));
    const bool read =
        load.resident ? costs.device_shares_memory : costs.link_reads_memory || costs.device_shares_memory;
    if (read) from_memory += costs.expert_bytes();
  }
  if (costs.memory_bytes_per_s > 0) low = std::max(low, from_memory / costs.memory_bytes_per_s);
  // Each bound on its own lets the host take the experts that help it most, part of one if need be.
  std::vector<Item> by_host, by_gain = items;
  std::ranges::copy_if(items, std::back_inserter(by_host), [](const Item& i) { return !i.resident; });
  std::ranges::sort(by_host, {}, &Item::host);
  std::ranges::sort(by_gain, {}, [](const Item& i) { return -i.device / i.host; });
  const auto fits = [&](double t) {
    const double host = std::max(0.0, t - start.host_s - costs.host_first_s);
    double left = host, moved = 0, device = 0;
    for (const Item& i : by_host) {
      const double share = std::clamp(left / i.host, 0.0, 1.0);
      left -= share * i.host, moved += 1 - share;
    }
    if (moved > 0 && start.link_s + moved * costs.move_s() > t) return false;
    left = host;
    for (const Item& i : by_gain) {
      const double share = std::clamp(left / i.host, 0.0, 1.0);
      left -= share * i.host, device += (1 - share) * i.device;
    }
    return device <= 0 || start.device_s + device <= t;
  };
  if (fits(low)) return low;
  double high = low;
  do high = 2 * high + 1e-9;
  while (!fits(high));
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (fits(middle) ? high : low) = middle;
  }
  return low;
}

}  // namespace llada
