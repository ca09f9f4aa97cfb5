#include "serve/job.h"

#include <algorithm>

#include "decode/canvas.h"
#include "decode/denoiser.h"

namespace llada::serve {
namespace {

constexpr size_t kNotes = 64;  // steps that wait for a reader before they are merged

AnswerHead head_of(const Service& service, const std::string& id, Shape shape) {
  return {shape, (shape == Shape::chat ? "chatcmpl-" : "cmpl-") + id, service.created(), service.name()};
}

int64_t prompt_tokens(const Request& request) {
  return std::ssize(request.tokens) - (request.gaps ? std::ssize(*request.gaps) : 0);
}

// The tokens behind the first, each given those before it.
ScoreRequest score_request(const Request& request) {
  ScoreRequest score{.prompt = {request.tokens.front()},
                     .continuations = {{request.tokens.begin() + 1, request.tokens.end()}}};
  score.options.top = 1;
  return score;
}

}  // namespace

Job::Job(Service& service, std::shared_ptr<Exchange> exchange, Ask ask)
    : service_(service),
      exchange_(std::move(exchange)),
      ask_(std::move(ask)),
      head_(head_of(service, exchange_->id, ask_.shape)),
      answers_(ask_.requests.size()),
      left_(answers_.size()) {
  const decode::SpecialIds& ids = service.model().special_ids();
  for (size_t i = 0; i < answers_.size(); ++i) {
    const Request& request = ask_.requests[i];
    Answer& answer = answers_[i];
    const auto size = std::ssize(request.tokens);
    if (ask_.logprobs) answer.confidence.resize(static_cast<size_t>(size + request.options.gen_length), 1);
    if (!ask_.stream) continue;
    if (!request.gaps) {
      answer.text.emplace(service.model().tokenizer(), size, request.options.gen_length, ids.end_ids, request.stop);
    } else if (!ask_.whole_text) {
      const InfillGap& gap = ask_.gaps.front();
      answer.text.emplace(service.model().tokenizer(), gap.position, gap.length, std::vector<int32_t>(), ask_.stop);
    }
  }
}

void Job::begin() {
  if (!service_.began(shared_from_this()))
    return exchange_->respond(error_reply(ApiError(503, "the server is shutting down", "", "shutting_down")));
  std::vector<Admission::Ticket> tickets;
  for (size_t i = 0; i < answers_.size(); ++i)
    tickets.push_back({.kv_bytes = kv_bytes(service_.model(), ask_.requests[i]),
                       .start = [self = shared_from_this(), i] { self->start(i); },
                       .expired = [self = shared_from_this()] { self->cancel("the queue was full for too long"); }});
  const auto known = [&](const std::vector<Admission::Id>& ids) {
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < ids.size(); ++i) answers_[i].ticket = ids[i];
  };
  if (!service_.admission().enter(std::move(tickets), known)) {
    exchange_->respond(error_reply(ApiError(429, "too many requests are waiting; try again later", "", "queue_full")));
    return service_.ended(shared_from_this());
  }
  exchange_->on_gone([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->cancel("");
  });
  if (ask_.stream) exchange_->respond({.type = "text/event-stream", .stream = shared_from_this()});
}

// Called by admission, on any thread.
void Job::start(size_t index) {
  {
    const std::lock_guard lock(mutex_);
    if (answers_[index].stage != Stage::waiting) return;
    answers_[index].stage = Stage::running;
    answers_[index].forwards_before = static_cast<double>(service_.engine().stats().forwards);
  }
  if (ask_.scores_prompt && ask_.requests[index].tokens.size() > 1) {
    score(index);
  } else {
    generate(index);
  }
}

void Job::hold(size_t index, std::shared_ptr<Submitted> handle) {
  const std::lock_guard lock(mutex_);
  if (!why_cancelled_.empty() || exchange_->is_gone()) handle->cancel();
  answers_[index].handle = std::move(handle);
}

