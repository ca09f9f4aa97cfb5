// The events that a job sends to a client which reads its answers while they are decoded.
#include <algorithm>

#include "decode/canvas.h"
#include "serve/work/job.h"

namespace llada::serve {

Json Job::frame_json(size_t index, const StepNote& note) {
  const Model& model = service_.model();
  const Request& request = request_of(ask_, index);
  const std::vector<int32_t>& given = answers_[index].given;
  Json edits = Json::array();
  const bool first = note.forwards > 0 && !answers_[index].canvas_sent;
  if (first && request.gaps) {
    // The text around the gaps, so that a reader sees all of the canvas.
    for (size_t p = 0; p < given.size(); ++p)
      if (given[p] >= 0)
        edits.push_back({{"position", p},
                         {"id", given[p]},
                         {"text", to_valid_utf8(model.tokenizer().decode({&given[p], 1}))},
                         {"state", "fixed"},
                         {"confidence", 1}});
  }
  const auto size = request.gaps ? std::ssize(given) : std::ssize(request.tokens);
  const int64_t end = request.gaps ? size : size + ready_of(ask_, index).most_generated;
  for (const decode::Edit& edit : note.edits)
    if (edit.position < end) edits.push_back(edit_json(model, edit));
  Json json = {
      {"index", index},    {"step", note.step},        {"masks_left", note.masks_left}, {"forwards", note.forwards},
      {"rows", note.rows}, {"edits", std::move(edits)}};
  if (first) {
    answers_[index].canvas_sent = true;
    // Where the length follows the answer: the part that is seen at first.
    const int64_t canvas = model.special_ids().uniform.length;
    const int64_t seen = canvas > 0 ? canvas : 2 * request.options.block_length;
    const int64_t length = request.options.auto_length ? std::min(end - size, seen) : end - size;
    json["canvas"] = {{"begin", request.gaps ? 0 : size}, {"length", request.gaps ? size : length}};
  }
  return json;
}

namespace {

// The text that stands first among the pieces, taken out of them.
std::string take_text(std::vector<AnswerPiece>& pieces) {
  if (pieces.empty() || pieces.front().call >= 0) return "";
  std::string text = std::move(pieces.front().text);
  pieces.erase(pieces.begin());
  return text;
}

}  // namespace

// What is new of an answer, as text and calls.
std::vector<AnswerPiece> Job::pieces(size_t index, const std::string& delta, bool last) {
  if (ask_.calls) return answers_[index].calls.take(delta, last);
  if (delta.empty()) return {};
  return {{.text = delta}};
}

std::string Job::piece_events(size_t index, const AnswerPiece& piece, int64_t tokens) const {
  const auto at = static_cast<int64_t>(index);
  return piece.call < 0 ? writer_->text(at, piece.text, tokens, nullptr) : writer_->call(at, piece, tokens);
}

std::string Job::thought_events(size_t index, const std::string& thoughts) const {
  if (!ask_.think || thoughts.empty()) return "";
  return writer_->thought(static_cast<int64_t>(index), thoughts);
}

// As llama-server has it.
std::string Job::progress_event(size_t index, const Progress& p) const {
  Json json = writer_->empty_event(static_cast<int64_t>(index));
  if (json.is_null()) return "";
  json["prompt_progress"] = {
      {"total", p.total}, {"cache", p.kept}, {"processed", p.done}, {"time_ms", static_cast<int64_t>(p.seconds * 1e3)}};
  return event_text(json);
}

std::string Job::events(size_t index, const StepNote& note) {
  Answer& answer = answers_[index];
  if (answer.text) answer.text->apply(note);
  const auto at = static_cast<int64_t>(index);
  if (ask_.watch == Watch::replace) {
    const ReadyRequest& ready = ready_of(ask_, index);
    const auto masks =
        static_cast<double>(ready.canvas.infill ? std::ranges::count(answer.given, -1) : ready.most_generated);
    const double share = std::clamp(1 - static_cast<double>(note.masks_left) / masks, 0.0, 0.99);
    return writer_->so_far(at, answer.text ? answer.text->whole() : "", share);
  }
  std::vector<AnswerPiece> fresh = pieces(index, answer.text ? answer.text->take() : "", false);
  std::string events = answer.text ? thought_events(index, answer.text->take_thoughts()) : "";
  const int64_t tokens = answer.text ? answer.text->tokens_given() : 0;
  if (ask_.watch == Watch::frames) events += writer_->text(at, take_text(fresh), tokens, frame_json(index, note));
  for (const AnswerPiece& piece : fresh) events += piece_events(index, piece, tokens);
  return events;
}

std::string Job::last_events(size_t index) {
  Answer& answer = answers_[index];
  FinishedAnswer ended = finished(index);
  const std::string written = ended.written ? *ended.written : ended.text;
  ended.text = to_valid_utf8(ended.text);
  const GenerationStats& stats = (*answer.result)->stats;
  AnswerEnd end{ended, stats.content_tokens, usage_of(index), Json()};
  if (answers_.size() == 1) end.all_usage = usage();
  std::string events;
  if (ask_.watch != Watch::replace) {
    std::vector<AnswerPiece> rest =
        pieces(index, answer.text ? answer.text->finish(written) : to_valid_utf8(written), true);
    if (answer.text) events = thought_events(index, answer.text->finish_thoughts((*answer.result)->thoughts));
    if (ask_.watch == Watch::frames) {
      if (rest.size() == 1) end.frame_text = take_text(rest);
      const StepNote note{.step = stats.decode.steps,
                          .committed = 0,
                          .masks_left = 0,
                          .forwards = stats.decode.nfe,
                          .rows = stats.decode.rows,
                          .edits = {}};
      end.frame = frame_json(index, note);
    }
    for (const AnswerPiece& piece : rest) events += piece_events(index, piece, stats.content_tokens);
  }
  return events + writer_->end(static_cast<int64_t>(index), end);
}

// Steps and results are taken under the lock and made into JSON without it: the engine's thread notes its next step
// meanwhile. Of many answers that have ended each is made into JSON when the ones before it have been written.
Outflow::Piece Job::take() {
  constexpr size_t kNotesAtOnce = 16, kPieceBytes = size_t{64} << 10;
  std::vector<std::deque<StepNote>> notes(answers_.size());
  std::vector<bool> ended(answers_.size());
  std::vector<std::optional<Progress>> progress(answers_.size());
  std::optional<ApiError> failing;
  bool ping;
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return {};
    ping = ping_;
    if (left() == 0 || cancelled_) failing = failed_answer();
    for (size_t i = 0; i < answers_.size(); ++i) {
      progress[i] = std::exchange(answers_[i].progress, {});
      std::deque<StepNote>& ready = answers_[i].notes;
      while (!ready.empty() && notes[i].size() < kNotesAtOnce) {
        notes[i].push_back(std::move(ready.front()));
        ready.pop_front();
      }
      ended[i] = ready.empty() && answers_[i].result && answers_[i].result->has_value();
    }
  }
  Piece piece;
  if (!begun_) piece.bytes = writer_->begin();
  begun_ = true;
  if (failing) {
    piece.bytes += writer_->failed(*failing);
    piece.last = ended_ = true;
    return piece;
  }
  for (size_t i = 0; i < answers_.size(); ++i) {
    if (progress[i]) piece.bytes += progress_event(i, *progress[i]);
    for (const StepNote& note : notes[i]) piece.bytes += events(i, note);
    if (ended[i] && !answers_[i].sent && piece.bytes.size() < kPieceBytes) {
      piece.bytes += last_events(i);
      forget_answer(i);
      release(i);
    }
  }
  if (!std::ranges::all_of(answers_, &Answer::sent)) {
    if (ping && piece.bytes.empty()) piece.bytes = writer_->ping();
    const std::lock_guard lock(mutex_);
    if (!piece.bytes.empty()) last_piece_ = Clock::now(), ping_ = false;
    return piece;
  }
  piece.bytes += writer_->all_ended(usage());
  piece.last = ended_ = true;
  return piece;
}

// Only the counts of the answer are kept.
void Job::forget_answer(size_t index) {
  Answer& answer = answers_[index];
  answer.sent = true;
  Generation& g = **answer.result;
  g.tokens = {}, g.text = {}, g.thoughts = {}, g.scores = {};
  answer.text.reset();
  answer.confidence = {};
}

}  // namespace llada::serve
