// The JSON of a job's answers, once they have ended.
#include <algorithm>

#include "serve/work/job.h"
#include "text/thoughts.h"

namespace llada::serve {
namespace {

int64_t thought_tokens(const ChatFormat& format, std::span<const int32_t> prompt, std::span<const int32_t> answer) {
  int64_t count = 0;
  bool inside = thoughts_behind(format, prompt) == Thoughts::open;
  for (const int32_t token : answer) {
    inside = token == format.thought_begin || (inside && token != format.thought_end);
    count += inside || token == format.thought_end ? 1 : 0;
  }
  return count;
}

// The text ends where one of `stops` begins in its first `length` bytes.
void end_at_stop(FinishedAnswer& answer, std::span<const std::string> stops, size_t length) {
  for (const std::string& stop : stops)
    if (const size_t at = std::string_view(answer.text).substr(0, length).find(stop); at != std::string::npos) {
      answer.text.resize(at);
      answer.reason = "stop", answer.stopped_by = stop;
    }
}

}  // namespace

std::optional<ApiError> Job::failed_answer() const {
  for (const Answer& answer : answers_) {
    if (!answer.result) continue;
    if (!*answer.result) return failure(answer.result->error());
    if ((*answer.result)->stats.decode.cancelled) return cancelled_.value_or(ApiError(503, "the answer was cancelled"));
  }
  return std::nullopt;
}

// Text and calls of an answer beside tools. A stop text ends its text; calls are not looked through.
void Job::read_answer(FinishedAnswer& answer) const {
  const CallForm form = service_.model().chat_format().calls;
  const size_t calls = std::min(answer.text.find(syntax_of(form).mark), answer.text.size());
  end_at_stop(answer, ask_.stop, calls);
  AnswerWithCalls read = read_calls(answer.text, form);
  answer.written = std::exchange(answer.text, std::move(read.text));
  answer.calls = std::move(read.calls);
  if (!answer.calls.empty()) answer.reason = "tool_calls";
}

FinishedAnswer Job::finished(size_t index) const {
  const Request& request = request_of(ask_, index);
  const Generation& g = **answers_[index].result;
  const Tokenizer& tokenizer = service_.model().tokenizer();
  FinishedAnswer answer{
      .text = g.text, .reason = std::string(finish_reason(g)), .logprobs = nullptr, .stopped_by = g.stopped_by};
  if (ask_.think) {
    answer.thoughts = to_valid_utf8(g.thoughts);
    answer.thought_tokens = thought_tokens(service_.model().chat_format(), request.tokens, answer_tokens(index));
  }
  if (ask_.calls) read_answer(answer);
  if (request.gaps) {
    answer.text.clear(), answer.reason = "length", answer.spans = Json::array();
    for (const InfillGap& gap : laid_gaps(ask_.gaps, g.gap_lengths)) {
      const auto ids = std::span(g.tokens).subspan(static_cast<size_t>(gap.position), static_cast<size_t>(gap.length));
      const std::string filled = tokenizer.decode(ids);
      answer.spans.push_back({{"position", gap.position},
                              {"length", gap.length},
                              {"tokens", std::vector(ids.begin(), ids.end())},
                              {"text", to_valid_utf8(filled)}});
      answer.text = filled;
    }
    if (ask_.whole_text) answer.text = g.text;
    end_at_stop(answer, ask_.stop, answer.text.size());
  }
  if (ask_.drops_answer) answer.text.clear(), answer.reason = "length";
  if (ask_.logprobs) answer.logprobs = writer_->logprobs(service_.model(), scored(index));
  return answer;
}

// Of a text with a gap, up to the token in which a stop text ends it, as far as the text was cut.
std::span<const int32_t> Job::answer_tokens(size_t index) const {
  const std::span<const int32_t> all = (*answers_[index].result)->tokens;
  if (!request_of(ask_, index).gaps) {
    // Beside a prompt's scores there is the end token's, too: evaluation clients ask for one token behind the prompt
    // and leave out the last entry, whichever token it is.
    const int64_t tokens = (*answers_[index].result)->stats.content_tokens + (ask_.scores_prompt ? 1 : 0);
    return all.first(static_cast<size_t>(ask_.drops_answer ? 0 : std::min<int64_t>(tokens, std::ssize(all))));
  }
  const InfillGap gap = laid_gaps(ask_.gaps, (*answers_[index].result)->gap_lengths).front();
  const auto filled = all.subspan(static_cast<size_t>(gap.position), static_cast<size_t>(gap.length));
  const Tokenizer& tokenizer = service_.model().tokenizer();
  std::string text;
  for (size_t i = 0; i < filled.size(); ++i) {
    text += tokenizer.decode({&filled[i], 1});
    for (const std::string& stop : ask_.stop)
      if (text.find(stop) != std::string::npos) return filled.first(i + 1);
  }
  return filled;
}

std::vector<ScoredToken> Job::scored(size_t index) const {
  const Request& request = request_of(ask_, index);
  const Answer& answer = answers_[index];
  const Generation& g = **answer.result;
  std::vector<ScoredToken> tokens;
  if (ask_.scores_prompt)
    tokens = scored_prompt(request.tokens, answer.score ? answer.score->continuations.front() : ContinuationScore());
  const auto answered = answer_tokens(index);
  // Where they stand in the result, which of a text with gaps is the whole text, and in the canvas.
  const auto first = static_cast<size_t>(answered.data() - g.tokens.data());
  const size_t before = request.gaps ? 0 : request.tokens.size();
  for (size_t i = first; i < first + answered.size(); ++i) {
    // Behind the end of an answer other tokens may have been decided than there are.
    const bool scored = i < g.scores.size() && g.scores[i].token == g.tokens[i];
    tokens.push_back(scored ? with_score(g.scores[i]) : taken(g.tokens[i], answer.confidence[before + i]));
  }
  return tokens;
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
    const std::vector<int32_t>& tokens = request_of(ask_, i).tokens;
    // A prompt counts once, with what was kept of it when its first answer began.
    if (before == nullptr || *before != tokens) {
      prompts += ready_of(ask_, i).prompt_tokens;
    } else {
      stats.back().reused_positions = 0;
    }
    before = &tokens;
  }
  return usage_json(stats, prompts);
}

