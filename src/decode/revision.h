// Checks of committed tokens. A reviser says which visible tokens a step predicts again, and turns the answers into
// edits. In runs that sample, the noise of a position is drawn once (draws_once() in sampling.h), so that a prediction
// differs from the one before only where the model's logits do.
//
// There are two ways to check. A trial computes a row with the mask at the token's own position (Trial in types.h), so
// the other tokens alone give the answer. A check in place reads the prediction of the token's own row with the token
// there, which only a model trained for it answers well.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "decode/blocks.h"
#include "decode/choice.h"
#include "decode/types.h"

namespace llada::decode {

struct DecodeOptions;
struct Field;

// Whether, and how, committed tokens are checked again (revision.h).
enum class Revision {
  none,         // a commit is final
  dual_path,    // Dual-Path Progressive Revision: visible tokens are predicted again with themselves masked
  edit,         // LLaDA2.1: another token is written over a visible one when its probability is high enough
  levenshtein,  // LLaDA2.2: as edit, and tokens may go or make room for others (levenshtein.h)
};
// Ways that check in place; then a confidence must exceed the threshold, not only reach it.
constexpr bool edits_in_place(Revision r) { return r == Revision::edit || r == Revision::levenshtein; }
// Whether `way` reads the options of `other`.
constexpr bool reads_options_of(Revision way, Revision other) {
  return way == other || (edits_in_place(way) && other == Revision::edit);
}

inline constexpr std::string_view kRevisionWords[] = {"none", "dual-path", "edit", "levenshtein"};
constexpr Words words(Revision) { return kRevisionWords; }
// Where the checks of dual_path run. kFused: as extra rows of the step's own forward. N >= 0: in a sparse pass beside
// the steps, whose results land N steps later. kReady: in one that lands at the end of the first step that finds it
// done.
inline constexpr int64_t kReady = -1, kFused = -2;

// stable_threshold, revise_*: dual_path.
struct RevisionOptions {
  Revision revision = Revision::none;
  double stable_threshold = 0.9;     // in [0, 1]: a confidence of this or more is final
  int64_t revise_lateness = kFused;  // or kReady, whose answers depend on the machine's speed, or 0 to 64 steps
  int64_t revise_rows = 4;           // tokens checked per step
  double edit_threshold = 0.5;       // in [0, 1]: another token above it is written over a visible one
  int64_t edit_steps = 16;           // forwards per block for edits alone
};
std::span<const Field> revision_fields();

struct Checks {
  std::vector<int32_t> trials;    // positions, ascending
  std::vector<int32_t> in_place;  // positions of the current block, ascending
};

class Reviser {
 public:
  virtual ~Reviser() = default;

  virtual void enter(const Block&) {}  // the next steps are of this block

  // The state of a token committed with this confidence.
  virtual TokenState first_state(double confidence) const = 0;

  // The checks of a step of the block.
  virtual Checks checks(const Canvas& canvas, const Block& block) = 0;

  // StepPlan::ranked of the step.
  virtual int32_t ranked(const Canvas&, const Block&) const { return 0; }

  // Receives the step's results before its masks are decided.
  virtual void answered(const Canvas&, const Block&, const StepResult&) {}
  // How many masks a rule with a threshold commits at least in the step.
  virtual int64_t least_commits() const { return 1; }

  // `seen` are the predictions that checks() asked for, trials before in_place, with the position that was checked.
  // pending: a sparse pass has not landed yet. edits (ascending) holds the step's commits in their first state; merge()
  // may change, drop or add edits.
  virtual void merge(const Canvas& canvas, const Block& block, std::span<const Prediction> seen, bool pending,
                     std::vector<Edit>& edits) = 0;

  // Whether a last step waits for the pass under way: all text is decided, and some of it may still change.
  virtual bool waits(const Canvas&) const { return false; }

  // Whether the block needs another step although it has no mask.
  virtual bool keeps_open(const Canvas&, const Block&) const { return false; }

  // No run over `masks` masks in `blocks` blocks takes more steps.
  virtual int64_t step_bound(int64_t masks, int64_t blocks) const = 0;

  int64_t made() const { return made_; }
  int64_t changed() const { return changed_; }

 protected:
  int64_t made_ = 0;     // tokens checked
  int64_t changed_ = 0;  // of them, those that did not stay
};

// Null for Revision::none.
std::unique_ptr<Reviser> make_reviser(const DecodeOptions& options, const SpecialIds& ids, const Canvas& canvas);

// ---- Shared by revisers

Canvas with_edits(const Canvas& canvas, std::span<const Edit> edits);

// Adds an edit, or replaces the one at its position; edits stay ascending.
void put(std::vector<Edit>& edits, const Edit& edit);

// When the edits leave no mask in the block: every visible token of it becomes stable.
void finish_block(const Canvas& canvas, const Block& block, std::vector<Edit>& edits);

}  // namespace llada::decode
