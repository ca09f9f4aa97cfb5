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

// The cheapest way through an expert's uses: each is computed by a unit, and the expert is kept until the next or not.
double cheapest(const ExpertCosts& costs, const std::vector<ExpertUse>& uses, const Prices& prices, bool divisible) {
  const double move = prices.link * costs.move_s();
  double kept = 0, gone = 0;
  int32_t before = -1;
  for (const ExpertUse& use : uses) {
    // The layer's first expert on the host pays a start, of which each that could be there bears its part at most.
    const double first = costs.host_first_s / use.beside - (divisible ? costs.host_expert_s : 0);
    const double host = prices.host * (costs.host_s(use.rows) + first);
    const double device = prices.device * (costs.device_s(use.rows) - costs.device_joined_s());
    const double there = std::min(kept + prices.place * (use.step - before), std::min(kept, gone) + move);
    gone = std::min(kept, gone) + host;
    kept = there + std::min(device, host);
    before = use.step;
  }
  return std::min(kept, gone);
}

}  // namespace

// Weak duality: whatever the prices, no schedule costs less than they say.
double known_run_lower_bound(const ExpertCosts& costs, const KnownRun& run, bool divisible) {
  const auto at = [&](const Prices& prices) {
    double sum = (prices.host + prices.device) * run.between_s + prices.device * run.device_s -
                 prices.place * static_cast<double>(run.places) * run.steps;
    for (const std::vector<ExpertUse>& uses : run.uses) sum += cheapest(costs, uses, prices, divisible);
    return sum;
  };
  const double saved = std::max(costs.move_s(), costs.host_s(1) + costs.host_first_s);  // by a place, at most
  const auto over_places = [&](double link, double device) {
    const Prices prices{.host = (1 - link) * (1 - device), .device = (1 - link) * device, .link = link};
    return most([&](double place) { return at({prices.host, prices.device, prices.link, place}); }, 0, saved);
  };
  return most([&](double link) { return most([&](double device) { return over_places(link, device); }, 0, 1); }, 0, 1);
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
