// llada.hpp: llada.h for C++17, header only. Handles are objects that free themselves; a call that fails throws
// llada::cxx::Error, because constructors fail here too and C++17 has no std::expected. Words, threads and what is
// borrowed: llada.h.
//
//   llada::cxx::Model model("model.gguf");
//   llada::cxx::Engine engine(model);
//   std::cout << engine.chat({{"user", "Why is the sky blue?"}}).result().text << "\n";
#pragma once
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "llada/llada.h"

// The library's own C++ is in namespace llada; this stands apart, so that a program may link it whole.
namespace llada::cxx {

class Error : public std::runtime_error {
 public:
  Error(llada_status status, const char* line) : std::runtime_error(line), status_(status) {}
  llada_status status() const { return status_; }

 private:
  llada_status status_;
};

// Throws for errors; gives LLADA_OK, LLADA_END or LLADA_TIMEOUT.
inline llada_status check(llada_status status) {
  if (status < 0) throw Error(status, llada_error(nullptr));
  return status;
}

template <class T, void (*Free)(T*)>
class Handle {
 public:
  T* get() const { return handle_.get(); }

 protected:
  explicit Handle(T* handle) : handle_(handle) {}

 private:
  struct Freer {
    void operator()(T* handle) const { Free(handle); }
  };
  std::unique_ptr<T, Freer> handle_;
};

// Keys and values: Options{{"gen_length", "64"}, {"threshold", "0.9"}}.
class Options : public Handle<llada_options, llada_options_free> {
 public:
  Options(std::initializer_list<std::pair<std::string, std::string>> pairs = {}) : Handle(create()) {
    for (const auto& [key, value] : pairs) set(key, value);
  }
  Options& set(const std::string& key, const std::string& value) {
    check(llada_options_set(get(), key.c_str(), value.c_str()));
    return *this;
  }

 private:
  static llada_options* create() {
    llada_options* options = nullptr;
    check(llada_options_create(LLADA_API_VERSION, &options));
    return options;
  }
};

struct Message {
  std::string role, content;  // role: "system" (or "developer"), "user" or "assistant"
};

namespace detail {
// Calls fill(T* buffer, size_t capacity, size_t* count) twice: for the size, and for the content.
template <class Buffer, class Fill>
Buffer filled(const Fill& fill, size_t more = 0) {
  size_t count = 0;
  check(fill(nullptr, 0, &count));
  Buffer buffer(count + more, {});
  if (count > 0) check(fill(buffer.data(), buffer.size(), &count));
  buffer.resize(count);
  return buffer;
}
inline std::pair<std::vector<const char*>, std::vector<const char*>> split(const std::vector<Message>& messages) {
  std::pair<std::vector<const char*>, std::vector<const char*>> parts;
  for (const Message& m : messages) parts.first.push_back(m.role.c_str()), parts.second.push_back(m.content.c_str());
  return parts;
}
}  // namespace detail

class Model : public Handle<llada_model, llada_model_free> {
 public:
  // Called with bytes done and in all; false ends the loading. It may throw: the loading then ends with an Error.
  using Progress = std::function<bool(int64_t done, int64_t total)>;
  explicit Model(const std::string& path, const Options& options = {}, const Progress& progress = {})
      : Handle(load(path, options, progress)) {}

  llada_model_info info() const {
    llada_model_info info = LLADA_MODEL_INFO_INIT;
    check(llada_model_describe(get(), &info));
    return info;
  }
  std::vector<int32_t> tokenize(std::string_view text, bool with_bos = false) const {
    return detail::filled<std::vector<int32_t>>([&](int32_t* out, size_t capacity, size_t* count) {
      return llada_tokenize(get(), text.data(), text.size(), with_bos ? LLADA_WITH_BOS : 0, out, capacity, count);
    });
  }
  std::string detokenize(const std::vector<int32_t>& tokens, bool show_control = false) const {
    const int32_t flags = show_control ? LLADA_SHOW_CONTROL : 0;
    return detail::filled<std::string>(
        [&](char* out, size_t capacity, size_t* count) {
          return llada_detokenize(get(), tokens.data(), tokens.size(), flags, out, capacity, count);
        },
        1);
  }
  std::vector<int32_t> chat_tokens(const std::vector<Message>& messages) const {
    const auto parts = detail::split(messages);
    return detail::filled<std::vector<int32_t>>([&](int32_t* out, size_t capacity, size_t* count) {
      return llada_chat_tokens(get(), parts.first.data(), parts.second.data(), messages.size(), out, capacity, count);
    });
  }
  // positions x vocabulary
  std::vector<float> logits(const std::vector<int32_t>& tokens, const std::vector<int32_t>& positions) const {
    std::vector<float> rows(positions.size() * static_cast<size_t>(info().vocabulary));
    check(llada_logits(get(), tokens.data(), tokens.size(), positions.data(), positions.size(), rows.data(),
                       rows.size()));
    return rows;
  }
  llada_score_result score(const std::vector<int32_t>& prompt, const std::vector<int32_t>& continuation,
                           const Options& options = {}) const {
    llada_score_result score = LLADA_SCORE_RESULT_INIT;
    check(llada_score(get(), prompt.data(), prompt.size(), continuation.data(), continuation.size(), options.get(),
                      &score));
    return score;
  }
  // JSON to JSON, as POST /v1/decisions and /v1/systemone have them.
  std::string decide(const std::string& request) const {
    const char* answer = nullptr;
    size_t size = 0;
    check(llada_decide(get(), request.data(), request.size(), &answer, &size));
    return {answer, size};
  }
  // Of several continuations of one prompt, each as it has it alone, with the forwards that they share computed once.
  std::vector<llada_score_result> scores(const std::vector<int32_t>& prompt,
                                         const std::vector<std::vector<int32_t>>& continuations,
                                         const Options& options = {}) const {
    std::vector<const int32_t*> texts;
    std::vector<size_t> counts;
    for (const auto& one : continuations) texts.push_back(one.data()), counts.push_back(one.size());
    std::vector<llada_score_result> scores(continuations.size(), LLADA_SCORE_RESULT_INIT);
    check(llada_score_many(get(), prompt.data(), prompt.size(), texts.data(), counts.data(), texts.size(),
                           options.get(), scores.data()));
    return scores;
  }

