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

RowSets bind_row_sets(const StepInputs& in, const Program& program) {
  RowSets sets;
  sets.positions[0] = in.positions;
  sets.spans[0] = in.spans;
  for (const int32_t row : in.wanted) sets.positions[1].push_back(in.positions[static_cast<size_t>(row)]);
  std::vector<int32_t> stream_of;  // by wanted row
  for (const RowSpan& span : in.spans) {
    RowSpan wanted = span;
    wanted.begin = static_cast<int32_t>(stream_of.size());
    wanted.count = 0;
    while (stream_of.size() < in.wanted.size() && in.wanted[stream_of.size()] < span.begin + span.count)
      stream_of.push_back(span.stream), ++wanted.count;
    sets.spans[1].push_back(wanted);
  }
  sets.reads.push_back({});
  for (const Attention& a : program.attentions)
    if (std::ranges::find(sets.reads, a.window, &RowSets::Reads::window) == sets.reads.end())
      sets.reads.push_back({.window = a.window, .ranges = {}, .reach = {}});
  for (RowSets::Reads& reads : sets.reads) {
    for (const RowSpan& span : in.spans)
      for (auto r = static_cast<size_t>(span.begin); r < static_cast<size_t>(span.begin + span.count); ++r)
        reads.ranges[0].push_back(
            reads.window.of(in.positions[reads.window.of_span ? static_cast<size_t>(span.begin) : r], in.ranges[r]));
    for (const int32_t row : in.wanted) reads.ranges[1].push_back(reads.ranges[0][static_cast<size_t>(row)]);
    for (size_t set = 0; set < 2; ++set)
      for (const RowSpan& span : sets.spans[set]) {
        KeyRange all{span.count > 0 ? INT32_MAX : 0, 0};
        for (const KeyRange& r :
             std::span(reads.ranges[set]).subspan(static_cast<size_t>(span.begin), static_cast<size_t>(span.count)))
          all = {std::min(all.first, r.first), std::max(all.last, r.last)};
        reads.reach[set].push_back(all);
      }
  }
  std::vector<int64_t> logits(in.streams.size(), 0), scores = logits;
  for (const PredictedRow& p : in.predictions) {
    const auto row = static_cast<size_t>(p.conditional);
    const auto stream = static_cast<size_t>(stream_of[row]);
    sets.positions[2].push_back(sets.positions[1][row]);
    sets.streams.push_back(stream_of[row]);
    sets.kept.push_back(in.streams[stream].keep_logits ? logits[stream]++ : -1);
    sets.scored.push_back(in.streams[stream].reading.classes != nullptr ? scores[stream]++ : -1);
  }
  return sets;
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
  outputs.scores.assign(rows.size(), {});
  for (size_t p = 0; p < sets.scored.size(); ++p)
    if (sets.scored[p] >= 0) outputs.scores[static_cast<size_t>(sets.streams[p])].emplace_back();
}

float* kept_logits(const RowSets& sets, int64_t prediction, int64_t vocabulary, StepOutputs& outputs) {
  const auto p = static_cast<size_t>(prediction);
  if (sets.kept[p] < 0) return nullptr;
  return outputs.logits[static_cast<size_t>(sets.streams[p])].data() + sets.kept[p] * vocabulary;
}

RowScores* kept_scores(const RowSets& sets, int64_t prediction, StepOutputs& outputs) {
  const auto p = static_cast<size_t>(prediction);
  if (sets.scored[p] < 0) return nullptr;
  return &outputs.scores[static_cast<size_t>(sets.streams[p])][static_cast<size_t>(sets.scored[p])];
}

std::optional<RowReader> row_reader(const StepInputs& in, const RowSets& sets, int64_t prediction) {
  const auto p = static_cast<size_t>(prediction);
  if (sets.scored[p] < 0) return {};
  const Stream& stream = in.streams[static_cast<size_t>(sets.streams[p])];
  return RowReader(stream.reading, stream.sampling.key(sets.positions[2][p]));
}

void read_scores(const StepInputs& in, const RowSets& sets, int64_t prediction, std::span<const float> logits,
                 StepOutputs& outputs) {
  std::optional<RowReader> reader = row_reader(in, sets, prediction);
  if (!reader) return;
  reader->read_all(logits);
  *kept_scores(sets, prediction, outputs) = reader->take();
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
    const double magnitude = rope.magnitude * rope.scale.at(p);
    for (const double frequency : rope.frequencies) {
      const double angle = static_cast<double>(p) * frequency;
      cos_.push_back(static_cast<float>(magnitude * std::cos(angle)));
      sin_.push_back(static_cast<float>(magnitude * std::sin(angle)));
    }
  }
}

const RopeTable& RopeTables::of(const Rope& rope, int64_t positions) {
  constexpr size_t kMost = 8;  // a model has one or two
  auto found = std::ranges::find_if(kept_, [&](const Kept& k) {
    return k.rope.magnitude == rope.magnitude && k.rope.scale == rope.scale && k.rope.frequencies == rope.frequencies;
  });
  if (found == kept_.end()) {
    if (kept_.size() >= kMost) kept_.pop_back();
    kept_.push_front({rope, {}});
  } else {
    kept_.splice(kept_.begin(), kept_, found);
  }
  kept_.front().table.extend(rope, positions);
  return kept_.front().table;
}

}  // namespace llada
