#include "devices/value_plan.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>

#include "base/check.h"

namespace llada {

std::vector<Lifetime> value_lifetimes(const Program& program, int64_t bytes_per_element) {
  std::vector<Lifetime> lives(program.values.size(), {0, INT32_MAX, -1});
  for (size_t i = 0; i < lives.size(); ++i)
    lives[i].bytes =
        program.shape.count(program.values[i].rows) * int64_t{program.values[i].columns} * bytes_per_element;
  for (size_t i = 0; i < program.ops.size(); ++i)
    for (const auto& ids : {program.ops[i].in, program.ops[i].out})
      for (const ValueId id : ids) {
        if (id == kNoValue) continue;
        Lifetime& l = lives[static_cast<size_t>(id)];
        l.first = std::min(l.first, static_cast<int32_t>(i));
        l.last = std::max(l.last, static_cast<int32_t>(i));
      }
  return lives;
}

ValuePlan plan_values(const Program& program) {
  constexpr int64_t kAlign = 128;  // the widest vector register of any device here
  ValuePlan plan;
  plan.lives = value_lifetimes(program, 4);
  for (Lifetime& l : plan.lives) l.bytes = (l.bytes + kAlign - 1) / kAlign * kAlign;
  ArenaPlan arena = plan_arena(plan.lives);
  plan.offsets = std::move(arena.offsets);
  plan.bytes = arena.bytes;
  return plan;
}

const RowSets::Reads& RowSets::of(const Attention& attention) const {
  const auto found = std::ranges::find(reads, attention.window, &Reads::window);
  LLADA_CHECK(found != reads.end());
  return *found;
}

namespace {

// `rows` of `all` rows as a set of their own, in the spans that they are in.
void bind_subset(const StepInputs& in, std::vector<int32_t> rows, RowSet which, RowSets& sets) {
  const auto set = static_cast<size_t>(which);
  sets.positions[set].clear(), sets.angles[set].clear(), sets.spans[set].clear();
  for (const int32_t row : rows) {
    sets.positions[set].push_back(in.positions[static_cast<size_t>(row)]);
    sets.angles[set].push_back(angles_of(in)[static_cast<size_t>(row)]);
  }
  size_t next = 0;
  for (const RowSpan& span : in.spans) {
    RowSpan part = span;
    part.begin = static_cast<int32_t>(next);
    while (next < rows.size() && rows[next] < span.begin + span.count) ++next;
    part.count = static_cast<int32_t>(next) - part.begin;
    sets.spans[set].push_back(part);
  }
  sets.rows[set] = std::move(rows);
}

void bind_reach(RowSet which, const RowSets& sets, RowSets::Reads& reads) {
  const auto set = static_cast<size_t>(which);
  reads.reach[set].clear();
  for (const RowSpan& span : sets.spans[set]) {
    KeyRange all{span.count > 0 ? INT32_MAX : 0, 0};
    for (const KeyRange& r :
         std::span(reads.ranges[set]).subspan(static_cast<size_t>(span.begin), static_cast<size_t>(span.count)))
      all = {std::min(all.first, r.first), std::max(all.last, r.last)};
    reads.reach[set].push_back(all);
  }
}

// By stream: behind which position nothing has keys once rows were chosen. `sets` has the wanted ones.
std::vector<int32_t> ends_of_keys(const StepInputs& in, const RowSets& sets) {
  std::vector<int32_t> ends(in.streams.size(), INT32_MAX);
  for (const RowSpan& span : sets.spans[static_cast<size_t>(RowSet::wanted)]) {
    if (ends.empty() || in.streams[static_cast<size_t>(span.stream)].keep < 0) continue;
    int32_t& end = ends[static_cast<size_t>(span.stream)] = in.streams[static_cast<size_t>(span.stream)].frontier;
    if (span.count > 0)
      end = std::max(
          end,
          sets.positions[static_cast<size_t>(RowSet::wanted)][static_cast<size_t>(span.begin + span.count - 1)] + 1);
  }
  return ends;
}

void end_at_frontiers(std::span<const RowSpan> spans, std::span<const int32_t> ends, std::vector<KeyRange>& ranges) {
  if (ends.empty()) return;
  for (const RowSpan& span : spans)
    for (KeyRange& r : std::span(ranges).subspan(static_cast<size_t>(span.begin), static_cast<size_t>(span.count)))
      r.last = std::max(r.first + 1, std::min(r.last, ends[static_cast<size_t>(span.stream)]));
}

bool chooses(const StepInputs& in) {
  return std::ranges::any_of(in.streams, [](const Stream& stream) { return stream.keep >= 0; });
}

}  // namespace

RowSets bind_row_sets(const StepInputs& in, const Program& program) {
  RowSets sets;
  sets.positions[0] = in.positions;
  sets.angles[0] = angles_of(in);
  sets.spans[0] = in.spans;
  sets.reads.push_back({});
  for (const Attention& a : program.attentions)
    if (std::ranges::find(sets.reads, a.window, &RowSets::Reads::window) == sets.reads.end())
      sets.reads.push_back({.window = a.window, .ranges = {}, .reach = {}});
  for (RowSets::Reads& reads : sets.reads) {
    for (size_t r = 0; r < in.ranges.size(); ++r)
      reads.ranges[0].push_back(reads.window.of(in.positions[r], in.ranges[r]));
    bind_reach(RowSet::all, sets, reads);
  }
  std::vector<int32_t> first;
  size_t next = 0;
  for (const RowSpan& span : in.spans) {
    const int32_t keep = in.streams.empty() ? -1 : in.streams[static_cast<size_t>(span.stream)].keep;
    for (int32_t n = 0; next < in.wanted.size() && in.wanted[next] < span.begin + span.count; ++n, ++next)
      if (keep < 0 || n < keep) first.push_back(static_cast<int32_t>(next));
  }
  bind_chosen(in, first, sets);
  return sets;
}

void bind_chosen(const StepInputs& in, std::span<const int32_t> chosen, RowSets& sets) {
  std::vector<int32_t> wanted, kept, index(in.wanted.size(), -1);  // index: among the wanted rows that go on
  for (const int32_t i : chosen) {
    index[static_cast<size_t>(i)] = static_cast<int32_t>(wanted.size());
    wanted.push_back(in.wanted[static_cast<size_t>(i)]);
  }
  sets.wanted_of_kept.clear();
  std::vector<RowSet> bound = {RowSet::wanted};
  if (chooses(in)) {
    size_t candidate = 0;
    for (int32_t row = 0; row < std::ssize(in.positions); ++row) {
      const bool is_candidate = candidate < in.wanted.size() && in.wanted[candidate] == row;
      const bool goes_on = !is_candidate || index[candidate] >= 0;
      candidate += is_candidate;
      if (is_candidate && goes_on) sets.wanted_of_kept.push_back(static_cast<int32_t>(kept.size()));
      if (goes_on) kept.push_back(row);
    }
    bind_subset(in, std::move(kept), RowSet::kept, sets);
    bound.push_back(RowSet::kept);
  }
  bind_subset(in, std::move(wanted), RowSet::wanted, sets);
  const std::vector<int32_t> ends = ends_of_keys(in, sets);
  for (const RowSet which : bound)
    for (RowSets::Reads& reads : sets.reads) {
      auto& ranges = reads.ranges[static_cast<size_t>(which)];
      ranges.clear();
      for (const int32_t row : sets.rows[static_cast<size_t>(which)])
        ranges.push_back(reads.ranges[0][static_cast<size_t>(row)]);
      end_at_frontiers(sets.spans[static_cast<size_t>(which)], ends, ranges);
      bind_reach(which, sets, reads);
    }
  std::vector<int32_t> stream_of;  // by wanted row
  for (const RowSpan& span : sets.spans[1])
    stream_of.insert(stream_of.end(), static_cast<size_t>(span.count), span.stream);
  sets.predictions.clear(), sets.streams.clear(), sets.kept.clear(), sets.positions[2].clear();
  std::vector<int64_t> logits(in.streams.size(), 0);
  for (const PredictedRow& p : in.predictions) {
    const int32_t row = index[static_cast<size_t>(p.conditional)];
    if (row < 0) continue;
    const auto stream = static_cast<size_t>(stream_of[static_cast<size_t>(row)]);
    sets.predictions.push_back({row, p.unconditional < 0 ? -1 : index[static_cast<size_t>(p.unconditional)], p.scale});
    sets.positions[2].push_back(sets.positions[1][static_cast<size_t>(row)]);
    sets.streams.push_back(static_cast<int32_t>(stream));
    sets.kept.push_back(in.streams[stream].keep_logits ? logits[stream]++ : -1);
  }
}

void reserve_logits(const StepInputs& in, const RowSets& sets, int64_t vocabulary, StepOutputs& outputs) {
  std::vector<int64_t> rows(in.streams.size(), 0);
  for (size_t p = 0; p < sets.kept.size(); ++p) rows[static_cast<size_t>(sets.streams[p])] += sets.kept[p] >= 0;
  outputs.logits.resize(rows.size());
  for (size_t s = 0; s < rows.size(); ++s) {
    const auto floats = static_cast<size_t>(rows[s] * vocabulary);
    std::vector<float>& logits = outputs.logits[s];
    if (logits.capacity() < floats) logits = std::vector<float>();  // never old and new memory at a time
    logits.resize(floats);
  }
}

float* kept_logits(const RowSets& sets, int64_t prediction, int64_t vocabulary, StepOutputs& outputs) {
  const auto p = static_cast<size_t>(prediction);
  if (sets.kept[p] < 0) return nullptr;
  return outputs.logits[static_cast<size_t>(sets.streams[p])].data() + sets.kept[p] * vocabulary;
}

RoutingRule routing_rule(const Op& op) {
  return {.experts = op.experts,
          .used = op.experts_used,
          .groups = op.groups,
          .groups_used = op.groups_used,
          .scale = op.parameter,
          .sigmoid = op.sigmoid != 0,
          .renormalise = op.renormalise != 0};
}

void RopeTable::extend(const Rope& rope, int64_t positions) {
  half_ = std::ssize(rope.frequencies);
  for (auto p = static_cast<int64_t>(cos_.size()) / half_; p < positions; ++p) {
    for (const double frequency : rope.frequencies) {
      const double angle = static_cast<double>(p) * frequency;
      cos_.push_back(static_cast<float>(rope.magnitude * std::cos(angle)));
      sin_.push_back(static_cast<float>(rope.magnitude * std::sin(angle)));
    }
  }
}

const RopeTable& RopeTables::of(const Rope& rope, int64_t positions) {
  constexpr size_t kMost = 8;  // a model has one or two
  auto found = std::ranges::find_if(
      kept_, [&](const Kept& k) { return k.magnitude == rope.magnitude && k.frequencies == rope.frequencies; });
  if (found == kept_.end()) {
    if (kept_.size() >= kMost) kept_.pop_back();
    kept_.push_front({rope.frequencies, rope.magnitude, {}});
  } else {
    kept_.splice(kept_.begin(), kept_, found);
  }
  kept_.front().table.extend(rope, positions);
  return kept_.front().table;
}

}  // namespace llada
