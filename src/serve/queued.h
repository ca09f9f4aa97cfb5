// Work of a request that has one place in the queue and one result, of type T: a score, decisions. From admission to
// the reply; the engine's thread only hands the result on.
#pragma once
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/service.h"

namespace llada::serve {

template <class T>
struct QueuedWork {
  std::string_view what;  // of an error about memory: "the score needs"
  AnswerBytes bytes;
  double waiting_bytes = 0;         // what it holds from the beginning
  WorkSize size = WorkSize::small;  // of making the reply
  // Once at most.
  std::function<std::shared_ptr<Submitted>(std::function<void(Result<T>)> on_done)> submit;
  std::function<Json(const T& result)> json;
  std::function<void(double seconds, const Result<T>& result)> ended = {};  // may be empty
};

template <class T>
class Queued final : public Pending, public std::enable_shared_from_this<Queued<T>> {
 public:
  Queued(Service& service, std::shared_ptr<Exchange> exchange, QueuedWork<T> work)
      : service_(service), exchange_(std::move(exchange)), work_(std::move(work)) {}
  // Of one that was cancelled on its way into the queue. Those that leave() starts may run out of memory.
  ~Queued() override {
    try {
      if (!left_) service_.admission().leave(ticket());
    } catch (const std::exception&) {
    }
  }

  void begin() {
    try {
      enter();
    } catch (...) {
      cancel("memory ran out", 503);
      throw;
    }
  }

  void tick(double answer_seconds, double /*ping_seconds*/) override {
    if (!exchange_->gives_way && seconds() > answer_seconds) cancel("the answer took too long", 504);
  }

  void cancel(const std::string& why, int status) override {
    std::shared_ptr<Submitted> handle;
    {
      const std::lock_guard lock(mutex_);
      if (result_) return;
      if (!cancelled_) cancelled_.emplace(status, why);
      handle = handle_;
    }
    if (handle) {
      handle->cancel();  // and done() follows
    } else {
      done(failed("{}", why));
    }
  }

 private:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count(); }

  Admission::Id ticket() const {
    const std::lock_guard lock(mutex_);
    return ticket_;
  }

  void enter() {
    const auto self = this->shared_from_this();
    if (!service_.began(self))
      return exchange_->respond(error_reply(ApiError(503, "the server is shutting down", "", "shutting_down")));
    const auto refuse_with = [&](const ApiError& error) {
      exchange_->respond(error_reply(error));
      service_.ended(self);
    };
    const double bytes = work_.bytes.computed + Admission::counted(work_.waiting_bytes);
    if (!service_.admission().could_hold(bytes))
      return refuse_with(ApiError(400, fmt::format("{} {:.3g} MB of memory, {:.3g} MB at most are there", work_.what,
                                                   bytes / 1e6, service_.admission().limits().kv_bytes / 1e6)));
    const auto known = [&](const std::vector<Admission::Id>& ids) {
      const std::lock_guard lock(mutex_);
      ticket_ = ids.front();
    };
    std::vector<Admission::Ticket> tickets;
    tickets.push_back({.bytes = work_.bytes,
                       .start = [self] { self->start(); },
                       .expired = [self] { self->cancel("the queue was full for too long", 503); }});
    held_ = service_.admission().hold(work_.waiting_bytes);
    if (!held_ || !service_.admission().enter(std::move(tickets), known, exchange_->gives_way)) {
      exchange_->respond(queue_full());
      return service_.ended(self);
    }
    exchange_->on_gone([weak = this->weak_from_this()] {
      if (const auto queued = weak.lock()) queued->cancel("the client has gone", kClientGone);
    });
  }

  // Called by admission, on any thread.
  void start() {
    const Status begun = within_memory([&]() -> Status {
      {
        const std::lock_guard lock(mutex_);
        if (result_) return {};
      }
      auto handle =
          work_.submit([self = this->shared_from_this()](Result<T> result) { self->done(std::move(result)); });
      const std::lock_guard lock(mutex_);
      if (cancelled_ || exchange_->is_gone()) handle->cancel();
      if (!result_) handle_ = std::move(handle);
      return {};
    });
    if (!begun) done(std::unexpected(begun.error()));
  }

  // Once, on any thread. The engine's has others to serve: a worker makes the reply.
  void done(Result<T> result) {
    {
      const std::lock_guard lock(mutex_);
      if (result_) return;
      result_ = std::move(result);
      handle_.reset();
    }
    service_.admission().computed(ticket());
    const auto reply = [self = this->shared_from_this()] {
      answer_guarded(*self->exchange_, [&] { self->exchange_->respond(self->reply()); });
      self->left_ = true;
      self->service_.admission().leave(self->ticket());
      self->service_.ended(self);
    };
    try {
      if (work_.ended) work_.ended(seconds(), *result_);
      service_.workers().give(reply, work_.size);
    } catch (const std::exception&) {
      reply();
    }
  }

  HttpReply reply() const {
    if (*result_) return json_reply(work_.json(**result_));
    return error_reply(cancelled_ ? *cancelled_ : ApiError(result_->error()));
  }

  Service& service_;
  const std::shared_ptr<Exchange> exchange_;
  const QueuedWork<T> work_;
  std::shared_ptr<void> held_;  // its waiting_bytes, in the admission's count
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  bool left_ = false;         // the queue, by the reply; read where nobody else is left
  mutable std::mutex mutex_;  // guards what follows
  Admission::Id ticket_ = -1;
  std::shared_ptr<Submitted> handle_;
  std::optional<ApiError> cancelled_;  // as it is once there is a result
  std::optional<Result<T>> result_;
};

template <class T>
void begin_queued(Service& service, const std::shared_ptr<Exchange>& exchange, QueuedWork<T> work) {
  std::make_shared<Queued<T>>(service, exchange, std::move(work))->begin();
}

}  // namespace llada::serve