void Job::score(size_t index) {
  const auto on_done = [self = shared_from_this(), index](Result<ScoreResult> result) {
    if (!result) return self->done(index, std::unexpected(result.error()));
    {
      const std::lock_guard lock(self->mutex_);
      self->answers_[index].score = std::move(*result);
    }
    self->generate(index);
  };
  hold(index, service_.engine().submit_score(score_request(ask_.requests[index]), on_done));
}

void Job::generate(size_t index) {
  const auto self = shared_from_this();
  hold(index, service_.engine().submit(
                  ask_.requests[index],
                  {.on_step = [self, index](const decode::StepEvent& event) { return self->step(index, event); },
                   .on_done = [self, index](Result<Generation> result) { self->done(index, std::move(result)); }}));
}

bool Job::step(size_t index, const decode::StepEvent& event) {
  const double seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
  {
    const std::lock_guard lock(mutex_);
    Answer& answer = answers_[index];
    if (answer.forwards == 0)
      service_.metrics().first_step(
          seconds, static_cast<double>(service_.engine().stats().forwards) - answer.forwards_before + 1);
    answer.forwards += 1 + (event.plan.sparse.empty() ? 0 : 1);
    answer.rows += decode::rows_of(event.plan);
    if (ask_.logprobs)
      for (const decode::Edit& edit : event.edits)
        if (edit.position < std::ssize(answer.confidence))
          answer.confidence[static_cast<size_t>(edit.position)] = edit.confidence;
    if (!why_cancelled_.empty() || exchange_->is_gone()) return false;
    if (!ask_.stream) return true;
    StepNote note{.step = event.step,
                  .committed = event.committed,
                  .masks_left = decode::count_masked(event.canvas),
                  .forwards = answer.forwards,
                  .rows = answer.rows,
                  .edits = {event.edits.begin(), event.edits.end()}};
    if (!answer.notes.empty() && answer.notes.size() >= (ask_.watch == Watch::frames ? kNotes : 1)) {
      merge(answer.notes.back(), std::move(note));
    } else {
      answer.notes.push_back(std::move(note));
    }
  }
  wake();
  return true;
}

void Job::done(size_t index, Result<Generation> result) {
  Admission::Id ticket;
  bool last;
  {
    const std::lock_guard lock(mutex_);
    Answer& answer = answers_[index];
    if (result) {
      const GenerationStats& stats = result->stats;
      if (stats.decode.cancelled) {
        service_.metrics().cancelled();
      } else {
        service_.metrics().finished(std::chrono::duration<double>(Clock::now() - begin_).count(), stats.content_tokens,
                                    stats.prompt_tokens, stats.decode.tokens_per_forward());
      }
    }
    answer.result = std::move(result);
    answer.stage = Stage::ended;
    ticket = answer.ticket;
    last = --left_ == 0;
  }
  service_.admission().leave(ticket);
  wake();
  if (last) settle();
}

void Job::expire(double seconds) {
  if (std::chrono::duration<double>(Clock::now() - begin_).count() > seconds) cancel("the answer took too long");
}

void Job::cancel(const std::string& why) {
  std::vector<Admission::Id> waiting;
  bool last = false;
  {
    const std::lock_guard lock(mutex_);
    if (left_ == 0) return;
    if (why_cancelled_.empty()) why_cancelled_ = why.empty() ? "the client has gone" : why;
    for (Answer& answer : answers_) {
      if (answer.handle) answer.handle->cancel();
      if (answer.stage != Stage::waiting) continue;
      answer.stage = Stage::ended;
      waiting.push_back(answer.ticket);
      answer.result = failed("{}", why_cancelled_);
      last = --left_ == 0;
    }
  }
  for (const Admission::Id id : waiting) service_.admission().leave(id);
  wake();
  if (last) settle();
}

