#include "serve/admission.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace llada::serve {

// The tokens behind the first, each given those before it.
ScoreRequest prompt_score(const Request& request) {
  ScoreRequest score{.prompt = {request.tokens.front()},
                     .continuations = {{request.tokens.begin() + 1, request.tokens.end()}}};
  score.options.top = request.alternatives;
  return score;
}

AnswerBytes answer_bytes(const RequestBytes& engine, const Request& request, double prompt_score) {
  constexpr double kTextCopies = 12;     // valid UTF-8, JSON with every byte escaped, the reply
  constexpr double kJsonOfToken = 1024;  // one token with its log-probability, or its edit
  constexpr double kJsonOfText = 32;     // a byte of a token's text in a list of bytes
  constexpr double kNotes = 128;         // steps of blocks that wait for a slow reader
  const auto positions = static_cast<double>(engine.positions);
  const double each = 1 + static_cast<double>(request.alternatives);
  const double notes =
      (positions + kNotes * static_cast<double>(request.options.block_length)) * 2 * sizeof(decode::Edit);
  // One after the other; the scores stay.
  const double bytes = std::max(engine.computed, prompt_score) + kTextCopies * engine.text + notes +
                       each * (positions * kJsonOfToken + kJsonOfText * engine.text);
  // The result, and the prompt's scores; of a stream its own text and tokens, confidences, notes that were not read.
  const double score = sizeof(TokenScore) + each * sizeof(TokenScore::Alternative);
  const double kept = engine.result + (prompt_score > 0 ? positions * score : 0) + 2 * engine.text +
                      positions * (sizeof(int32_t) + sizeof(double)) + notes;
  return {std::ceil(std::max(bytes, kept)), std::ceil(kept)};
}

double Admission::needed(const std::vector<Ticket>& tickets) {
  double kept = 0, most = 0;
  for (const Ticket& ticket : tickets) {
    kept += ticket.bytes.kept;
    most = std::max(most, ticket.bytes.computed - ticket.bytes.kept);
  }
  return kept + most;
}

double Admission::counted(double bytes) {
  constexpr double kFree = 64 << 10;  // an ordinary request is never refused for long ones
  return std::max(std::ceil(bytes) - kFree, 0.0);
}

std::shared_ptr<void> Admission::hold(double bytes) {
  const double held_bytes = counted(bytes);
  {
    const std::lock_guard lock(mutex_);
    // Without those that run; the most that one of those that wait needs beside that, and beside what waits with it.
    double kept = bytes_, begun = 0, not_begun = 0;
    for (const auto& [id, held] : held_) kept -= held.running ? held.more : 0;
    for (const Party& party : waiting_) {
      const AnswerBytes& next = party.waiting.front().ticket.bytes;
      if (party.begun) begun = std::max(begun, next.computed - next.kept);
      if (!party.begun) not_begun = std::max(not_begun, party.needed);
    }
    const double most = std::max({bytes_, kept + begun, texts_ + not_begun});
    if (held_bytes > 0 && !could_hold(most + held_bytes)) return nullptr;
    bytes_ += held_bytes, texts_ += held_bytes;
  }
  const auto let_go = [this, held_bytes](void*) {
    try {
      {
        const std::lock_guard lock(mutex_);
        bytes_ -= held_bytes, texts_ -= held_bytes;
      }
      if (held_bytes > 0) start_some();
    } catch (const std::exception&) {  // no memory to begin others: they begin when the next one ends
    }
  };
  return {static_cast<void*>(this), let_go};
}

// A request that waits for its turn takes one place, and its answers beyond the first are counted beside that: so a few
// requests for many answers leave others their places. Those that give way take none from others.
bool Admission::enter(std::vector<Ticket> tickets, const std::function<void(const std::vector<Id>&)>& known,
                      bool gives_way) {
  {
    const std::lock_guard lock(mutex_);
    int64_t places = 0, further = 0;
    for (const Party& party : waiting_) {
      if (party.gives_way && !gives_way) continue;
      ++places;
      further += std::ssize(party.waiting) - 1;
    }
    const int64_t free = places == 0 ? std::max<int64_t>(limits_.running - running_, 0) : 0;
    const int64_t queued = std::ssize(tickets) - free;
    if (queued > 0 && (places >= limits_.waiting || further + queued - 1 > limits_.waiting)) return false;
    if (!could_hold(texts_ + needed(tickets))) return false;  // of others': it could wait for ever
    Party party{
        .waiting = {}, .since = std::chrono::steady_clock::now(), .needed = needed(tickets), .gives_way = gives_way};
    std::vector<Id> ids;
    for (Ticket& ticket : tickets) {
      ids.push_back(next_);
      party.kept += ticket.bytes.kept;
      party.waiting.push_back({next_++, std::move(ticket)});
    }
    known(ids);
    answers_waiting_ += std::ssize(ids);
    waiting_.push_back(std::move(party));
  }
  start_some();
  return true;
}

