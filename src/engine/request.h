// A running generation request and its result. A Session runs one at a time, a Scheduler many in shared forwards; the
// answer is the same in both.
#pragma once
#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "decode/denoiser.h"
#include "decode/options.h"
#include "engine/gap_lengths.h"
#include "engine/model.h"
#include "engine/model_runner.h"
#include "engine/ready_request.h"
#include "engine/token_score.h"
#include "memory/prefix_cache.h"

namespace llada {

// Called after every step; false cancels the request.
using StepCallback = std::function<bool(const decode::StepEvent&)>;

// Progress of a prompt that is computed in pieces (kPromptPiece), on the thread that runs the request. done: positions
// with K/V, from a PrefixCache in the first call; total: positions of the prompt.
using PromptCallback = std::function<void(int64_t done, int64_t total)>;

// How one of the answers to a request is run.
struct AnswerRun {
  StepCallback on_step = {};      // may be empty
  PromptCallback on_prompt = {};  // may be empty
  uint64_t nth = 0;               // index of this answer among several; it is added to the request's seed
};

// Rows per piece, about, of a long prompt whose K/V depends on nothing behind it (chunked prefill). The pieces are
// computed before the first plan. Other requests run forwards between them, and memory for activations stays small.
// Results and counts are those of one piece.
inline constexpr int64_t kPromptPiece = 512;

struct GenerationStats {
  decode::RunStats decode;
  int64_t prompt_tokens = 0;
  int64_t content_tokens = 0;  // generated tokens before the end token
  double seconds = 0;          // measured wall clock of the denoising loop, waiting between forwards included
  double device_seconds = 0;   // of it, inside the device; a shared forward counts in full
  std::array<double, kOpKindCount> phase_ms{};  // by kind of op; filled by sessions alone
  int64_t kv_bytes = 0;
  int64_t reused_positions = 0;  // whose K/V came from a PrefixCache
  uint64_t canvas_hash = 0;
  std::optional<uint64_t> seed;  // where random numbers were used
  std::string device;
  std::optional<MoeStats> experts;        // filled by sessions, where experts are split between units
  std::optional<EmulatedStats> emulated;  // of a simulated device; modelled, not measured

  // Content tokens alone: decode.committed also counts end tokens and padding.
  double tokens_per_forward() const {
    return decode.nfe > 0 ? static_cast<double>(content_tokens) / static_cast<double>(decode.nfe) : 0;
  }
  double content_tokens_per_s() const { return seconds > 0 ? static_cast<double>(content_tokens) / seconds : 0; }
  double ms_per_step() const { return decode.steps > 0 ? seconds * 1e3 / static_cast<double>(decode.steps) : 0; }
};

// The text of an unfinished answer from position `begin` to its end or last decided token, with kHole for each mask
// before that. When infilling it is the text of the whole canvas. Thoughts are left out, and put into `thoughts` where
// that is not null. calls: the answer may call tools (AnswerParts). The model has a tokenizer.
std::string text_so_far(const Model& model, const decode::Canvas& canvas, int64_t begin,
                        std::string* thoughts = nullptr, bool calls = false);

// The fixed tokens of a canvas; -1 at other positions.
std::vector<int32_t> given_tokens(const decode::Canvas& canvas);

inline constexpr std::string_view kHole = "\u2591";  // a light shade: a token that was never decided

struct Generation {
  // The generated region, tail included; with auto_length up to the end token. For infilling the whole canvas.
  std::vector<int32_t> tokens;
  std::string text;             // decoded content; for infilling the whole text. kHole for a mask with text behind it
  std::string thoughts = {};    // of a model with a channel for them (text/thoughts.h); not in the text
  std::string stopped_by = {};  // the one of Request::stop that was found; the tokens end with it, the text before it
  bool fits = false;            // the text is complete by the form, with or without an end token
  // One per token where alternatives were asked for, from the forward that decided it: by the softmax at temperature 1,
  // guidance applied. The token is -1 where that forward computed no logits of its position.
  std::vector<TokenScore> scores = {};
  std::vector<int64_t> gap_lengths = {};  // chosen for Request::auto_gaps
  GenerationStats stats;
};

// Why an answer ended: "stop" (an end token or a stop string), "length" (none came) or "interrupted".
std::string_view finish_reason(const Generation& generation);

// Invalid for a model without a mask token, whose scores and decisions cannot be read off forwards over masked texts.
Status check_readable(const Model& model);

// Shares of the model's device and its fallback with so many threads of their own; null with 0 threads: the model's
// devices are used themselves.
struct OwnDevices {
  std::unique_ptr<Device> device, fallback;
};
Result<OwnDevices> share_devices(const Model& model, int threads);
Device& device_of(const Model& model, const OwnDevices& own);
// The options of an executor over device_of(). warn may be empty.
ExecutorOptions executor_options(const Model& model, const OwnDevices& own,
                                 const std::function<void(const std::string&)>& warn);

class RunningRequest final : public ForwardJob {
 public:
  // threads: of the device, whose latency table may be measured for the options. So a run of the model must not be
  // under way on this thread (Model::begin_run).
  static Result<std::unique_ptr<RunningRequest>> create(std::shared_ptr<const Model> model, const Ready& ready,
                                                        int threads, AnswerRun run);

