// Input: a sequence of calls of the C API, as tests/api/random_calls.h reads it, on one open model.
#include "api/random_calls.h"

namespace {

void need(llada_status status) {
  if (status != LLADA_OK) std::abort();
}

llada_model* open_model() {
  constexpr const char* kPath = LLADA_SOURCE_DIR "/tests/data/peer/tiny-llada-q8_0.gguf";
  llada_options *one_thread = nullptr, *streams = nullptr;
  llada_model* model = nullptr;
  llada_engine* engine = nullptr;
  need(llada_options_create(LLADA_API_VERSION, &one_thread));
  need(llada_options_set(one_thread, "threads", "1"));
  need(llada_model_load(LLADA_API_VERSION, kPath, one_thread, nullptr, nullptr, &model));
  // The time per row is measured once, here, and not in the input that is the first to need it.
  need(llada_options_create(LLADA_API_VERSION, &streams));
  need(llada_options_set(streams, "streams", "2"));
  need(llada_engine_create(model, streams, &engine));
  llada_engine_free(engine);
  llada_options_free(streams);
  llada_options_free(one_thread);
  return model;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static llada_model* const model = open_model();
  llada::RandomCalls(model, {data, size}).run();
  return 0;
}