std::function<void()> Admission::begin(Party& party) {
  Waiting first = std::move(party.waiting.front());
  party.waiting.pop_front();
  const auto [computed, kept] = first.ticket.bytes;
  if (!std::exchange(party.begun, true)) bytes_ += party.kept;
  bytes_ += computed - kept;
  held_.emplace(first.id, Held{.kept = kept, .more = computed - kept, .gives_way = party.gives_way});
  party.kept -= kept;
  ++running_, --answers_waiting_;
  giving_way_ += party.gives_way ? 1 : 0;
  return std::move(first.ticket.start);
}

// Of those that give way one that has begun goes on beside others that wait: what it keeps would be in their way.
bool Admission::may_have_place(const Party& party) const {
  if (running_ >= limits_.running) return false;
  if (!party.gives_way) return true;
  const auto has_priority = [](const Party& other) { return !other.gives_way; };
  return giving_way_ < std::max<int64_t>(limits_.running - 1, 1) &&
         (party.begun || std::ranges::none_of(waiting_, has_priority));
}

// Where memory is short a request that has not begun is not overtaken by others that have not, or a large one would
// wait for ever. Those that have begun go on meanwhile: the one of them that began last was counted beside the bytes
// that the others keep, so that some answer can always be computed.
void Admission::start_some() {
  std::vector<std::function<void()>> starts;
  {
    const std::lock_guard lock(mutex_);
    bool blocked = false;
    for (auto party = waiting_.begin(); party != waiting_.end() && running_ < limits_.running;) {
      if (!may_have_place(*party)) {
        ++party;
        continue;
      }
      const AnswerBytes& next = party->waiting.front().ticket.bytes;
      if (party->begun ? !fits(next.computed - next.kept) : blocked || !fits(party->needed)) {
        blocked = blocked || !party->begun;
        ++party;
        continue;
      }
      starts.push_back(begin(*party));
      if (party->waiting.empty()) {
        waiting_.erase(party);
      } else {
        waiting_.splice(waiting_.end(), waiting_, party);
      }
      party = waiting_.begin(), blocked = false;
    }
  }
  for (const auto& start : starts) start();
}

void Admission::computed(Id id) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = held_.find(id);
    if (found == held_.end() || !std::exchange(found->second.running, false)) return;
    bytes_ -= found->second.more;
    --running_;
    giving_way_ -= found->second.gives_way ? 1 : 0;
  }
  start_some();
}

void Admission::leave(Id id) {
  computed(id);
  std::optional<Waiting> gone;  // its calls may own who would leave, too
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = held_.find(id); found != held_.end()) {
      bytes_ -= found->second.kept;
      held_.erase(found);
    }
    for (auto party = waiting_.begin(); party != waiting_.end() && !gone; ++party) {
      const auto found = std::ranges::find(party->waiting, id, &Waiting::id);
      if (found == party->waiting.end()) continue;
      gone = std::move(*found);
      party->waiting.erase(found);
      party->kept -= gone->ticket.bytes.kept;
      if (party->begun) bytes_ -= gone->ticket.bytes.kept;
      --answers_waiting_;
      if (party->waiting.empty()) {
        waiting_.erase(party);
        break;
      }
    }
  }
  start_some();
}

void Admission::expire() {
  std::list<Party> expired;
  {
    const std::lock_guard lock(mutex_);
    const auto before = std::chrono::steady_clock::now() - std::chrono::duration<double>(limits_.wait_seconds);
    for (auto party = waiting_.begin(); party != waiting_.end();) {
      const auto next = std::next(party);
      if (party->since < before && !party->gives_way) {
        answers_waiting_ -= std::ssize(party->waiting);
        if (party->begun) bytes_ -= party->kept;
        expired.splice(expired.end(), waiting_, party);
      }
      party = next;
    }
  }
  for (const Party& party : expired)
    for (const Waiting& waiting : party.waiting) waiting.ticket.expired();
  if (!expired.empty()) start_some();
}

AdmissionCounts Admission::counts() const {
  const std::lock_guard lock(mutex_);
  return {running_, answers_waiting_, bytes_};
}

}  // namespace llada::serve