// All answers have ended. A reply that is not a stream is made by a worker: the engine's thread has others to serve.
void Job::settle() {
  const auto self = shared_from_this();
  log();
  if (!ask_.stream) {
    service_.workers().give([self] {
      self->exchange_->respond(self->whole());
      self->service_.ended(self);
    });
  } else {
    service_.ended(self);
  }
}

void Job::log() const {
  const std::lock_guard lock(mutex_);
  int64_t tokens = 0, forwards = 0;
  for (const Answer& answer : answers_) {
    if (answer.result && *answer.result) tokens += (*answer.result)->stats.content_tokens;
    forwards += answer.forwards;
  }
  const auto error = failure();
  service_.log(dump({{"event", "answer"},
                     {"id", exchange_->id},
                     {"answers", answers_.size()},
                     {"stream", ask_.stream},
                     {"tokens", tokens},
                     {"forwards", forwards},
                     {"ms", std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin_).count()},
                     {"error", error ? Json(error->message) : Json(nullptr)}}));
}

std::optional<ApiError> Job::failure() const {
  for (const Answer& answer : answers_) {
    if (!answer.result) continue;
    if (!*answer.result)
      return why_cancelled_.empty() ? ApiError(answer.result->error()) : ApiError(503, why_cancelled_);
    if ((*answer.result)->stats.decode.cancelled)
      return ApiError(503, why_cancelled_.empty() ? "the answer was cancelled" : why_cancelled_);
  }
  return std::nullopt;
}

FinishedAnswer Job::finished(size_t index) const {
  const Request& request = ask_.requests[index];
  const Generation& g = **answers_[index].result;
  const Tokenizer& tokenizer = service_.model().tokenizer();
  FinishedAnswer answer{.text = g.text, .reason = std::string(finish_reason(g)), .logprobs = nullptr};
  if (request.gaps) {
    answer.text.clear(), answer.reason = "length", answer.spans = Json::array();
    for (const InfillGap& gap : ask_.gaps) {
      const auto ids = std::span(g.tokens).subspan(static_cast<size_t>(gap.position), static_cast<size_t>(gap.length));
      const std::string filled = tokenizer.decode(ids);
      answer.spans.push_back({{"position", gap.position},
                              {"length", gap.length},
                              {"tokens", std::vector(ids.begin(), ids.end())},
                              {"text", to_valid_utf8(filled)}});
      answer.text = filled;
    }
    if (ask_.whole_text) answer.text = g.text;
    for (const std::string& stop : ask_.stop)
      if (const size_t at = answer.text.find(stop); at != std::string::npos) {
        answer.text.resize(at);
        answer.reason = "stop";
      }
  }
  if (ask_.drops_answer) answer.text.clear();
  if (ask_.logprobs && !request.gaps) {
    std::vector<ScoredToken> tokens;
    if (ask_.scores_prompt) {
      const auto& score = answers_[index].score;
      tokens = scored_prompt(request.tokens, score ? score->continuations.front() : ContinuationScore());
    }
    // Beside a prompt's there is the end token's, too: evaluation clients ask for one token behind the prompt and leave
    // out the last entry, whichever token it is.
    const int64_t said = g.stats.content_tokens + (ask_.scores_prompt ? 1 : 0);
    const auto count = ask_.drops_answer ? 0 : std::min<int64_t>(said, std::ssize(g.tokens));
    for (int64_t i = 0; i < count; ++i)
      tokens.push_back(taken(g.tokens[static_cast<size_t>(i)],
                             answers_[index].confidence[request.tokens.size() + static_cast<size_t>(i)]));
    answer.logprobs = logprobs_json(service_.model(), ask_.shape, tokens);
  }
  return answer;
}

