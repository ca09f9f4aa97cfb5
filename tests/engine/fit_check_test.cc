// Whether a model fits: figures that are injected, and whole loads over scripted /proc trees.
#include "engine/fit_check.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "engine/convert.h"
#include "engine/golden.h"
#include "formats/temp_folder.h"
#include "hexagon/hexagon_tools.h"
#include "kernels/kernels.h"

namespace llada {
namespace {

namespace fs = std::filesystem;
constexpr int64_t kGb = 1'000'000'000;

TEST(FitCheck, ComparesWhatIsNeededWithWhatIsLeft) {
  const MemoryNeed need{.packed = 4 * kGb, .kv = kGb / 2, .activations = kGb / 4};
  EXPECT_EQ(need.total(), 4 * kGb + kGb / 2 + kGb / 4);
  EXPECT_TRUE(check_fit("m.gguf", need, {16 * kGb, need.total(), "the machine"}));
  const auto refused = check_fit("m.gguf", need, {16 * kGb, need.total() - 1, "the machine"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::memory);
  EXPECT_EQ(
      refused.error().message,
      "m.gguf: needs 4.75 GB of memory (packed weights 4.00, keys and values 0.50, activations 0.25), the machine "
      "has 4.75 GB left; `llada pack` keeps the packed weights on disk, a smaller type of the model needs less, "
      "fit_check=false goes on anyway");
  EXPECT_TRUE(check_second_copy("m.gguf", 4 * kGb, {16 * kGb, 4 * kGb, "the machine"}));
  EXPECT_EQ(check_second_copy("m.gguf", 4 * kGb, {16 * kGb, 3 * kGb, "the machine"}).error().message,
            "m.gguf: the cpu beside the accelerator needs 4.00 GB of memory for packed weights of its own, the machine "
            "has 3.00 GB left; `llada pack` keeps them on disk");
  const auto packed = check_fit("m.gguf", {.packed = 0, .kv = kGb}, {16 * kGb, 0, "its control group"});
  ASSERT_FALSE(packed);
  EXPECT_EQ(packed.error().message.find("llada pack"), std::string::npos) << "it is packed already";
  EXPECT_NE(packed.error().message.find("its control group has 0.00 GB left"), std::string::npos);
}

TEST(FitCheck, SmallMachinesKeepLargeCopiesOnDisk) {
  const MemoryNeed large{.packed = int64_t{5} << 30}, small{.packed = int64_t{64} << 20};
  const int64_t gib = int64_t{1} << 30;
  EXPECT_TRUE(keeps_packed(large, {8 * gib, 8 * gib, ""}));
  EXPECT_TRUE(keeps_packed(large, {12 * gib - 1, 0, ""}));
  EXPECT_FALSE(keeps_packed(large, {12 * gib, 0, ""}));
  EXPECT_FALSE(keeps_packed(small, {8 * gib, 8 * gib, ""}));
  EXPECT_FALSE(keeps_packed({}, {8 * gib, 8 * gib, ""}));
}

class FitOnLoading : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const auto* table : kernels::available())
      if (table->packed_bytes(DType::Q8_0, 64, 64) > 0) isa = table->isa;
    if (isa.empty()) GTEST_SKIP() << "not run: nothing is packed here";
    const auto converted = must(convert_model({.path = fmt::format("{}/models/tiny-llada", LLADA_SOURCE_DIR),
                                               .out_path = model,
                                               .type = "q8_0",
                                               .imatrix = {}},
                                              {}));
  }
  void machine(int64_t total_kib, int64_t available_kib) const {
    fs::create_directories(folder / "root/proc");
    std::ofstream(folder / "root/proc/meminfo")
        << "MemTotal: " << total_kib << " kB\nMemAvailable: " << available_kib << " kB\nSwapFree: 0 kB\n";
  }
  Result<std::shared_ptr<const Model>> load(PackCache::Use use, bool check = true, const std::string& device = "cpu") {
    LoadOptions o;
    o.device = device;
    o.isa = isa;
    o.threads = 1;
    o.pack_cache = {use, cache};
    o.system_root = check ? folder / "root" : "";
    o.warn = [this](const std::string& line) { warnings.push_back(line); };
    return Model::load(model, o);
  }

  TempFolder folder;
  const std::string model = folder / "model.gguf", cache = folder / "deep/cache";
  std::string isa;
  std::vector<std::string> warnings;
};

TEST_F(FitOnLoading, RefusesWhatDoesNotFitUnlessToldNotToLook) {
  machine(32 << 20, 64);  // 32 GiB, of which 64 KiB are left
  const auto refused = load(PackCache::Use::none);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::memory);
  EXPECT_TRUE(refused.error().message.starts_with(model + ": needs ")) << refused.error().message;
  EXPECT_TRUE(load(PackCache::Use::none, false));
  machine(32 << 20, 1 << 20);
  EXPECT_TRUE(load(PackCache::Use::none));
  fs::remove(folder / "root/proc/meminfo");  // a system that does not tell
  EXPECT_TRUE(load(PackCache::Use::none));
  EXPECT_EQ(warnings, std::vector<std::string>());
}

// labels: device native
TEST_F(FitOnLoading, TheDspsWeightsCountThoughTheFileHasThem) {
  SKIP_WITHOUT_EMULATOR();
  const auto on_dsp = [&](const char* device) { return load(PackCache::Use::none, true, device); };
  machine(32 << 20, 1 << 20);
  int64_t on_device = 0;
  {
    const auto whole = must(on_dsp("hexagon:fallback=none"));
    Device& device = (*whole)->device();
    const std::vector<int64_t> sizes = device.capabilities().window->weight_sizes();
    const Program program = (*whole)->graph().forward(plain_shape(1, 1));
    for (const Op& op : program.ops)
      if (op.kind != OpKind::embed && device.place(op) == Unit::accelerator)
        for_each_weight(op, [&](WeightId id) { on_device += sizes[static_cast<size_t>(id)]; });
  }
  ASSERT_GT(on_device, 1 << 20);
  machine(32 << 20, on_device / 1024);  // nothing for keys, values and activations
  const auto refused = on_dsp("hexagon:fallback=none");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::memory) << refused.error().message;
  EXPECT_TRUE(refused.error().message.starts_with(model + ": needs ")) << refused.error().message;
  machine(32 << 20, 1 << 20);
  const auto narrow = on_dsp("hexagon:window=1%");
  ASSERT_FALSE(narrow);
  EXPECT_EQ(narrow.error().kind, ErrorKind::invalid_input);
  EXPECT_TRUE(narrow.error().message.starts_with("window: found ")) << narrow.error().message;
}

// Total memory so small that the tiny model's copy is worth keeping.
TEST_F(FitOnLoading, ASmallMachinePacksOnDiskOnceAndSaysSoOnce) {
  machine(32 << 20, 1 << 20);
  const auto whole = must(load(PackCache::Use::found));
  EXPECT_FALSE(fs::exists(cache)) << "memory enough";
  const int64_t packed_kib = (*whole)->device().memory_bytes() / 1024;
  ASSERT_GT(packed_kib, 100);
  machine(packed_kib * 8, 1 << 20);
  for (int start = 0; start < 2; ++start) {
    const auto loaded = must(load(PackCache::Use::found));
    EXPECT_EQ((*loaded)->device().memory_bytes(), 0);
  }
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("less than 12 GB"), std::string::npos) << warnings[0];
  EXPECT_EQ(list_packed(cache).size(), 1u);
}

}  // namespace
}  // namespace llada
