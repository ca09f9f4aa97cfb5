// Packed weights kept on disk: found, used, made again when they are not the model's, and never needed.
#include "engine/pack_cache.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/file_lock.h"
#include "engine/convert.h"
#include "engine/golden.h"
#include "formats/temp_folder.h"
#include "kernels/kernels.h"

namespace llada {
namespace {

namespace fs = std::filesystem;

class PackCacheTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    for (const auto* table : kernels::available())
      if (table->packed_bytes(DType::Q8_0, 64, 64) > 0) isas.emplace_back(table->isa);
    if (isas.empty()) GTEST_SKIP() << "not run: nothing is packed here";
    const auto converted = must(convert_model({.path = fmt::format("{}/models/{}", LLADA_SOURCE_DIR, GetParam()),
                                               .out_path = model,
                                               .type = "q8_0",
                                               .imatrix = {}},
                                              {}));
  }

  LoadOptions options(PackCache::Use use, std::string isa = "") {
    LoadOptions o;
    o.isa = isa.empty() ? isas[0] : std::move(isa);
    o.threads = 2;
    o.pack_cache = {use, cache};
    o.warn = [this](const std::string& line) { warnings.push_back(line); };
    return o;
  }

  struct Loaded {
    std::vector<int32_t> ids;
    std::vector<float> logits;
    int64_t bytes = 0;  // of packed weights, in this process' own memory
  };
  Loaded load(const LoadOptions& with) {
    const auto loaded = Model::load(model, with);
    EXPECT_TRUE(loaded) << loaded.error().message;
    if (!loaded) return {};
    Loaded out{{}, {}, (*loaded)->device().memory_bytes()};
    decode::DecodeOptions request;
    request.gen_length = request.steps = 8;
    request.block_length = 8;
    const auto session = open_session(*loaded);
    const auto answer = session->generate(*(*loaded)->prompt_ids("Sort the numbers: 38 41 6"), request, {});
    EXPECT_TRUE(answer) << answer.error().message;
    if (!answer) return out;
    out.ids = answer->tokens;
    const std::vector<int32_t> positions = {0, 3, 7};
    const auto logits = session->logits(out.ids, positions);
    EXPECT_TRUE(logits) << logits.error().message;
    if (logits) out.logits = *logits;
    return out;
  }

  std::vector<std::string> packed() const {
    std::vector<std::string> out;
    for (const PackedEntry& e : list_packed(cache)) out.push_back(e.path);
    return out;
  }

  TempFolder folder;
  const std::string model = folder / "model.gguf", cache = folder / "deep/er/cache";
  std::vector<std::string> isas, warnings;
};

TEST_P(PackCacheTest, IsMadeWhenAskedForAndThenFound) {
  const Loaded without = load(options(PackCache::Use::none));
  EXPECT_GT(without.bytes, 1 << 20);
  const Loaded not_found = load(options(PackCache::Use::found));
  EXPECT_EQ(not_found.ids, without.ids);
  EXPECT_FALSE(fs::exists(cache)) << "nobody asked for a copy on disk";
  const Loaded made = load(options(PackCache::Use::make)), found = load(options(PackCache::Use::found));
  for (const Loaded& with : {made, found}) {
    EXPECT_EQ(with.ids, without.ids);
    EXPECT_EQ(with.logits, without.logits);
    EXPECT_EQ(with.bytes, 0);
  }
  const Loaded off = load(options(PackCache::Use::none));
  EXPECT_EQ(off.bytes, without.bytes);
  EXPECT_EQ(warnings, std::vector<std::string>());
}

// labels: long
TEST_P(PackCacheTest, EveryInstructionSetHasItsOwnOrThatOfItsLayout) {
  size_t layouts = 0;
  for (const std::string& isa : isas) {
    const Loaded without = load(options(PackCache::Use::none, isa));
    const auto made = must(make_packed(model, options(PackCache::Use::found, isa), {}));
    const std::string_view layout = kernels::packed_layout(**kernels::select(isa));
    layouts += layout == isa ? 1 : 0;
    EXPECT_EQ(made->made, layout == isa) << isa;
    EXPECT_EQ(made->isa, layout);
    const Loaded with = load(options(PackCache::Use::found, isa));
    EXPECT_EQ(with.ids, without.ids) << isa;
    EXPECT_EQ(with.logits, without.logits) << isa;
    EXPECT_EQ(with.bytes, 0) << isa;
    EXPECT_TRUE(verify_packed(model, options(PackCache::Use::found, isa)));
  }
  EXPECT_EQ(packed().size(), layouts);
  EXPECT_EQ(warnings, std::vector<std::string>());
}

