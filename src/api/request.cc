// llada_engine and llada_request: submitting, steps, results.
#include <algorithm>
#include <chrono>

#include "api/objects.h"
#include "engine/decode_choice.h"
#include "engine/infill_text.h"
#include "engine/prompt.h"

namespace llada::api {

using decode::TokenState;

static_assert(static_cast<int>(TokenState::fixed) == LLADA_TOKEN_FIXED &&
              static_cast<int>(TokenState::masked) == LLADA_TOKEN_MASKED &&
              static_cast<int>(TokenState::visible) == LLADA_TOKEN_VISIBLE &&
              static_cast<int>(TokenState::stable) == LLADA_TOKEN_STABLE);

AnswerCanvas AnswerCanvas::of(std::shared_ptr<const Model> model, const ReadyRequest& ready) {
  const Request& request = ready.request;
  AnswerCanvas made;
  made.model = std::move(model);
  const bool infill = request.gaps.has_value();
  const int64_t given = std::ssize(request.tokens);
  const auto size = static_cast<size_t>(infill ? given : ready.most_generated);
  made.begin = infill ? 0 : given;
  made.canvas.infill = infill;
  made.canvas.mask_id = made.model->special_ids().mask;
  made.resize(size);
  for (size_t i = 0; i < size; ++i)
    infill ? made.set(i, request.tokens[i], TokenState::fixed, 1)
           : made.set(i, made.canvas.mask_id, TokenState::masked, 0);
  if (infill)
    for (const int32_t gap : *request.gaps)
      made.set(static_cast<size_t>(gap), made.canvas.mask_id, TokenState::masked, 0);
  return made;
}

void AnswerCanvas::resize(size_t size) {
  canvas.tokens.resize(size);
  canvas.states.resize(size);
  confidences.resize(size);
  states.resize(size);
  if (model->has_tokenizer()) texts.resize(size), text_sizes.resize(size);
}

void AnswerCanvas::lay(std::span<const int32_t> given) {
  resize(given.size());
  for (size_t i = 0; i < given.size(); ++i)
    given[i] >= 0 ? set(i, given[i], TokenState::fixed, 1) : set(i, canvas.mask_id, TokenState::masked, 0);
}

void AnswerCanvas::set(size_t at, int32_t token, TokenState state, double confidence) {
  canvas.tokens[at] = token;
  canvas.states[at] = state;
  states[at] = static_cast<int32_t>(state);
  confidences[at] = state == TokenState::masked ? 0 : static_cast<float>(confidence);
  if (texts.empty()) return;
  const std::string_view text = state == TokenState::masked ? kHole : model->tokenizer().piece(token);
  texts[at] = text.empty() ? "" : text.data();
  text_sizes[at] = text.size();
}

void AnswerCanvas::apply(std::span<const decode::Edit> edits, std::vector<int32_t>* changed) {
  for (const decode::Edit& edit : edits) {
    const int64_t at = edit.position - begin;
    if (at < 0 || at >= canvas.size()) continue;
    set(static_cast<size_t>(at), edit.token, edit.state, edit.confidence);
    if (changed != nullptr) changed->push_back(static_cast<int32_t>(at));
  }
}

void AnswerCanvas::finish(std::span<const int32_t> tokens) {
  const size_t size = std::min(tokens.size(), canvas.tokens.size());
  for (size_t i = 0; i < size; ++i)
    if (tokens[i] != canvas.tokens[i]) set(i, tokens[i], TokenState::stable, 1);
}

int64_t AnswerCanvas::masked() const { return std::ranges::count(canvas.states, TokenState::masked); }

}  // namespace llada::api

using namespace llada::api;
using llada::Engine;
using llada::Request;

namespace {

// One thread at a time; the other is told.
class InUse {
 public:
  explicit InUse(RequestObject& request) : request_(request), mine_(!request.in_use.exchange(true)) {}
  ~InUse() {
    if (mine_) request_.in_use = false;
  }
  InUse(const InUse&) = delete;
  InUse& operator=(const InUse&) = delete;
  Outcome check() const {
    if (mine_) return LLADA_OK;
    return refuse(LLADA_ERROR_BUSY, "request: another thread uses it, needed one at a time");
  }

