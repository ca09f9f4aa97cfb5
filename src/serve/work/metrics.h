// The server's counts, as Prometheus reads them. Usable from any thread.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "serve/http/http.h"

namespace llada::serve {

// Counts of values up to each bound, as Prometheus has histograms.
struct Histogram {
  std::array<double, 12> bounds;
  std::array<int64_t, 12> counts{};  // of values <= bound, and above the bound before
  int64_t all = 0;
  double sum = 0;

  void add(double value);
  std::string text(const std::string& name, const std::string& help) const;
};

class Metrics {
 public:
  // A request was answered, or its client has gone (kClientGone).
  void replied(const std::string& route, int status);
  // An answer has made its first step: seconds and shared forwards since its request.
  void first_step(double seconds, double forwards);
  void finished(double seconds, int64_t tokens, int64_t prompt_tokens, double tokens_per_forward);
  void decided(double seconds, int64_t questions, int64_t prompt_tokens);  // a request of so many questions
  void cancelled();
  int64_t tokens() const;  // of finished answers
  void fell_back();        // the device failed, its fallback took over

  struct Now {  // counts of other parts
    int64_t waiting = 0, running = 0, forwards = 0, rows = 0, parts = 0;
    ServerCounts connections = {};
    double kv_bytes = 0;
    bool ready = false;
  };
  std::string text(const Now& now) const;

 private:
  mutable std::mutex mutex_;  // guards the members below
  std::map<std::pair<std::string, int>, int64_t> replies_;
  int64_t tokens_ = 0, prompt_tokens_ = 0, finished_ = 0, cancelled_ = 0, fallbacks_ = 0, decisions_ = 0;
  Histogram latency_{{.01, .03, .1, .3, 1, 3, 10, 30, 60, 120, 300, 600}};
  Histogram deciding_{{.003, .01, .03, .1, .3, 1, 3, 10, 30, 60, 120, 300}};
  Histogram first_{{.003, .01, .03, .1, .3, 1, 3, 10, 30, 60, 120, 300}};
  Histogram first_forwards_{{1, 2, 3, 5, 8, 12, 20, 30, 50, 100, 300, 1000}};
  Histogram per_forward_{{.5, 1, 1.5, 2, 3, 4, 6, 8, 12, 16, 32, 64}};
};

}  // namespace llada::serve
