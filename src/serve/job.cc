#include "serve/job.h"

#include <algorithm>
#include <utility>

#include "decode/canvas.h"
#include "decode/denoiser.h"
#include "text/thoughts.h"

namespace llada::serve {
namespace {

constexpr size_t kNotes = 64;  // steps that wait for a reader before they are merged

AnswerHead head_of(const Service& service, const std::string& id, Shape shape) {
  const char* kind = shape == Shape::chat       ? "chatcmpl-"
                     : shape == Shape::response ? "resp_"
                     : shape == Shape::message  ? "msg_"
                                                : "cmpl-";
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return {shape, kind + id, std::chrono::duration_cast<std::chrono::seconds>(now).count(), service.name()};
}

}  // namespace

Job::Job(Service& service, std::shared_ptr<Exchange> exchange, Ask ask)
    : service_(service),
      exchange_(std::move(exchange)),
      ask_(std::move(ask)),
      head_(head_of(service, exchange_->id, ask_.shape)),
      answers_(ask_.requests.size() * static_cast<size_t>(ask_.each)),
      left_(answers_.size()),
      form_(make_form(head_, ask_)) {}

Job::~Job() {
  for (const Answer& answer : answers_)
    if (answer.ticket != kNone) service_.admission().leave(answer.ticket);
}

// Takes memory of the size that the answer may come to, so this runs only once it is admitted.
void Job::prepare(size_t index) {
  const Model& model = service_.model();
  const ReadyRequest& ready = ready_of(ask_, index);
  const Request& request = ready.request;
  Answer& answer = answers_[index];
  if (ask_.logprobs) answer.confidence.resize(ready.canvas.tokens.size(), 1);
  if (!ask_.stream || ask_.drops_answer) return;
  if (!request.gaps) {
    answer.text.emplace(model.tokenizer(), model.chat_format(), ready.prompt_tokens, ready.most_generated,
                        model.special_ids().end_ids, ask_.calls ? ask_.stop : request.stop,
                        thoughts_behind(model.chat_format(), request.tokens), ask_.calls);
    answer.calls = CallReader(model.chat_format().calls);
  } else if (!ask_.whole_text) {
    const InfillGap& gap = ask_.gaps.front();
    answer.text.emplace(model.tokenizer(), model.chat_format(), gap.position, gap.length, std::vector<int32_t>(),
                        ask_.stop);
  }
}

void Job::begin() {
  if (!service_.began(shared_from_this()))
    return exchange_->respond(error_reply(ApiError(503, "the server is shutting down", "", "shutting_down")));
  std::vector<Admission::Ticket> tickets;
  for (size_t i = 0; i < answers_.size(); ++i)
    tickets.push_back(
        {.bytes = ask_.bytes[prompt_of(ask_, i)],
         .start = [self = shared_from_this(), i] { self->start(i); },
         .expired = [self = shared_from_this()] { self->cancel("the queue was full for too long", 503); }});
  if (const double bytes = Admission::needed(tickets) + Admission::counted(waiting_bytes(ask_));
      !service_.admission().could_hold(bytes)) {
    exchange_->respond(
        error_reply(ApiError(400, fmt::format("{} {:.3g} MB of memory, {:.3g} MB at most are there",
                                              tickets.size() > 1 ? "the answers need" : "the answer needs", bytes / 1e6,
                                              service_.admission().limits().kv_bytes / 1e6))));
    return service_.ended(shared_from_this());
  }
  const auto known = [&](const std::vector<Admission::Id>& ids) {
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < ids.size(); ++i) answers_[i].ticket = ids[i];
  };
  if (!service_.admission().enter(std::move(tickets), known, exchange_->gives_way)) {
    exchange_->respond(queue_full());
    return service_.ended(shared_from_this());
  }
  exchange_->on_gone([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->cancel("", 503);
  });
  if (ask_.stream)
    exchange_->respond(with_note({.type = form_ ? form_->type() : "text/event-stream", .stream = shared_from_this()}));
}

// Called by admission, on any thread.
void Job::start(size_t index) {
  const Status begun = within_memory([&]() -> Status {
    {
      const std::lock_guard lock(mutex_);
      if (answers_[index].stage != Stage::waiting) return {};
      answers_[index].stage = Stage::running;
      answers_[index].forwards_before = static_cast<double>(service_.engine().stats().forwards);
      prepare(index);
    }
    if (ask_.scores_prompt && request_of(ask_, index).tokens.size() > 1) {
      score(index);
    } else {
      generate(index);
    }
    return {};
  });
  if (!begun) done(index, std::unexpected(begun.error()));
}