Json Job::usage_of(size_t index) const {
  GenerationStats stats = (*answers_[index].result)->stats;
  if (ask_.drops_answer) stats.content_tokens = 0;
  return usage_json({stats}, ready_of(ask_, index).prompt_tokens);
}

// All answers have ended, so that nothing changes any more and no lock is held while text and JSON are made.
HttpReply Job::whole() {
  if (const auto error = failed_answer()) return error_reply(*error);
  const auto take = [&](size_t i) {
    FinishedAnswer answer = finished(i);
    if (!ask_.echoed.empty()) answer.text.insert(0, ask_.echoed[prompt_of(ask_, i)]);
    answer.text = to_valid_utf8(answer.text);
    forget_answer(i);
    return answer;
  };
  Json more = {{"preset", ask_.preset}};
  if (!ask_.note.empty()) more["note"] = ask_.note;
  Json beside = {{"llada", std::move(more)}};
  if (!ask_.warnings.empty()) beside["warnings"] = ask_.warnings;
  return with_note(
      {.body = writer_->body({answers_.size(), take, [&](size_t i) { return usage_of(i); }, usage()}, beside)});
}

HttpReply Job::reply() {
  if (!ask_.stream) return whole();
  return with_note({.type = writer_->type(), .stream = self()});
}

HttpReply Job::with_note(HttpReply reply) const {
  if (!ask_.note.empty()) reply.headers.emplace_back("Llada-Note", ask_.note);
  return reply;
}

}  // namespace llada::serve