// A training that goes on writes a file of the same size; a tool may set its time back.
TEST_P(PackCacheTest, IsMadeAgainWhenTheModelHasChanged) {
  ASSERT_TRUE(make_packed(model, options(PackCache::Use::found), {}));
  const auto time = fs::last_write_time(model);
  {
    const auto file = ModelFile::open(model);
    std::fstream out(model, std::ios::binary | std::ios::in | std::ios::out);
    for (const ModelTensor& tensor : file->tensors())
      for (int64_t at = 5; tensor.view.type == DType::Q8_0 && at < tensor.view.bytes(); at += sizeof(GroupQ8_0)) {
        out.seekp(static_cast<std::streamoff>(tensor.offset) + at);
        out.put('\x15');
      }
  }
  fs::last_write_time(model, time);
  const Loaded without = load(options(PackCache::Use::none)), with = load(options(PackCache::Use::found));
  EXPECT_EQ(with.ids, without.ids);
  EXPECT_EQ(with.bytes, 0);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("the model's file has changed since it was packed"), std::string::npos) << warnings[0];
  fs::last_write_time(model, time + std::chrono::nanoseconds(1000));
  EXPECT_EQ(load(options(PackCache::Use::found)).ids, without.ids);
  EXPECT_EQ(warnings.size(), 2u);
  EXPECT_EQ(load(options(PackCache::Use::found)).bytes, 0);
  EXPECT_EQ(warnings.size(), 2u);
  EXPECT_EQ(packed().size(), 1u);
}

TEST_P(PackCacheTest, DamageIsAWarningAndTheFileIsMadeAgain) {
  const auto made = must(make_packed(model, options(PackCache::Use::found), {}));
  const Loaded without = load(options(PackCache::Use::none));
  size_t warned = 0;
  for (const uintmax_t size : {uintmax_t{made->bytes / 2}, uintmax_t{10}, uintmax_t{0}}) {
    fs::resize_file(made->path, size);
    const Loaded with = load(options(PackCache::Use::found));
    EXPECT_EQ(with.ids, without.ids);
    EXPECT_EQ(with.bytes, 0);
    EXPECT_EQ(warnings.size(), ++warned);
    EXPECT_EQ(fs::file_size(made->path), made->bytes);
  }
  const auto again = must(make_packed(model, options(PackCache::Use::found), {}));
  EXPECT_FALSE(again->made);
}

TEST_P(PackCacheTest, IsNeverNeeded) {
  const Loaded without = load(options(PackCache::Use::none));
  // Another process makes it now.
  ASSERT_TRUE(make_packed(model, options(PackCache::Use::found), {}));
  const std::string path = packed().at(0);
  fs::remove(path);
  {
    auto lock = FileLock::open(path + ".lock");
    ASSERT_TRUE(lock && lock->try_hold());
    const Loaded meanwhile = load(options(PackCache::Use::make));
    EXPECT_EQ(meanwhile.ids, without.ids);
    EXPECT_EQ(meanwhile.bytes, without.bytes);
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_NE(warnings[0].find("another process is packing it"), std::string::npos);
    int asked = 0;
    const auto stopped = make_packed(model, options(PackCache::Use::found), [&] { return ++asked == 2; });
    EXPECT_FALSE(stopped);
    EXPECT_EQ(asked, 2);
  }
  // A folder that cannot be one.
  LoadOptions nowhere = options(PackCache::Use::make);
  nowhere.pack_cache.folder = model + "/cache";
  const Loaded anyway = load(nowhere);
  EXPECT_EQ(anyway.ids, without.ids);
  EXPECT_EQ(anyway.bytes, without.bytes);
  EXPECT_EQ(warnings.size(), 2u);
  EXPECT_FALSE(make_packed(model, nowhere, {}));
}