void Job::keep_handle(size_t index, std::shared_ptr<Submitted> handle) {
  const std::lock_guard lock(mutex_);
  if (!why_cancelled_.empty() || exchange_->is_gone()) handle->cancel();
  // Of one that has ended it would hold the result a second time.
  if (answers_[index].stage != Stage::ended) answers_[index].handle = std::move(handle);
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
  keep_handle(index, service_.engine().submit_score(prompt_score(request_of(ask_, index)), on_done));
}

void Job::generate(size_t index) {
  const auto self = shared_from_this();
  AnswerRun run{.on_step = [self, index](const decode::StepEvent& event) { return self->step(index, event); },
                .nth = index % static_cast<size_t>(ask_.each)};
  if (ask_.stream && ask_.progress)
    run.on_prompt = [self, index](int64_t done, int64_t total) { self->note_prompt(index, done, total); };
  const auto on_done = [self, index](Result<Generation> result) { self->done(index, std::move(result)); };
  keep_handle(index, service_.engine().submit(ask_.requests[prompt_of(ask_, index)],
                                              {.run = std::move(run), .on_done = on_done}));
}

// The engine's thread has others to serve: an exception here ends this answer alone.
bool Job::step(size_t index, const decode::StepEvent& event) {
  try {
    return note_step(index, event);
  } catch (const std::exception&) {
    const std::lock_guard lock(mutex_);
    if (why_cancelled_.empty()) why_cancelled_ = "memory ran out";
    return false;
  }
}