 private:
  static llada_model* load(const std::string& path, const Options& options, const Progress& progress) {
    const auto call = [](void* user, int64_t done, int64_t total) -> int32_t {
      return (*static_cast<const Progress*>(user))(done, total) ? 0 : 1;
    };
    llada_model* model = nullptr;
    check(llada_model_load(LLADA_API_VERSION, path.c_str(), options.get(), progress ? +call : nullptr,
                           const_cast<Progress*>(&progress), &model));
    return model;
  }
};

// Views are borrowed from the request: of a step until the next one, of a result as long as the request lives.
struct Step : llada_step {
  std::string_view view() const { return {text, text_size}; }
};
struct Result : llada_result {
  std::string_view view() const { return {text, text_size}; }
  std::vector<int32_t> ids() const { return {tokens, tokens + count}; }
};

class Request : public Handle<llada_request, llada_request_free> {
 public:
  explicit Request(llada_request* request) : Handle(request) {}

  // Nothing once it has ended, or, with a timeout, where none has come. Needs the option keep_steps=true.
  std::optional<Step> next(int32_t timeout_ms = -1) {
    Step step{LLADA_STEP_INIT};
    if (check(llada_request_next(get(), timeout_ms, &step)) != LLADA_OK) return std::nullopt;
    return step;
  }
  bool wait(int32_t timeout_ms = -1) const { return check(llada_request_wait(get(), timeout_ms)) == LLADA_OK; }
  bool done() const { return check(llada_request_done(get())) == 1; }
  void cancel() const { check(llada_request_cancel(get())); }
  // Waits for it.
  Result result() const {
    wait();
    Result result{LLADA_RESULT_INIT};
    check(llada_request_result(get(), &result));
    return result;
  }
};

class Engine : public Handle<llada_engine, llada_engine_free> {
 public:
  explicit Engine(const Model& model, const Options& options = {}) : Handle(create(model, options)) {}

  Request chat(const std::vector<Message>& messages, const Options& options = {}) const {
    const auto parts = detail::split(messages);
    return submitted([&](llada_request** out) {
      return llada_submit_chat(get(), parts.first.data(), parts.second.data(), messages.size(), options.get(), out);
    });
  }
  Request text(std::string_view prompt, const Options& options = {}) const {
    return submitted([&](llada_request** out) {
      return llada_submit_text(get(), prompt.data(), prompt.size(), options.get(), out);
    });
  }
  Request tokens(const std::vector<int32_t>& prompt, const Options& options = {}) const {
    return submitted([&](llada_request** out) {
      return llada_submit_tokens(get(), prompt.data(), prompt.size(), options.get(), out);
    });
  }
  Request infill(std::string_view text, const Options& options = {}) const {
    return submitted(
        [&](llada_request** out) { return llada_submit_infill(get(), text.data(), text.size(), options.get(), out); });
  }
  Request gaps(const std::vector<int32_t>& tokens, const std::vector<int32_t>& gaps,
               const Options& options = {}) const {
    return submitted([&](llada_request** out) {
      return llada_submit_gaps(get(), tokens.data(), tokens.size(), gaps.data(), gaps.size(), options.get(), out);
    });
  }
  llada_engine_stats stats() const {
    llada_engine_stats stats = LLADA_ENGINE_STATS_INIT;
    check(llada_engine_describe(get(), &stats));
    return stats;
  }

 private:
  static llada_engine* create(const Model& model, const Options& options) {
    llada_engine* engine = nullptr;
    check(llada_engine_create(model.get(), options.get(), &engine));
    return engine;
  }
  template <class Submit>
  static Request submitted(const Submit& submit) {
    llada_request* request = nullptr;
    check(submit(&request));
    return Request(request);
  }
};

}  // namespace llada::cxx
