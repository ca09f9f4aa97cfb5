#include "serve/admission.h"

#include <algorithm>

#include "engine/request_memory.h"

namespace llada::serve {

// The tokens behind the first, each given those before it.
ScoreRequest prompt_score(const Request& request) {
  ScoreRequest score{.prompt = {request.tokens.front()},
                     .continuations = {{request.tokens.begin() + 1, request.tokens.end()}}};
  score.options.top = request.alternatives;
  return score;
}

double answer_bytes(const Model& model, const Request& request, bool scores_prompt, int64_t row_budget) {
  constexpr double kTextCopies = 12;     // valid UTF-8, JSON with every byte escaped, the reply
  constexpr double kJsonOfToken = 1024;  // one token with its log-probability, or its edit
  constexpr double kJsonOfText = 32;     // a byte of a token's text in a list of bytes
  constexpr double kNotes = 128;         // steps of blocks that wait for a slow reader
  const int64_t positions = most_positions(model, request);
  const double text = text_bytes(model, positions), each = 1 + static_cast<double>(request.alternatives);
  double bytes = request_bytes(model, request);
  // One after the other; the scores stay.
  if (scores_prompt) bytes = std::max(bytes, score_bytes(model, prompt_score(request), row_budget));
  const double edits = static_cast<double>(positions) + kNotes * static_cast<double>(request.options.block_length);
  return bytes + kTextCopies * text + edits * 2 * sizeof(decode::Edit) +
         each * (static_cast<double>(positions) * kJsonOfToken + kJsonOfText * text);
}

bool Admission::fits(double kv_bytes) const {
  if (static_cast<int64_t>(running_.size()) >= limits_.running) return false;
  return limits_.kv_bytes <= 0 || kv_bytes_ + kv_bytes <= limits_.kv_bytes;
}

bool Admission::enter(std::vector<Ticket> tickets, const std::function<void(const std::vector<Id>&)>& known) {
  {
    const std::lock_guard lock(mutex_);
    const auto count = static_cast<int64_t>(tickets.size());
    const int64_t free = std::max<int64_t>(limits_.running - static_cast<int64_t>(running_.size()), 0);
    const int64_t queued = static_cast<int64_t>(waiting_.size()) + count;
    if (queued > limits_.waiting + (waiting_.empty() ? free : 0)) return false;
    std::vector<Id> ids;
    for (Ticket& ticket : tickets) {
      ids.push_back(next_);
      waiting_.push_back({next_++, std::move(ticket), std::chrono::steady_clock::now()});
    }
    known(ids);
  }
  start_some();
  return true;
}

void Admission::start_some() {
  std::vector<std::function<void()>> starts;
  {
    const std::lock_guard lock(mutex_);
    // In their order: a large one is not overtaken for ever by small ones.
    while (!waiting_.empty() && fits(waiting_.front().ticket.kv_bytes)) {
      Waiting& first = waiting_.front();
      running_.emplace(first.id, first.ticket.kv_bytes);
      kv_bytes_ += first.ticket.kv_bytes;
      starts.push_back(std::move(first.ticket.start));
      waiting_.pop_front();
    }
  }
  for (const auto& start : starts) start();
}

void Admission::leave(Id id) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = running_.find(id); found != running_.end()) {
      kv_bytes_ = running_.size() == 1 ? 0 : kv_bytes_ - found->second;
      running_.erase(found);
    } else {
      std::erase_if(waiting_, [&](const Waiting& w) { return w.id == id; });
    }
  }
  start_some();
}

void Admission::expire() {
  std::vector<std::function<void()>> expired;
  {
    const std::lock_guard lock(mutex_);
    const auto before = std::chrono::steady_clock::now() - std::chrono::duration<double>(limits_.wait_seconds);
    while (!waiting_.empty() && waiting_.front().since < before) {
      expired.push_back(std::move(waiting_.front().ticket.expired));
      waiting_.pop_front();
    }
  }
  for (const auto& call : expired) call();
}

AdmissionCounts Admission::counts() const {
  const std::lock_guard lock(mutex_);
  return {static_cast<int64_t>(running_.size()), static_cast<int64_t>(waiting_.size()), kv_bytes_};
}

}  // namespace llada::serve