Json Job::usage() const {
  std::vector<GenerationStats> stats;
  int64_t prompts = 0;
  const std::vector<int32_t>* before = nullptr;
  for (size_t i = 0; i < answers_.size(); ++i) {
    stats.push_back((*answers_[i].result)->stats);
    if (const auto& score = answers_[i].score) {
      stats.back().decode.nfe += score->forwards;
      stats.back().decode.rows += score->rows;
    }
    if (ask_.drops_answer) stats.back().content_tokens = 0;
    const std::vector<int32_t>& tokens = ask_.requests[i].tokens;
    if (before == nullptr || *before != tokens) prompts += prompt_tokens(ask_.requests[i]);
    before = &tokens;
  }
  return usage_json(stats, prompts);
}

HttpReply Job::whole() {
  const std::lock_guard lock(mutex_);
  if (const auto error = failure()) return error_reply(*error);
  std::vector<FinishedAnswer> answers;
  for (size_t i = 0; i < answers_.size(); ++i) {
    answers.push_back(finished(i));
    if (i < ask_.echoed.size()) answers.back().text.insert(0, ask_.echoed[i]);
    answers.back().text = to_valid_utf8(answers.back().text);
  }
  Json json = whole_json(head_, answers, usage());
  json["llada"] = {{"preset", ask_.preset}};
  return json_reply(json);
}

void Job::listen(std::function<void()> ready) {
  const std::lock_guard lock(mutex_);
  ready_ = std::move(ready);
}

void Job::wake() {
  std::function<void()> ready;
  {
    const std::lock_guard lock(mutex_);
    ready = ready_;
  }
  if (ready) ready();
}

Json Job::side(size_t index, const StepNote& note) {
  const Model& model = service_.model();
  const Request& request = ask_.requests[index];
  Json edits = Json::array();
  const bool first = note.forwards > 0 && answers_[index].canvas_said == false;
  if (first && request.gaps) {
    // The text around the gaps, so that a reader sees all of the canvas.
    for (size_t p = 0; p < request.tokens.size(); ++p)
      if (std::ranges::find(*request.gaps, static_cast<int32_t>(p)) == request.gaps->end())
        edits.push_back({{"position", p},
                         {"id", request.tokens[p]},
                         {"text", to_valid_utf8(model.tokenizer().decode({&request.tokens[p], 1}))},
                         {"state", "fixed"},
                         {"confidence", 1}});
  }
  const auto size = std::ssize(request.tokens);
  const int64_t end = request.gaps ? size : size + most_generated(model, size, request.options);
  for (const decode::Edit& edit : note.edits)
    if (edit.position < end) edits.push_back(edit_json(model, edit));
  Json json = {
      {"index", index},    {"step", note.step},        {"masks_left", note.masks_left}, {"forwards", note.forwards},
      {"rows", note.rows}, {"edits", std::move(edits)}};
  if (first) {
    answers_[index].canvas_said = true;
    json["canvas"] = {{"begin", request.gaps ? 0 : size}, {"length", request.gaps ? size : end - size}};
  }
  return json;
}

namespace {

// Mercury's: the whole text so far takes the place of what came before.
Json replacing(const AnswerHead& head, size_t index, const std::string& text, const std::string& reason,
               double progress) {
  Json json = piece_json(head, static_cast<int64_t>(index), text, reason, nullptr);
  if (head.shape == Shape::chat) json["choices"][0]["delta"] = {{"role", "assistant"}, {"content", text}};
  json["diffusion_meta"] = {{"diffusion_content", true}, {"diffusion_progress", progress}};
  return json;
}

}  // namespace

std::string Job::events(size_t index, const StepNote& note) {
  Answer& answer = answers_[index];
  if (answer.text) answer.text->apply(note);
  const auto at = static_cast<int64_t>(index);
  if (ask_.watch == Watch::replace) {
    const auto masks = static_cast<double>(
        ask_.requests[index].gaps
            ? ask_.requests[index].gaps->size()
            : most_generated(service_.model(), std::ssize(ask_.requests[index].tokens), ask_.requests[index].options));
    const double progress = std::clamp(1 - static_cast<double>(note.masks_left) / masks, 0.0, 0.99);
    return event_text(replacing(head_, index, answer.text ? answer.text->whole() : "", "", progress));
  }
  const std::string delta = answer.text ? answer.text->take() : "";
  if (ask_.watch == Watch::frames) {
    Json json = piece_json(head_, at, delta, "", nullptr);
    json["llada"] = side(index, note);
    return event_text(json);
  }
  return delta.empty() ? "" : event_text(piece_json(head_, at, delta, "", nullptr));
}