 private:
  RequestObject& request_;
  const bool mine_;
};

// A hundred years for -1.
std::chrono::milliseconds time_of(int32_t timeout_ms) {
  return timeout_ms < 0 ? std::chrono::hours(24 * 365 * 100) : std::chrono::milliseconds(timeout_ms);
}

// The status of a request that has ended.
Outcome ended(RequestObject& request) {
  const auto& result = request.submission->wait();
  if (result) return LLADA_OK;
  LLADA_TRY_STATUS(check_file(*request.model->model));
  return std::unexpected(ApiError(result.error()));
}

// As the command line has them.
std::expected<llada::decode::DecodeOptions, ApiError> decode_options(const OptionValues& chosen,
                                                                     const llada::Model& model, bool infill) {
  llada::DecodeChoice choice(infill);
  choice.call_preset("preset");
  choice.use_defaults();
  for (const llada::decode::Setting& setting : chosen.settings) choice.give(setting);
  choice.give_preset(chosen.preset);
  LLADA_TRY_STATUS(choice.resolve(model.special_ids().kind()));
  choice.draw_seed();
  return choice.options;
}

// The counts of a run, beyond the first version of the API.
void count_into(llada_result& out, const llada::GenerationStats& stats) {
  const llada::decode::RunStats& d = stats.decode;
  out.full_forwards = d.full_forwards;
  out.sparse_forwards = d.sparse_forwards;
  out.logit_rows = d.logit_rows;
  out.trial_rows = d.trial_rows;
  out.drafts_proposed = d.counters.drafts_proposed;
  out.drafts_accepted = d.counters.drafts_accepted;
  out.revisions_made = d.counters.revisions_made;
  out.revisions_changed = d.counters.revisions_changed;
  out.committed_tokens = d.committed;
  out.kv_bytes = stats.kv_bytes;
  out.canvas_hash = stats.canvas_hash;
  out.stopped_early = d.stopped_early;
}

int32_t finish_reason(const llada::Generation& generation, bool infill) {
  const std::string_view reason = llada::finish_reason(generation);
  if (reason == "interrupted") return LLADA_FINISH_INTERRUPTED;
  if (infill) return LLADA_FINISH_FILLED;
  return reason == "stop" ? LLADA_FINISH_STOP : LLADA_FINISH_LENGTH;
}

// Fills a request's decoding options, submits it and hands out its handle. lay: Outcome(const Model&, Request&).
template <class Lay>
llada_status submit(llada_engine* engine, const llada_options* options, bool infill, llada_request** out,
                    const Lay& lay) {
  return with<EngineObject>(engine, [&](EngineObject& object) -> Outcome {
    LLADA_TRY_STATUS(check_out("request", out));
    LLADA_TRY(OptionValues chosen, read_options(options, LLADA_FOR_REQUEST));
    const auto& model = object.model->model;
    Request request;
    LLADA_TRY(request.options, decode_options(chosen, *model, infill));
    request.stop = std::move(chosen.stop);
    LLADA_TRY_STATUS(lay(*model, request));
    LLADA_TRY_STATUS(check_file(*model));
    LLADA_TRY(const llada::Ready ready, llada::prepare(*model, std::move(request)));
    auto decoded = std::make_shared<AnswerCanvas>(AnswerCanvas::of(model, *ready));
    auto handle = std::make_shared<RequestObject>();
    handle->model = object.model;
    handle->decoded = decoded;
    handle->keep_steps = chosen.keep_steps;
    handle->infill = infill;
    if (chosen.keep_steps) handle->shown = *decoded;
    const auto on_step = [decoded = std::move(decoded)](const llada::decode::StepEvent& event) {
      if (event.step == 0 && event.canvas.infill) decoded->lay(llada::given_tokens(event.canvas));
      decoded->apply(event.edits, nullptr);
      return true;
    };
    handle->submission = object.engine->submit(ready, {.run = {.on_step = on_step}, .keep_steps = chosen.keep_steps});
    hand_out(std::move(handle), out);
    return LLADA_OK;
  });
}

}  // namespace