bool Job::note_step(size_t index, const decode::StepEvent& event) {
  const double seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
  {
    const std::lock_guard lock(mutex_);
    Answer& answer = answers_[index];
    if (answer.forwards == 0)
      service_.metrics().first_step(
          seconds, static_cast<double>(service_.engine().stats().forwards) - answer.forwards_before + 1);
    answer.forwards += decode::forwards_of(event.plan);
    answer.rows += decode::rows_of(event.plan);
    if (ask_.logprobs)
      for (const decode::Edit& edit : event.edits)
        if (edit.position < std::ssize(answer.confidence))
          answer.confidence[static_cast<size_t>(edit.position)] = edit.confidence;
    if (!why_cancelled_.empty() || exchange_->is_gone()) return false;
    if (!ask_.stream) return true;
    if (event.step == 0 && event.canvas.infill) answer.given = given_tokens(event.canvas);
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
  announce();
  return true;
}

void Job::note_prompt(size_t index, int64_t done, int64_t total) {
  const double seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
  {
    const std::lock_guard lock(mutex_);
    Answer& answer = answers_[index];
    if (answer.prompt_kept < 0) answer.prompt_kept = done;
    answer.progress = Progress{answer.prompt_kept, done, total, seconds};
  }
  announce();
}

void Job::done(size_t index, Result<Generation> result) {
  Admission::Id ticket;
  bool last;
  {
    const std::lock_guard lock(mutex_);
    Answer& answer = answers_[index];
    if (answer.stage == Stage::ended) return;  // where there was no memory to begin it, two say so
    if (result) {
      const GenerationStats& stats = result->stats;
      if (stats.decode.cancelled) {
        service_.metrics().cancelled();
      } else {
        service_.metrics().finished(std::chrono::duration<double>(Clock::now() - begin_).count(), stats.content_tokens,
                                    stats.prompt_tokens, stats.tokens_per_forward());
      }
    }
    answer.result = std::move(result);
    answer.stage = Stage::ended;
    answer.handle.reset();
    ticket = answer.ticket;
    last = --left_ == 0;
  }
  service_.admission().computed(ticket);
  announce();
  if (last) finish_all();
}

// Nothing of it is held any more.
void Job::release_ticket(size_t index) {
  Admission::Id ticket;
  {
    const std::lock_guard lock(mutex_);
    ticket = std::exchange(answers_[index].ticket, kNone);
  }
  if (ticket != kNone) service_.admission().leave(ticket);
}

void Job::tick(double answer_seconds, double ping_seconds) {
  const auto seconds_since = [](Clock::time_point then) {
    return std::chrono::duration<double>(Clock::now() - then).count();
  };
  // A batch's has the time of its batch.
  if (!exchange_->gives_way && seconds_since(begin_) > answer_seconds) return cancel("the answer took too long", 504);
  if (!ask_.stream || ping_seconds <= 0) return;
  {
    const std::lock_guard lock(mutex_);
    if (ping_ || seconds_since(last_piece_) < ping_seconds) return;
  }
  ping();
}

void Job::ping() {
  {
    const std::lock_guard lock(mutex_);
    ping_ = true;
  }
  announce();
}

void Job::cancel(const std::string& why, int status) {
  std::vector<size_t> waiting;
  bool last = false;
  {
    const std::lock_guard lock(mutex_);
    if (left_ == 0) return;
    if (why_cancelled_.empty()) why_cancelled_ = why.empty() ? "the client has gone" : why, cancelled_status_ = status;
    for (size_t i = 0; i < answers_.size(); ++i) {
      Answer& answer = answers_[i];
      if (answer.handle) answer.handle->cancel();
      if (answer.stage != Stage::waiting) continue;
      answer.stage = Stage::ended;
      waiting.push_back(i);
      answer.result = failed("{}", why_cancelled_);
      last = --left_ == 0;
    }
  }
  for (const size_t index : waiting) release_ticket(index);
  announce();
  if (last) finish_all();
}

// All answers have ended. A reply that is not a stream is made by a worker: the engine's thread has others to serve.
void Job::finish_all() {
  const auto self = shared_from_this();
  try {
    log();
  } catch (...) {  // the answers are there without their line in the log
  }
  if (ask_.stream) return service_.ended(self);
  const auto reply = [self] {
    answer_guarded(*self->exchange_, [&] { self->exchange_->respond(self->whole()); });
    for (size_t i = 0; i < self->answers_.size(); ++i) self->release_ticket(i);
    self->service_.ended(self);
  };
  // Tokens and alternatives that are written as JSON.
  const int64_t written = std::ssize(answers_) * (1 + ask_.alternatives);
  try {
    service_.workers().give(reply, written > kMostAlternatives + 1 ? WorkSize::large : WorkSize::small);
  } catch (const std::exception&) {
    reply();
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
  Json line = {{"event", "answer"},
               {"id", exchange_->id},
               {"answers", answers_.size()},
               {"stream", ask_.stream},
               {"tokens", tokens},
               {"forwards", forwards},
               {"ms", std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin_).count()},
               {"error", error ? Json(error->message) : Json(nullptr)}};
  if (!ask_.warnings.empty()) line["warnings"] = ask_.warnings;
  service_.log(line);
}

void Job::listen(std::function<void()> ready) {
  const std::lock_guard lock(mutex_);
  ready_ = std::move(ready);
}

void Job::announce() {
  try {
    std::function<void()> ready;
    {
      const std::lock_guard lock(mutex_);
      ready = ready_;
    }
    if (ready) ready();
  } catch (const std::exception&) {  // a later step or ping wakes it
  }
}

namespace {

// Of /infill, where no token was asked for.
HttpReply without_answer(const AnswerHead& head, bool stream) {
  if (stream)
    return {.type = "text/event-stream",
            .body = event_text(piece_json(head, 0, "", "length", nullptr)) + std::string(kLastEvent)};
  return json_reply(infill_json(head, {.text = "", .reason = "length", .logprobs = nullptr, .spans = Json::array()},
                                usage_json({}, 0)));
}

}  // namespace

void begin_job(Service& service, const std::shared_ptr<Exchange>& exchange, Answered<Ask> ask) {
  if (!ask) return exchange->respond(error_reply(ask.error()));
  if (ask->asked.empty())
    return exchange->respond(without_answer(head_of(service, exchange->id, ask->shape), ask->stream));
  const auto hold = [&] {
    ask->held = nullptr;
    return (ask->held = service.admission().hold(waiting_bytes(*ask))) != nullptr;
  };
  if (!ask->held && !service.model().has_form(ask->asked.front().options)) {
    if (!hold()) return exchange->respond(queue_full());
    return service.go_on(exchange, SIZE_MAX, [&service, exchange, later = std::make_shared<Ask>(std::move(*ask))] {
      begin_job(service, exchange, std::move(*later));
    });
  }
  if (const Done prepared = prepare_requests(service, *ask); !prepared)
    return exchange->respond(error_reply(prepared.error()));
  if (!hold()) return exchange->respond(queue_full());
  const auto job = std::make_shared<Job>(service, exchange, std::move(*ask));
  try {
    job->begin();
  } catch (...) {
    job->cancel("memory ran out", 503);  // answers that have begun end; the server's end does not wait for them
    throw;
  }
}

}  // namespace llada::serve
