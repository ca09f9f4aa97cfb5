// A sequence of calls of the C API that bytes spell, for fuzzing and for a test with fixed seeds: handles of every kind
// open, freed and mistaken for each other, options that make sense and such that do not, and other threads that wait,
// cancel and take steps meanwhile. Nothing is asserted but what llada.h promises whatever is called; the sanitizers look
// at the rest. Bytes that are borrowed are read to their ends.
#pragma once
#include <cstdlib>
#include <iterator>
#include <span>
#include <thread>
#include <vector>

#include "llada/llada.h"

namespace llada {

class RandomCalls {
 public:
  RandomCalls(llada_model* model, std::span<const uint8_t> bytes) : model_(model), bytes_(bytes) {}
  RandomCalls(const RandomCalls&) = delete;
  RandomCalls& operator=(const RandomCalls&) = delete;

  void run() {
    while (at_ < bytes_.size()) call();
    for (llada_request* request : requests_) static_cast<void>(llada_request_cancel(request));
    for (std::thread& thread : threads_) thread.join();
    for (llada_request* request : requests_) llada_request_free(request);
    for (llada_engine* engine : engines_) llada_engine_free(engine);
    for (llada_options* options : options_) llada_options_free(options);
  }

  int64_t ended_well() const { return ended_well_; }

 private:
  static constexpr size_t kSlots = 3;

  uint8_t next() { return at_ < bytes_.size() ? bytes_[at_++] : 0; }
  template <class T>
  T& slot(T (&slots)[kSlots]) {
    return slots[next() % kSlots];
  }
  static void promise(bool kept) {
    if (!kept) std::abort();
  }
  // Every status has a name, and an error of a thread a line.
  static llada_status checked(llada_status status) {
    promise(*llada_status_name(status) != '\0');
    if (status < 0) promise(*llada_error(nullptr) != '\0');
    return status;
  }
  static uint64_t read_all(const void* data, size_t bytes) {
    uint64_t sum = 0;
    for (size_t i = 0; i < bytes; ++i) sum += static_cast<const unsigned char*>(data)[i];
    return sum;
  }

  // A handle of any kind in the place of one.
  void* any_handle() {
    switch (next() % 5) {
      case 0:
        return slot(options_);
      case 1:
        return slot(engines_);
      case 2:
        return slot(requests_);
      case 3:
        return model_;
      default:
        return reinterpret_cast<void*>(static_cast<uintptr_t>(next()));
    }
  }

  void set_option() {
    static constexpr const char* kPairs[][2] = {{"gen_length", "8"},    {"gen_length", "0"},
                                                {"gen_length", "40"},   {"threshold", "0.9"},
                                                {"temperature", "0.7"}, {"seed", "7"},
                                                {"keep_steps", "true"}, {"keep_steps", "true"},
                                                {"stop", "a"},          {"stop", ""},
                                                {"streams", "3"},       {"row_budget", "50"},
                                                {"threads", "1"},       {"entropy_bound", "0.5"},
                                                {"kv", "dual"},         {"revision", "dual-path"},
                                                {"block_length", "4"},  {"cfg_scale", "1"},
                                                {"cache", "100000"},    {"nothing", "1"},
                                                {"device", "nowhere"},  {"repeat_penalty", "1.5"},
                                                {"steps", "3"},         {"gen_length", "99999999999"},
                                                {"attention", "exact"}, {"early_stop", "block"},
                                                {"mbsd", "true"},       {"latency_table", "1:1,2:3"},
                                                {"method", "mc"},       {"draws", "3"},
                                                {"draft", "2"}};
    const auto& pair = kPairs[next() % std::size(kPairs)];
    checked(llada_options_set(slot(options_), pair[0], pair[1]));
  }

  void submit() {
    llada_request*& request = slot(requests_);
    llada_request_free(request);
    llada_engine* engine = slot(engines_);
    llada_options* options = next() % 16 == 0 ? nullptr : slot(options_);
    int32_t tokens[12], gaps[3];
    for (int32_t& token : tokens) token = next() * 4;
    for (int32_t& gap : gaps) gap = next() % 14;
    const char* texts[] = {"Sort: 3 1 2", "2+2=<mask:2>.", "<mask:9999>", "", "\xff\xfe"};
    const char* roles[] = {"user", "assistant", "wizard"};
    const char* text = texts[next() % std::size(texts)];
    switch (next() % 5) {
      case 0:
        checked(llada_submit_text(engine, text, LLADA_TEXT, options, &request));
        break;
      case 1:
        checked(llada_submit_chat(engine, &roles[next() % 3], &text, 1, options, &request));
        break;
      case 2:
        checked(llada_submit_infill(engine, text, LLADA_TEXT, options, &request));
        break;
      case 3:
        checked(llada_submit_tokens(engine, tokens, next() % 13, options, &request));
        break;
      default:
        checked(llada_submit_gaps(engine, tokens, next() % 13, gaps, next() % 4, options, &request));
    }
  }

