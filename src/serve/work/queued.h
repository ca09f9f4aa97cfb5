// A request with one place in the queue and one result of type T (a score, decisions), from admission to the reply. The
// engine's thread only hands the result on.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "serve/work/pending.h"

namespace llada::serve {

template <class T>
struct QueuedWork {
  const char* needs;  // begins an error about memory: "the score needs"
  AnswerBytes bytes;
  double waiting_bytes = 0;         // held while it waits
  WorkSize size = WorkSize::small;  // of making the reply
  // Hands it to the engine; called once at most.
  std::function<std::shared_ptr<Submitted>(std::function<void(Result<T>)> on_done)> submit;
  std::function<Json(const T& result)> json;
  std::function<void(double seconds, const Result<T>& result)> ended = {};  // for metrics; may be empty
};

template <class T>
class Queued final : public PendingAnswer {
 public:
  Queued(Service& service, std::shared_ptr<Exchange> exchange, QueuedWork<T> work)
      : PendingAnswer(service, std::move(exchange), 1), work_(std::move(work)) {}

 private:
  const char* needs() const override { return work_.needs; }
  double waiting_bytes() const override { return work_.waiting_bytes; }
  AnswerBytes bytes(size_t) const override { return work_.bytes; }
  void compute(size_t) override {
    keep_handle(0, work_.submit([self = std::static_pointer_cast<Queued>(this->shared_from_this())](Result<T> result) {
      self->ended(0, [&] { self->result_ = std::move(result); });
    }));
  }
  void fail(size_t, Error error) override { result_ = std::unexpected(std::move(error)); }
  HttpReply reply() override {
    return *result_ ? json_reply(work_.json(**result_)) : error_reply(failure(result_->error()));
  }
  WorkSize reply_size() const override { return work_.size; }
  void all_ended() override {
    if (work_.ended) work_.ended(seconds(), *result_);
  }

  const QueuedWork<T> work_;
  std::optional<Result<T>> result_;
};

// Answers a request that was read, or replies with the error. make cuts its texts into tokens; bytes: their size, by
// which a worker may do so (Service::go_on).
template <class Asked, class T>
void begin_queued(Service& service, const std::shared_ptr<Exchange>& exchange, Answered<Asked> asked,
                  size_t (*bytes)(const Asked&),
                  Answered<QueuedWork<T>> (*make)(Service&, const std::string& id, const std::shared_ptr<Asked>&)) {
  if (!asked) return exchange->respond(std::unexpected(asked.error()));
  const size_t size = bytes(*asked);
  service.go_on(exchange, size, [&service, exchange, make, asked = std::make_shared<Asked>(std::move(*asked))] {
    auto work = make(service, exchange->id, asked);
    if (!work) return exchange->respond(std::unexpected(work.error()));
    std::make_shared<Queued<T>>(service, exchange, std::move(*work))->begin();
  });
}

}  // namespace llada::serve
