// The objects behind the handles of llada.h, and helpers that their functions share.
#pragma once
#include <atomic>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "api/handles.h"
#include "engine/engine.h"
#include "engine/options.h"
#include "engine/session.h"

namespace llada::api {

// The values of one llada_options; each call reads those that it needs.
struct OptionValues {
  LoadOptions load;
  SchedulerOptions engine{.most_running = 1};
  int64_t cache_bytes = 0;
  std::vector<decode::Setting> settings;
  std::string preset;
  std::vector<std::string> stop;
  bool keep_steps = false;
  ScoreOptions score;
  bool order_names_block = false;  // score.order has a block length; false: the model's attention block counts, if any
};

// An answer while it is decoded, as llada.h shows it: the canvas from the answer's first token on (of an infilled text,
// from its first). Every token has its confidence, kept up with the edits of the steps.
struct AnswerCanvas {
  std::shared_ptr<const Model> model;
  int64_t begin = 0;      // where it begins in the engine's canvas
  decode::Canvas canvas;  // of the answer alone
  std::vector<float> confidences;
  std::vector<int32_t> states;     // LLADA_TOKEN_...
  std::vector<const char*> texts;  // of the tokens, in the tokenizer; empty where there is none
  std::vector<size_t> text_sizes;

  static AnswerCanvas of(std::shared_ptr<const Model> model, const ReadyRequest& ready);
  // Lays a text with gaps, whose lengths its first step tells. given: given_tokens().
  void lay(std::span<const int32_t> given);
  // Edits by the engine's positions. Those behind the answer (padding) are left out of `changed`.
  void apply(std::span<const decode::Edit> edits, std::vector<int32_t>* changed);
  // Called at the end of a request: takes over tokens that were committed without a step (the tail behind an end
  // token).
  void finish(std::span<const int32_t> tokens);
  int64_t masked() const;

 private:
  void resize(size_t size);
  void set(size_t at, int32_t token, decode::TokenState state, double confidence);
};

struct OptionsObject : Object {
  static constexpr Kind kKind = Kind::options;
  static constexpr const char* kName = "options";
  std::mutex mutex;                         // guards the members below
  std::set<std::string, std::less<>> keys;  // that were set
  OptionValues values;
};

struct ModelObject : Object {
  static constexpr Kind kKind = Kind::model;
  static constexpr const char* kName = "model";
  std::shared_ptr<const Model> model;
  std::string architecture, device, notes;  // as texts of C
  std::mutex computing;                     // held by whoever uses the model's own device; engines have shares of it
};

struct EngineObject : Object {
  static constexpr Kind kKind = Kind::engine;
  static constexpr const char* kName = "engine";
  std::shared_ptr<ModelObject> model;
  std::unique_ptr<Engine> engine;
};

struct RequestObject : Object {
  static constexpr Kind kKind = Kind::request;
  static constexpr const char* kName = "request";
  std::shared_ptr<ModelObject> model;
  std::shared_ptr<Submission> submission;
  std::shared_ptr<AnswerCanvas> decoded;  // the engine's thread writes it; others read it once the request has ended
  bool keep_steps = false, infill = false;
  std::atomic<bool> in_use = false;
  // The one thread's that uses it:
  AnswerCanvas shown;  // as of the last step that was handed out
  std::string shown_text;
  std::vector<int32_t> edits;
  bool result_made = false;

  ~RequestObject() override {
    if (submission) submission->cancel();
  }
};

// A copy of the options behind a handle; null: the defaults. allowed: LLADA_FOR_... of the call; keys for others are
// refused.
std::expected<OptionValues, ApiError> read_options(const llada_options* options, int32_t allowed);

// LLADA_ERROR_FILE where the model's file has changed since it was loaded.
Outcome check_file(const Model& model);
Outcome check_version(int32_t api_version);
// Checks a caller's text.
std::expected<std::string_view, ApiError> read_text(const char* name, const char* text, size_t size);
// Checks a caller's array; data may be null where count is 0.
template <class T>
std::expected<std::span<const T>, ApiError> read_array(const char* name, const T* data, size_t count) {
  constexpr size_t kMost = size_t{1} << 28;
  if (data == nullptr && count > 0)
    return refuse(LLADA_ERROR_INVALID, "{}: found null, needed {} of them", name, count);
  if (count > kMost) return refuse(LLADA_ERROR_INVALID, "{}: found {} of them, needed at most {}", name, count, kMost);
  return std::span<const T>(data, count);
}
std::expected<std::vector<ChatMessage>, ApiError> read_messages(const char* const* roles, const char* const* contents,
                                                                size_t messages);
template <class T>
Outcome check_out(const char* name, const T* out) {
  if (out == nullptr) return refuse(LLADA_ERROR_INVALID, "{}: found null, needed a place for it", name);
  return LLADA_OK;
}

// The caller's size of the struct, which is its first member.
template <class T>
std::expected<size_t, ApiError> size_of(const char* name, const T* out) {
  if (out == nullptr) return refuse(LLADA_ERROR_INVALID, "{}: found null, needed a place", name);
  const size_t size = out->size;
  if (size < sizeof(size_t) || size > size_t{1} << 16 || size % alignof(T) != 0)
    return refuse(LLADA_ERROR_INVALID, "{}: found {} in its member size, needed the sizeof of the struct", name, size);
  return size;
}

// Copies the members of `value` that the caller's struct has.
template <class T>
Outcome fill(const char* name, T* out, T value) {
  LLADA_TRY(const size_t size, size_of(name, out));
  value.size = size;
  __builtin_memcpy(static_cast<void*>(out), &value, std::min(size, sizeof value));
  return LLADA_OK;
}

// Fills a caller's buffer as llada.h says of all of them.
template <class T>
Outcome fill_buffer(const char* name, std::span<const T> from, T* to, size_t capacity, size_t* count, size_t more = 0) {
  if (count == nullptr) return refuse(LLADA_ERROR_INVALID, "{}: found null for its size, needed a pointer", name);
  *count = from.size();
  if (capacity == 0) return LLADA_OK;
  if (to == nullptr) return refuse(LLADA_ERROR_INVALID, "{}: found null, needed a buffer", name);
  if (capacity < from.size() + more)
    return refuse(LLADA_ERROR_SPACE, "{}: found room for {}, needed {}", name, capacity, from.size() + more);
  std::copy(from.begin(), from.end(), to);
  return LLADA_OK;
}

}  // namespace llada::api
