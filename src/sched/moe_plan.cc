#include "sched/moe_plan.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/check.h"
#include "devices/work.h"

namespace llada {
namespace {

constexpr std::array<std::string_view, 4> kRuleNames = {"hybrid", "static", "all-cpu", "on-demand"};
constexpr double kForever = std::numeric_limits<double>::infinity();

enum Line : size_t { host, device, link };

// Three timelines that share the host's memory, from event to event, without the simulator's queues, because a layer is
// planned for every layer of every step.
class Evaluator {
 public:
  Evaluator(const ExpertCosts& costs, std::vector<PlannedExpert>& experts, std::span<const ExpertLoad> loads,
            const PlanStart& start)
      : c_(costs), experts_(experts), start_(start) {
    for (size_t i = 0; i < experts.size(); ++i) {
      PlannedExpert& e = experts[i];
      (e.on_device ? device_queue_ : host_queue_).push_back(i);
      if (e.moved) link_queue_.push_back(i);
      arrived_.push_back({kForever, kForever, kForever});
      if (!e.moved) arrived_.back().fill(0);
    }
    // An expert that is still arriving counts as one piece.
    for (const ExpertLoad& load : loads)
      if (load.ready_s > 0)
        for (size_t i = 0; i < experts.size(); ++i)
          if (experts[i].expert == load.expert && !experts[i].moved) arrived_[i].fill(load.ready_s);
  }

  void run(MoePlan& plan) {
    active_[link] = start_.link_s > 0;
    if (c_.link_reads_memory)
      work_[link].bytes = start_.link_s * c_.link_bytes_per_s, work_[link].wanted_rate = c_.link_bytes_per_s;
    else
      work_[link].fixed = start_.link_s;
    link_piece_ = -1;  // its work before
    for (;;) {
      while (begin_host() || begin_device() || begin_link()) {
      }
      if (!active_[host] && !active_[device] && !active_[link]) {
        const double wake = std::min(host_wake(), device_wake());
        if (wake == kForever) break;
        now_ = wake;
        continue;
      }
      advance(plan);
    }
    for (const PlannedExpert& e : experts_) plan.makespan_s = std::max(plan.makespan_s, e.end_s);
  }

 private:
  double host_wake() const { return host_at_ < host_queue_.size() && now_ < start_.host_s ? start_.host_s : kForever; }
  // When the accelerator can go on, if that is a time and not a move.
  double device_wake() const {
    if (device_at_ >= device_queue_.size()) return kForever;
    const double ready = arrived_[device_queue_[device_at_]][static_cast<size_t>(device_piece_)];
    if (ready == kForever) return kForever;
    return std::max(start_.device_s, ready);
  }

  Work& begin(Line line) {
    active_[line] = true;
    return work_[line];
  }

  bool begin_host() {
    if (active_[host] || host_at_ >= host_queue_.size() || now_ < start_.host_s) return false;
    PlannedExpert& e = experts_[host_queue_[host_at_]];
    e.start_s = now_;
    Work& w = begin(host);
    const bool goes_on = host_at_ > 0 && c_.same_expert(experts_[host_queue_[host_at_ - 1]].expert, e.expert);
    w = {goes_on ? 0 : c_.host_expert_s, c_.host_compute_s(e.rows), c_.expert_bytes(), c_.host_bytes_per_s};
    if (host_at_ == 0) w.fixed += c_.host_first_s;
    if (!c_.host_overlap) w.fixed += std::exchange(w.compute, 0);
    return true;
  }

  bool begin_device() {
    if (active_[device] || device_at_ >= device_queue_.size()) return false;
    const size_t i = device_queue_[device_at_];
    PlannedExpert& e = experts_[i];
    if (now_ < start_.device_s || now_ < arrived_[i][static_cast<size_t>(device_piece_)]) return false;
    if (device_piece_ == 0) e.start_s = now_;
    // An expert that is there is one task; a moved one's products follow its pieces.
    const double share = e.moved ? c_.piece_bytes[static_cast<size_t>(device_piece_)] / c_.expert_bytes() : 1;
    Work& w = begin(device);
    w = {.fixed = goes_on() ? c_.device_member_s : c_.device_expert_s * share,
         .compute = c_.device_compute_s(e.rows) * share};
    const double bytes = c_.expert_bytes() * share;
    if (c_.device_shares_memory)
      w.bytes = bytes, w.wanted_rate = c_.device_bytes_per_s;
    else
      w.compute = std::max(w.compute, bytes / c_.device_bytes_per_s);
    return true;
  }

