// Requests that are under way, and what comes of them. Each belongs to whoever runs it: a Session one at a time, a
// Scheduler many in shared forwards. Its answer is the same in both.
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

// What the live view and a server get after every step; false cancels.
using StepCallback = std::function<bool(const decode::StepEvent&)>;

// Of a prompt that is computed in pieces (kPromptPiece): positions whose K/V is there, first those that were kept, and
// those of the prompt. On the thread that runs the request.
using PromptCallback = std::function<void(int64_t done, int64_t total)>;

// How one of the answers to a request is run.
struct AnswerRun {
  StepCallback on_step = {};      // may be empty
  PromptCallback on_prompt = {};  // the same
  uint64_t nth = 0;               // of several answers: its seed is the request's plus this
};

// Where K/V of a prompt depends on nothing behind it, a longer one is computed in pieces of about so many rows before
// the first plan: other requests have their forwards between them, and memory for activations stays small. Results and
// counts are those of one piece, as a row does not know its batch.
inline constexpr int64_t kPromptPiece = 512;

struct GenerationStats {
  decode::RunStats decode;
  int64_t prompt_tokens = 0;
  int64_t content_tokens = 0;  // generated tokens before the end token
  double seconds = 0;          // measured wall clock of the denoising loop, waiting between forwards included
  double device_seconds = 0;   // of it inside the device; of a shared forward all of it
  std::array<double, kOpKindCount> phase_ms{};  // of a session; a shared forward is nobody's alone
  int64_t kv_bytes = 0;
  int64_t reused_positions = 0;  // whose K/V came from a PrefixCache
  uint64_t canvas_hash = 0;
  std::optional<uint64_t> seed;  // where random numbers took part
  std::string device;
  std::optional<MoeStats> experts;        // of a session, where they were shared out between units
  std::optional<EmulatedStats> emulated;  // of a device that lives in emulated time; modelled, not measured

  // Of the answer alone: padding behind its end is in decode.committed, and cost no forward that anybody wanted.
  double tokens_per_forward() const {
    return decode.nfe > 0 ? static_cast<double>(content_tokens) / static_cast<double>(decode.nfe) : 0;
  }
  double content_tokens_per_s() const { return seconds > 0 ? static_cast<double>(content_tokens) / seconds : 0; }
  double ms_per_step() const { return decode.steps > 0 ? seconds * 1e3 / static_cast<double>(decode.steps) : 0; }
};

// The text of an answer that is being decided (of the whole canvas when infilling), from position `begin` up to the end
// of the answer or its last decided token; kHole for a mask before that. What the model thinks is left out, and put
// into `thoughts` where that is not null. calls: it stands beside tools (AnswerParts). The model has a tokenizer.
std::string text_so_far(const Model& model, const decode::Canvas& canvas, int64_t begin,
                        std::string* thoughts = nullptr, bool calls = false);

// The tokens of a canvas that were given; -1 for the others.
std::vector<int32_t> given_tokens(const decode::Canvas& canvas);

inline constexpr std::string_view kHole = "\u2591";  // a light shade: a token that was never decided

struct Generation {
  // The generated region, tail included; with auto_length up to the end token. For infilling the whole canvas.
  std::vector<int32_t> tokens;
  std::string text;             // decoded content; for infilling the whole text. kHole for a mask with text behind it
  std::string thoughts = {};    // of a model that has a channel for them (text/thoughts.h); not in the text
  std::string stopped_by = {};  // which of Request::stop; the tokens end with it, the text before it
  bool fits = false;            // the form that was asked for: complete, also where it leaves no room for an end token
  // Of `tokens`, where alternatives were asked for: what the forward that decided each said of its position, by the
  // softmax at temperature 1, guidance applied. A token that was decided without a row of logits has the token -1.
  std::vector<TokenScore> scores = {};
  std::vector<int64_t> gap_lengths = {};  // of Request::auto_gaps
  GenerationStats stats;
};

// Why an answer ended: "stop" (an end token or a stop string), "length" (none came) or "interrupted".
std::string_view finish_reason(const Generation& generation);

// Whether scores and decisions can be read off single forwards over texts with masks.
Status check_readable(const Model& model);

// What computes: a share of the model's device and of its fallback with so many threads, or, with 0 threads and where
// these are null, the model's own.
struct OwnDevices {
  std::unique_ptr<Device> device, fallback;
};
Result<OwnDevices> share_devices(const Model& model, int threads);
Device& device_of(const Model& model, const OwnDevices& own);
// What an executor over device_of() is told. warn may be empty.
ExecutorOptions executor_options(const Model& model, const OwnDevices& own,
                                 const std::function<void(const std::string&)>& warn);

class RunningRequest final : public ForwardJob {
 public:
  // threads: of the device, whose latency table the options may ask for: then not while a run of the model is under way
  // on this thread (Model::begin_run).
  static Result<std::unique_ptr<RunningRequest>> create(std::shared_ptr<const Model> model, const Ready& ready,
                                                        int threads, AnswerRun run);

  // prefixes are used where the model and the options allow: a block-causal model, K/V policy `block` or `frozen`, no
  // guidance; or a model of random canvases, whose prompt is encoded causally.
  Status allocate(Device& device, PrefixCache* prefixes) override;
  bool done() const override { return denoiser_->done(); }
  void cancel() override { denoiser_->cancel(); }
  std::vector<RequestStep> steps(int64_t /*rows*/) override { return {{ahead_ ? &*ahead_ : &*denoiser_, &*state_}}; }
  Status take(RequestStep& step, double device_seconds, PrefixCache* prefixes) override;

  // Once done: the answer, or of a cancelled request what there is of it. Called once.
  Generation finish(const Device& device);

 private:
  RunningRequest(std::shared_ptr<const Model> model, const ReadyRequest& ready, AnswerRun run,
                 decode::DecodeOptions options, std::shared_ptr<decode::Strategy> strategy);
  struct Stop {
    int64_t tokens;  // of the answer, the stop string included
    size_t text;     // bytes before it
    std::string which;
  };
  // The choice of gaps' lengths under way, and what is needed to lay the canvas once more.
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
  int64_t first_positions_;         // of the K/V store
  std::vector<TokenScore> scores_;  // by position, where alternatives are kept
  const SamplingRule rule_;
  const decode::SpecialIds ids_, causal_ids_;           // behind the prompt; of a step whose rows are all causal
  const std::shared_ptr<const forms::TokenForm> form_;  // null: the answer is free
  const bool infill_, shares_prefix_;
  const int64_t prompt_tokens_;
  std::optional<decode::Denoiser> denoiser_;  // always there; a new one once the lengths of gaps are chosen
  std::optional<RequestState> state_;
  std::optional<PrefixCache::Cursor> cursor_;
  std::optional<decode::Denoiser> ahead_;           // of the prompt's next piece or a candidate, while there is one
  std::optional<Laying> laying_;                    // of a text with gaps of open length
  int64_t there_ = 0, pieces_end_ = 0, piece_ = 0;  // positions: whose K/V is there, where pieces end; rows of one
  GenerationStats stats_;
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace llada
