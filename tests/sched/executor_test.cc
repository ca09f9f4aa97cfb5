// Failures of a step and of the forward beside it, in every order, on a device whose results are scripted.
#include "sched/executor.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <set>
#include <utility>

#include "failing/stub_device.h"
#include "must.h"

namespace llada {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Where a device fails, and of which streams it gives no numbers.
struct Faults {
  bool submit = false, wait = false, submit_side_pass = false, wait_beside = false;
  bool without_memory = false;  // wait() throws
  std::vector<int32_t> damaged = {}, damaged_beside = {};
};

// Answers each prediction with its own number as the token, when it is waited for. Its host unit really runs beside.
class ScriptedDevice final : public StubDevice, SidePasses {
 public:
  ScriptedDevice(int32_t number, bool two_units) : number_(number), two_units_(two_units) {}

  DeviceInfo info() const override { return {"device " + std::to_string(number_), "", 1, ""}; }
  Result<Ticket> submit(const Run& run) override {
    ++forwards;
    return queue(run, faults.submit, faults.wait, faults.damaged);
  }
  Result<Ticket> submit_side_pass(const Run& run) override {
    ++forwards_beside;
    if (!only_time) return queue(run, faults.submit_side_pass, faults.wait_beside, faults.damaged_beside);
    run.outputs->predictions.assign(run.inputs->predictions.size(), {.token = number_, .probability = 0.5});
    return queue({.program = run.program, .inputs = run.inputs, .outputs = &unused_}, false, faults.wait_beside, {});
  }
  bool ready(Ticket) override { return there; }
  bool overlaps() const override { return !only_time; }
  Status wait(Ticket ticket) override {
    const auto found = under_way_.extract(ticket);
    if (found.empty()) return {};
    const Job& job = found.mapped();
    if (faults.without_memory) throw std::bad_alloc();
    if (job.fails) return failed("{}: wait", info().name);
    job.run.outputs->predictions.clear();
    for (const PredictedRow& p : job.run.inputs->predictions) {
      const int32_t stream = job.run.inputs->wanted[static_cast<size_t>(p.conditional)];  // one row for each
      const bool damaged = std::ranges::count(job.damaged, stream) > 0;
      job.run.outputs->predictions.push_back({.token = number_, .probability = damaged ? kNan : 0.5});
    }
    return {};
  }
  Capabilities capabilities() override { return {.side_passes = two_units_ ? this : nullptr}; }

  bool idle() const { return under_way_.empty(); }

  Faults faults;
  int forwards = 0, forwards_beside = 0;
  bool there = false;      // what was begun beside has ended
  bool only_time = false;  // passes beside are computed at once, and take time