llada_status llada_engine_create(llada_model* model, const llada_options* options, llada_engine** engine) {
  return with<ModelObject>(model, [&](ModelObject&) -> Outcome {
    LLADA_TRY_STATUS(check_out("engine", engine));
    LLADA_TRY(OptionValues chosen, read_options(options, LLADA_FOR_ENGINE));
    auto object = std::make_shared<EngineObject>();
    object->model = live<ModelObject>(model);
    if (!object->model) return refuse(LLADA_ERROR_HANDLE, "model: was freed");
    LLADA_TRY_STATUS(check_file(*object->model->model));
    llada::SchedulerOptions& s = chosen.engine;
    // A share of its own, so that other engines of the model and llada_logits() work beside it.
    if (s.threads == 0) s.threads = object->model->model->device().info().threads;
    if (s.most_running == 1 && s.row_budget == 0) s.row_budget = 1;  // a single request has its turn whatever its rows
    if (chosen.cache_bytes > 0) s.prefixes = std::make_shared<llada::PrefixCache>(chosen.cache_bytes);
    LLADA_TRY(object->engine, Engine::create(object->model->model, s));
    hand_out(std::move(object), engine);
    return LLADA_OK;
  });
}

void llada_engine_free(llada_engine* engine) { release(Kind::engine, engine); }

llada_status llada_engine_describe(const llada_engine* engine, llada_engine_stats* stats) {
  return with<EngineObject>(engine, [&](EngineObject& object) -> Outcome {
    const llada::SchedulerStats s = object.engine->stats();
    return fill("stats", stats,
                {0, s.forwards, s.parts, s.rows, object.engine->row_budget(), s.most_rows, s.most_passed_over});
  });
}

llada_status llada_submit_chat(llada_engine* engine, const char* const* roles, const char* const* contents,
                               size_t messages, const llada_options* options, llada_request** request) {
  return submit(engine, options, false, request, [&](const llada::Model& model, Request& r) -> Outcome {
    LLADA_TRY(const auto talk, read_messages(roles, contents, messages));
    LLADA_TRY(r.tokens, llada::chat_prompt(model, talk));
    return LLADA_OK;
  });
}

llada_status llada_submit_text(llada_engine* engine, const char* text, size_t size, const llada_options* options,
                               llada_request** request) {
  return submit(engine, options, false, request, [&](const llada::Model& model, Request& r) -> Outcome {
    LLADA_TRY(const auto bytes, read_text("text", text, size));
    LLADA_TRY(r.tokens, llada::text_prompt(model, bytes));
    return LLADA_OK;
  });
}

llada_status llada_submit_tokens(llada_engine* engine, const int32_t* tokens, size_t count,
                                 const llada_options* options, llada_request** request) {
  return submit(engine, options, false, request, [&](const llada::Model&, Request& r) -> Outcome {
    LLADA_TRY(const auto ids, read_array("tokens", tokens, count));
    if (ids.empty()) return refuse(LLADA_ERROR_INVALID, "tokens: found none, needed one or more");
    r.tokens.assign(ids.begin(), ids.end());
    return LLADA_OK;
  });
}

llada_status llada_submit_infill(llada_engine* engine, const char* text, size_t size, const llada_options* options,
                                 llada_request** request) {
  return submit(engine, options, true, request, [&](const llada::Model& model, Request& r) -> Outcome {
    LLADA_TRY(const auto bytes, read_text("text", text, size));
    LLADA_TRY(const auto pieces, llada::parse_infill_template(bytes));
    LLADA_TRY(auto layout, llada::lay_out_infill(model, pieces));
    r.tokens = std::move(layout.tokens);
    r.gaps = std::move(layout.positions);
    r.auto_gaps = layout.automatic();
    return LLADA_OK;
  });
}

llada_status llada_submit_gaps(llada_engine* engine, const int32_t* tokens, size_t count, const int32_t* gaps,
                               size_t gap_count, const llada_options* options, llada_request** request) {
  return submit(engine, options, true, request, [&](const llada::Model& model, Request& r) -> Outcome {
    LLADA_TRY(const auto ids, read_array("tokens", tokens, count));
    LLADA_TRY(const auto positions, read_array("gaps", gaps, gap_count));
    r.tokens.assign(ids.begin(), ids.end());
    r.gaps.emplace(positions.begin(), positions.end());
    for (const int32_t gap : *r.gaps)
      if (gap >= 0 && static_cast<size_t>(gap) < count) r.tokens[static_cast<size_t>(gap)] = model.special_ids().mask;
    return LLADA_OK;
  });
}