  // The accelerator's next needs no start of its own: it was there from the beginning, like the one before.
  bool goes_on() const {
    if (device_at_ == 0) return false;
    const size_t before = device_queue_[device_at_ - 1], next = device_queue_[device_at_];
    return arrived_[before][0] == 0 && arrived_[next][0] == 0 && !experts_[before].moved && !experts_[next].moved &&
           c_.one_start(experts_[before].expert, experts_[next].expert);
  }

  bool begin_link() {
    if (active_[link] || link_at_ >= link_queue_.size()) return false;
    if (link_piece_ < 0) link_piece_ = 0;
    // A staging slot is free again when its expert has been computed; moves and products keep one order.
    if (link_piece_ == 0 && link_at_ >= moved_done_ + static_cast<size_t>(c_.staging)) return false;
    if (link_piece_ == 0) experts_[link_queue_[link_at_]].move_start_s = now_;
    const double bytes = c_.piece_bytes[static_cast<size_t>(link_piece_)];
    Work& w = begin(link);
    w = {.fixed = c_.piece_s};
    if (c_.link_reads_memory)
      w.bytes = bytes, w.wanted_rate = c_.link_bytes_per_s;
    else
      w.fixed += bytes / c_.link_bytes_per_s;
    return true;
  }

  void advance(MoePlan& plan) {
    std::array<Work*, 3> active{};
    size_t count = 0;
    for (size_t line = 0; line < 3; ++line)
      if (active_[line]) active[count++] = &work_[line];
    share_bandwidth(std::span(active).first(count), c_.memory_bytes_per_s > 0 ? c_.memory_bytes_per_s : kForever);
    double step = std::min(host_wake(), device_wake()) - now_;
    if (!(step > 0)) step = kForever;
    for (const Work* const work : std::span(active).first(count)) step = std::min(step, work->next_s());
    LLADA_CHECK(step < kForever);
    now_ += step;
    std::array<double*, 3> busy = {&plan.host_s, &plan.device_s, &plan.link_s};
    for (size_t line = 0; line < 3; ++line) {
      if (!active_[line]) continue;
      if (line != link || link_piece_ >= 0) *busy[line] += step;
      work_[line].pass(step);
      if (!work_[line].done()) continue;
      active_[line] = false;
      end(line);
    }
  }

  void end(size_t line) {
    if (line == host) {
      experts_[host_queue_[host_at_++]].end_s = now_;
    } else if (line == device) {
      PlannedExpert& e = experts_[device_queue_[device_at_]];
      if (e.moved && ++device_piece_ < 3) return;
      e.end_s = now_;
      moved_done_ += e.moved ? 1 : 0;
      device_piece_ = 0;
      ++device_at_;
    } else if (link_piece_ >= 0) {
      const size_t i = link_queue_[link_at_];
      arrived_[i][static_cast<size_t>(link_piece_)] = now_;
      if (++link_piece_ < 3) return;
      experts_[i].move_end_s = now_;
      link_piece_ = 0;
      ++link_at_;
    }
  }