 private:
  struct Job {
    Run run;
    bool fails;
    std::vector<int32_t> damaged;
  };
  Result<Ticket> queue(const Run& run, bool refused, bool fails, const std::vector<int32_t>& damaged) {
    if (refused) return failed("{}: submit", info().name);
    under_way_.emplace(++tickets_, Job{run, fails, damaged});
    return tickets_;
  }
  const int32_t number_;
  const bool two_units_;
  std::map<Ticket, Job> under_way_;
  StepOutputs unused_;
  Ticket tickets_ = 0;
};

// Every stream has one row, which wants a prediction.
StepInputs step_of(int32_t streams) {
  StepInputs in;
  in.streams.resize(static_cast<size_t>(streams));
  for (int32_t s = 0; s < streams; ++s) {
    in.spans.push_back({.begin = s, .count = 1, .stream = s});
    in.tokens.push_back(7), in.positions.push_back(10 + s), in.ranges.push_back({0, 20});
    in.wanted.push_back(s);
    in.predictions.push_back({.conditional = s});
  }
  return in;
}

Result<std::shared_ptr<const Program>> one_op(StepShape shape) {
  auto program = std::make_shared<Program>();
  program->shape = shape;
  program->ops = {{.kind = OpKind::embed}};
  return program;
}

std::vector<int32_t> tokens_of(const StepOutputs& outputs) {
  std::vector<int32_t> tokens;
  for (const Prediction& p : outputs.predictions) tokens.push_back(p.token);
  return tokens;
}

class ExecutorFailures : public testing::Test {
 protected:
  ExecutorOptions with_fallback() {
    return {.fallback = &second_, .warn = [this](const std::string& line) { warnings_.push_back(line); }};
  }
  ScriptedDevice first_{1, true}, second_{2, false};
  std::vector<std::string> warnings_;
  // A pass of two streams, begun.
  static std::shared_ptr<SidePass> begin(Executor& executor) {
    auto pass = std::make_shared<SidePass>();
    pass->inputs = step_of(2);
    EXPECT_TRUE(executor.begin_side_pass(pass));
    return pass;
  }
  const StepInputs step_ = step_of(3);
  StepOutputs out_;
};

// Whichever of the two fails, and wherever: what failed is computed by the fallback, what did not keeps its results,
// and both have results.
TEST_F(ExecutorFailures, OfTheStepAndBesideItEachOrder) {
  for (int which = 0; which < 16; ++which) {
    ScriptedDevice first{1, true}, second{2, false};
    first.faults = {.submit = (which & 1) != 0,
                    .wait = (which & 2) != 0,
                    .submit_side_pass = (which & 4) != 0,
                    .wait_beside = (which & 8) != 0};
    std::vector<std::string> warnings;
    Executor executor(first, one_op,
                      {.fallback = &second, .warn = [&](const std::string& line) { warnings.push_back(line); }});
    const auto pass = begin(executor);
    const Status done = executor.run(step_, out_);
    ASSERT_TRUE(done) << which << ": " << done.error().message;
    ASSERT_TRUE(executor.join(*pass)) << which;
    const StepOutputs& out_beside_ = pass->outputs;
    const bool beside_failed = (which & 12) != 0, step_failed = (which & 3) != 0 || (which & 4) != 0;
    EXPECT_EQ(tokens_of(out_), std::vector<int32_t>(3, step_failed ? 2 : 1)) << which;
    EXPECT_EQ(tokens_of(out_beside_), std::vector<int32_t>(2, beside_failed ? 2 : 1)) << which;
    EXPECT_EQ(out_beside_.predictions[1].position, 11) << which;
    EXPECT_EQ(executor.fell_back(), which != 0) << which;
    EXPECT_EQ(warnings.size(), which != 0 ? 1u : 0u) << which;
    EXPECT_TRUE(first.idle()) << which << ": what runs beside is waited for before anything is given up";
    // The next step is computed by whoever is there now.
    begin(executor);
    ASSERT_TRUE(executor.run(step_, out_)) << which;
    EXPECT_EQ(tokens_of(out_), std::vector<int32_t>(3, which != 0 ? 2 : 1)) << which;
  }
}

// One error, and an executor that goes on with the fallback as soon as that works.
TEST_F(ExecutorFailures, OfTheFallbackToo) {
  for (const bool step_fails : {false, true})
    for (const bool beside_fails : {false, true}) {
      if (!step_fails && !beside_fails) continue;
      ScriptedDevice first{1, true}, second{2, false};
      first.faults = {.wait = step_fails, .wait_beside = beside_fails};
      second.faults = {.wait = true};
      Executor executor(first, one_op, {.fallback = &second, .warn = {}});
      auto pass = begin(executor);
      const Status done = executor.run(step_, out_), landed = executor.join(*pass);
      EXPECT_EQ(done.has_value(), !step_fails);
      EXPECT_EQ(landed.has_value(), !beside_fails);
      EXPECT_EQ((step_fails ? done : landed).error().message, "device 2: wait");
      EXPECT_TRUE(executor.fell_back());
      EXPECT_TRUE(first.idle());
      second.faults = {};
      const int before = first.forwards + first.forwards_beside;
      pass = begin(executor);
      ASSERT_TRUE(executor.run(step_, out_));
      ASSERT_TRUE(executor.join(*pass));
      EXPECT_EQ(tokens_of(out_), std::vector<int32_t>(3, 2));
      EXPECT_EQ(tokens_of(pass->outputs), std::vector<int32_t>(2, 2));
      EXPECT_EQ(first.forwards + first.forwards_beside, before) << "a device that was left is not asked again";
    }
}

TEST_F(ExecutorFailures, WithoutAFallbackAPassHasAnErrorOfItsOwn) {
  Executor executor(first_, one_op);
  first_.faults = {.wait_beside = true};
  auto pass = begin(executor);
  ASSERT_TRUE(executor.run(step_, out_)) << "the step is not the pass";
  EXPECT_EQ(why_not(executor.join(*pass)), "device 1: wait");
  first_.faults = {.submit = true};
  pass = begin(executor);
  EXPECT_EQ(why_not(executor.run(step_, out_)), "device 1: submit");
  first_.faults = {};
  ASSERT_TRUE(executor.join(*pass)) << "it goes on without the step";
  EXPECT_TRUE(first_.idle());
  ASSERT_TRUE(executor.run(step_, out_));
  EXPECT_EQ(tokens_of(out_), std::vector<int32_t>(3, 1));
}

// A pass that takes long holds up no step; whoever lands it waits for it, and so does the end.
TEST_F(ExecutorFailures, ASlowPassIsNotWaitedFor) {
  Executor executor(first_, one_op);
  const auto pass = begin(executor), behind = begin(executor);
  for (int step = 0; step < 3; ++step) {
    ASSERT_TRUE(executor.run(step_, out_));
    EXPECT_FALSE(executor.is_ready(*pass));
    EXPECT_TRUE(pass->outputs.predictions.empty());
  }
  first_.there = true;
  EXPECT_TRUE(executor.is_ready(*pass));
  ASSERT_TRUE(executor.join(*pass));
  EXPECT_EQ(tokens_of(pass->outputs), std::vector<int32_t>(2, 1));
  EXPECT_FALSE(first_.idle());
  executor.drain();
  EXPECT_TRUE(first_.idle());
}

// The numbers of a pass that has only emulated time left are there, whatever becomes of the device.
TEST_F(ExecutorFailures, OfEmulatedTimeLosesNoNumbers) {
  for (const bool step_fails : {false, true}) {
    ScriptedDevice first{1, true}, second{2, false};
    first.only_time = true;
    first.faults = {.submit = step_fails, .wait_beside = true};
    Executor executor(first, one_op, {.fallback = &second, .warn = {}});
    const auto pass = begin(executor);
    ASSERT_TRUE(executor.run(step_, out_));
    const Status landed = executor.join(*pass);
    ASSERT_TRUE(landed) << landed.error().message;
    EXPECT_EQ(tokens_of(pass->outputs), std::vector<int32_t>(2, 1));
    EXPECT_EQ(tokens_of(out_), std::vector<int32_t>(3, step_fails ? 2 : 1));
    EXPECT_TRUE(executor.fell_back());
  }
}

// Damaged numbers are no failure of the device: nobody leaves it, nothing is computed twice.
TEST_F(ExecutorFailures, DamagedNumbersAreTheirStreamsAlone) {
  Executor executor(first_, one_op, with_fallback());
  first_.faults = {.damaged = {1}, .damaged_beside = {0}};
  std::vector<Status> streams;
  const auto pass = begin(executor);
  ASSERT_TRUE(executor.run(step_, out_, &streams));
  ASSERT_TRUE(executor.join(*pass));
  const std::vector<Status>& streams_beside = pass->streams;
  ASSERT_EQ(streams.size(), 3u);
  ASSERT_EQ(streams_beside.size(), 2u);
  EXPECT_TRUE(streams[0] && !streams[1] && streams[2]);
  EXPECT_TRUE(!streams_beside[0] && streams_beside[1]);
  EXPECT_EQ(streams[1].error().kind, ErrorKind::data);
  EXPECT_EQ(streams[1].error().message,
            "device 1: the logits of position 11 are not finite; the weights or the activations are damaged");
  EXPECT_EQ(tokens_of(out_), std::vector<int32_t>(3, 1));
  EXPECT_EQ(first_.forwards, 1);
  EXPECT_EQ(first_.forwards_beside, 1);
  EXPECT_FALSE(executor.fell_back());
  EXPECT_TRUE(warnings_.empty());

  // Whoever does not ask for the streams hears of the first of them.
  const Status done = executor.run(step_, out_);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().kind, ErrorKind::data);
  EXPECT_FALSE(executor.fell_back());
}