llada_status llada_request_next(llada_request* request, int32_t timeout_ms, llada_step* step) {
  return with<RequestObject>(request, [&](RequestObject& r) -> Outcome {
    const InUse use(r);
    LLADA_TRY_STATUS(use.check());
    if (!r.keep_steps)
      return refuse(LLADA_ERROR_INVALID, "request: its steps are not kept, needed the option keep_steps=true");
    LLADA_TRY_STATUS(check_out("step", step));
    if (!r.submission->wait_for_step(time_of(timeout_ms))) return LLADA_TIMEOUT;
    const auto update = r.submission->next();
    if (!update) {
      LLADA_TRY_STATUS(ended(r));
      return LLADA_END;
    }
    r.edits.clear();
    if (!update->given.empty()) r.shown.lay(update->given);
    r.shown.apply(update->edits, &r.edits);
    const AnswerCanvas& f = r.shown;
    if (!f.texts.empty()) r.shown_text = llada::text_so_far(*f.model, f.canvas, 0);
    llada_step out = LLADA_STEP_INIT;
    out.number = update->step;
    out.committed = update->committed;
    out.masked = f.masked();
    out.edit_count = r.edits.size();
    out.edits = r.edits.data();
    out.count = f.canvas.tokens.size();
    out.tokens = f.canvas.tokens.data();
    out.states = f.states.data();
    out.confidences = f.confidences.data();
    out.texts = f.texts.empty() ? nullptr : f.texts.data();
    out.text_sizes = f.texts.empty() ? nullptr : f.text_sizes.data();
    out.text = r.shown_text.c_str();
    out.text_size = r.shown_text.size();
    return fill("step", step, out);
  });
}

llada_status llada_request_wait(llada_request* request, int32_t timeout_ms) {
  return with<RequestObject>(request, [&](RequestObject& r) -> Outcome {
    const InUse use(r);
    LLADA_TRY_STATUS(use.check());
    if (!r.submission->wait_for(time_of(timeout_ms))) return LLADA_TIMEOUT;
    return ended(r);
  });
}

int32_t llada_request_done(const llada_request* request) {
  int32_t done = 0;
  const llada_status status = with<RequestObject>(request, [&](RequestObject& r) -> Outcome {
    done = r.submission->done();
    return LLADA_OK;
  });
  return status == LLADA_OK ? done : status;
}

llada_status llada_request_cancel(llada_request* request) {
  return with<RequestObject>(request, [&](RequestObject& r) -> Outcome {
    r.submission->cancel();
    return LLADA_OK;
  });
}

void llada_request_free(llada_request* request) {
  if (const auto object = std::static_pointer_cast<RequestObject>(release(Kind::request, request)))
    object->submission->cancel();
}

llada_status llada_request_result(llada_request* request, llada_result* result) {
  return with<RequestObject>(request, [&](RequestObject& r) -> Outcome {
    const InUse use(r);
    LLADA_TRY_STATUS(use.check());
    if (!r.submission->done())
      return refuse(LLADA_ERROR_BUSY, "request: it has not ended, needed llada_request_wait()");
    LLADA_TRY_STATUS(ended(r));
    const llada::Generation& g = *r.submission->wait();
    AnswerCanvas& f = *r.decoded;
    if (!r.result_made) f.finish(g.tokens);
    r.result_made = true;
    llada_result out = LLADA_RESULT_INIT;
    out.text = g.text.c_str();
    out.text_size = g.text.size();
    out.count = g.tokens.size();
    out.tokens = g.tokens.data();
    out.states = f.states.data();
    out.confidences = f.confidences.data();
    out.stopped_by = g.stopped_by.c_str();
    out.stopped_by_size = g.stopped_by.size();
    out.prompt_tokens = g.stats.prompt_tokens;
    out.content_tokens = g.stats.content_tokens;
    out.forwards = g.stats.decode.nfe;
    out.steps = g.stats.decode.steps;
    out.rows = g.stats.decode.rows;
    out.reused_positions = g.stats.reused_positions;
    out.seconds = g.stats.seconds;
    out.seed = g.stats.seed.value_or(0);
    out.has_seed = g.stats.seed.has_value();
    out.cancelled = g.stats.decode.cancelled;
    count_into(out, g.stats);
    out.finish_reason = finish_reason(g, r.infill);
    return fill("result", result, out);
  });
}
