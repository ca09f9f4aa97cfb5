// Failures of a step and of the forward beside it, in every order, on a device whose results are scripted.
#include "sched/executor.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>

namespace llada {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Where a device fails, and of which streams it gives no numbers.
struct Faults {
  bool submit = false, wait = false, submit_beside = false, wait_beside = false;
  bool without_memory = false;  // wait() throws
  std::vector<int32_t> damaged = {}, damaged_beside = {};
};

// Answers each prediction with its own number as the token, when it is waited for. Its host unit really runs beside.
class ScriptedDevice final : public Device, Beside {
 public:
  ScriptedDevice(int32_t number, bool two_units) : number_(number), two_units_(two_units) {}

  DeviceInfo info() const override { return {"device " + std::to_string(number_), "", 1, ""}; }
  Result<std::unique_ptr<Device>> share(int) const override { return failed("not shared"); }
  Status supports(const Program&) const override { return {}; }
  Result<Ticket> submit(const Run& run) override {
    ++forwards;
    return queue(run, faults.submit, faults.wait, faults.damaged);
  }
  Result<Ticket> submit_beside(const Run& run) override {
    ++forwards_beside;
    return queue(run, faults.submit_beside, faults.wait_beside, faults.damaged_beside);
  }
  bool overlaps() const override { return true; }
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
  Capabilities capabilities() override { return {.beside = two_units_ ? this : nullptr}; }
  PhaseTimes take_phase_times() override { return {}; }
  int64_t memory_bytes() const override { return 0; }
  void set_trace(Trace*) override {}

  bool idle() const { return under_way_.empty(); }

  Faults faults;
  int forwards = 0, forwards_beside = 0;

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
  const StepInputs step_ = step_of(3), beside_ = step_of(2);
  StepOutputs out_, out_beside_;
};

// Whichever of the two fails, and wherever: what failed is computed by the fallback, what did not keeps its results,
// and both have results.
TEST_F(ExecutorFailures, OfTheStepAndBesideItEachOrder) {
  for (int which = 0; which < 16; ++which) {
    ScriptedDevice first{1, true}, second{2, false};
    first.faults = {.submit = (which & 1) != 0,
                    .wait = (which & 2) != 0,
                    .submit_beside = (which & 4) != 0,
                    .wait_beside = (which & 8) != 0};
    std::vector<std::string> warnings;
    Executor executor(first, one_op,
                      {.fallback = &second, .warn = [&](const std::string& line) { warnings.push_back(line); }});
    const Status begun = executor.run_beside(beside_, out_beside_);
    ASSERT_TRUE(begun) << which;
    const Status done = executor.run(step_, out_);
    ASSERT_TRUE(done) << which << ": " << done.error().message;
    const bool beside_failed = (which & 12) != 0, step_failed = (which & 3) != 0 || (which & 4) != 0;
    EXPECT_EQ(tokens_of(out_), std::vector<int32_t>(3, step_failed ? 2 : 1)) << which;
    EXPECT_EQ(tokens_of(out_beside_), std::vector<int32_t>(2, beside_failed ? 2 : 1)) << which;
    EXPECT_EQ(out_beside_.predictions[1].position, 11) << which;
    EXPECT_EQ(executor.fell_back(), which != 0) << which;
    EXPECT_EQ(warnings.size(), which != 0 ? 1u : 0u) << which;
    EXPECT_TRUE(first.idle()) << which << ": what runs beside is waited for before anything is given up";
    // The next step is computed by whoever is there now.
    ASSERT_TRUE(executor.run_beside(beside_, out_beside_)) << which;
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
      ASSERT_TRUE(executor.run_beside(beside_, out_beside_));
      const Status done = executor.run(step_, out_);
      ASSERT_FALSE(done);
      EXPECT_EQ(done.error().message, "device 2: wait");
      EXPECT_TRUE(executor.fell_back());
      EXPECT_TRUE(first.idle());
      second.faults = {};
      const int before = first.forwards + first.forwards_beside;
      ASSERT_TRUE(executor.run_beside(beside_, out_beside_));
      ASSERT_TRUE(executor.run(step_, out_));
      EXPECT_EQ(tokens_of(out_), std::vector<int32_t>(3, 2));
      EXPECT_EQ(tokens_of(out_beside_), std::vector<int32_t>(2, 2));
      EXPECT_EQ(first.forwards + first.forwards_beside, before) << "a device that was left is not asked again";
    }
}

TEST_F(ExecutorFailures, WithoutAFallbackNothingStaysUnderWay) {
  Executor executor(first_, one_op);
  first_.faults = {.wait_beside = true};
  ASSERT_TRUE(executor.run_beside(beside_, out_beside_));
  Status done = executor.run(step_, out_);
  ASSERT_FALSE(done) << "the failure beside the step is not lost";
  EXPECT_EQ(done.error().message, "device 1: wait");
  first_.faults = {.submit = true};
  ASSERT_TRUE(executor.run_beside(beside_, out_beside_));
  done = executor.run(step_, out_);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message, "device 1: submit");
  EXPECT_TRUE(first_.idle());
  first_.faults = {};
  ASSERT_TRUE(executor.run(step_, out_));
  EXPECT_EQ(tokens_of(out_), std::vector<int32_t>(3, 1));
}

// Damaged numbers are no failure of the device: nobody leaves it, nothing is computed twice.
TEST_F(ExecutorFailures, DamagedNumbersAreTheirStreamsAlone) {
  Executor executor(first_, one_op, with_fallback());
  first_.faults = {.damaged = {1}, .damaged_beside = {0}};
  std::vector<Status> streams, streams_beside;
  ASSERT_TRUE(executor.run_beside(beside_, out_beside_, &streams_beside));
  ASSERT_TRUE(executor.run(step_, out_, &streams));
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
  ASSERT_TRUE(executor.run_beside(beside_, out_beside_));
  Status done = executor.run(step_, out_);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().kind, ErrorKind::data);
  first_.faults = {.damaged_beside = {1}};
  ASSERT_TRUE(executor.run_beside(beside_, out_beside_));
  done = executor.run(step_, out_, &streams);
  ASSERT_FALSE(done) << "of the forward beside";
  EXPECT_EQ(done.error().kind, ErrorKind::data);
  EXPECT_FALSE(executor.fell_back());
}

// The machine has no memory for the step or the one beside it: an error of both, and no failure of the device.
TEST_F(ExecutorFailures, WithoutMemoryIsAnErrorAndTheDeviceStays) {
  Executor executor(first_, one_op, with_fallback());
  for (const bool beside : {false, true}) {
    first_.faults.without_memory = true;
    if (beside) {
      ASSERT_TRUE(executor.run_beside(beside_, out_beside_));
    }
    const Status done = executor.run(step_, out_);
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
  std::vector<Status> streams, streams_beside;
  ASSERT_TRUE(executor.run_beside(beside_, out_beside_, &streams_beside));
  ASSERT_TRUE(executor.run(step_, out_, &streams));
  EXPECT_TRUE(streams[0] && streams[1] && streams[2]);
  EXPECT_EQ(tokens_of(out_), std::vector<int32_t>(3, 2));
  EXPECT_FALSE(streams_beside[0]);
  EXPECT_TRUE(executor.fell_back());
}

}  // namespace
}  // namespace llada