// The machine has no memory for the step or the one beside it: an error of both, and no failure of the device.
TEST_F(ExecutorFailures, WithoutMemoryIsAnErrorAndTheDeviceStays) {
  Executor executor(first_, one_op, with_fallback());
  for (const bool beside : {false, true}) {
    first_.faults.without_memory = true;
    const auto pass = beside ? begin(executor) : nullptr;
    const Status done = beside ? executor.join(*pass) : executor.run(step_, out_);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().kind, ErrorKind::memory);
    first_.faults = {};
    ASSERT_TRUE(executor.run(step_, out_));
    EXPECT_TRUE(first_.idle());
  }
  EXPECT_FALSE(executor.fell_back());
}

// A device that breaks while numbers are damaged elsewhere: the failure is what counts.
TEST_F(ExecutorFailures, ADamagedStreamBesideAFailingDevice) {
  Executor executor(first_, one_op, with_fallback());
  first_.faults = {.wait = true, .damaged_beside = {0}};
  std::vector<Status> streams;
  const auto pass = begin(executor);
  ASSERT_TRUE(executor.run(step_, out_, &streams));
  ASSERT_TRUE(executor.join(*pass));
  EXPECT_TRUE(streams[0] && streams[1] && streams[2]);
  EXPECT_EQ(tokens_of(out_), std::vector<int32_t>(3, 2));
  EXPECT_FALSE(pass->streams[0]);
  EXPECT_TRUE(executor.fell_back());
}

