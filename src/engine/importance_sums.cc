#include "engine/importance_sums.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/random.h"
#include "engine/model.h"
#include "engine/model_runner.h"
#include "memory/kv_store.h"
#include "models/model_graph.h"
#include "sched/executor.h"

namespace llada {
namespace {

// Where the blocks of a block-causal model attend to text before them, a canvas of all blocks at once stands for it.
KeyRule keys_of(const Model& model) {
  const ModelConfig& config = model.config();
  if (config.causal_text && config.attention_block > 0)
    return KeyRule::block_causal(static_cast<int32_t>(config.attention_block));
  return model.graph().keys;
}

bool is_multiplied(const Op& op) { return op.kind == OpKind::matmul || op.kind == OpKind::head; }

}  // namespace

double mask_rate(uint64_t seed, uint64_t number) { return uniform(seed, number, 0, kPositionDraw); }

std::vector<int32_t> masked_at_random(std::span<const int32_t> tokens, int32_t mask, double rate, uint64_t seed,
                                      uint64_t number) {
  std::vector<int32_t> canvas(tokens.begin(), tokens.end());
  for (size_t i = 0; i < canvas.size(); ++i)
    if (uniform(seed, number, i + 1, kPositionDraw) < rate) canvas[i] = mask;
  return canvas;
}

Importance::Importance(std::shared_ptr<const Model> model)
    : model_(std::move(model)), sums_(model_->graph().weights.size()) {}

Result<Importance> Importance::create(std::shared_ptr<const Model> model) {
  const ModelConfig& config = model->config();
  if (config.canvas.length > 0 || config.decided_first)
    return invalid("{}: found a {} model, needed one whose canvas holds masks and is read at once",
                   model->file().path(), model->architecture());
  if (model->special_ids().mask < 0) return invalid("{}: has no mask token, one needed", model->file().path());
  if (model->device().info().name != "cpu")
    return invalid("device: {} does not show its activations, needed cpu", model->device().info().name);
  return Importance(std::move(model));
}

Status Importance::add(std::span<const int32_t> canvas) {
  const auto rows = static_cast<int32_t>(canvas.size());
  LLADA_TRY(const auto program, build_with(model_->graph())(plain_shape(rows, rows)));
  LLADA_TRY(KvStore kv, KvStore::create(kv_shape(*model_, rows, false),
                                        [&](int64_t bytes) { return model_->device().allocate(bytes); }));
  StepInputs inputs;
  inputs.streams.push_back({.kv = &kv});
  std::vector<int32_t> positions(canvas.size());
  std::iota(positions.begin(), positions.end(), 0);
  append_span(inputs, {.begin = 0, .count = rows}, canvas, positions, keys_of(*model_), rows);
  inputs.wanted = positions;
  for (int32_t row = 0; row < rows; ++row) inputs.predictions.push_back({.conditional = row});
  LLADA_TRY_STATUS(check_step(inputs, kv_geometry(*program)));
  LLADA_TRY_STATUS(model_->device().supports(*program));
  return run(program, inputs);
}

// Op by op, so that each one's inputs are still there. The head's product itself is left out.
Status Importance::run(const std::shared_ptr<const Program>& shared, const StepInputs& inputs) {
  const Program& program = *shared;
  Device& device = model_->device();
  ExpertHost& host = *device.capabilities().experts;
  StepOutputs outputs;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    if (is_multiplied(op)) {
      const auto x = host.peek(program, op.in[0]);
      for (const WeightId weight : op.weight)
        if (weight != kNoWeight) add_rows(weight, x);
    }
    if (op.kind == OpKind::head) continue;
    LLADA_TRY(const Ticket ticket,
              device.submit({.program = shared, .first = i, .last = i + 1, .inputs = &inputs, .outputs = &outputs}));
    LLADA_TRY_STATUS(device.wait(ticket));
    if (op.kind == OpKind::experts) LLADA_TRY_STATUS(look_at_experts(program, op));
  }
  for (size_t id = 0; id < sums_.size(); ++id)
    if (!std::ranges::all_of(sums_[id].squares, [](double v) { return std::isfinite(v); }))
      return damaged("{}: inputs of {} are not finite numbers", model_->file().path(),
                     model_->graph().weights[id].name);
  return {};
}

Status Importance::look_at_experts(const Program& program, const Op& op) {
  ExpertHost& host = *model_->device().capabilities().experts;
  const auto x = host.peek(program, op.in[0]), gates = host.peek(program, op.in[1]);
  const auto width = static_cast<size_t>(program.values[static_cast<size_t>(op.in[0])].columns);
  const auto experts = static_cast<size_t>(op.experts);
  for (size_t e = 0; e < experts; ++e) {
    const auto of = [&](ExpertPart part) { return op.weight[static_cast<size_t>(part)] + static_cast<WeightId>(e); };
    int64_t rows = 0;
    for (size_t r = 0; r < gates.size() / experts; ++r) {
      if (gates[r * experts + e] == 0) continue;
      ++rows;
      add_rows(of(ExpertPart::gate), x.subspan(r * width, width));
      add_rows(of(ExpertPart::up), x.subspan(r * width, width));
    }
    const auto hidden = host.peek_hidden(program, static_cast<int>(e));
    const int64_t inner = model_->graph().weights[static_cast<size_t>(of(ExpertPart::down))].dims[0];
    if (std::ssize(hidden) != rows * inner)
      return failed("cpu: expert {} of layer {} shows {} values, {} needed", e, op.layer, hidden.size(), rows * inner);
    add_rows(of(ExpertPart::down), hidden);
  }
  return {};
}

void Importance::add_rows(WeightId weight, std::span<const float> rows) {
  const auto columns = static_cast<size_t>(model_->graph().weights[static_cast<size_t>(weight)].dims[0]);
  Sums& sums = sums_[static_cast<size_t>(weight)];
  sums.squares.resize(columns);
  for (size_t at = 0; at < rows.size(); at += columns, ++sums.count)
    for (size_t i = 0; i < columns; ++i) sums.squares[i] += static_cast<double>(rows[at + i]) * rows[at + i];
}

std::vector<ImatrixSums> Importance::sums() const {
  const std::vector<WeightInfo>& weights = model_->graph().weights;
  std::vector<ImatrixSums> all;
  for (size_t id = 0; id < weights.size(); ++id) {
    const WeightInfo& weight = weights[id];
    if (is_vector(weight) || !weight.multiplied) continue;
    if (weight.expert <= 0 || all.empty() || all.back().name != weight.name)
      all.push_back({.name = weight.name, .columns = weight.dims[0], .squares = {}, .counts = {}});
    std::vector<double> squares = sums_[id].squares;
    squares.resize(static_cast<size_t>(weight.dims[0]));
    for (const double value : squares) all.back().squares.push_back(static_cast<float>(value));
    all.back().counts.push_back(sums_[id].count);
  }
  return all;
}

}  // namespace llada
