#include "engine/request_memory.h"

#include <algorithm>

#include "decode/length.h"
#include "decode/sampling.h"
#include "engine/canvas_lanes.h"
#include "engine/request.h"
#include "engine/score_jobs.h"
#include "forms/solve.h"

namespace llada {
namespace {

// What strategy, canvas, plans and results remember of a position of one sequence; and of a request whatever its size.
constexpr double kPositionBytes = 512, kRequestBytes = 64 << 10;
// Copies of an answer's parts that are there at a time: the request's own, the answer, the one for the handle.
constexpr double kAnswerCopies = 3;
constexpr double kAllocation = 32;  // what an allocation costs beside its bytes

double store_bytes(const Model& model, int64_t positions, bool guided) {
  const KvShape shape = kv_shape(model, positions, guided);
  const double places = static_cast<double>(positions) * shape.sequences;
  const auto heads = static_cast<double>(shape.heads());
  const auto digests = static_cast<double>(model.device().digest_bytes(shape));
  constexpr double kLine = 64;  // heads begin at cache lines
  return KvStore::needed_bytes(shape) + 2 * heads * kLine + places * sizeof(int64_t) +
         (digests > 0 ? digests + places * shape.layers : 0);
}

double score_bytes_of(int64_t positions, int64_t alternatives) {
  const double each = sizeof(TokenScore) + static_cast<double>(alternatives) * sizeof(TokenScore::Alternative);
  return static_cast<double>(positions) * (each + kAllocation);
}

// The form, which the store may have let go of; scores of two steps' rows, and what one takes while it is read; what
// the solver remembers of each position.
double form_bytes(const forms::TokenForm& form, double rows, int64_t positions) {
  constexpr double kReading = 2 * sizeof(ClassScore) + 32;
  return static_cast<double>(form.bytes()) + rows * static_cast<double>(form.classes().count()) * kReading +
         static_cast<double>(forms::Solver::bytes(form, positions));
}

// Rows whose logits a step keeps.
double kept_rows(const Model& model, const decode::DecodeOptions& o, int64_t positions) {
  if (const int64_t length = model.special_ids().uniform.length; length > 0) return static_cast<double>(length);
  const int64_t block = std::max(o.block_length, model.special_ids().attention_block);
  int64_t rows = block + (o.acceptance == decode::Acceptance::causal);  // its masks and looks; one token behind a draft
  if (decode::predicts_length(o, model.special_ids().attention_block)) rows += o.block_length;  // where an end may be
  if (o.mbsd) rows += std::max(decode::kMostDrafts, model.special_ids().attention_block);
  if (o.slide) rows = positions;
  rows = std::min(rows, positions);
  if (o.revision == decode::Revision::dual_path)
    rows += std::min(o.revise_rows, positions) * (o.revise_lateness == decode::kFused ? 1 : 2);
  return static_cast<double>(rows);
}

// Where a form reads logits and nobody keeps them: a stretch of each row on the CPU, whole rows on other devices.
double reading_bytes(const Model& model, double rows) {
  const bool on_cpu = model.device().info().name == "cpu";
  const int64_t columns = on_cpu ? TokenClasses::kStretch : model.config().vocab;
  return rows * static_cast<double>(columns) * sizeof(float);
}

// Over the vocabulary: so many rows, and what one row takes while a token is chosen from it.
double logits_bytes(const Model& model, double rows) {
  constexpr double kChoosing = 24;
  return static_cast<double>(model.config().vocab) * (rows * sizeof(float) + kChoosing);
}

}  // namespace

RequestBytes request_bytes(const Model& model, const Request& request, const forms::TokenForm* form,
                           int64_t positions) {
  const decode::DecodeOptions& o = request.options;
  const bool guided = o.cfg_scale > 0;
  const double store = store_bytes(model, positions, guided);
  double bytes = kRequestBytes + store;
  if (const int64_t first = first_positions(model, request, positions); first < positions)
    bytes += store_bytes(model, std::max(first, positions / 2), guided);
  // Extra rows beside a step: their keys and values are kept aside, before and after, and on a device that computes
  // them beside it they have a store of their own.
  if (o.revision == decode::Revision::dual_path && o.revise_lateness != decode::kFused) bytes += 3 * store;
  const bool uniform = model.special_ids().uniform.length > 0;
  const double rows = kept_rows(model, o, positions);
  if (decode::needs_logits(o) || decode::ranks_tokens(o) || request.alternatives > 0 || uniform)
    bytes += logits_bytes(model, rows);
  if (const auto asked = decode::form_of(o)) bytes += kAnswerCopies * static_cast<double>(asked->text.size());
  if (form != nullptr) bytes += form_bytes(*form, rows, positions) + reading_bytes(model, rows);
  // What a canvas is told of its last step: an id and a probability for any token.
  if (uniform) bytes += 2 * logits_bytes(model, rows);
  const double scores = request.alternatives > 0 ? score_bytes_of(positions, request.alternatives) : 0;
  // Undecided tokens are text too.
  const double text =
      static_cast<double>(positions) * static_cast<double>(std::max(model.longest_token(), kHole.size()));
  bytes += kAnswerCopies * scores + static_cast<double>(positions) * kPositionBytes * (guided ? 2 : 1);
  return {.positions = positions,
          .text = text,
          .computed = bytes + (kAnswerCopies + 1) * text,
          .result = text + static_cast<double>(positions) * sizeof(int32_t) + scores};
}

double score_bytes(const Model& model, const ScoreRequest& request, int64_t rows) {
  int64_t longest = 0;
  double tokens = 0, masked = 0;  // of all canvases: there is one for each token, which masks it and what follows
  for (const std::vector<int32_t>& text : request.continuations) {
    const auto length = static_cast<double>(text.size());
    longest = std::max<int64_t>(longest, std::ssize(text));
    tokens += length;
    masked += length * (length + 1) / 2;
  }
  const int64_t positions = canvas_positions(model, std::ssize(request.prompt), longest);
  const bool guided = request.options.cfg_scale > 0;
  const int64_t lanes = score_lanes(model, positions * (guided ? 2 : 1), rows);
  constexpr double kCanvas = 512;
  return kRequestBytes +
         static_cast<double>(lanes) *
             (store_bytes(model, positions, guided) + static_cast<double>(positions) * kPositionBytes) +
         logits_bytes(model, static_cast<double>(lanes)) + 2 * masked * sizeof(int32_t) + tokens * kCanvas +
         kAnswerCopies * score_bytes_of(static_cast<int64_t>(tokens), request.options.top);
}

double decide_bytes(const Model& model, const DecideSize& size, int64_t rows) {
  int64_t lanes = lanes_at_once(size.positions - size.shared, rows);
  if (size.shared > 0) lanes = std::min(lanes, kMostLanesWithPrefix);
  constexpr double kLabel = 1024;  // its text, its tokens, its place in the tree, its numbers
  return kRequestBytes +
         static_cast<double>(lanes) *
             (store_bytes(model, size.positions, false) + static_cast<double>(size.positions) * kPositionBytes) +
         logits_bytes(model, static_cast<double>(lanes * size.slots)) +
         kAnswerCopies *
             (static_cast<double>(size.tokens) * sizeof(int32_t) + static_cast<double>(size.labels) * kLabel);
}

}  // namespace llada
