// What tests of the C API share: handles that free themselves, and short ways to the shipped model.
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/golden.h"
#include "llada/llada.h"

namespace llada {

template <class T, void (*Free)(T*)>
class Owned {
 public:
  Owned() = default;
  Owned(Owned&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  ~Owned() { Free(handle_); }
  T** out() { return &handle_; }
  operator T*() const { return handle_; }  // NOLINT: as the handle itself

 private:
  T* handle_ = nullptr;
};
using OptionsHandle = Owned<llada_options, llada_options_free>;
using ModelHandle = Owned<llada_model, llada_model_free>;
using EngineHandle = Owned<llada_engine, llada_engine_free>;
using RequestHandle = Owned<llada_request, llada_request_free>;

inline const std::string kTinyModel = LLADA_SOURCE_DIR "/models/tiny-llada";

using Pairs = std::vector<std::pair<std::string, std::string>>;
inline OptionsHandle options_of(const Pairs& pairs) {
  OptionsHandle options;
  EXPECT_EQ(llada_options_create(LLADA_API_VERSION, options.out()), LLADA_OK);
  for (const auto& [key, value] : pairs)
    EXPECT_EQ(llada_options_set(options, key.c_str(), value.c_str()), LLADA_OK) << llada_error(options);
  return options;
}

inline ModelHandle load_tiny(const std::string& path = kTinyModel) {
  const OptionsHandle options = options_of({{"threads", "1"}});
  ModelHandle model;
  EXPECT_EQ(llada_model_load(LLADA_API_VERSION, path.c_str(), options, nullptr, nullptr, model.out()), LLADA_OK)
      << llada_error(nullptr);
  return model;
}

inline EngineHandle start_engine(llada_model* model, const Pairs& pairs = {{"threads", "1"}}) {
  const OptionsHandle options = options_of(pairs);
  EngineHandle engine;
  EXPECT_EQ(llada_engine_create(model, options, engine.out()), LLADA_OK) << llada_error(model);
  return engine;
}

inline RequestHandle ask(llada_engine* engine, const std::string& prompt, const Pairs& pairs) {
  const OptionsHandle options = options_of(pairs);
  const char *role = "user", *text = prompt.c_str();
  RequestHandle request;
  EXPECT_EQ(llada_submit_chat(engine, &role, &text, 1, options, request.out()), LLADA_OK) << llada_error(engine);
  return request;
}

inline llada_result result_of(llada_request* request) {
  llada_result result = LLADA_RESULT_INIT;
  EXPECT_EQ(llada_request_wait(request, -1), LLADA_OK) << llada_error(request);
  EXPECT_EQ(llada_request_result(request, &result), LLADA_OK) << llada_error(request);
  return result;
}

inline std::vector<int32_t> tokens_of(const llada_result& r) { return {r.tokens, r.tokens + r.count}; }

// Loaded once: a model takes calls from all tests.
struct Tiny {
  ModelHandle model = load_tiny();
  EngineHandle engine = start_engine(model, {{"threads", "1"}, {"streams", "4"}, {"row_budget", "4096"}});
  std::vector<GoldenItem> golden = load_golden(kTinyModel + "/golden.json");
};
inline Tiny& tiny() {
  static Tiny the;
  return the;
}

}  // namespace llada
