// Models in several GGUF files: opened whole, converted into one, and refused where a part is not what it should be.
#include "formats/gguf_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "formats/convert.h"
#include "formats/model_fixture.h"
#include "formats/part_name.h"
#include "formats/temp_folder.h"

namespace llada {
namespace {

using namespace testing_models;
using testing::HasSubstr;

std::string name_of_part(size_t i, size_t count) { return fmt::format("m-{:05}-of-{:05}.gguf", i + 1, count); }

// Writes the parts under their names; the path of the first.
std::string write_parts(const TempFolder& folder, const std::vector<std::string>& parts) {
  for (size_t i = 0; i < parts.size(); ++i) folder.write(name_of_part(i, parts.size()), parts[i]);
  return folder / name_of_part(0, parts.size());
}

std::string outcome_of(const std::string& path) { return outcome(ModelFile::open(path)); }

// Another number in a key of the metadata.
std::string with_number(std::string bytes, const std::string& key, uint32_t value) {
  const size_t at = bytes.find(key);
  if (at == std::string::npos) throw std::runtime_error("no " + key);
  std::memcpy(bytes.data() + at + key.size() + 4, &value, 4);
  return bytes;
}

// With a text in front of the other keys; what is added keeps the tensors where they are aligned.
std::string with_key(std::string bytes, const std::string& key, const std::string& text) {
  constexpr size_t kCount = 16, kKeys = 24;  // magic, version, tensors; number of keys; keys
  std::string added;
  const auto put = [&](auto number) { added.append(reinterpret_cast<const char*>(&number), sizeof number); };
  const auto add = [&](const std::string& name, const std::string& value) {
    put(uint64_t{name.size()}), added += name, put(uint32_t{8}), put(uint64_t{value.size()}), added += value;
  };
  add(key, text);
  const size_t more = added.size() + 8 + 8 + 4 + 8;  // of the key "test.pad"
  add("test.pad", std::string(32 - more % 32, 'x'));
  uint64_t count = 0;
  std::memcpy(&count, &bytes.at(kCount), sizeof count);
  count += 2;
  std::memcpy(&bytes.at(kCount), &count, sizeof count);
  return bytes.insert(kKeys, added);
}

class Parts : public testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Models, Parts, testing::Values("llada", "dream", "llada-moe", "llada2"),
                         [](const auto& model) {
                           return std::string(model.param) == "llada-moe" ? "llada_moe" : std::string(model.param);
                         });

TEST_P(Parts, AreTheModel) {
  const std::string arch = GetParam();
  const ModelConfig config = tiny_config(arch == "llada"    ? &kLladaFamily
                                         : arch == "dream"  ? &kDreamFamily
                                         : arch == "llada2" ? &kLlada2Family
                                                            : &kLladaMoeFamily);
  const GgufOptions options{.arch = arch, .type = DType::Q8_0};
  const TempFolder folder;
  const ModelFile whole = opened(folder.write("whole.gguf", gguf_bytes(config, options)));
  ASSERT_TRUE(convert_to_gguf(whole, nullptr, folder / "whole-q4_0.gguf", {.type = DType::Q4_0, .progress = {}}));
  // The first part may hold no tensors: llama-gguf-split has an option for it.
  for (const std::vector<size_t>& counts : {std::vector<size_t>{3, 5, 0}, {0, 0}, {1, 1, 1, 1, 1, 1, 0}}) {
    const TempFolder parts;
    const auto bytes = gguf_parts(config, options, counts);
    const ModelFile model = opened(write_parts(parts, bytes));
    size_t all = 0;
    for (const std::string& part : bytes) all += part.size();
    EXPECT_EQ(std::tuple(model.file_bytes(), model.files().size(), model.config().name),
              std::tuple(all, counts.size(), "tiny"));
    ASSERT_TRUE(model.tokenizer());
    ASSERT_EQ(model.tensors().size(), whole.tensors().size());
    for (const ModelTensor& tensor : whole.tensors()) {
      const TensorView* view = model.find(tensor.name);
      ASSERT_NE(view, nullptr) << tensor.name;
      ASSERT_EQ(view->shape, tensor.view.shape) << tensor.name;
      EXPECT_EQ(0, std::memcmp(view->data, tensor.view.data, static_cast<size_t>(view->bytes()))) << tensor.name;
    }
    ASSERT_TRUE(convert_to_gguf(model, nullptr, parts / "joined.gguf", {.type = DType::Q4_0, .progress = {}}));
    EXPECT_EQ(parts.read("joined.gguf"), folder.read("whole-q4_0.gguf"));
    for (size_t i = 0; i < counts.size(); ++i) {
      const std::string part = parts / name_of_part(i, counts.size());
      const auto status = convert_to_gguf(model, nullptr, part, {.type = DType::F16, .progress = {}});
      ASSERT_FALSE(status);
      EXPECT_THAT(status.error().message, HasSubstr("is the input file"));
    }
  }
}

TEST(GgufParts, TheFileGivesTheNameWhereItHasNone) {
  ModelConfig config = tiny_config(&kLladaFamily);
  config.name.clear();
  const TempFolder folder;
  EXPECT_EQ(opened(write_parts(folder, gguf_parts(config, {}, {4, 0}))).config().name, "m");
}

TEST(GgufParts, AnotherPartNamesTheFirst) {
  const TempFolder folder;
  const auto parts = gguf_parts(tiny_config(&kLladaFamily), {}, {4, 4, 0});
  const std::string first = write_parts(folder, parts);
  EXPECT_EQ(outcome_of(folder / name_of_part(1, 3)),
            folder / name_of_part(1, 3) + ": part 2 of 3 of a model; needed its first part: " + first);
  EXPECT_THAT(outcome_of(folder.write("last.gguf", parts[2])),
              testing::EndsWith(": part 3 of 3 of a model; needed its first part"));
  EXPECT_THAT(outcome_of(folder.write("model.gguf", parts[0])),
              HasSubstr("a name that ends with -00001-of-00003.gguf"));
  EXPECT_THAT(outcome_of(folder.write("m-00002-of-00003.gguf", parts[0])),
              HasSubstr("a name that ends with -00001-of-00003.gguf"));
  EXPECT_THAT(outcome_of(folder.write("m-1-of-3.gguf", parts[0])),
              HasSubstr("a name that ends with -00001-of-00003.gguf"));
}

TEST(GgufParts, WrongPartsAreRefused) {
  const ModelConfig config = tiny_config(&kLladaFamily);
  const auto good = gguf_parts(config, {}, {4, 4, 0});
  const auto refusal = [&](size_t part, const std::string& bytes) {
    const TempFolder folder;
    std::vector<std::string> parts = good;
    parts[part] = bytes;
    return outcome_of(write_parts(folder, parts));
  };
  ASSERT_EQ(refusal(0, good[0]), "accepted");
  EXPECT_THAT(refusal(1, good[2]), HasSubstr("m-00002-of-00003.gguf: part 3 of 3, 2 of 3 needed behind"));
  EXPECT_THAT(refusal(1, with_number(good[1], "split.count", 4)), HasSubstr("part 2 of 4, 2 of 3 needed"));
  EXPECT_THAT(refusal(1, with_number(good[1], "split.no", 7)), HasSubstr("split.no is 7, below split.count 3"));
  EXPECT_THAT(refusal(1, gguf_bytes(config)), HasSubstr("part 1 of 1, 2 of 3 needed"));
  EXPECT_THAT(refusal(2, ""), HasSubstr("m-00003-of-00003.gguf: is empty"));
  EXPECT_THAT(refusal(1, good[1].substr(0, good[1].size() - 100)), HasSubstr("m-00002-of-00003.gguf: tensor"));
  EXPECT_THAT(refusal(0, with_number(good[0], "split.tensors.count", 20)),
              HasSubstr("21 tensors in its 3 parts, split.tensors.count 20 needed"));
  EXPECT_THAT(refusal(0, with_number(good[0], "split.count", 65535)),
              HasSubstr("split.count is 65535, 1 to 512 needed"));
  EXPECT_THAT(refusal(0, with_number(good[0], "split.count", 0xffffffff)), HasSubstr("split.count is 4294967295"));
  EXPECT_THAT(refusal(0, with_number(good[0], "split.no", 0x80000000)), HasSubstr("split.no is 2147483648"));
  EXPECT_THAT(refusal(0, with_number(good[0], "split.count", 0)), HasSubstr("is missing")) << "llama.cpp: one file";

  // A part may repeat what the first says, as llama-gguf-split does not, and not contradict it.
  EXPECT_THAT(refusal(1, with_key(good[1], "general.architecture", "llada")), HasSubstr("accepted"));
  EXPECT_THAT(refusal(1, with_key(good[1], "general.architecture", "dream")),
              HasSubstr("m-00002-of-00003.gguf: general.architecture differs from "));

  // The same tensor in two parts; one in none.
  const auto other = gguf_parts(config, {}, {4, 5, 0});
  EXPECT_THAT(refusal(1, other[1]), HasSubstr("22 tensors in its 3 parts"));
  const TempFolder folder;
  std::vector<std::string> twice = {with_number(good[0], "split.tensors.count", 22), other[1], good[2]};
  EXPECT_THAT(outcome_of(write_parts(folder, twice)), HasSubstr("is in two of its files"));
  const auto fewer = gguf_parts(config, {}, {4, 3, 0});
  std::vector<std::string> gap = {with_number(good[0], "split.tensors.count", 20), fewer[1], good[2]};
  EXPECT_THAT(outcome_of(write_parts(folder, gap)), HasSubstr("is missing"));
  std::filesystem::remove(folder / name_of_part(1, 3));
  EXPECT_THAT(outcome_of(folder / name_of_part(0, 3)),
              HasSubstr("m-00002-of-00003.gguf: missing; " + folder / name_of_part(0, 3) + " is part 1 of 3"));
}

TEST(PartName, Numbers) {
  const PartName name = part_name("a/b-of-c-00002-of-00010.gguf");
  EXPECT_EQ(std::tuple(name.number, name.count, name.whole()), std::tuple(2, 10, "a/b-of-c.gguf"));
  EXPECT_EQ(name.of(10), "a/b-of-c-00010-of-00010.gguf");
  for (const char* none : {"", "m.gguf", "-of-", "m-00003-of-00002.gguf", "m-00000-of-00002.gguf", "m-1a-of-2.gguf",
                           "m-00001-of-99999999999.gguf", "m-00001-of-.gguf", "00001-of-00002.gguf", "m-1-of-00002"})
    EXPECT_EQ(part_name(none).count, 0) << none;
}

}  // namespace
}  // namespace llada