TEST_P(PackCacheTest, TwoWhoMakeItAtOnceMakeItOnce) {
  std::vector<Result<PackReport>> reports(3, std::unexpected(Error{}));
  {
    std::vector<std::jthread> threads;
    for (auto& report : reports)
      threads.emplace_back([&] { report = make_packed(model, options(PackCache::Use::found), {}); });
  }
  int made = 0;
  for (const auto& report : reports) {
    ASSERT_TRUE(report) << report.error().message;
    made += report->made;
  }
  EXPECT_EQ(made, 1);
  EXPECT_EQ(packed().size(), 1u);
}

TEST_P(PackCacheTest, TheListKnowsWhoseEveryFileIs) {
  const auto made = must(make_packed(model, options(PackCache::Use::found), {}));
  // What a killed process has left where the file system has no nameless files.
  std::ofstream(made->path + ".123-0.tmp") << "half";
  std::ofstream(cache + "/junk-0123456789abcdef-avx2.packed") << "junk";
  for (const char* foreign : {"mine.packed", "a-0123456789abcdeg-avx2.packed", "0123456789abcdef-avx2.packed"})
    std::ofstream(cache + "/" + foreign) << "whatever";
  auto entries = list_packed(cache);
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].model, "");
  EXPECT_NE(entries[0].state.find("no packed weights"), std::string::npos);
  EXPECT_EQ(entries[1].model, fs::canonical(model));
  EXPECT_EQ(entries[1].state, "ready");
  EXPECT_EQ(entries[1].isa, isas[0]);
  EXPECT_EQ(entries[1].bytes, made->bytes);
  ASSERT_TRUE(remove_packed(entries[0]));
  fs::last_write_time(model, fs::last_write_time(model) + std::chrono::seconds(1));
  EXPECT_EQ(list_packed(cache).at(0).state, "its model has changed");
  ASSERT_TRUE(make_packed(model, options(PackCache::Use::found), {}));
  EXPECT_FALSE(fs::exists(made->path + ".123-0.tmp"));
  fs::rename(model, model + ".away");
  EXPECT_EQ(list_packed(cache).at(0).state, "its model is gone");
  ASSERT_TRUE(remove_packed(list_packed(cache).at(0)));
  EXPECT_EQ(std::distance(fs::directory_iterator(cache), fs::directory_iterator()), 3) << "the lock goes too";
}

std::string kind_of(const ::testing::TestParamInfo<const char*>& tested) {
  return std::string_view(tested.param).ends_with("moe") ? "moe" : "dense";
}
INSTANTIATE_TEST_SUITE_P(, PackCacheTest, ::testing::Values("tiny-llada", "tiny-llada-moe"), kind_of);

TEST(PackCache, TheFolderFollowsTheEnvironment) {
  EXPECT_EQ(default_pack_folder("/c", "/home/a"), "/c/llada/packed");
  EXPECT_EQ(default_pack_folder("", "/home/a"), "/home/a/.cache/llada/packed");
  EXPECT_EQ(default_pack_folder("relative", "/home/a"), "/home/a/.cache/llada/packed");
  EXPECT_EQ(default_pack_folder("", ""), "");
}

TEST(PackingNote, IsForStartsThatAreLongAndCouldBeShort) {
  const PackCache found{PackCache::Use::found, "/cache"};
  const std::string note = packing_note(found, "m.gguf", 7.4);
  EXPECT_NE(note.find("7 s"), std::string::npos) << note;
  EXPECT_NE(note.find("`llada pack m.gguf`"), std::string::npos) << note;
  EXPECT_EQ(packing_note(found, "m.gguf", 4.9), "");
  EXPECT_EQ(packing_note({PackCache::Use::none, ""}, "m.gguf", 60), "");
  EXPECT_EQ(packing_note({PackCache::Use::make, "/cache"}, "m.gguf", 60), "");  // it was tried
  EXPECT_EQ(packing_note({PackCache::Use::found, ""}, "m.gguf", 60), "");       // nowhere to keep it
}

}  // namespace
}  // namespace llada
