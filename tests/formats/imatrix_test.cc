// Importance matrices: both forms read to the same numbers, and what is refused of files from outside.
#include "formats/imatrix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "formats/gguf_writer.h"
#include "formats/temp_folder.h"
#include "must.h"

namespace llada {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Dat {
  std::string bytes;

  Dat& number(int32_t value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Dat& text(std::string_view value) {
    number(static_cast<int32_t>(value.size()));
    bytes += value;
    return *this;
  }
  Dat& entry(std::string_view name, int32_t calls, std::initializer_list<float> values) {
    text(name).number(calls).number(static_cast<int32_t>(values.size()));
    for (const float value : values) bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
};

Result<Imatrix> parsed(const std::string& bytes) { return Imatrix::parse(std::as_bytes(std::span(bytes)), "x"); }

std::string refusal(const std::string& bytes) {
  const auto matrix = parsed(bytes);
  return matrix ? "accepted" : matrix.error().message;
}

TEST(Imatrix, TheOlderFormIsDividedByItsCalls) {
  const auto parse = must(
      parsed(Dat().number(2).entry("blk.0.b", 4, {8, 2}).entry("blk.0.a", 0, {3}).number(7).text("wiki.txt").bytes));
  const Imatrix& matrix = *parse;
  ASSERT_EQ(matrix.entries().size(), 2u);
  EXPECT_THAT(matrix.find("blk.0.b")->weights, ElementsAre(2.0f, 0.5f));
  EXPECT_THAT(matrix.find("blk.0.a")->weights, ElementsAre(3.0f)) << "no calls: the values as they are";
  EXPECT_EQ(matrix.find("blk.0"), nullptr);
  EXPECT_TRUE(parsed(Dat().number(1).entry("a", 1, {1}).bytes)) << "the end may be missing, as in early files";
}

TEST(Imatrix, WrittenSumsAreReadAsMeans) {
  const TempFolder folder;
  const ImatrixSums sums[] = {
      {.name = "blk.0.ffn_up_exps.weight", .columns = 2, .squares = {6, 3, 0, 0, 5, 1}, .counts = {3, 0, 2}},
      {.name = "blk.0.attn_q.weight", .columns = 3, .squares = {4, 8, 0}, .counts = {4}}};
  ASSERT_TRUE(write_imatrix(folder / "i.gguf", sums, {.texts = "t.txt", .chunks = 2, .chunk_rows = 16}));
  const auto parse = must(Imatrix::open(folder / "i.gguf"));
  const Imatrix& matrix = *parse;
  EXPECT_THAT(matrix.find("blk.0.attn_q.weight")->weights, ElementsAre(1.0f, 2.0f, 0.0f));
  EXPECT_THAT(matrix.find("blk.0.ffn_up_exps.weight")->weights, ElementsAre(2.0f, 1.0f, 1.0f, 1.0f, 2.5f, 0.5f))
      << "an expert that no row chose weighs all alike";
}

TEST(Imatrix, DamagedFilesOfTheOlderFormAreRefused) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const auto one = [](float value) { return Dat().number(1).entry("blk.0.a", 1, {1, value}).bytes; };
  const std::string dat = "x: no GGUF file, so read as a .dat importance matrix: ";
  EXPECT_EQ(refusal(one(nan)), dat + "blk.0.a: value 1 is nan, a finite number of at least 0 needed");
  EXPECT_EQ(refusal(one(inf)), dat + "blk.0.a: value 1 is inf, a finite number of at least 0 needed");
  EXPECT_EQ(refusal(one(-1)), dat + "blk.0.a: value 1 is -1, a finite number of at least 0 needed");
  EXPECT_EQ(refusal(Dat().number(2).entry("a", 1, {1}).entry("a", 1, {1}).bytes), "x: a is there twice");
  EXPECT_EQ(refusal(""), "x: is empty, an importance matrix needed");
  EXPECT_EQ(refusal("GGU"), dat + "ends before the number of entries");
  EXPECT_THAT(refusal(Dat().number(0).bytes), HasSubstr("ends behind the number of entries, which is 0"));
  EXPECT_THAT(refusal(Dat().number(0x7fffffff).entry("a", 1, {1}).bytes),
              HasSubstr("the number of entries is 2147483647, 1 to 1 needed"));
  EXPECT_THAT(refusal(Dat().number(1).number(-5).number(1).number(1).number(1).number(1).bytes),
              HasSubstr("the name's length of entry 0 is -5, 1 to 16 needed"));
  EXPECT_THAT(refusal(Dat().number(1).text("a").number(1).number(1 << 30).number(1).bytes),
              HasSubstr("the number of values of a is 1073741824, 1 to 1 needed"));
  EXPECT_THAT(refusal(Dat().number(1).entry("a", 1, {1}).number(1).text("t").bytes + "rest"),
              HasSubstr("4 bytes behind the name of the texts, none needed"));
  EXPECT_THAT(refusal(Dat().number(1).entry(std::string(2000, 'n'), 1, {1}).bytes), HasSubstr("at most 1024 needed"));
  const std::string whole = Dat().number(2).entry("a", 1, {1, 2}).entry("b", 1, {1}).number(1).text("t").bytes;
  const size_t end = whole.size() - 9;  // without the optional rest
  for (size_t cut = 0; cut < whole.size(); ++cut)
    EXPECT_EQ(refusal(whole.substr(0, cut)) == "accepted", cut == end) << cut;
}

TEST(Imatrix, DamagedGgufFilesAreRefused) {
  const TempFolder folder;
  const auto file = [&](std::initializer_list<std::pair<const char*, std::vector<float>>> tensors) {
    GgufWriter writer;
    for (const auto& [name, values] : tensors)
      writer.add_tensor(name, DType::F32, Shape{{std::ssize(values), 1, 1, 1}, 2});
    const auto status = writer.write(folder / "i.gguf", [&](size_t i, AtomicFile& out) {
      const std::vector<float>& values = (tensors.begin() + i)->second;
      return out.write(values.data(), values.size() * 4);
    });
    EXPECT_TRUE(status);
    return refusal(folder.read("i.gguf"));
  };
  EXPECT_EQ(file({{"a.in_sum2", {1, 2}}, {"a.counts", {2}}}), "accepted");
  EXPECT_EQ(file({{"a.in_sum2", {1, 2}}}), "x: a.in_sum2 has no a.counts beside it");
  EXPECT_EQ(file({{"a.in_sum2", {1, 2, 3}}, {"a.counts", {2, 2}}}),
            "x: a has 3 values and 2 counts, a multiple needed");
  EXPECT_EQ(file({{"a.in_sum2", {1, -2}}, {"a.counts", {2}}}),
            "x: a.in_sum2: value 1 is -2, a finite number of at least 0 needed");
  EXPECT_EQ(file({{"a.in_sum2", {3e38f}}, {"a.counts", {1e-3f}}}),
            "x: a: value 0 is inf, a finite number of at least 0 needed");
  EXPECT_EQ(file({{"a.weight", {1}}}), "x: has no tensor NAME.in_sum2, as an importance matrix has");
}

}  // namespace
}  // namespace llada