  const ExpertCosts& c_;
  std::vector<PlannedExpert>& experts_;
  const PlanStart start_;
  std::vector<size_t> host_queue_, device_queue_, link_queue_;
  std::vector<std::array<double, 3>> arrived_;  // when each piece is there
  std::array<Work, 3> work_{};
  std::array<bool, 3> active_{};
  size_t host_at_ = 0, device_at_ = 0, link_at_ = 0, moved_done_ = 0;
  int device_piece_ = 0, link_piece_ = 0;
  double now_ = 0;
};

std::vector<ExpertLoad> by_load(std::span<const ExpertLoad> loads) {
  std::vector<ExpertLoad> sorted(loads.begin(), loads.end());
  std::ranges::sort(sorted, [](const ExpertLoad& a, const ExpertLoad& b) {
    return std::pair(-a.rows, a.expert) < std::pair(-b.rows, b.expert);
  });
  return sorted;
}

PlannedExpert planned(const ExpertLoad& load, bool on_device) {
  return {.expert = load.expert, .rows = load.rows, .on_device = on_device, .moved = on_device && !load.resident};
}

// Heaviest first on the accelerator, those that are there before those that are moved; lightest first on the
// host.
template <class OnDevice>
std::vector<PlannedExpert> split(std::span<const ExpertLoad> sorted, OnDevice on_device) {
  std::vector<PlannedExpert> out;
  const auto device_pass = [&](auto chosen) {
    for (const ExpertLoad& load : sorted)
      if (on_device(load) && chosen(load)) out.push_back(planned(load, true));
  };
  device_pass([](const ExpertLoad& load) { return load.resident && load.ready_s <= 0; });
  device_pass([](const ExpertLoad& load) { return load.resident && load.ready_s > 0; });
  device_pass([](const ExpertLoad& load) { return !load.resident; });
  for (size_t i = sorted.size(); i-- > 0;)
    if (!on_device(sorted[i])) out.push_back(planned(sorted[i], false));
  return out;
}

// Time of a host expert and of a move where both read the memory all the time.
std::pair<double, double> slowed(const ExpertCosts& c) {
  if (c.memory_bytes_per_s <= 0 || !c.link_reads_memory) return {1, 1};
  const double host = c.host_bytes_per_s, moved = c.link_bytes_per_s, all = c.memory_bytes_per_s;
  if (host + moved <= all) return {1, 1};
  const double low = std::min({host, moved, all / 2}), high = std::min(std::max(host, moved), all - low);
  return host <= moved ? std::pair{host / low, moved / high} : std::pair{host / high, moved / low};
}

// The queues. Where wanted, `end` is when the last of them is estimated to be empty, and link_s the time of the moves.
std::vector<PlannedExpert> two_ended(const ExpertCosts& c, std::span<const ExpertLoad> sorted, const PlanStart& start,
                                     bool contended, double* end = nullptr, double* link_s = nullptr) {
  std::vector<ExpertLoad> missing, there;  // heaviest first
  struct Arriving {
    ExpertLoad load;
    double ready;
  };
  std::vector<Arriving> arriving;
  for (const ExpertLoad& load : sorted) {
    if (!load.resident)
      missing.push_back(load);
    else if (load.ready_s > 0)
      arriving.push_back({load, load.ready_s});
    else
      there.push_back(load);
  }
  std::ranges::sort(arriving, {}, &Arriving::ready);
  const auto [host_factor, link_factor] = contended ? slowed(c) : std::pair{1.0, 1.0};
  const double stream = c.host_stream_s() * host_factor;
  // `before`: the unit's last expert, or null.
  const auto host_time = [&](const ExpertLoad& load, const ExpertLoad* before) {
    const double compute = c.host_compute_s(load.rows);
    const bool goes_on = before != nullptr && c.same_expert(before->expert, load.expert);
    return (goes_on ? 0 : c.host_expert_s) + (c.host_overlap ? std::max(compute, stream) : compute + stream);
  };
  const auto device_time = [&](const ExpertLoad& load, const ExpertLoad* before) {
    const bool goes_on = before != nullptr && c.one_start(before->expert, load.expert);
    return c.device_s(load.rows) - (goes_on ? c.device_joined_s() : 0);
  };
  const double move = 3 * c.piece_s + c.expert_bytes() / c.link_bytes_per_s * link_factor;
  double host_t = start.host_s + c.host_first_s, device_t = start.device_s, link_t = start.link_s;
  size_t heavy = 0, light = missing.size(), first = 0, last = there.size(), next = 0;
  double last_end = 0;
  const ExpertLoad *last_host = nullptr, *last_device = nullptr;  // the latter only of those that are there
  std::vector<PlannedExpert> out;
  if (end == nullptr) out.reserve(sorted.size());
  const auto give = [&](const ExpertLoad& load, bool on_device, double until) {
    last_end = std::max(last_end, until);
    if (end == nullptr) out.push_back(planned(load, on_device));
  };
  while (heavy < light || first < last || next < arriving.size()) {
    const ExpertLoad* for_host = light > heavy ? &missing[light - 1] : last > first ? &there[last - 1] : nullptr;
    const double host_end = for_host != nullptr ? host_t + host_time(*for_host, last_host) : kForever;
    const bool waits = next < arriving.size();
    // The heavier of the residents; arriving ones only where nothing else is left.
    const bool take_arrived =
        waits && (first >= last || (arriving[next].ready <= device_t && arriving[next].load.rows >= there[first].rows));
    const ExpertLoad* for_device = take_arrived ? &arriving[next].load : first < last ? &there[first] : nullptr;
    const double device_end = for_device == nullptr
                                  ? kForever
                                  : std::max(device_t, take_arrived ? arriving[next].ready : 0) +
                                        device_time(*for_device, take_arrived ? nullptr : last_device);
    const double link_end =
        heavy < light ? std::max(link_t + move, device_t) + c.device_s(missing[heavy].rows) : kForever;
    const double dear_end = link_end + start.toll * move;
    if (device_end <= host_end && device_end <= dear_end) {
      give(*for_device, true, device_end);
      device_t = device_end;
      last_device = take_arrived ? nullptr : for_device;
      take_arrived ? ++next : ++first;
    } else if (host_end <= dear_end) {
      give(*for_host, false, host_end);
      host_t = host_end;
      last_host = for_host;
      light > heavy ? --light : --last;
    } else {
      link_t += move;
      arriving.push_back({missing[heavy++], link_t});
    }
  }
  if (end != nullptr) *end = last_end;
  if (link_s != nullptr) *link_s = link_t - start.link_s;
  return out;
}

void check(std::span<const ExpertLoad> loads) {
  for (const ExpertLoad& load : loads) LLADA_CHECK(load.rows > 0);
}

}  // namespace

std::string_view name(MoeRule rule) { return kRuleNames[static_cast<size_t>(rule)]; }

Result<MoeRule> moe_rule_from_name(std::string_view text) {
  for (const MoeRule rule : kMoeRules)
    if (name(rule) == text) return rule;
  return invalid("moe plan: found '{}', needed one of {}", text, fmt::join(kRuleNames, ", "));
}

MoePlan evaluate_plan(const ExpertCosts& costs, std::vector<PlannedExpert> experts, std::span<const ExpertLoad> loads,
                      const PlanStart& start) {
  MoePlan plan;
  plan.experts = std::move(experts);
  Evaluator(costs, plan.experts, loads, start).run(plan);
  return plan;
}

MoePlan plan_layer(const ExpertCosts& costs, std::span<const ExpertLoad> loads, MoeRule rule, const PlanStart& start) {
  check(loads);
  const std::vector<ExpertLoad> sorted = by_load(loads);
  const auto all = [](const ExpertLoad&) { return true; };
  const auto none = [](const ExpertLoad&) { return false; };
  const auto there = [](const ExpertLoad& load) { return load.resident; };
  const auto evaluated = [&](std::vector<PlannedExpert> experts) {
    return evaluate_plan(costs, std::move(experts), loads, start);
  };
  switch (rule) {
    case MoeRule::static_split:
      return evaluated(split(sorted, there));
    case MoeRule::all_cpu:
      return evaluated(split(sorted, none));
    case MoeRule::on_demand:
      return evaluated(split(sorted, all));
    case MoeRule::hybrid:
      break;
  }
  MoePlan best = evaluated(two_ended(costs, sorted, start, false));
  const auto price = [&](const MoePlan& p) { return p.makespan_s + (p.link_s > 0 ? start.toll * p.link_s : 0); };
  const auto consider = [&](std::vector<PlannedExpert> experts) {
    MoePlan other = evaluated(std::move(experts));
    if (price(other) < price(best)) best = std::move(other);
  };
  if (slowed(costs) != std::pair{1.0, 1.0}) consider(two_ended(costs, sorted, start, true));
  consider(split(sorted, there));
  consider(split(sorted, none));
  consider(split(sorted, all));
  return best;
}

double estimate_makespan(const ExpertCosts& c, std::span<const ExpertLoad> sorted, MoeRule rule, const PlanStart& start,
                         double* link_s) {
  double end = 0;
  if (rule == MoeRule::hybrid) {
    two_ended(c, sorted, start, true, &end, link_s);
    return end;
  }
  double host_t = start.host_s + c.host_first_s, device_t = start.device_s, link_t = start.link_s;
  bool on_host = false;
  const ExpertLoad *last_host = nullptr, *last_device = nullptr;
  for (const ExpertLoad& load : sorted) {
    if (rule == MoeRule::all_cpu || (rule == MoeRule::static_split && !load.resident)) {
      host_t += c.host_s(load.rows), on_host = true;
      if (last_host != nullptr && c.same_expert(last_host->expert, load.expert)) host_t -= c.host_expert_s;
      last_host = &load;
      continue;
    }
    if (!load.resident) link_t += c.move_s();
    device_t = std::max(device_t, load.resident ? load.ready_s : link_t) + c.device_s(load.rows);
    if (!load.resident || load.ready_s > 0) continue;
    if (last_device != nullptr && c.one_start(last_device->expert, load.expert)) device_t -= c.device_joined_s();
    last_device = &load;
  }
  if (link_s != nullptr) *link_s = link_t - start.link_s;
  return std::max(on_host ? host_t : 0, device_t);
}

}  // namespace llada
