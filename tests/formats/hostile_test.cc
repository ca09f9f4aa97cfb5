// Hostile files: thousands of mutations of good ones, and inputs made to cost much. Whatever comes in, the
// answer is a model or one line that names the file, within a second, with memory of at most twice the file
// and a constant.
#include <gtest/gtest.h>

#include <cstring>
#include <ctime>
#include <functional>
#include <memory>
#include <random>

#include "base/file.h"
#include "formats/allocation_meter.h"
#include "formats/gguf.h"
#include "formats/gguf_model.h"
#include "formats/gguf_parts.h"
#include "formats/hf_config.h"
#include "formats/made_weights.h"
#include "formats/model_fixture.h"
#include "formats/rounded_fixture.h"
#include "formats/rounded_scheme.h"
#include "formats/safetensors.h"

namespace llada {
namespace {

using namespace testing_models;

constexpr size_t kFreeBytes = size_t{2} << 20;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double kSeconds = 8;  // of processor time; instrumented code is several times slower
#else
constexpr double kSeconds = 1;
#endif

using Reader = std::function<Result<ModelRecord>(std::span<const std::byte> bytes)>;

Result<ModelRecord> read_gguf(std::span<const std::byte> bytes) {
  LLADA_TRY(const auto file, GgufFile::parse(bytes, "hostile.file"));
  return read_gguf_model(file, bytes.size(), "hostile.file");
}

Result<ModelRecord> read_gguf_metadata(std::span<const std::byte> bytes) {
  LLADA_TRY(const auto file, GgufFile::parse(bytes, "hostile.file"));
  ModelRecord record;
  LLADA_TRY(record.tokenizer, read_gguf_tokenizer(file, bytes.size(), "hostile.file"));
  return record;
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Result<ModelRecord> read_index(std::span<const std::byte> bytes) {
  ModelRecord nothing;
  LLADA_TRY(const auto names, parse_safetensors_index(text_of(bytes), "hostile.file"));
  if (names.empty()) nothing.format = "no names";
  return nothing;
}

// Reads every byte that the tensors claim to have: an address sanitizer stops the test if one lies outside.
uint64_t touch(const ModelRecord& record) {
  uint64_t sum = 0;
  for (const ModelTensor& tensor : record.tensors)
    for (int64_t i = 0; i < tensor.view.bytes(); i += 64) sum += static_cast<uint64_t>(tensor.view.data[i]);
  for (const ModelTensor& tensor : record.tensors)
    sum += static_cast<uint64_t>(tensor.view.data[tensor.view.bytes() - 1]);
  return sum;
}

// True when the bytes were accepted. The copy is exactly as long as the input, so that one byte too far is
// seen.
bool check(const std::string& input, const Reader& read) {
  const auto copy = std::make_unique<std::byte[]>(input.size());
  std::memcpy(copy.get(), input.data(), input.size());
  const std::clock_t start = std::clock();
  const AllocationMeter meter;
  const auto record = read({copy.get(), input.size()});
  const size_t peak = meter.peak();
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  EXPECT_LE(seconds, kSeconds);
  EXPECT_LE(peak, 2 * input.size() + kFreeBytes);
  if (record) {
    touch(*record);
    return true;
  }
  const std::string& message = record.error().message;
  EXPECT_NE(message.find("hostile.file"), std::string::npos) << message;
  EXPECT_LT(message.size(), 1000u) << message;
  for (const char c : message) EXPECT_GE(static_cast<unsigned char>(c), 0x20u) << message;
  return false;
}

class Mutator {
 public:
  explicit Mutator(uint32_t seed) : random_(seed) {}

  // header: where the structure lies; most damage goes there.
  std::string operator()(std::string bytes, size_t header) {
    for (size_t i = 1 + random_() % 3; i > 0 && !bytes.empty(); --i) one(bytes, std::min(header, bytes.size()));
    return bytes;
  }

 private:
  void one(std::string& bytes, size_t header) {
    const size_t at = random_() % header;
    switch (random_() % 8) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << random_() % 8));
        break;
      case 1:
        bytes[at] = static_cast<char>(random_());
        break;
      case 2:
        bytes.resize(random_() % (bytes.size() + 1));
        break;
      case 3:
        overwrite(bytes, at, 8);
        break;
      case 4:
        overwrite(bytes, at, 4);
        break;
      case 5:
        bytes.erase(at, 1 + random_() % 16);
        break;
      case 6:
        bytes.insert(at, bytes.substr(random_() % header, 1 + random_() % 40));
        break;
      case 7:
        number(bytes, at);
        break;
    }
  }