  void read_step() {
    llada_step step = LLADA_STEP_INIT;
    if (checked(llada_request_next(slot(requests_), next() % 8, &step)) != LLADA_OK) return;
    promise(step.masked <= static_cast<int64_t>(step.count));
    read_all(step.tokens, step.count * sizeof *step.tokens);
    read_all(step.confidences, step.count * sizeof *step.confidences);
    for (size_t i = 0; i < step.count; ++i) read_all(step.texts[i], step.text_sizes[i]);
    for (size_t i = 0; i < step.edit_count; ++i)
      promise(step.edits[i] >= 0 && static_cast<size_t>(step.edits[i]) < step.count);
    read_all(step.text, step.text_size + 1);
  }

  void read_result() {
    llada_request* request = slot(requests_);
    llada_result result = LLADA_RESULT_INIT;
    checked(llada_request_wait(request, 4 * (next() % 32)));
    if (checked(llada_request_result(request, &result)) != LLADA_OK) return;
    promise(llada_request_done(request) == 1);
    ended_well_ += result.cancelled == 0;
    read_all(result.tokens, result.count * sizeof *result.tokens);
    read_all(result.states, result.count * sizeof *result.states);
    read_all(result.confidences, result.count * sizeof *result.confidences);
    read_all(result.text, result.text_size + 1);
    read_all(result.stopped_by, result.stopped_by_size + 1);
  }

  // Another thread uses a request; it reads nothing that is borrowed, since this one may too.
  void other_thread() {
    if (threads_.size() >= 6) return;
    threads_.emplace_back([request = slot(requests_), what = next() % 3, time = next() % 16] {
      llada_step step = LLADA_STEP_INIT;
      if (what == 0) checked(llada_request_cancel(request));
      if (what == 1) checked(llada_request_wait(request, time));
      if (what == 2) checked(llada_request_next(request, time, &step));
    });
  }

  void use_model() {
    char text[64];
    float logits[2048];
    int32_t tokens[8];
    size_t count = 0;
    for (int32_t& token : tokens) token = next() * 5 - 20;
    const int32_t position = next() % 9;
    switch (next() % 5) {
      case 0:
        checked(llada_tokenize(model_, "some text", next() % sizeof "some text", next(), tokens, next() % 9, &count));
        break;
      case 1:
        checked(llada_detokenize(model_, tokens, 8, next(), text, next() % 65, &count));
        break;
      case 2:
        checked(llada_logits(model_, tokens, 8, &position, 1, logits, std::size(logits)));
        break;
      case 3: {
        llada_score_result score = LLADA_SCORE_RESULT_INIT;
        checked(llada_score(model_, tokens, 4, tokens + 4, 4, slot(options_), &score));
      } break;
      default: {
        const int32_t* texts[] = {tokens, tokens + 2, next() % 8 == 0 ? nullptr : tokens + 5};
        const size_t counts[] = {next() % 5u, next() % 5u, next() % 4u};
        llada_score_result scores[3] = {LLADA_SCORE_RESULT_INIT};
        if (next() % 4 == 0) scores[0].size = next() % (sizeof scores[0] + 1);
        llada_options* options = slot(options_);
        if (checked(llada_score_many(model_, tokens, next() % 6, texts, counts, next() % 4, options, scores)) ==
            LLADA_OK)
          promise(scores[0].log_probability <= 0);
      }
    }
  }

  void call() {
    switch (next() % 14) {
      case 0: {
        llada_options*& options = slot(options_);
        llada_options_free(options);
        checked(llada_options_create(LLADA_API_VERSION, &options));
        checked(llada_options_set(options, "gen_length", "8"));
      } break;
      case 1: {
        llada_engine*& engine = slot(engines_);
        llada_engine_free(engine);
        checked(llada_engine_create(model_, next() % 2 == 0 ? nullptr : slot(options_), &engine));
      } break;
      case 2:
      case 3:
        submit();
        break;
      case 4:
        set_option();
        break;
      case 5:
        read_step();
        break;
      case 6:
        read_result();
        break;
      case 7:
        other_thread();
        break;
      case 8:
        use_model();
        break;
      case 9:
        checked(llada_request_cancel(static_cast<llada_request*>(any_handle())));
        break;
      case 10:
        checked(llada_options_set(static_cast<llada_options*>(any_handle()), "seed", "3"));
        break;
      case 11: {
        llada_engine_stats stats = LLADA_ENGINE_STATS_INIT;
        checked(llada_engine_describe(static_cast<llada_engine*>(any_handle()), &stats));
        promise(llada_error(any_handle()) != nullptr);
      } break;
      case 12:  // its number stays in its place
        if (next() % 2 == 0)
          llada_request_free(slot(requests_));
        else
          llada_options_free(slot(options_));
        break;
      default: {
        llada_engine* engine = slot(engines_);
        if (next() % 8 == 0) llada_engine_free(engine);
      }
    }
  }

  llada_model* const model_;
  const std::span<const uint8_t> bytes_;
  size_t at_ = 0;
  int64_t ended_well_ = 0;
  llada_options* options_[kSlots] = {};
  llada_engine* engines_[kSlots] = {};
  llada_request* requests_[kSlots] = {};
  std::vector<std::thread> threads_;
};

}  // namespace llada
