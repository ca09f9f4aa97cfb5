// GGUF parsing: what is read, and what is refused with which words.
#include "formats/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "formats/gguf_model.h"
#include "formats/model_fixture.h"
#include "formats/printable.h"
#include "must.h"

namespace llada {
namespace {

using namespace testing_models;
using testing::HasSubstr;

std::span<const std::byte> as_span(const std::string& text) { return std::as_bytes(std::span(text)); }

// A GGUF file put together by hand, so that any field can be wrong.
struct Raw {
  std::string bytes = "GGUF";
  Raw& u32(uint32_t value) { return raw(&value, 4); }
  Raw& u64(uint64_t value) { return raw(&value, 8); }
  Raw& f64(double value) { return raw(&value, 8); }
  Raw& u8(uint8_t value) { return raw(&value, 1); }
  Raw& text(std::string_view value) { return u64(value.size()).raw(value.data(), value.size()); }
  Raw& raw(const void* data, size_t size) {
    bytes.append(static_cast<const char*>(data), size);
    return *this;
  }
  Raw& header(uint64_t tensors, uint64_t keys, uint32_t version = 3) { return u32(version).u64(tensors).u64(keys); }
  Raw& tensor(std::string_view name, std::vector<uint64_t> dims, uint32_t type, uint64_t offset) {
    text(name).u32(static_cast<uint32_t>(dims.size()));
    for (const uint64_t dim : dims) u64(dim);
    return u32(type).u64(offset);
  }
  Raw& pad(size_t data) {
    bytes.resize((bytes.size() + 31) / 32 * 32 + data);
    return *this;
  }
};

std::string gguf_outcome(const std::string& bytes) { return outcome(GgufFile::parse(as_span(bytes), "x.gguf")); }

TEST(Gguf, EveryValueType) {
  Raw raw;
  raw.header(0, 14, 2);
  const auto key = [&](std::string_view name, uint32_t type) -> Raw& { return raw.text(name).u32(type); };
  key("u8", 0).u8(200);
  key("i8", 1).u8(200);
  const uint16_t half = 60000;
  key("u16", 2).raw(&half, 2);
  key("i16", 3).raw(&half, 2);
  key("u32", 4).u32(4000000000u);
  key("i32", 5).u32(4000000000u);
  const float quarter = 0.25f;
  key("f32", 6).raw(&quarter, 4);
  key("bool", 7).u8(1);
  key("string", 8).text("a\0b");
  key("strings", 9).u32(8).u64(2).text("").text("xy");
  key("u64", 10).u64(~uint64_t{0});
  key("i64", 11).u64(~uint64_t{0});
  key("f64", 12).f64(-2.5);
  key("ints", 9).u32(3).u64(2).u32(0x0001ffffu);
  const auto file = must(GgufFile::parse(as_span(raw.bytes), "x"));
  EXPECT_EQ(file->version(), 2u);
  EXPECT_EQ(file->find("u8")->as_integer(), 200);
  EXPECT_EQ(file->find("i8")->as_integer(), -56);
  EXPECT_EQ(file->find("u16")->as_integer(), 60000);
  EXPECT_EQ(file->find("i16")->as_integer(), -5536);
  EXPECT_EQ(file->find("u32")->as_integer(), 4000000000);
  EXPECT_EQ(file->find("i32")->as_integer(), -294967296);
  EXPECT_EQ(file->find("f32")->as_number(), 0.25);
  EXPECT_EQ(file->find("bool")->as_bool(), true);
  EXPECT_EQ(file->find("string")->as_string(), "a");  // the literal ends at its zero
  EXPECT_EQ(file->find("strings")->as_strings(), (std::vector<std::string>{"", "xy"}));
  EXPECT_EQ(file->find("u64")->as_integer(), std::nullopt);  // above the range of int64
  EXPECT_EQ(file->find("i64")->as_integer(), -1);
  EXPECT_EQ(file->find("f64")->as_number(), -2.5);
  EXPECT_EQ(file->find("ints")->as_integers(), (std::vector<int64_t>{-1, 1}));
  EXPECT_EQ(file->find("string")->as_integer(), std::nullopt);
  EXPECT_EQ(file->find("u8")->as_string(), std::nullopt);
  EXPECT_EQ(file->find("strings")->as_integers(), std::nullopt);
  EXPECT_EQ(file->find("absent"), nullptr);
}

TEST(Gguf, TensorsLieWhereTheirInfosSay) {
  Raw raw;
  raw.header(2, 0).tensor("a", {32, 2}, 8, 0).tensor("b", {4}, 0, 96).pad(0);
  const size_t data = raw.bytes.size();
  raw.bytes.resize(data + 96 + 16);
  const auto file = must(GgufFile::parse(as_span(raw.bytes), "x"));
  EXPECT_EQ(std::tuple(file->tensors()[0].view.type, file->tensors()[0].offset, file->tensors()[0].view.bytes()),
            std::tuple(DType::Q8_0, data, 68));
  EXPECT_EQ(file->tensors()[1].view.data, as_span(raw.bytes).data() + data + 96);
  EXPECT_EQ(file->tensors()[1].view.shape.rank, 1);
}

struct GgufRefusal {
  const char* name;
  std::function<std::string()> bytes;
  const char* words;
};

class GgufRefuses : public testing::TestWithParam<GgufRefusal> {};

TEST_P(GgufRefuses, WithOneClearLine) {
  const std::string message = gguf_outcome(GetParam().bytes());
  EXPECT_THAT(message, HasSubstr(GetParam().words));
  EXPECT_EQ(message.find('\n'), std::string::npos);
  EXPECT_THAT(message, testing::StartsWith("x.gguf: "));
}

const uint64_t kHuge = ~uint64_t{0} - 7;
const GgufRefusal kGgufRefusals[] = {
    {"Empty", [] { return std::string(); }, "is empty, a GGUF file needed"},
    {"OtherMagic", [] { return std::string("PK\x03\x04 and more"); }, "it begins with \"PK\\x03\\x04\""},
    {"Version1", [] { return Raw().header(0, 0, 1).bytes; }, "version 1, 2 or 3 needed"},
    {"BigEndian", [] { return Raw().header(0, 0, 0x03000000).bytes; }, "big-endian"},
    {"CutHeader", [] { return Raw().u32(3).u32(0).bytes; }, "ends inside the tensor count"},
    {"TensorCount", [] { return Raw().header(kHuge, 0).bytes; }, "tensor count 18446744073709551608"},
    {"KeyCount", [] { return Raw().header(0, kHuge).bytes; }, "metadata count 18446744073709551608"},
    {"KeyLength", [] { return Raw().header(0, 1).u64(kHuge).pad(64).bytes; }, "metadata key 0"},
    {"EmptyKey", [] { return Raw().header(0, 1).text("").u32(4).u32(1).bytes; }, "metadata key 0 is empty"},
    {"ValueType", [] { return Raw().header(0, 1).text("k").u32(13).u64(0).bytes; }, "type 13"},
    {"StringLength", [] { return Raw().header(0, 1).text("k").u32(8).u64(kHuge).bytes; }, "metadata value of k"},
    {"ArrayLength", [] { return Raw().header(0, 1).text("k").u32(9).u32(10).u64(kHuge / 8).bytes; }, "x uint64"},
    {"ArrayOfStringsLength", [] { return Raw().header(0, 1).text("k").u32(9).u32(8).u64(9).text("a").bytes; },
     "string 1 of 9"},
    // Each is looked at, and a sparse file holds as many empty ones as its size says.
    {"StringCount", [] { return Raw().header(0, 1).text("k").u32(9).u32(8).u64(uint64_t{1} << 30).text("a").bytes; },
     "1073741824 strings, at most 67108864 needed"},
    {"NestedArray", [] { return Raw().header(0, 1).text("k").u32(9).u32(9).u64(1).u32(4).u64(0).bytes; },
     "array of arrays"},
    {"DuplicateKey", [] { return Raw().header(0, 2).text("k").u32(4).u32(1).text("k").u32(4).u32(1).bytes; },
     "metadata key k appears twice"},
    {"Alignment", [] { return Raw().header(0, 1).text("general.alignment").u32(4).u32(24).bytes; },
     "general.alignment is 24"},
    {"AlignmentZero", [] { return Raw().header(0, 1).text("general.alignment").u32(4).u32(0).bytes; },
     "general.alignment is 0"},
    {"AlignmentType", [] { return Raw().header(0, 1).text("general.alignment").u32(8).text("32").bytes; },
     "general.alignment is a string"},
    {"Rank0", [] { return Raw().header(1, 0).tensor("t", {}, 0, 0).pad(64).bytes; }, "rank 0"},
    {"Rank5", [] { return Raw().header(1, 0).tensor("t", {1, 1, 1, 1, 1}, 0, 0).pad(64).bytes; }, "rank 5"},
    {"ZeroDimension", [] { return Raw().header(1, 0).tensor("t", {4, 0}, 0, 0).pad(64).bytes; }, "dimension 1 is 0"},
    {"OverflowingShape", [] { return Raw().header(1, 0).tensor("t", {1u << 31, 1u << 31, 4}, 0, 0).pad(64).bytes; },
     "dimension 1 is 2147483648, 1 to 268435456 needed"},
    {"WrappingShape", [] { return Raw().header(1, 0).tensor("t", {64, uint64_t{1} << 58}, 0, 0).pad(64).bytes; },
     "dimension 1"},
    {"UnknownType", [] { return Raw().header(1, 0).tensor("t", {256}, 15, 0).pad(512).bytes; },
     "tensor t: type q8_K, needed one of f32, f16, bf16, q8_0,"},
    {"RemovedType", [] { return Raw().header(1, 0).tensor("t", {256}, 4, 0).pad(512).bytes; },
     "tensor t: type q4_2, needed one of f32, f16, bf16, q8_0,"},
    {"RemovedRepackedType", [] { return Raw().header(1, 0).tensor("t", {256}, 31, 0).pad(512).bytes; },
     "tensor t: type q4_0_4_4, needed one of f32, f16, bf16, q8_0,"},
    {"NoType", [] { return Raw().header(1, 0).tensor("t", {256}, 99, 0).pad(256).bytes; },
     "type number 99, needed one of"},
    {"CutInTheFirstTensor", [] { return Raw().header(1, 0).tensor("t", {256, 1024}, 8, 0).pad(1000).bytes; },
     "278528 bytes at offset 0 of the data, which has 1000 bytes: the file is cut"},
    {"BrokenGroup", [] { return Raw().header(1, 0).tensor("t", {48}, 8, 0).pad(64).bytes; },
     "rows of 48 values in type q8_0, a multiple of 32"},
    {"BrokenSuperGroup", [] { return Raw().header(1, 0).tensor("t", {288}, 22, 0).pad(512).bytes; },
     "tensor t: rows of 288 values in type iq2_s, a multiple of 256"},
    {"BrokenHalfGroup", [] { return Raw().header(1, 0).tensor("t", {96}, 40, 0).pad(512).bytes; },
     "tensor t: rows of 96 values in type nvfp4, a multiple of 64"},
    {"OffsetAlignment", [] { return Raw().header(1, 0).tensor("t", {4}, 0, 4).pad(64).bytes; },
     "offset 4, a multiple of 32"},
    {"OffsetBeyond", [] { return Raw().header(1, 0).tensor("t", {4}, 0, kHuge / 32 * 32).pad(64).bytes; },
     "the file is cut"},
    {"Cut", [] { return Raw().header(1, 0).tensor("t", {16}, 0, 0).pad(63).bytes; },
     "64 bytes at offset 0 of the data, which has 63"},
    {"Overlap", [] { return Raw().header(2, 0).tensor("a", {16}, 0, 0).tensor("b", {16}, 0, 32).pad(128).bytes; },
     "before the end of the previous"},
    {"DuplicateTensor", [] { return Raw().header(2, 0).tensor("a", {8}, 0, 0).tensor("a", {8}, 0, 32).pad(64).bytes; },
     "tensor a appears twice"},
    {"NewlineInName",
     [] {
       return Raw()
           .header(1, 0)
           .tensor(
               "a\n\xff"
               "b",
               {0}, 0, 0)
           .pad(64)
           .bytes;
     },
     "tensor a\\x0a\\xffb"},
};

INSTANTIATE_TEST_SUITE_P(Files, GgufRefuses, testing::ValuesIn(kGgufRefusals),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Gguf, EveryTypeHasGgmlsName) {
  for (const auto& [number, name] : std::initializer_list<std::pair<uint32_t, const char*>>{
           {0, "f32"},      {1, "f16"},    {2, "q4_0"},      {8, "q8_0"},    {11, "q3_K"},  {15, "q8_K"},
           {16, "iq2_xxs"}, {19, "iq1_s"}, {20, "iq4_nl"},   {23, "iq4_xs"}, {24, "i8"},    {28, "f64"},
           {29, "iq1_m"},   {30, "bf16"},  {33, "q4_0_8_8"}, {34, "tq1_0"},  {35, "tq2_0"}, {38, "iq4_nl_8_8"},
           {39, "mxfp4"},   {40, "nvfp4"}, {41, "q1_0"},     {42, "q2_0"},   {43, ""}})
    EXPECT_EQ(ggml_type_name(number), name) << number;
  for (uint32_t number = 0; number < 64; ++number)
    if (const auto type = dtype_from_ggml(number)) {
      EXPECT_EQ(dtype_from_name(ggml_type_name(number)), type) << number;
      EXPECT_EQ(ggml_from_dtype(*type), number);
    }
}

TEST(Gguf, EveryCutOfAFileIsRefused) {
  const std::string whole = gguf_bytes(tiny_config(&kLladaFamily));
  ASSERT_EQ(gguf_outcome(whole), "accepted");
  // The padding behind the last tensor may be missing: other writers leave it out.
  for (size_t size = 0; size + 32 < whole.size(); size += size < 4000 ? 1 : 97) {
    const auto file = GgufFile::parse(as_span(whole).first(size), "x");
    ASSERT_FALSE(file) << size;
    ASSERT_FALSE(file.error().message.empty());
  }
}

// A vocabulary without a model is small text after small text: it must still pass the memory limit.
TEST(Gguf, VocabularyOnlyFilesAreRead) {
  std::vector<std::string> tokens, merges;
  for (int i = 0; i < 50000; ++i) {
    tokens.push_back(fmt::format("tok{}", i));
    merges.push_back(fmt::format("t ok{}", i));
  }
  GgufWriter out;
  out.add_string("general.architecture", "gpt2");
  out.add_string("tokenizer.ggml.model", "gpt2");
  out.add_strings("tokenizer.ggml.tokens", tokens);
  out.add_strings("tokenizer.ggml.merges", merges);
  const std::string bytes = out.header();
  const auto file = must(GgufFile::parse(as_span(bytes), "vocab.gguf"));
  const auto spec = must(read_gguf_tokenizer(*file, bytes.size(), "vocab.gguf"));
  EXPECT_EQ((*spec)->tokens, tokens);
  EXPECT_EQ((*spec)->kinds, std::vector<TokenKind>(50000, TokenKind::normal));
  const auto model = read_gguf_model(*file, bytes.size(), "vocab.gguf");
  ASSERT_FALSE(model);
  EXPECT_THAT(model.error().message, HasSubstr("general.architecture is \"gpt2\""));
}

TEST(Printable, KeepsTextAndEscapesTheRest) {
  EXPECT_EQ(printable("blk.0 \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"), "blk.0 \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
  EXPECT_EQ(printable("a\nb\x1b\x7f"), "a\\x0ab\\x1b\\x7f");
  EXPECT_EQ(printable("\xc0\x80\xed\xa0\x80"), "\\xc0\\x80\\xed\\xa0\\x80");  // overlong, surrogate
  EXPECT_EQ(printable("\xe2\x80\xa8\xc2\x85"), "\\xe2\\x80\\xa8\\xc2\\x85");  // line separators
  EXPECT_EQ(printable("\xe2\x82"), "\\xe2\\x82");                             // cut
  EXPECT_EQ(printable(std::string(200, 'x')).size(), 103u);
}

}  // namespace
}  // namespace llada
