// What the C API does with wrong calls: a code and a line, never a crash.
#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "api_fixture.h"
#include "decode/fields.h"

namespace llada {
namespace {

using std::chrono::milliseconds;

const Pairs kSlow = {{"gen_length", "128"}, {"steps", "128"}, {"early_stop", "none"}, {"keep_steps", "true"}};
const Pairs kShort = {{"gen_length", "24"}, {"steps", "24"}, {"early_stop", "none"}, {"keep_steps", "true"}};

TEST(CApiMisuse, HandlesThatAreNotOpen) {
  llada_request* null = nullptr;
  EXPECT_EQ(llada_request_wait(null, 0), LLADA_ERROR_HANDLE);
  EXPECT_STREQ(llada_error(nullptr), "request: found a null handle, needed one that is open");
  EXPECT_EQ(llada_request_done(null), LLADA_ERROR_HANDLE);
  EXPECT_EQ(llada_request_cancel(reinterpret_cast<llada_request*>(&null)), LLADA_ERROR_HANDLE) << "memory of ours";
  EXPECT_EQ(llada_request_cancel(reinterpret_cast<llada_request*>(static_cast<llada_engine*>(tiny().engine))),
            LLADA_ERROR_HANDLE)
      << "of another kind";
  EXPECT_STREQ(llada_error(nullptr),
               "request: found a handle that was freed or is of another kind, needed one that is open");
  llada_options* options = nullptr;
  ASSERT_EQ(llada_options_create(LLADA_API_VERSION, &options), LLADA_OK);
  llada_options_free(options);
  EXPECT_EQ(llada_options_set(options, "seed", "1"), LLADA_ERROR_HANDLE);
  EXPECT_STREQ(llada_error(options), "handle: found one that is not open");
  llada_options_free(options);
  llada_options_free(nullptr), llada_model_free(nullptr), llada_engine_free(nullptr), llada_request_free(nullptr);
  llada_options* next = nullptr;
  ASSERT_EQ(llada_options_create(LLADA_API_VERSION, &next), LLADA_OK);
  EXPECT_NE(next, options) << "a number is not used again";
  llada_request* request = nullptr;
  EXPECT_EQ(llada_submit_text(tiny().engine, "a", LLADA_TEXT, options, &request), LLADA_ERROR_HANDLE);
  EXPECT_EQ(request, nullptr);
  llada_options_free(next);
}

TEST(CApiMisuse, FreedInAnyOrder) {
  llada_model* model = nullptr;
  ASSERT_EQ(llada_model_load(LLADA_API_VERSION, kTinyModel.c_str(), nullptr, nullptr, nullptr, &model), LLADA_OK);
  EngineHandle engine = start_engine(model);
  llada_model_free(model);
  EXPECT_EQ(llada_logits(model, nullptr, 0, nullptr, 0, nullptr, 0), LLADA_ERROR_HANDLE);
  const GoldenItem& item = tiny().golden[0];
  const RequestHandle whole = ask(engine, item.prompt, {{"gen_length", "16"}, {"steps", "16"}});
  EXPECT_EQ(result_of(whole).forwards, 16);
  const RequestHandle cut = ask(engine, item.prompt, kSlow);
  llada_engine* gone = engine;
  llada_engine_free(gone);
  EXPECT_EQ(result_of(cut).cancelled, 1) << "an engine that ends cancels";
  EXPECT_EQ(result_of(whole).count, 16u) << "results outlive it";
  llada_request* more = nullptr;
  EXPECT_EQ(llada_submit_text(gone, "a", LLADA_TEXT, nullptr, &more), LLADA_ERROR_HANDLE);
}

TEST(CApiMisuse, NewerHeaderThanLibrary) {
  llada_options* options = nullptr;
  EXPECT_EQ(llada_options_create(LLADA_API_VERSION + 1, &options), LLADA_ERROR_VERSION);
  llada_model* model = nullptr;
  EXPECT_EQ(llada_model_load(LLADA_API_VERSION + 1, kTinyModel.c_str(), nullptr, nullptr, nullptr, &model),
            LLADA_ERROR_VERSION);
  EXPECT_EQ(llada_model_load(0, kTinyModel.c_str(), nullptr, nullptr, nullptr, &model), LLADA_ERROR_VERSION);
  // Whose llada_result had other members.
  EXPECT_EQ(llada_model_load(2, kTinyModel.c_str(), nullptr, nullptr, nullptr, &model), LLADA_ERROR_VERSION);
  EXPECT_NE(std::string(llada_error(nullptr)).find("found version 2 of the API, needed 3 to"), std::string::npos);
  EXPECT_EQ(model, nullptr);
}

// A program that was compiled with an older header has shorter structs; nothing behind them is written.
TEST(CApiMisuse, OlderHeaderThanLibrary) {
  llada_model_info info;
  std::memset(&info, 0x5a, sizeof info);
  info.size = offsetof(llada_model_info, layers);
  ASSERT_EQ(llada_model_describe(tiny().model, &info), LLADA_OK);
  EXPECT_EQ(info.vocabulary, 1024);
  EXPECT_EQ(info.layers, 0x5a5a5a5a5a5a5a5a);
  info.size = 3;
  EXPECT_EQ(llada_model_describe(tiny().model, &info), LLADA_ERROR_INVALID) << "nobody set it";
}

TEST(CApiMisuse, Arguments) {
  llada_model* model = nullptr;
  EXPECT_EQ(llada_model_load(LLADA_API_VERSION, nullptr, nullptr, nullptr, nullptr, &model), LLADA_ERROR_INVALID);
  EXPECT_EQ(llada_model_load(LLADA_API_VERSION, kTinyModel.c_str(), nullptr, nullptr, nullptr, nullptr),
            LLADA_ERROR_INVALID);
  EXPECT_EQ(llada_model_load(LLADA_API_VERSION, "/nowhere.gguf", nullptr, nullptr, nullptr, &model),
            LLADA_ERROR_INVALID);
  EXPECT_NE(std::string(llada_error(nullptr)).find("/nowhere.gguf"), std::string::npos);
  llada_request* request = nullptr;
  EXPECT_EQ(llada_submit_text(tiny().engine, nullptr, 3, nullptr, &request), LLADA_ERROR_INVALID);
  EXPECT_EQ(llada_submit_text(tiny().engine, "a", LLADA_TEXT, nullptr, nullptr), LLADA_ERROR_INVALID);
  const int32_t far = 1 << 30;
  EXPECT_EQ(llada_submit_tokens(tiny().engine, &far, 1, nullptr, &request), LLADA_ERROR_INVALID) << "no such token";
  EXPECT_EQ(llada_submit_tokens(tiny().engine, &far, SIZE_MAX / 2, nullptr, &request), LLADA_ERROR_INVALID);
  const int32_t token = 5, gaps[] = {7, -1};
  EXPECT_EQ(llada_submit_gaps(tiny().engine, &token, 1, gaps, 2, nullptr, &request), LLADA_ERROR_INVALID);
  EXPECT_EQ(llada_submit_infill(tiny().engine, "no gap", LLADA_TEXT, nullptr, &request), LLADA_ERROR_INVALID);
  const char *role = "wizard", *text = "hello";
  EXPECT_EQ(llada_submit_chat(tiny().engine, &role, &text, 1, nullptr, &request), LLADA_ERROR_INVALID);
  EXPECT_EQ(llada_submit_chat(tiny().engine, &role, nullptr, 1, nullptr, &request), LLADA_ERROR_INVALID);
  EXPECT_EQ(request, nullptr);
  std::vector<float> row(2000);
  const int32_t positions[] = {0, 0};
  EXPECT_EQ(llada_logits(tiny().model, &token, 1, positions, 2, row.data(), row.size()), LLADA_ERROR_INVALID);
  size_t size = 0;
  const char* piece = nullptr;
  EXPECT_EQ(llada_token_text(tiny().model, -1, &piece, &size), LLADA_ERROR_INVALID);
}

TEST(CApiMisuse, ARequestForDecisionsIsReadAsTheServerReadsIt) {
  const char* answer = nullptr;
  size_t size = 0;
  const auto line = [&](const char* request) {
    EXPECT_EQ(llada_decide(tiny().model, request, LLADA_TEXT, &answer, &size), LLADA_ERROR_INVALID);
    return std::string(llada_error(tiny().model));
  };
  EXPECT_EQ(line(nullptr), "request: found null, needed a text");
  EXPECT_EQ(line(R"({"input": "a", "questions": []})"), "request: questions: found 0, needed 1 to 400");
  EXPECT_NE(line("{").find("request"), std::string::npos);
  const char* const asked =
      R"({"input": "Jane is 52.", "questions": [{"type": "predicate", "instructions": "Is Jane old?"}]})";
  EXPECT_EQ(llada_decide(tiny().model, asked, LLADA_TEXT, nullptr, &size), LLADA_ERROR_INVALID);
  EXPECT_EQ(llada_decide(nullptr, asked, LLADA_TEXT, &answer, &size), LLADA_ERROR_HANDLE);
  ASSERT_EQ(llada_decide(tiny().model, asked, LLADA_TEXT, &answer, &size), LLADA_OK) << llada_error(tiny().model);
  EXPECT_EQ(std::string_view(answer, size).substr(0, 31), R"({"object":"decision","model":"t)");
  EXPECT_EQ(answer[size], '\0');
}

TEST(CApiMisuse, ArgumentsOfManyScores) {
  const int32_t token = 5, unknown = 1 << 30;
  const int32_t *texts[] = {&token, nullptr}, *bad[] = {&token, &unknown};
  const size_t counts[] = {1, 1}, far[] = {1, SIZE_MAX / 2};
  llada_score_result scores[2] = {LLADA_SCORE_RESULT_INIT}, unset[2] = {}, odd[2] = {LLADA_SCORE_RESULT_INIT};
  odd[0].size = 2 * sizeof(size_t) + 1;
  const auto line = [&](const int32_t* const* continuations, const size_t* lengths, size_t count,
                        llada_score_result* out) {
    EXPECT_EQ(llada_score_many(tiny().model, &token, 1, continuations, lengths, count, nullptr, out),
              LLADA_ERROR_INVALID);
    return std::string(llada_error(tiny().model));
  };
  EXPECT_EQ(line(texts, counts, 2, scores), "continuation: found null, needed 1 of them");
  EXPECT_EQ(line(nullptr, counts, 2, scores), "continuations: found null, needed 2 of them");
  EXPECT_EQ(line(texts, nullptr, 2, scores), "counts: found null, needed 2 of them");
  EXPECT_EQ(line(nullptr, nullptr, 0, scores), "continuations: found none, needed one or more");
  EXPECT_EQ(line(texts, counts, 1, nullptr), "score: found null, needed a place");
  EXPECT_EQ(line(texts, counts, 1, unset), "score: found 0 in its member size, needed the sizeof of the struct");
  EXPECT_EQ(line(texts, counts, 1, odd), "score: found 17 in its member size, needed the sizeof of the struct");
  EXPECT_TRUE(line(bad, counts, 2, scores).starts_with("continuation 2: ")) << llada_error(tiny().model);
  EXPECT_TRUE(line(bad, far, 2, scores).starts_with("continuation: found ")) << llada_error(tiny().model);
  EXPECT_EQ(scores[0].log_probability, 0) << "nothing was stored";
}

TEST(CApiMisuse, Options) {
  const OptionsHandle options = options_of({});
  const auto line = [&](const char* key, const char* value) {
    const llada_status status = llada_options_set(options, key, value);
    return status == LLADA_OK ? std::string() : llada_status_name(status) + std::string(" ") + llada_error(options);
  };
  EXPECT_EQ(line("treshold", "0.9"), "LLADA_ERROR_INVALID 'treshold' is no decoding option");
  EXPECT_EQ(line("draft", "2"), "LLADA_ERROR_INVALID 'draft' was removed: mbsd drafts blocks ahead");
  EXPECT_EQ(line("streams", "0"), "LLADA_ERROR_INVALID streams: found '0', needed a whole number from 1 to 1024");
  EXPECT_EQ(line("gen_length", "-3").substr(0, 33), "LLADA_ERROR_INVALID gen_length: f");
  EXPECT_EQ(line("keep_steps", "yes"), "LLADA_ERROR_INVALID keep_steps: found 'yes', needed true or false");
  EXPECT_EQ(line("gen_length", nullptr), "LLADA_ERROR_INVALID value: found null, needed a text");
  llada_request* request = nullptr;
  // What contradicts is refused when it is submitted, and an option again replaces what was said.
  EXPECT_EQ(line("threshold", "0.9"), "");
  EXPECT_EQ(line("entropy_bound", "0.1"), "");
  EXPECT_EQ(llada_submit_text(tiny().engine, "a", LLADA_TEXT, options, &request), LLADA_ERROR_INVALID);
  EXPECT_NE(std::string(llada_error(tiny().engine)).find("already chose"), std::string::npos)
      << llada_error(tiny().engine);
  llada_options_clear(options);
  EXPECT_EQ(line("gen_length", "4"), "");
  EXPECT_EQ(line("gen_length", "5"), "");
  RequestHandle five;
  ASSERT_EQ(llada_submit_text(tiny().engine, "a", LLADA_TEXT, options, five.out()), LLADA_OK);
  EXPECT_EQ(result_of(five).count, 5u);
  EXPECT_EQ(line("streams", "2"), "");
  EXPECT_EQ(llada_submit_text(tiny().engine, "a", LLADA_TEXT, options, &request), LLADA_ERROR_INVALID);
  EXPECT_STREQ(llada_error(tiny().engine), "streams: is no option of a request");
}

// Every option of the list can be set to its own initial value, and none to nothing.
TEST(CApiMisuse, OptionsAreDescribed) {
  llada_option_info info = LLADA_OPTION_INFO_INIT;
  size_t count = 0;
  const OptionsHandle options = options_of({});
  while (llada_option_describe(count, &info) == LLADA_OK) {
    for (const char* text : {info.key, info.unit, info.values, info.initial, info.help, info.group})
      ASSERT_NE(text, nullptr);
    EXPECT_NE(*info.help, '\0') << info.key;
    if (*info.initial != '\0') {
      EXPECT_EQ(llada_options_set(options, info.key, info.initial), LLADA_OK) << info.key;
    }
    EXPECT_EQ(llada_options_set(options, info.key, ""), LLADA_ERROR_INVALID) << info.key;
    EXPECT_TRUE(std::string_view(llada_error(options)).starts_with(std::string(info.key) + ": found ''"))
        << llada_error(options);
    if (std::string_view(info.key) == "gen_length") {
      EXPECT_STREQ(info.initial, "auto") << "as a request without a length has it";
    }
    EXPECT_EQ(info.is_switch != 0, *info.unit == '\0') << info.key;
    ++count;
  }
  EXPECT_GT(count, decode::fields().size() + 5);
  EXPECT_EQ(llada_option_describe(count, &info), LLADA_END);
  EXPECT_EQ(llada_option_describe(SIZE_MAX, &info), LLADA_END);
}

TEST(CApiMisuse, TwoThreadsOnOneRequest) {
  const RequestHandle request = ask(tiny().engine, tiny().golden[0].prompt, kShort);
  std::atomic<bool> over = false;
  std::atomic<int> busy = 0;
  std::thread other([&] {
    while (!over) {
      busy += llada_request_wait(request, 0) == LLADA_ERROR_BUSY;
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  });
  llada_step step = LLADA_STEP_INIT;
  int steps = 0;
  for (llada_status status = LLADA_OK; status != LLADA_END;) {
    status = llada_request_next(request, -1, &step);
    ASSERT_TRUE(status == LLADA_OK || status == LLADA_END || status == LLADA_ERROR_BUSY) << llada_error(request);
    steps += status == LLADA_OK;
  }
  over = true;
  other.join();
  EXPECT_GT(busy, 0);
  EXPECT_EQ(steps, 24) << "nobody took a step from the other";
}

TEST(CApiMisuse, CancelledFromAnotherThread) {
  const RequestHandle request = ask(tiny().engine, tiny().golden[0].prompt, kSlow);
  llada_step step = LLADA_STEP_INIT;
  ASSERT_EQ(llada_request_next(request, -1, &step), LLADA_OK);
  std::thread([&] { EXPECT_EQ(llada_request_cancel(request), LLADA_OK); }).join();
  const llada_result result = result_of(request);
  EXPECT_EQ(result.cancelled, 1);
  EXPECT_LT(result.forwards, 128);
  EXPECT_GT(std::count(result.states, result.states + result.count, LLADA_TOKEN_MASKED), 0);
  EXPECT_EQ(llada_request_cancel(request), LLADA_OK) << "nothing where it has ended";
}

TEST(CApiMisuse, FreedWhileAnotherThreadWaits) {
  llada_request* request = nullptr;
  const OptionsHandle options = options_of(kSlow);
  ASSERT_EQ(llada_submit_text(tiny().engine, "a", LLADA_TEXT, options, &request), LLADA_OK);
  std::thread waits([&] {
    const llada_status status = llada_request_wait(request, -1);
    EXPECT_TRUE(status == LLADA_OK || status == LLADA_ERROR_HANDLE) << status;
  });
  llada_request_free(request);
  waits.join();
}

TEST(CApiMisuse, ResultsAndStepsTooEarly) {
  const EngineHandle engine = start_engine(tiny().model, {{"threads", "1"}});
  const RequestHandle first = ask(engine, tiny().golden[0].prompt, kSlow);
  const RequestHandle second = ask(engine, tiny().golden[0].prompt, {{"gen_length", "8"}});
  llada_result result = LLADA_RESULT_INIT;
  EXPECT_EQ(llada_request_result(second, &result), LLADA_ERROR_BUSY) << "one stream: it waits for the first";
  EXPECT_EQ(llada_request_wait(second, 0), LLADA_TIMEOUT);
  llada_step step = LLADA_STEP_INIT;
  EXPECT_EQ(llada_request_next(second, 0, &step), LLADA_ERROR_INVALID);
  EXPECT_STREQ(llada_error(second), "request: its steps are not kept, needed the option keep_steps=true");
  EXPECT_EQ(llada_request_cancel(first), LLADA_OK);
  EXPECT_EQ(result_of(second).count, 8u);
}

// The callback ends the loading wherever it comes, and what was loaded is freed (asan).
TEST(CApiMisuse, ProgressThatEndsTheLoading) {
  struct Caller {
    int calls = 0, end_at = 0;
    bool throws = false;
  };
  const auto progress = [](void* user, int64_t done, int64_t total) -> int32_t {
    Caller& caller = *static_cast<Caller*>(user);
    EXPECT_LE(done, total);
    if (caller.calls++ != caller.end_at) return 0;
    if (caller.throws) throw std::runtime_error("the caller's own");
    return 1;
  };
  const std::string path = LLADA_SOURCE_DIR "/tests/data/peer/tiny-llada-q8_0.gguf";
  Caller all{.end_at = -1};
  llada_model* model = nullptr;
  ASSERT_EQ(llada_model_load(LLADA_API_VERSION, path.c_str(), nullptr, progress, &all, &model), LLADA_OK);
  llada_model_free(model);
  ASSERT_GT(all.calls, 3);
  for (const int at : {0, 1, all.calls / 2, all.calls - 1}) {
    Caller caller{.end_at = at};
    EXPECT_EQ(llada_model_load(LLADA_API_VERSION, path.c_str(), nullptr, progress, &caller, &model),
              LLADA_ERROR_ABORTED);
    EXPECT_EQ(caller.calls, at + 1);
  }
  Caller throws{.end_at = 2, .throws = true};
  EXPECT_EQ(llada_model_load(LLADA_API_VERSION, path.c_str(), nullptr, progress, &throws, &model), LLADA_ERROR_FAILED);
  EXPECT_STREQ(llada_error(nullptr), "the caller's own");
}

// A file that is written to while it is open. What is cut off behind the look at it cannot be tested: SIGBUS.
TEST(CApiMisuse, FileThatChanges) {
  namespace fs = std::filesystem;
  const fs::path file = fs::path(testing::TempDir()) / "llada-changes.gguf";
  fs::copy_file(LLADA_SOURCE_DIR "/tests/data/peer/tiny-llada-q8_0.gguf", file, fs::copy_options::overwrite_existing);
  const auto size = fs::file_size(file);
  const auto submit = [&](llada_engine* engine) {
    llada_request* request = nullptr;
    const llada_status status = llada_submit_text(engine, "a", LLADA_TEXT, nullptr, &request);
    llada_request_free(request);
    return status;
  };
  {  // longer: no request begins, and one that runs ends with the error
    const ModelHandle model = load_tiny(file.string());
    const EngineHandle engine = start_engine(model);
    const RequestHandle running = ask(engine, "a", kSlow);
    llada_step step = LLADA_STEP_INIT;
    ASSERT_EQ(llada_request_next(running, -1, &step), LLADA_OK);
    std::ofstream(file, std::ios::app) << "more";
    EXPECT_EQ(submit(engine), LLADA_ERROR_FILE);
    EXPECT_NE(std::string(llada_error(engine)).find("needed " + std::to_string(size)), std::string::npos)
        << llada_error(engine);
    EXPECT_EQ(llada_request_wait(running, -1), LLADA_ERROR_FILE) << llada_error(running);
    const int32_t token = 1, position = 0;
    std::vector<float> row(1024);
    EXPECT_EQ(llada_logits(model, &token, 1, &position, 1, row.data(), row.size()), LLADA_ERROR_FILE);
  }
  fs::resize_file(file, size);
  {  // of the same size: only touched, and then with other bytes
    const ModelHandle model = load_tiny(file.string());
    const EngineHandle engine = start_engine(model);
    fs::last_write_time(file, fs::last_write_time(file) + std::chrono::seconds(1));
    EXPECT_EQ(submit(engine), LLADA_OK);
    const RequestHandle running = ask(engine, "a", kSlow);
    llada_step step = LLADA_STEP_INIT;
    ASSERT_EQ(llada_request_next(running, -1, &step), LLADA_OK);
    std::fstream(file, std::ios::in | std::ios::out).seekp(static_cast<std::streamoff>(size) / 2)
        << std::string(size / 4, 'x');
    fs::last_write_time(file, fs::last_write_time(file) + std::chrono::seconds(1));
    EXPECT_EQ(submit(engine), LLADA_ERROR_FILE);
    EXPECT_EQ(llada_request_wait(running, -1), LLADA_ERROR_FILE) << llada_error(running);
  }
  {  // replaced by name: what is mapped stays as it was
    const ModelHandle model = load_tiny(file.string());
    const EngineHandle engine = start_engine(model);
    fs::remove(file);
    std::ofstream(file) << "another";
    EXPECT_EQ(submit(engine), LLADA_OK);
  }
  fs::remove(file);
}

}  // namespace
}  // namespace llada
