#include "serve/work/metrics.h"

#include <fmt/format.h>

#include <algorithm>

namespace llada::serve {
namespace {

template <class T>
std::string one(std::string_view name, std::string_view type, std::string_view help, T value) {
  return fmt::format("# HELP {0} {2}\n# TYPE {0} {1}\n{0} {3}\n", name, type, help, value);
}

}  // namespace

void Histogram::add(double value) {
  const auto bound = std::ranges::lower_bound(bounds, value);
  if (bound != bounds.end()) ++counts[static_cast<size_t>(bound - bounds.begin())];
  ++all;
  sum += value;
}

std::string Histogram::text(const std::string& name, const std::string& help) const {
  std::string out = fmt::format("# HELP {0} {1}\n# TYPE {0} histogram\n", name, help);
  int64_t below = 0;
  for (size_t i = 0; i < bounds.size(); ++i)
    out += fmt::format("{}_bucket{{le=\"{}\"}} {}\n", name, bounds[i], below += counts[i]);
  return out + fmt::format("{0}_bucket{{le=\"+Inf\"}} {1}\n{0}_sum {2}\n{0}_count {1}\n", name, all, sum);
}

void Metrics::replied(const std::string& route, int status) {
  const std::lock_guard lock(mutex_);
  ++replies_[{route, status}];
}

void Metrics::first_step(double seconds, double forwards) {
  const std::lock_guard lock(mutex_);
  first_.add(seconds);
  first_forwards_.add(forwards);
}

void Metrics::finished(double seconds, int64_t tokens, int64_t prompt_tokens, double tokens_per_forward) {
  const std::lock_guard lock(mutex_);
  ++finished_;
  tokens_ += tokens;
  prompt_tokens_ += prompt_tokens;
  latency_.add(seconds);
  per_forward_.add(tokens_per_forward);
}

int64_t Metrics::tokens() const {
  const std::lock_guard lock(mutex_);
  return tokens_;
}

void Metrics::decided(double seconds, int64_t questions, int64_t prompt_tokens) {
  const std::lock_guard lock(mutex_);
  decisions_ += questions;
  prompt_tokens_ += prompt_tokens;
  deciding_.add(seconds);
}

void Metrics::cancelled() {
  const std::lock_guard lock(mutex_);
  ++cancelled_;
}

void Metrics::fell_back() {
  const std::lock_guard lock(mutex_);
  ++fallbacks_;
}

std::string Metrics::text(const Now& now) const {
  const std::lock_guard lock(mutex_);
  std::string out =
      "# HELP llada_requests_total requests by route and status; 499: the client had gone\n# TYPE llada_requests_total "
      "counter\n";
  for (const auto& [key, count] : replies_)
    out += fmt::format("llada_requests_total{{route=\"{}\",status=\"{}\"}} {}\n", key.first, key.second, count);
  out += one("llada_ready", "gauge", "1: the model is loaded and requests are taken", now.ready ? 1 : 0);
  out += one("llada_requests_waiting", "gauge", "answers in the queue", now.waiting);
  out += one("llada_requests_running", "gauge", "answers being computed", now.running);
  out += one("llada_connections", "gauge", "open connections", now.connections.open);
  out += one("llada_connections_total", "counter", "connections that were opened", now.connections.accepted);
  out += one("llada_connections_pushed_out_total", "counter",
             "connections closed because there were too many, or unread replies took too much memory",
             now.connections.pushed_out);
  out += one("llada_body_bytes", "gauge", "bodies being received or waiting, beyond the first 64 KiB of each",
             now.connections.body_bytes);
  out += one("llada_kv_bytes", "gauge", "memory that answers may come to hold until they are handed on", now.kv_bytes);
  out += one("llada_forwards_total", "counter", "forwards, shared ones once", now.forwards);
  out += one("llada_forward_parts_total", "counter", "parts of requests in forwards", now.parts);
  out += one("llada_rows_total", "counter", "rows computed in forwards", now.rows);
  out += one("llada_answers_total", "counter", "answers that were finished", finished_);
  out += one("llada_answers_cancelled_total", "counter", "answers that were cancelled or took too long", cancelled_);
  out += one("llada_decisions_total", "counter", "questions that were decided", decisions_);
  out += one("llada_device_fallbacks_total", "counter", "devices that failed and were replaced by their fallback",
             fallbacks_);
  out += one("llada_tokens_total", "counter", "tokens of finished answers", tokens_);
  out += one("llada_prompt_tokens_total", "counter", "tokens of their prompts", prompt_tokens_);
  out += latency_.text("llada_answer_seconds", "from request to finished answer");
  out += deciding_.text("llada_decide_seconds", "from request to its decisions");
  out += first_.text("llada_first_step_seconds", "from request to the first step");
  out += first_forwards_.text("llada_first_step_forwards", "shared forwards from request to the first step");
  return out + per_forward_.text("llada_tokens_per_forward", "tokens of an answer by its own forwards");
}

}  // namespace llada::serve