  // prefixes are used where the model and the options allow: a block-causal model, K/V policy `block` or `frozen`, no
  // guidance; or a model of random canvases, whose prompt is encoded causally.
  Status allocate(Device& device, PrefixCache* prefixes) override;
  bool done() const override { return denoiser_->done(); }
  void cancel() override { denoiser_->cancel(); }
  std::vector<RequestStep> steps(int64_t /*rows*/) override { return {{ahead_ ? &*ahead_ : &*denoiser_, &*state_}}; }
  Status take(RequestStep& step, double device_seconds, PrefixCache* prefixes) override;

  // Called once, when done: the answer, partial where the request was cancelled.
  Generation finish(const Device& device);

 private:
  RunningRequest(std::shared_ptr<const Model> model, const ReadyRequest& ready, AnswerRun run,
                 decode::DecodeOptions options, std::shared_ptr<decode::Strategy> strategy);
  struct Stop {
    int64_t tokens;  // of the answer, the stop string included
    size_t text;     // bytes before it
    std::string which;
  };
  // A choice of gap lengths that is under way, after which the canvas is laid again.
  struct Laying {
    GapChoice choice;
    decode::DecodeOptions measured;  // with the latency of the device
  };
  Status allocate_decoding(Device& device, PrefixCache* prefixes);
  void plan_candidate();
  Status take_candidate(RequestStep& step);
  std::span<const int32_t> tokens(int64_t count) const;
  void plan_ahead();
  void take_ahead(PrefixCache* prefixes);
  std::span<const float> logits_of(const decode::StepEvent& event, int32_t row) const;
  void keep_scores(const decode::StepEvent& event);
  const decode::SpecialIds& ids_in(const decode::StepPlan& plan) const;
  std::optional<Stop> find_stop(int64_t length) const;
  int64_t decided_answer() const;

  const std::shared_ptr<const Model> model_;
  const decode::DecodeOptions options_;
  const std::vector<std::string> stop_;
  const int64_t alternatives_;
  const AnswerRun run_;
  int64_t first_positions_;         // size of the K/V store when it is made
  std::vector<TokenScore> scores_;  // by position, where alternatives are kept
  const SamplingRule rule_;
  const decode::SpecialIds ids_, causal_ids_;           // of this run; of its steps whose rows are all causal
  const std::shared_ptr<const forms::TokenForm> form_;  // null: the answer is free
  const bool infill_, shares_prefix_;
  const int64_t prompt_tokens_;
  std::optional<decode::Denoiser> denoiser_;  // always there; a new one once the lengths of gaps are chosen
  std::optional<RequestState> state_;
  std::optional<PrefixCache::Cursor> cursor_;
  std::optional<decode::Denoiser> ahead_;           // runs the prompt's next piece or a candidate of gap lengths
  std::optional<Laying> laying_;                    // of a text with gaps of open length
  int64_t there_ = 0, pieces_end_ = 0, piece_ = 0;  // positions with K/V; the end of the last piece; rows of a piece
  GenerationStats stats_;
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace llada