std::string Job::last_events(size_t index) {
  Answer& answer = answers_[index];
  const FinishedAnswer end = finished(index);
  const auto at = static_cast<int64_t>(index);
  if (ask_.watch == Watch::replace)
    return event_text(replacing(head_, index, to_valid_utf8(end.text), end.reason, 1)) +
           event_text(piece_json(head_, at, "", end.reason, end.logprobs));
  const std::string rest = answer.text ? answer.text->finish(end.text) : to_valid_utf8(end.text);
  if (ask_.watch == Watch::frames) {
    const GenerationStats& stats = (*answer.result)->stats;
    Json json = piece_json(head_, at, rest, end.reason, end.logprobs);
    StepNote note{.step = stats.decode.steps,
                  .committed = 0,
                  .masks_left = 0,
                  .forwards = stats.decode.nfe,
                  .rows = stats.decode.rows,
                  .edits = {}};
    json["llada"] = side(index, note);
    json["usage"] = usage_json({stats}, prompt_tokens(ask_.requests[index]));
    if (ask_.requests[index].gaps) json["spans"] = end.spans;
    return event_text(json);
  }
  return (rest.empty() ? "" : event_text(piece_json(head_, at, rest, "", nullptr))) +
         event_text(piece_json(head_, at, "", end.reason, end.logprobs));
}

// What lies ready is taken under the lock and made into JSON without it: the engine's thread notes its next step
// meanwhile.
Outflow::Piece Job::take() {
  constexpr size_t kNotesAtOnce = 16;
  std::vector<std::deque<StepNote>> notes(answers_.size());
  std::vector<bool> ended(answers_.size());
  std::optional<ApiError> failing;
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return {};
    if (left_ == 0 || !why_cancelled_.empty()) failing = failure();
    for (size_t i = 0; i < answers_.size(); ++i) {
      std::deque<StepNote>& ready = answers_[i].notes;
      while (!ready.empty() && notes[i].size() < kNotesAtOnce) {
        notes[i].push_back(std::move(ready.front()));
        ready.pop_front();
      }
      ended[i] = ready.empty() && answers_[i].result && answers_[i].result->has_value();
    }
  }
  Piece piece;
  if (!begun_) piece.bytes = first_events();
  begun_ = true;
  if (failing) {
    piece.bytes += event_text(error_json(*failing)) + std::string(kLastEvent);
    piece.last = ended_ = true;
    return piece;
  }
  for (size_t i = 0; i < answers_.size(); ++i) {
    for (const StepNote& note : notes[i]) piece.bytes += events(i, note);
    if (ended[i] && !answers_[i].handed_on) {
      piece.bytes += last_events(i);
      answers_[i].handed_on = true;
    }
  }
  if (!std::ranges::all_of(answers_, &Answer::handed_on)) return piece;
  if (ask_.include_usage) piece.bytes += event_text(usage_piece_json(head_, usage()));
  piece.bytes += kLastEvent;
  piece.last = ended_ = true;
  return piece;
}

std::string Job::first_events() const {
  std::string text;
  for (size_t i = 0; i < answers_.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    if (ask_.shape == Shape::chat && ask_.watch != Watch::replace) text += event_text(role_json(head_, at));
    if (i < ask_.echoed.size() && !ask_.echoed[i].empty())
      text += event_text(piece_json(head_, at, ask_.echoed[i], "", nullptr));
  }
  return text;
}

}  // namespace llada::serve
