// Merging in rank order against a naive implementation, and how its work grows.
#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <set>

#include "text/bpe.h"
#include "text/support.h"

namespace llada {
namespace {

using text_test::byte_spec;
using text_test::slow_merge;

Tokenizer make(TokenizerSpec spec) {
  auto tokenizer = Tokenizer::create(std::move(spec), "test");
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  return *tokenizer;
}

TEST(Bpe, LowestRankFirstThenLeftmost) {
  const Tokenizer tokenizer = make(byte_spec({"b c", "a b", "a a", "aa bc"}));
  EXPECT_THAT(tokenizer.encode("abc"), testing::ElementsAre('a', 256));  // b c before a b
  EXPECT_THAT(tokenizer.encode("aaa"), testing::ElementsAre(258, 'a'));  // leftmost of two equals
  EXPECT_THAT(tokenizer.encode("aabc"), testing::ElementsAre(259));
  EXPECT_THAT(tokenizer.encode("abab"), testing::ElementsAre(257, 257));
}

// A merge whose result opens a pair of lower rank must use it before the next pair of its own rank.
TEST(Bpe, OneMergeAtATime) {
  const Tokenizer tokenizer = make(byte_spec({"ab a", "a b"}));
  EXPECT_THAT(tokenizer.encode("abab"), testing::ElementsAre(256, 'b'));
}

// Random merge lists over a three-letter alphabet make every kind of overlap; results must equal the obvious
// algorithm.
// labels: long
TEST(Bpe, EqualsSlowMergingOnRandomRules) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::string> parts = {"a", "b", "c"}, merges;
    std::set<std::string> made;
    for (int i = 0; i < 25; ++i) {
      const std::string left = parts[random() % parts.size()], right = parts[random() % parts.size()];
      if (left.size() + right.size() > 9 || !made.insert(left + right).second) continue;
      merges.push_back(left + " " + right);
      parts.push_back(left + right);
    }
    std::shuffle(merges.begin(), merges.end(), random);
    const TokenizerSpec spec = byte_spec(merges);
    const Tokenizer tokenizer = make(spec);
    for (int i = 0; i < 30; ++i) {
      std::string word;
      for (auto left = random() % 40; left > 0; --left) word += static_cast<char>('a' + random() % 3);
      ASSERT_EQ(tokenizer.encode(word), slow_merge(spec, word)) << word;
    }
  }
}

// Processor time against that of an eighth of the text, the least of three: this asks how the work grows, on any
// machine and under any sanitizer. A quadratic merge would take 64 times as long; linear with a heap takes 8 to 10.
// labels: native
TEST(Bpe, AMegabyteInOneWordIsNotQuadratic) {
  std::vector<std::string> doubling;
  for (int length = 1; length <= 64; length *= 2)
    doubling.push_back(std::string(length, 'a') + " " + std::string(length, 'a'));
  const Tokenizer tokenizer = make(byte_spec(doubling));
  const auto ticks = [&](size_t length) {
    const std::string text(length, 'a');
    std::clock_t least = std::numeric_limits<std::clock_t>::max();
    for (int i = 0; i < 3; ++i) {
      const std::clock_t start = std::clock();
      const auto ids = tokenizer.encode(text);
      least = std::min(least, std::clock() - start);
      EXPECT_EQ(ids, std::vector<int32_t>(length / 128, 256 + 6));
    }
    return static_cast<double>(least);
  };
  const double eighth = ticks(1 << 17);
  EXPECT_LT(ticks(1 << 20), 30 * eighth);
}

TEST(Bpe, TableFindsExactlyItsRules) {
  const MergeTable table({{1, 2, 9, 0}, {1, 0, 8, 1}, {0, 2, 7, 2}}, 10);
  EXPECT_EQ(table.find(1, 2)->result, 9);
  EXPECT_EQ(table.find(1, 0)->result, 8);
  EXPECT_EQ(table.find(0, 2)->result, 7);
  EXPECT_EQ(table.find(2, 1), nullptr);
  EXPECT_EQ(table.find(9, 9), nullptr);
  EXPECT_EQ(table.first_duplicate(), nullptr);
  EXPECT_EQ(MergeTable({{1, 2, 9, 4}, {1, 2, 8, 1}}, 10).first_duplicate()->rank, 4u);
}

}  // namespace
}  // namespace llada
