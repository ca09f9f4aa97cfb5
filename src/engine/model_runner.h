// The model's side of decoding steps: turns the plans of one or many requests into the inputs of one forward, runs it,
// hands back to each request its own results. These do not depend on who else is in its forwards.
//
// A sparse pass sees the canvas and the K/V as they are when it begins. Its results are kept aside until it lands, at
// the end of that step or of a later one. Where the device has one unit it is computed before the step's own rows;
// where it has two, on the host beside this step and later ones (Executor::begin_side_pass). A device that really does
// both at a time gets a second K/V store for it, a copy that the pass reads and writes. The copy is updated after every
// step in which no pass is under way. So results do not depend on the device, nor on how long a pass takes, unless the
// plan asks for those that are there.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/trace.h"
#include "decode/denoiser.h"
#include "engine/model.h"
#include "memory/kv_store.h"
#include "sched/executor.h"

namespace llada {

class PrefixCache;

// Builds and verifies the programs of a graph, which must outlive it.
Executor::Build build_with(const ModelGraph& graph);

// The K/V of a canvas of so many positions; guided: with a second sequence for the unconditional rows. F16 halves the
// bytes that attention reads. Where all stored weights are floats the store is exact too, so that the float path
// reproduces a reference implementation.
KvShape kv_shape(const ModelFile& file, const ModelGraph& graph, int64_t positions, bool guided);
KvShape kv_shape(const Model& model, int64_t positions, bool guided);

// A request's part of a sparse pass under way.
struct SparsePart {
  std::shared_ptr<SidePass> pass;  // shared with the requests whose passes began in the same forward
  size_t stream = 0, first = 0;    // in the pass: its stream, and its first prediction
  int64_t forward = 0;             // its number
  std::vector<int32_t> rows;       // whose K/V it computes
  size_t trials = 0;
  KvStore::Saved refreshed = {};  // of a pass over the request's own store: the K/V that it computed
};

// The state that a request keeps from one forward to the next.
struct RequestState {
  // A store of `positions`; guided reserves a second K/V sequence for the unconditional rows. The device outlives it.
  static Result<RequestState> create(const Model& model, Device& device, int64_t positions, bool guided,
                                     SamplingRule rule);
  // Between two forwards: keys and values of `keys` positions at least. A store that is too small grows to twice its
  // size behind the prompt.
  Status make_room(int64_t keys);

  Device* device;
  KvStore kv;
  int64_t prompt = 0, most_positions = 0;  // of the canvas; most: the longest that it may become
  SamplingRule sampling = {};
  bool keep_logits = false;
  bool every_row = false;  // keeps the logits of vocabulary rows without a text; false: they are far below all others
  ClassReading reading = {};  // of a form, for StepResult::scores
  // Logits of the last forward, where they are kept, x vocabulary: predictions, then trials; sparse trials.
  std::vector<float> logits = {}, sparse_logits = {};
  SoftTokens soft = {};  // of the last tempered forward: soft tokens for the rows of a plan that is `conditioned`
  std::optional<SparsePart> sparse = {};
  // On a device that runs sparse passes beside steps: a copy of kv, equal before every step but at `outdated`.
  std::shared_ptr<KvStore> side_kv = {};
  std::vector<int32_t> outdated = {};  // positions, ascending
};

// One request's part of a forward: its denoiser's next plan, and the results. A sparse plan that is not empty has the
// forward number after the step's own.
struct RequestStep {
  decode::Denoiser* denoiser;
  RequestState* state;  // no other step's
  // Set by ModelRunner::run():
  const decode::StepPlan* plan = nullptr;  // null: the denoiser had none
  Status status = {};                      // of this request alone
  decode::StepResult result = {};
};

// Work that takes part in shared forwards, as the driver of the forwards sees it: it plans its steps and takes their
// results. A generation is one kind (request.h), a score another (likelihood.h).
class ForwardJob {
 public:
  ForwardJob() = default;
  virtual ~ForwardJob() = default;
  ForwardJob(const ForwardJob&) = delete;
  ForwardJob& operator=(const ForwardJob&) = delete;

  // Makes its first K/V store on the device, which outlives the job; once, before the first plan. prefixes may be null.
  virtual Status allocate(Device& device, PrefixCache* prefixes) = 0;
  virtual bool done() const = 0;
  virtual void cancel() = 0;  // done after this

  // Its steps of the next forward: one, and further ones as long as all have at most `rows` rows together. A step whose
  // result is not taken is asked for again. Not while done().
  virtual std::vector<RequestStep> steps(int64_t rows) = 0;
  // Takes the result of one of them, which has no error. prefixes: as in allocate(); null where another device computed
  // than the one that prefixes are kept for.
  virtual Status take(RequestStep& step, double device_seconds, PrefixCache* prefixes) = 0;
};

class ModelRunner {
 public:
  ModelRunner(const Model& model, Device& device, Trace* trace, ExecutorOptions executor);
  ~ModelRunner();
  ModelRunner(const ModelRunner&) = delete;
  ModelRunner& operator=(const ModelRunner&) = delete;

  // Runs one forward over all steps without an error, or two: over those that encode, and over the others. Numbers that
  // are not finite are an error of the requests that have them alone. Where memory runs out the steps are halved.
  void run(std::span<RequestStep> steps);
  // Waits for the passes under way. Not while a run is.
  void drain() { executor_.drain(); }

  bool device_broken() const { return device_broken_; }     // the last forward failed by its device
  bool fell_back() const { return executor_.fell_back(); }  // the device failed, its fallback took over
  // After a device has failed no prefixes are kept or used, since the other device may round otherwise. Null then.
  PrefixCache* usable(PrefixCache* prefixes) const { return fell_back() ? nullptr : prefixes; }
  const MoeStats* expert_stats() const { return executor_.expert_stats(); }
  double device_seconds() const { return device_seconds_; }

 private:
  void run_pass(std::span<RequestStep* const> left, Pass pass);
  Status forward(std::span<RequestStep* const> steps, Pass pass);
  Status begin_sparse(std::span<RequestStep* const> steps, bool beside);
  Status use_beside_store(RequestState& state);
  void land_sparse(RequestStep& step);

  const Model& model_;
  Executor executor_;
  Trace* trace_;
  StepInputs inputs_;
  StepOutputs outputs_;
  std::vector<Status> streams_;  // of the executor's last forward
  double device_seconds_ = 0;
  bool device_broken_ = false;
};

}  // namespace llada
