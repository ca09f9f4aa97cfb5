// Numbers from text where the standard library reads no floating point: held to the standard library's own reading.
#include "base/numbers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace llada {
namespace {

// A template: what a standard library lacks is no error in one that is not used.
template <class Real>
bool standard_agrees(const std::string& text) {
  if constexpr (requires(const char* p, Real d) { std::from_chars(p, p, d); }) {
    Real expected = 7, got = 7;
    const char *first = text.data(), *last = first + text.size();
    const auto standard = std::from_chars(first, last, expected);
    const auto ours = parse_with_strtod(first, last, got);
    EXPECT_EQ(ours.ec, standard.ec) << text;
    EXPECT_EQ(ours.ptr - first, standard.ptr - first) << text;
    EXPECT_TRUE(std::isnan(expected) ? std::isnan(got) : got == expected) << text << " " << got;
    EXPECT_EQ(std::signbit(got), std::signbit(expected)) << text;
    return true;
  }
  return false;
}

TEST(Numbers, StrtodReadsWhatFromCharsReads) {
  for (const std::string text : {"0",
                                 "-0",
                                 "1",
                                 "1.5",
                                 ".5",
                                 "5.",
                                 "-.25",
                                 "1e3",
                                 "1e+3",
                                 "1E-3",
                                 "0.9,",
                                 "40%",
                                 "2.5GiB",
                                 "1e",
                                 "1e+",
                                 "+1",
                                 " 1",
                                 "",
                                 "-",
                                 "--1",
                                 "-+1",
                                 ".",
                                 "-.",
                                 "e5",
                                 "x",
                                 "0x10",
                                 "-0x1p3",
                                 "inf",
                                 "-inf",
                                 "INF",
                                 "infinity",
                                 "nan",
                                 "nano",
                                 "in",
                                 "n",
                                 "1e400",
                                 "-1e400",
                                 "1e-400",
                                 "4e-320",
                                 "0.1",
                                 "123456789012345678901234567890",
                                 "1_000"})
    if (!standard_agrees<double>(text)) GTEST_SKIP() << "not run: this standard library reads no floating point";
}

TEST(Numbers, FromCharsReadsIntegersAsTheStandardDoes) {
  int value = 0;
  const std::string text = "42;";
  const auto result = llada::from_chars(text.data(), text.data() + text.size(), value);
  EXPECT_EQ(value, 42);
  EXPECT_EQ(*result.ptr, ';');
  double real = 0;
  EXPECT_EQ(llada::from_chars(text.data(), text.data() + text.size(), real).ec, std::errc());
  EXPECT_EQ(real, 42);
}

}  // namespace
}  // namespace llada