// Says that it maps six slabs at a time, and maps fewer.
class NarrowDevice final : public StubDevice, Window {
 public:
  static constexpr int64_t kSlab = 1 << 16;
  static constexpr int kSlabs = 8;
  explicit NarrowDevice(size_t really) : really_(really) {}

  Result<Ticket> submit(const Run& run) override {
    for (size_t i = run.first; i < run.last; ++i)
      if (mapped_.count(run.program->ops[i].weight[0]) == 0) return failed("op {}: its slab is not mapped", i);
    run.outputs->predictions.assign(run.inputs->predictions.size(), {.token = 5, .probability = 0.5});
    return 1;
  }
  DeviceWindow window() const override {
    return {.weight_bytes = window_ * kSlab, .sessions = 1, .cuts_slabs = false, .page_bytes = 4096};
  }
  std::vector<int64_t> weight_sizes() const override { return std::vector<int64_t>(kSlabs, kSlab); }
  Status define_slabs(std::vector<DeviceSlab> slabs) override {
    slabs_ = std::move(slabs);
    mapped_.clear();
    return {};
  }
  Status map(int slab, MapMode) override {
    if (mapped_.size() >= really_) {
      refused_ = true;
      return failed("slab {} was refused", slab);
    }
    mapped_.insert(slabs_[static_cast<size_t>(slab)].weights[0]);
    return {};
  }
  Status unmap(int slab) override {
    mapped_.erase(slabs_[static_cast<size_t>(slab)].weights[0]);
    return {};
  }
  std::string narrow() override {
    if (!std::exchange(refused_, false)) return {};
    return fmt::format("a window of {}", --window_);
  }
  Capabilities capabilities() override { return {.window = this}; }

 private:
  const size_t really_;
  int64_t window_ = 6;
  bool refused_ = false;
  std::vector<DeviceSlab> slabs_;
  std::set<WeightId> mapped_;
};

TEST_F(ExecutorFailures, ARefusedMappingIsPlannedAgainBeforeAnythingFallsBack) {
  const auto build = [](StepShape shape) -> Result<std::shared_ptr<const Program>> {
    auto program = std::make_shared<Program>();
    program->shape = shape;
    for (int w = 0; w < NarrowDevice::kSlabs; ++w) {
      Op op{.kind = OpKind::rms_norm};
      op.weight[0] = w;
      program->ops.push_back(op);
    }
    return program;
  };
  for (const auto& [really, said] :
       {std::pair<size_t, std::string>{6, ""}, {4, "a window of 4"}, {1, "a window of 1"}}) {
    NarrowDevice device(really);
    warnings_.clear();
    ExecutorOptions options = with_fallback();
    options.memory.grain = SlabGrain::op;
    Executor executor(device, build, options);
    for (int step = 0; step < 3; ++step) {
      const Status status = executor.run(step_, out_);
      ASSERT_TRUE(status) << status.error().message;
      EXPECT_EQ(tokens_of(out_), std::vector<int32_t>(3, 5));
    }
    EXPECT_FALSE(executor.fell_back());
    EXPECT_EQ(warnings_, said.empty() ? std::vector<std::string>{} : std::vector<std::string>{said});
  }
  // Nothing can be mapped: the first refusal is the reason.
  NarrowDevice device(0);
  warnings_.clear();
  ExecutorOptions options = with_fallback();
  options.memory.grain = SlabGrain::op;
  Executor executor(device, build, options);
  ASSERT_TRUE(executor.run(step_, out_));
  EXPECT_TRUE(executor.fell_back());
  EXPECT_EQ(tokens_of(out_), std::vector<int32_t>(3, 2));
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_TRUE(warnings_[0].ends_with(" was refused; this step and all later ones run on device 2")) << warnings_[0];
}

}  // namespace
}  // namespace llada
