// Packed weights in a file: the same results as from memory, nothing read of the stored matrices, and every file that
// is not the model's refused with a line that says why.
#include "devices/cpu/packed_weights.h"

#include <gmock/gmock.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "devices/cpu/cpu_device.h"
#include "eight_tokens.h"
#include "formats/temp_folder.h"
#include "must.h"
#include "small_model.h"

namespace llada {
namespace {

namespace fs = std::filesystem;

const PackedSource kSource{"/models/small.gguf", {.bytes = 7, .modified_ns = 8, .sample = 9}};

ModelConfig tied_config() {
  ModelConfig c = small_config();
  c.tied_head = true;
  return c;
}

// Tables that pack something of that type.
std::vector<const kernels::KernelTable*> packing_tables(DType type) {
  std::vector<const kernels::KernelTable*> out;
  for (const auto* table : kernels::available())
    if (table->packed_bytes(type, 64, 64) > 0) out.push_back(table);
  return out;
}

Status write(const std::string& path, std::string_view isa, const SmallModel& m, const WeightHooks& hooks = {}) {
  ThreadPool pool(2);
  return write_packed_weights(path, isa, kSource, m.graph.weights, m.views, pool, hooks);
}

Result<std::shared_ptr<const PackedWeights>> open(const std::string& path, std::string_view isa, const SmallModel& m,
                                                  const PackedSource& source = kSource) {
  return PackedWeights::open(path, isa, source, m.graph.weights, m.views);
}

std::vector<std::byte> bytes_of(const std::string& path) {
  const auto file = MappedFile::open(path);
  return {file->bytes().begin(), file->bytes().end()};
}

void put(const std::string& path, std::span<const std::byte> bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

std::vector<float> logits(Device& device, const ModelGraph& graph) {
  const auto program = std::make_shared<const Program>(graph.forward(plain_shape(8, 2)));
  return logits_of_eight_tokens(device, program, program->ops.size());
}

TEST(PackedWeights, GiveTheSameLogitsAndTheStoredMatricesAreNotRead) {
  const TempFolder folder;
  for (const DType type : {DType::Q4_0, DType::Q8_0, DType::F16})
    for (const ModelConfig& config : {small_config(), small_llada_moe(), tied_config()})
      for (const auto* table : packing_tables(type)) {
        SmallModel m = make_small_model(type, config);
        const auto plain = *make_cpu_device({.threads = 2, .isa = table->isa}, m.graph.weights, m.views, {});
        const std::vector<float> expected = logits(*plain, m.graph);
        const std::string path = folder.path() + "/small.packed";
        const Status written = write(path, kernels::packed_layout(*table), m);
        ASSERT_TRUE(written) << written.error().message;
        const auto packed = must(open(path, kernels::packed_layout(*table), m));
        ThreadPool pool(2);
        EXPECT_TRUE((*packed)->verify(pool));
        size_t found = 0;
        for (size_t i = 0; i < m.views.size(); ++i)
          if ((*packed)->find(i) != nullptr) {
            ++found;
            if (!m.graph.weights[i].picked_from) std::ranges::fill(m.storage[i], std::byte{0xff});
          }
        EXPECT_GT(found, 15u);
        std::vector<size_t> read;
        const auto mapped = *make_cpu_device(
            {.threads = 2, .isa = table->isa, .packed = *packed}, m.graph.weights, m.views,
            {.planned = [&](std::span<const size_t> order) { read.assign(order.begin(), order.end()); },
             .wanted = {},
             .packed = {}});
        EXPECT_EQ(logits(*mapped, m.graph), expected) << table->isa << " " << traits(type).name;
        for (const size_t i : read) EXPECT_TRUE(is_vector(m.graph.weights[i])) << m.graph.weights[i].name;
        // Behind an accelerator, by the run that needs them.
        const auto later = *make_cpu_device({.threads = 2, .isa = table->isa, .when_needed = true, .packed = *packed},
                                            m.graph.weights, m.views, {});
        EXPECT_EQ(logits(*later, m.graph), expected) << table->isa << " " << traits(type).name;
      }
}

struct Refusal {
  std::string what;  // in the error
  std::function<void(PackedIndex&)> change;
};

TEST(PackedWeights, AnIndexThatIsNotTheModelsIsRefused) {
  const TempFolder folder;
  const SmallModel m = make_small_model(DType::Q8_0, small_config());
  for (const auto* table : packing_tables(DType::Q8_0)) {
    const std::string path = folder.path() + "/small.packed";
    ASSERT_TRUE(write(path, kernels::packed_layout(*table), m));
    const std::vector<std::byte> whole = bytes_of(path);
    const auto index = must(parse_packed_file(whole, path));
    const uint64_t index_at = whole.size() - packed_index_bytes(*index, 0).size();
    const uint64_t last = index->matrices.size() - 1;
    const std::vector<Refusal> refusals = {
        {"packed for", [](PackedIndex& i) { i.isa = "another"; }},
        {"has changed", [](PackedIndex& i) { ++i.source.identity.modified_ns; }},
        {"has changed", [](PackedIndex& i) { ++i.source.identity.bytes; }},
        {"has changed", [](PackedIndex& i) { ++i.source.identity.sample; }},
        {"lays weights out", [](PackedIndex& i) { ++i.layout; }},
        {"is missing", [](PackedIndex& i) { i.matrices.erase(i.matrices.begin() + 3); }},
        {"is missing", [](PackedIndex& i) { i.matrices[2].name += "x"; }},
        {"is missing", [](PackedIndex& i) { i.matrices[2].expert = 0; }},
        {"not the model's", [](PackedIndex& i) { i.matrices[2].type = DType::Q4_0; }},
        {"not the model's", [](PackedIndex& i) { i.matrices[2].inputs *= 2; }},
        {"not the model's", [](PackedIndex& i) { i.matrices[2].outputs -= 1; }},
        {"not the model's", [](PackedIndex& i) { i.matrices[2].bytes -= 64; }},
        {"no known type", [](PackedIndex& i) { i.matrices[2].type = static_cast<DType>(kDTypeCount); }},
        {"does not lie", [](PackedIndex& i) { i.matrices[2].offset += 64; }},
        {"does not lie", [](PackedIndex& i) { i.matrices[2].offset = i.matrices[1].offset; }},
        {"does not lie", [=](PackedIndex& i) { i.matrices[last].bytes = ~uint64_t{0} - 4095; }},
        {"does not lie", [=](PackedIndex& i) { i.matrices[last].bytes += 64 << 10; }},
        {"does not lie", [=](PackedIndex& i) { i.matrices[last].offset = ~uint64_t{0} - 4095; }},
    };
    for (size_t r = 0; r < refusals.size(); ++r) {
      PackedIndex changed = *index;
      refusals[r].change(changed);
      auto bytes = whole;
      bytes.resize(index_at);
      const auto tail = packed_index_bytes(changed, index_at);
      bytes.insert(bytes.end(), tail.begin(), tail.end());
      put(path, bytes);
      const auto opened = open(path, kernels::packed_layout(*table), m);
      ASSERT_FALSE(opened) << r;
      EXPECT_NE(opened.error().message.find(refusals[r].what), std::string::npos) << r << opened.error().message;
    }
  }
}

TEST(PackedWeights, AFileThatIsShorterOrOtherwiseDamagedIsRefused) {
  const TempFolder folder;
  const std::string path = folder.path() + "/small.packed";
  const SmallModel m = make_small_model(DType::Q8_0, small_config());
  const auto tables = packing_tables(DType::Q8_0);
  if (tables.empty()) GTEST_SKIP() << "not run: nothing is packed here";
  ASSERT_TRUE(write(path, tables[0]->isa, m));
  const std::vector<std::byte> whole = bytes_of(path);
  const auto index = must(parse_packed_file(whole, path));
  const size_t tail = packed_index_bytes(*index, 0).size();
  for (size_t size = 0; size < whole.size(); size += size + 2 * tail < whole.size() ? 4093 : 1)
    EXPECT_FALSE(parse_packed_file(std::span(whole).first(size), path)) << size;
  auto longer = whole;
  longer.push_back(std::byte{});
  EXPECT_FALSE(parse_packed_file(longer, path));
  // The last eight bytes are reserved: they say nothing.
  for (size_t at = whole.size() - tail; at + 8 < whole.size(); ++at) {
    auto bytes = whole;
    bytes[at] ^= std::byte{0x10};
    EXPECT_FALSE(parse_packed_file(bytes, path)) << at;
  }
  // An index whose hash is right and whose texts and counts are not.
  const auto bytes = packed_index_bytes(*index, 0);
  for (size_t size = 0; size < tail - kPackedEndBytes; ++size)
    EXPECT_FALSE(parse_packed_index(std::span(bytes).first(size), whole.size(), path)) << size;
}

TEST(PackedWeights, EveryMatrixHasAChecksum) {
  const TempFolder folder;
  const std::string path = folder.path() + "/small.packed";
  const SmallModel m = make_small_model(DType::Q4_0, small_config());
  const auto tables = packing_tables(DType::Q4_0);
  if (tables.empty()) GTEST_SKIP() << "not run: nothing is packed here";
  ASSERT_TRUE(write(path, tables[0]->isa, m));
  const std::vector<std::byte> whole = bytes_of(path);
  const auto index = parse_packed_file(whole, path);
  ThreadPool pool(2);
  for (const PackedMatrix& matrix : index->matrices)
    for (const uint64_t at : {matrix.offset, matrix.offset + matrix.bytes / 2, matrix.offset + matrix.bytes - 1}) {
      auto bytes = whole;
      bytes[at] ^= std::byte{1};
      put(path, bytes);
      const auto opened = open(path, tables[0]->isa, m);
      ASSERT_TRUE(opened) << "the matrices are not read: " << opened.error().message;
      const Status verified = (*opened)->verify(pool);
      ASSERT_FALSE(verified) << matrix.name;
      EXPECT_NE(verified.error().message.find(matrix.name + " is damaged"), std::string::npos);
    }
}

TEST(PackedWeights, LayoutsOfInstructionSetsAreToldApart) {
  for (const auto* a : kernels::available()) {
    EXPECT_EQ(layout_fingerprint(*a), layout_fingerprint(*a));
    // Another layout under the same name, as another version of this program has it.
    kernels::KernelTable other = *a;
    other.packed_bytes = [](DType, int64_t n, int64_t k) { return n * k; };
    other.pack = [](const TensorView& weight, int64_t, int64_t, std::byte* packed) { *packed = *weight.data; };
    EXPECT_NE(layout_fingerprint(*a), layout_fingerprint(other));
    kernels::KernelTable swapped = other;
    swapped.pack = [](const TensorView& weight, int64_t, int64_t, std::byte* packed) { packed[1] = *weight.data; };
    EXPECT_NE(layout_fingerprint(swapped), layout_fingerprint(other));
  }
}

// labels: -threads
TEST(PackedWeightsDeathTest, AKilledProcessLeavesNothingHalf) {
  const TempFolder folder;
  const std::string path = folder.path() + "/small.packed";
  const SmallModel old = make_small_model(DType::Q8_0, small_config()),
                   m = make_small_model(DType::Q8_0, small_config());
  const auto tables = packing_tables(DType::Q8_0);
  if (tables.empty()) GTEST_SKIP() << "not run: nothing is packed here";
  const auto die_at = [&](size_t weight) {
    return WeightHooks{.planned = {},
                       .wanted =
                           [=](size_t i) {
                             if (i >= weight) std::raise(SIGKILL);
                           },
                       .packed = {}};
  };
  EXPECT_EXIT((void)write(path, tables[0]->isa, m, die_at(5)), ::testing::KilledBySignal(SIGKILL), "");
  EXPECT_FALSE(fs::exists(path));
  ASSERT_TRUE(write(path, tables[0]->isa, m));
  const auto before = bytes_of(path);
  EXPECT_EXIT((void)write(path, tables[0]->isa, m, die_at(5)), ::testing::KilledBySignal(SIGKILL), "");
  EXPECT_EQ(bytes_of(path), before);
}

TEST(PackedWeights, AModelThatNeedsNoneIsAnError) {
  const TempFolder folder;
  const SmallModel m = make_small_model(DType::F32, small_config());
  EXPECT_THAT(why_not(write(folder.path() + "/small.packed", "scalar", m)),
              testing::HasSubstr("no weight of the model is packed for scalar"));
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

}  // namespace
}  // namespace llada
