#include "serve/work/job.h"

#include <utility>

#include "decode/canvas.h"
#include "decode/denoiser.h"
#include "text/thoughts.h"

namespace llada::serve {
namespace {

constexpr size_t kNotes = 64;  // steps that wait for a reader before they are merged

AnswerHead head_of(const Service& service, const std::string& id) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return {id, std::chrono::duration_cast<std::chrono::seconds>(now).count(), service.name()};
}

// Of /infill, where no token was asked for.
HttpReply without_answer(Service& service, const Exchange& exchange, Ask& ask) {
  ask.usage_in_pieces = false;
  const auto writer = ask.writer(head_of(service, exchange.id), ask);
  const FinishedAnswer none{.text = "", .reason = "length", .logprobs = nullptr, .spans = Json::array()};
  const Json usage = usage_json({}, 0);
  if (!ask.stream) return {.body = writer->body({1, [&](size_t) { return none; }, {}, usage}, Json::object())};
  return {.type = writer->type(), .body = writer->end(0, {none, 0, usage, usage}) + writer->all_ended(usage)};
}

}  // namespace

Job::Job(Service& service, std::shared_ptr<Exchange> exchange, Ask ask)
    : PendingAnswer(service, std::move(exchange), ask.requests.size() * static_cast<size_t>(ask.each)),
      ask_(std::move(ask)),
      answers_(count()),
      writer_(ask_.writer(head_of(service, exchange_->id), ask_)) {}

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

void Job::compute(size_t index) {
  {
    const std::lock_guard lock(mutex_);
    answers_[index].forwards_before = static_cast<double>(service_.engine().stats().forwards);
    prepare(index);
  }
  if (ask_.scores_prompt && request_of(ask_, index).tokens.size() > 1) {
    score(index);
  } else {
    generate(index);
  }
}

void Job::score(size_t index) {
  const auto on_done = [self = self(), index](Result<ScoreResult> result) {
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
  const auto self = this->self();
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
    if (!cancelled_) cancelled_.emplace(503, "memory ran out");
    return false;
  }
}

bool Job::note_step(size_t index, const decode::StepEvent& event) {
  {
    const std::lock_guard lock(mutex_);
    Answer& answer = answers_[index];
    if (answer.forwards == 0)
      service_.metrics().first_step(
          seconds(), static_cast<double>(service_.engine().stats().forwards) - answer.forwards_before + 1);
    answer.forwards += decode::forwards_of(event.plan);
    answer.rows += decode::rows_of(event.plan);
    if (ask_.logprobs)
      for (const decode::Edit& edit : event.edits)
        if (edit.position < std::ssize(answer.confidence))
          answer.confidence[static_cast<size_t>(edit.position)] = edit.confidence;
    if (given_up()) return false;
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
  {
    const std::lock_guard lock(mutex_);
    Answer& answer = answers_[index];
    if (answer.prompt_kept < 0) answer.prompt_kept = done;
    answer.progress = Progress{answer.prompt_kept, done, total, seconds()};
  }
  announce();
}

void Job::done(size_t index, Result<Generation> result) {
  ended(index, [&] {
    if (result && result->stats.decode.cancelled) {
      service_.metrics().cancelled();
    } else if (result) {
      const GenerationStats& stats = result->stats;
      service_.metrics().finished(seconds(), stats.content_tokens, stats.prompt_tokens, stats.tokens_per_forward());
    }
    answers_[index].result = std::move(result);
  });
}

void Job::silent(double ping_seconds) {
  {
    const std::lock_guard lock(mutex_);
    if (!ask_.stream || ping_ || std::chrono::duration<double>(Clock::now() - last_piece_).count() < ping_seconds)
      return;
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

// Tokens and alternatives are written as JSON.
WorkSize Job::reply_size() const {
  return std::ssize(answers_) * (1 + ask_.alternatives) > kMostAlternatives + 1 ? WorkSize::large : WorkSize::small;
}

void Job::all_ended() {
  const std::lock_guard lock(mutex_);
  int64_t tokens = 0, forwards = 0;
  for (const Answer& answer : answers_) {
    if (answer.result && *answer.result) tokens += (*answer.result)->stats.content_tokens;
    forwards += answer.forwards;
  }
  const auto error = failed_answer();
  Json line = {{"event", "answer"},
               {"id", exchange_->id},
               {"answers", answers_.size()},
               {"stream", ask_.stream},
               {"tokens", tokens},
               {"forwards", forwards},
               {"ms", static_cast<int64_t>(seconds() * 1e3)},
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

void begin_job(Service& service, const std::shared_ptr<Exchange>& exchange, Answered<Ask> ask) {
  if (!ask) return exchange->respond(std::unexpected(ask.error()));
  if (ask->asked.empty()) return exchange->respond(without_answer(service, *exchange, *ask));
  const bool reads_form = !ask->decoding->late.empty() || !service.model().has_form(ask->asked.front().options);
  if (!ask->held && reads_form) {
    ask->held = service.room().hold(waiting_bytes(*ask));
    if (!ask->held)
      return exchange->respond(no_room(service.room(), "the request needs", WaitingRoom::counted(waiting_bytes(*ask))));
    return service.go_on(exchange, SIZE_MAX, [&service, exchange, later = std::make_shared<Ask>(std::move(*ask))] {
      begin_job(service, exchange, std::move(*later));
    });
  }
  if (const Done prepared = prepare_requests(service, *ask); !prepared)
    return exchange->respond(std::unexpected(prepared.error()));
  ask->held = nullptr;
  std::make_shared<Job>(service, exchange, std::move(*ask))->begin();
}

}  // namespace llada::serve
