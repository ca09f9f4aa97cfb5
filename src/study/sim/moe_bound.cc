#include "study/sim/moe_bound.h"

#include <algorithm>
#include <iterator>
#include <vector>

namespace llada {

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