  void overwrite(std::string& bytes, size_t at, size_t width) {
    const uint64_t extremes[] = {0,
                                 1,
                                 0x7fffffff,
                                 0x80000000,
                                 0xffffffff,
                                 uint64_t{1} << 32,
                                 uint64_t{1} << 61,
                                 uint64_t{1} << 63,
                                 ~uint64_t{0},
                                 ~uint64_t{0} - 8,
                                 bytes.size(),
                                 bytes.size() - 1};
    const uint64_t value = extremes[random_() % std::size(extremes)];
    std::memcpy(bytes.data() + at, &value, std::min(width, bytes.size() - at));
  }

  // The next decimal number becomes an extreme one (JSON).
  void number(std::string& bytes, size_t at) {
    constexpr const char* extremes[] = {
        "0", "-1", "1e999", "18446744073709551615", "9223372036854775808", "0.5", "null", "[[[[]]]]", "{}", "\"x\""};
    const size_t from = bytes.find_first_of("0123456789", at);
    if (from == std::string::npos) return;
    const size_t to = bytes.find_first_not_of("0123456789.e-", from);
    bytes.replace(from, (to == std::string::npos ? bytes.size() : to) - from,
                  extremes[random_() % std::size(extremes)]);
  }

  std::mt19937 random_;
};

