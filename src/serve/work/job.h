// The answers to one generation request: entered for admission, computed by the engine, sent whole or as a stream. The
// engine's thread only notes steps; the thread that sends makes JSON of them. Where a stream's reader is slow, notes
// are merged: the canvas bounds their number, and no text is lost.
#pragma once
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "serve/work/answer_text.h"
#include "serve/work/ask.h"
#include "serve/work/pending.h"

namespace llada::serve {

class Job final : public Outflow, public PendingAnswer {
 public:
  Job(Service& service, std::shared_ptr<Exchange> exchange, Ask ask);

  Piece take() override;
  void listen(std::function<void()> ready) override;
  void ping() override;

 private:
  struct Progress {  // of a prompt, in positions
    int64_t kept = 0, done = 0, total = 0;
    double seconds = 0;  // since it was asked for
  };
  struct Answer {
    std::optional<ScoreResult> score = {};  // of its prompt
    std::deque<StepNote> notes = {};        // of a stream, not yet handed on
    std::optional<Progress> progress = {};  // of a stream, not yet handed on
    int64_t prompt_kept = -1;               // of a long prompt: positions that were there; -1: not known yet
    std::optional<Result<Generation>> result = {};
    bool canvas_sent = false, sent = false;  // of a stream: its first frame, its last piece
    double forwards_before = 0;              // of the engine, when it was asked for
    int64_t forwards = 0, rows = 0;          // of its own so far
    std::optional<AnswerText> text = {};     // of a stream: belongs to take()
    CallReader calls = CallReader();         // the same, where there may be some
    std::vector<int32_t> given = {};         // of a stream of gaps: given_tokens(), from its first step on
    std::vector<double> confidence = {};     // by canvas position, where log-probabilities are wanted
  };
  std::shared_ptr<Job> self() { return std::static_pointer_cast<Job>(shared_from_this()); }
  const char* needs() const override { return count() > 1 ? "the answers need" : "the answer needs"; }
  double waiting_bytes() const override { return serve::waiting_bytes(ask_); }
  AnswerBytes bytes(size_t index) const override { return ask_.bytes[prompt_of(ask_, index)]; }
  void compute(size_t index) override;
  void fail(size_t index, Error error) override { answers_[index].result = std::unexpected(std::move(error)); }
  HttpReply reply() override;
  WorkSize reply_size() const override;
  void all_ended() override;
  bool streams() const override { return ask_.stream; }
  void announce() override;
  void silent(double ping_seconds) override;
  void prepare(size_t index);
  void score(size_t index);
  void generate(size_t index);
  bool step(size_t index, const decode::StepEvent& event);
  bool note_step(size_t index, const decode::StepEvent& event);
  void note_prompt(size_t index, int64_t done, int64_t total);
  void done(size_t index, Result<Generation> result);
  HttpReply whole();
  HttpReply with_note(HttpReply reply) const;
  std::optional<ApiError> failed_answer() const;
  FinishedAnswer finished(size_t index) const;
  void read_answer(FinishedAnswer& answer) const;
  Json usage() const;
  Json usage_of(size_t index) const;
  std::string thought_events(size_t index, const std::string& thoughts) const;
  std::string progress_event(size_t index, const Progress& progress) const;
  std::string events(size_t index, const StepNote& note);
  std::vector<AnswerPiece> pieces(size_t index, const std::string& delta, bool last);
  std::string piece_events(size_t index, const AnswerPiece& piece, int64_t tokens) const;
  std::string last_events(size_t index);
  void forget_answer(size_t index);
  std::vector<ScoredToken> scored(size_t index) const;
  std::span<const int32_t> answer_tokens(size_t index) const;
  Json frame_json(size_t index, const StepNote& note);

  const Ask ask_;
  // The lock guards the members below but for those that take() alone uses. Answers that have ended no longer change:
  // they need no lock, one by one in a stream, otherwise once all have ended.
  std::vector<Answer> answers_;
  std::function<void()> ready_;
  Clock::time_point last_piece_ = begin_;       // of a stream
  bool ping_ = false;                           // the next piece shall not be empty
  bool begun_ = false, ended_ = false;          // of a stream: take()'s own
  const std::unique_ptr<AnswerWriter> writer_;  // of a stream take()'s own
};

// Answers the request that a route has read: begins the job, or replies with the error.
void begin_job(Service& service, const std::shared_ptr<Exchange>& exchange, Answered<Ask> ask);

}  // namespace llada::serve