void mutate(const std::string& good, size_t header, int rounds, uint32_t seed, const Reader& read) {
  ASSERT_TRUE(check(good, read));
  Mutator mutator(seed);
  int accepted = 0;
  for (int i = 0; i < rounds; ++i) {
    SCOPED_TRACE(i);
    accepted += check(mutator(good, header), read) ? 1 : 0;
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_LT(accepted, rounds * 6 / 10);  // most damage must be noticed; weights and texts may change freely
}

size_t header_of(const std::string& gguf, const ModelConfig& config, const GgufOptions& options) {
  return std::min(gguf.size(), gguf_writer(config, options).header().size());
}

TEST(Hostile, MutatedGguf) {
  uint32_t seed = 0;
  for (const auto& [family, arch] :
       {std::pair{&kLladaFamily, "llada"}, std::pair{&kDreamFamily, "dream"}, std::pair{&kLladaMoeFamily, "llada-moe"},
        std::pair{&kLlada2Family, "llada2"}, std::pair{&kLladaFamily, "diffuse"}}) {
    ModelConfig config = tiny_config(family);
    const GgufOptions options{.arch = arch, .type = seed % 2 == 0 ? DType::Q8_0 : DType::F16};
    const std::string good = gguf_bytes(config, options);
    mutate(good, header_of(good, config, options), 1200, ++seed, read_gguf);
  }
}

TEST(Hostile, MutatedDiffusionGemma) {
  const std::string made = LLADA_SOURCE_DIR "/tests/data/diffusion_gemma/";
  const std::string gguf = *read_file(made + "model.gguf");
  mutate(gguf, gguf.find("blk.5.layer_output_scale.weight"), 800, 31, read_gguf);
  mutate(*read_file(made + "folder/config.json"), SIZE_MAX, 800, 32,
         [](std::span<const std::byte> bytes) -> Result<ModelRecord> {
           ModelRecord record;
           LLADA_TRY(record.config, read_hf_config(text_of(bytes), "", "hostile.file"));
           return record;
         });
}

TEST(Hostile, MutatedGgufMetadata) {
  ModelConfig config = tiny_config(&kLladaFamily);
  const std::string whole = gguf_writer(config, {}).header();
  // No tensors: the count in the header says so, the infos behind the metadata are not looked at.
  std::string good = whole;
  std::memset(good.data() + 8, 0, 8);
  mutate(good, good.size() * 2 / 3, 1200, 11, read_gguf_metadata);
}

// A model in two parts, as one text: the first's length, the first, the second.
Result<ModelRecord> read_gguf_parts(std::span<const std::byte> bytes) {
  uint64_t first = 0;
  if (bytes.size() < 8) return invalid("hostile.file: short");
  std::memcpy(&first, bytes.data(), 8);
  bytes = bytes.subspan(8);
  first = std::min<uint64_t>(first, bytes.size());
  LLADA_TRY(auto file, GgufFile::parse(bytes.first(first), "hostile.file"));
  const NamedBytes second{bytes.subspan(first), "hostile.file"};
  LLADA_TRY(file, join_gguf_parts(std::move(file), "hostile.file", {&second, 1}));
  return read_gguf_model(file, bytes.size(), "hostile.file");
}

TEST(Hostile, MutatedGgufParts) {
  const ModelConfig config = tiny_config(&kDreamFamily);
  for (const size_t first : {size_t{0}, size_t{9}}) {
    const auto parts = gguf_parts(config, {.arch = "dream", .type = DType::Q8_0}, {first, 0});
    std::string good;
    const uint64_t size = parts[0].size();
    good.append(reinterpret_cast<const char*>(&size), 8);
    good += parts[0];
    // Damage to the second's header, behind the first's data, is as likely as to the first's.
    mutate(good + parts[1], 8 + parts[0].size(), 600, 51, read_gguf_parts);
    if (first == 0) mutate(good + parts[1], 8 + parts[0].size() + 3000, 600, 52, read_gguf_parts);
  }
}

TEST(Hostile, MutatedFusedGguf) {
  for (const auto& [family, arch] : {std::pair{&kLladaFamily, "llada"}, {&kDreamFamily, "dream"}}) {
    const ModelConfig config = tiny_config(family);
    const GgufOptions options{.arch = arch, .type = DType::Q8_0};
    const auto tensors = with_fused_qkv(fake_tensors(config, false));
    const std::string good = gguf_bytes(gguf_metadata(config, options), tensors, options.type);
    mutate(good, header_of(good, config, options), 600, 61, read_gguf);
  }
}

TEST(Hostile, MutatedSafetensors) {
  for (const Family* family : {&kLladaFamily, &kLladaMoeFamily, &kLlada2Family}) {
    const ModelConfig config = tiny_config(family);
    const std::string good = safetensors_bytes(hf_tensors(config), hf_names(config, Style::standard));
    uint64_t header = 0;
    std::memcpy(&header, good.data(), 8);
    mutate(good, 8 + header, 1250, 21, [&](std::span<const std::byte> bytes) {
      const NamedBytes shard{bytes, "hostile.file"};
      return read_hf_model(config, {&shard, 1}, "hostile.file");
    });
  }
}

// Weights that other software has rounded are made too, as whoever computes with them does.
TEST(Hostile, MutatedRoundedWeights) {
  uint32_t seed = 70;
  for (const RoundedForm& form : rounded_forms()) {
    const RoundedFolder folder = rounded_folder(tiny_config(&kLladaFamily), form);
    uint64_t header = 0;
    std::memcpy(&header, folder.weights.data(), 8);
    const auto config = read_hf_config(folder.config, {}, "hostile.file");
    ASSERT_TRUE(config) << config.error().message;
    mutate(folder.weights, 8 + header, 150, ++seed, [&](std::span<const std::byte> bytes) -> Result<ModelRecord> {
      const NamedBytes shard{bytes, "hostile.file"};
      LLADA_TRY(ModelRecord record, read_hf_model(*config, {&shard, 1}, "hostile.file"));
      for (const ModelTensor& tensor : record.tensors)
        if (record.made->holds(tensor.view)) LLADA_TRY_STATUS(record.made->make(tensor.view, nullptr));
      return record;
    });
    const std::string scheme = "{" + form.config + "}";
    mutate(scheme, scheme.size(), 100, ++seed, [](std::span<const std::byte> bytes) -> Result<ModelRecord> {
      ModelRecord record;
      LLADA_TRY(const Json json, parse_json_object(text_of(bytes), "hostile.file"));
      LLADA_TRY(record.config.rounded, read_rounded_scheme(json, {}, "hostile.file"));
      if (record.config.rounded == nullptr) return invalid("hostile.file: none");
      return record;
    });
  }
}

TEST(Hostile, MutatedConfig) {
  for (const Family* family : {&kLladaFamily, &kLladaMoeFamily, &kLlada2Family}) {
    const ModelConfig config = tiny_config(family);
    const std::string weights = safetensors_bytes(hf_tensors(config), hf_names(config, Style::standard));
    const std::string good = hf_config_json(config, Style::standard);
    mutate(good, good.size(), 600, 31, [&](std::span<const std::byte> bytes) -> Result<ModelRecord> {
      LLADA_TRY(const auto read, read_hf_config(text_of(bytes), {}, "hostile.file"));
      const NamedBytes shard{std::as_bytes(std::span(weights)), "hostile.file"};
      return read_hf_model(read, {&shard, 1}, "hostile.file");
    });
  }
}

TEST(Hostile, MutatedIndex) {
  std::string good = R"({"metadata":{"total_size":123},"weight_map":{)";
  for (int i = 0; i < 20; ++i)
    good +=
        fmt::format(R"({}"model.layers.{}.input_layernorm.weight":"model-{}.safetensors")", i > 0 ? "," : "", i, i % 3);
  good += "}}";
  mutate(good, good.size(), 1200, 41, read_index);
}

void put(std::string& out, uint64_t value, size_t bytes) { out.append(reinterpret_cast<const char*>(&value), bytes); }
void put(std::string& out, std::string_view text) {
  put(out, text.size(), 8);
  out += text;
}

std::string gguf_start(uint64_t tensors, uint64_t keys) {
  std::string out = "GGUF";
  put(out, 3, 4);
  put(out, tensors, 8);
  put(out, keys, 8);
  return out;
}

std::string gguf_of_tensors(int count, const std::function<std::string(int)>& name) {
  std::string out = gguf_start(static_cast<uint64_t>(count), 1);
  put(out, "general.alignment");
  put(out, 4, 4);
  put(out, 8, 4);
  for (int i = 0; i < count; ++i) {
    put(out, name(i));
    put(out, 1, 4);
    put(out, 1, 8);
    put(out, 0, 4);
    put(out, 8 * static_cast<uint64_t>(i), 8);
  }
  out.resize((out.size() + 7) / 8 * 8 + 8 * static_cast<size_t>(count));
  return out;
}

TEST(HostileCost, ManyTinyTensors) {
  EXPECT_FALSE(check(gguf_of_tensors(65536, [](int i) { return fmt::format("{}", i); }), read_gguf));
  EXPECT_FALSE(check(gguf_of_tensors(65536, [](int) { return "t"; }), read_gguf));
  EXPECT_FALSE(
      check(gguf_of_tensors(65536, [](int i) { return std::string(240, 'x') + fmt::format("{}", i); }), read_gguf));
}

std::string gguf_of_texts(std::string_view key, int count, std::string_view text) {
  std::string out = gguf_start(0, 2);
  put(out, "tokenizer.ggml.model");
  put(out, 8, 4);
  put(out, "gpt2");
  put(out, key);
  put(out, 9, 4);
  put(out, 8, 4);
  put(out, static_cast<uint64_t>(count), 8);
  for (int i = 0; i < count; ++i) put(out, text);
  return out;
}

TEST(HostileCost, VocabulariesOfEmptyTexts) {
  EXPECT_FALSE(check(gguf_of_texts("tokenizer.ggml.tokens", 1000000, ""), read_gguf_metadata));
  EXPECT_FALSE(check(gguf_of_texts("tokenizer.ggml.tokens", 300000, "sixteen letters."), read_gguf_metadata));
  EXPECT_FALSE(check(gguf_of_texts("tokenizer.ggml.merges", 1000000, "a b"), read_gguf_metadata));
}

TEST(HostileCost, ManyKeys) {
  std::string out = gguf_start(0, 4096);
  for (int i = 0; i < 4096; ++i) {
    put(out, fmt::format("{}", i));
    put(out, 0, 4);
    put(out, 0, 1);
  }
  EXPECT_FALSE(check(out, read_gguf));
}

// Every expert of every stack becomes an entry of the table, and a stack of 4096 matrices of four values is 32 KB.
TEST(HostileCost, StacksOfManyTinyExperts) {
  std::string header = "{",
              json = R"({"architectures":["LLaDAMoEModelLM"],"vocab_size":2,"rope_theta":1e4,"hidden_size":2,)"
                     R"("num_hidden_layers":1024,"num_attention_heads":1,"num_experts":4096,)"
                     R"("num_experts_per_tok":1,"moe_intermediate_size":2})";
  size_t data = 0;
  for (int layer = 0; layer < 200; ++layer)
    for (const char* kind : {"gate", "up"}) {
      header += fmt::format(
          R"({}"model.layers.{}.mlp.experts.{}_proj":{{"dtype":"F16","shape":[4096,2,2],"data_offsets":[{},{}]}})",
          data > 0 ? "," : "", layer, kind, data, data + 32768);
      data += 32768;
    }
  header += "}";
  std::string bytes;
  put(bytes, header.size(), 8);
  bytes += header + std::string(data, '\0');
  const auto config = read_hf_config(json, {}, "hostile.file");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_FALSE(check(bytes, [&](std::span<const std::byte> file) {
    const NamedBytes shard{file, "hostile.file"};
    return read_hf_model(*config, {&shard, 1}, "hostile.file");
  }));
}

std::string with_length(const std::string& header, size_t data) {
  std::string out;
  put(out, header.size(), 8);
  return out + header + std::string(data, '\0');
}

Result<ModelRecord> read_shard(std::span<const std::byte> bytes) {
  const NamedBytes shard{bytes, "hostile.file"};
  return read_hf_model(tiny_config(&kLladaFamily), {&shard, 1}, "hostile.file");
}

TEST(HostileCost, ManyTinySafetensors) {
  std::string header = "{";
  for (int i = 0; i < 80000; ++i)
    header += fmt::format(R"({}"{}":{{"dtype":"F16","shape":[1],"data_offsets":[{},{}]}})", i > 0 ? "," : "", i, 2 * i,
                          2 * i + 2);
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  EXPECT_FALSE(check(with_length(header, 160000), read_shard));
}

TEST(HostileCost, HugeJson) {
  std::string notes = R"({"__metadata__":{"a":"")";
  for (int i = 0; i < 2000000; ++i) notes += R"(,"":"")";
  EXPECT_FALSE(check(with_length(notes + "}}", 0), read_shard));
  EXPECT_FALSE(check(with_length(std::string("{") + std::string(10000000, '['), 0), read_shard));
  EXPECT_FALSE(check(with_length("{\"" + std::string(10000000, '{') + "\":0}", 0), read_shard));
  EXPECT_FALSE(check(with_length("{\"t\":{\"shape\":[" + std::string(10000000, ' ') + "]}}", 0), read_shard));
  std::string index = R"({"weight_map":{"a":"a.safetensors")";
  for (int i = 0; i < 500000; ++i) index += R"(,"a":"a.safetensors")";
  EXPECT_TRUE(check(index + "}}", read_index));
  std::string config = R"({"architectures":["LLaDAModelLM"],"x":[)";
  for (int i = 0; i < 300000; ++i) config += "{},";
  EXPECT_FALSE(check(config + "0]}", [](std::span<const std::byte> bytes) -> Result<ModelRecord> {
    ModelRecord record;
    LLADA_TRY(record.config, read_hf_config(text_of(bytes), {}, "hostile.file"));
    return record;
  }));
}

}  // namespace
}  // namespace llada
