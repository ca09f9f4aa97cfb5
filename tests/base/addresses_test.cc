// Addresses as the system's own reader takes them, of texts that are nearly addresses.
#include "base/addresses.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

namespace llada {
namespace {

bool system_reads(int family, const std::string& text) {
  unsigned char bytes[sizeof(in6_addr)];
  return ::inet_pton(family, text.c_str(), bytes) == 1;
}

TEST(Addresses, AreThoseOfTheSystem) {
  constexpr const char* kBegins[] = {
      "127.0.0.1",       "255.255.255.255",     "::",     "::1",           "fe80::1", "1:2:3:4:5:6:7:8",
      "::ffff:10.0.0.1", "1:2:3:4:5:6:1.2.3.4", "a::B:0", "1::2:3:4:5:6:7"};
  constexpr std::string_view kLetters = "01256:.afFg%";
  std::mt19937 random(1);
  const auto below = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
  int v4 = 0, v6 = 0;
  for (int i = 0; i < 300'000; ++i) {
    std::string text = kBegins[below(std::size(kBegins))];
    for (size_t changes = below(4); changes > 0; --changes) {
      const size_t at = below(text.size() + 1);
      const char letter = kLetters[below(kLetters.size())];
      if (const size_t kind = below(3); kind == 0 || at == text.size())
        text.insert(at, 1, letter);
      else if (kind == 1)
        text.erase(at, 1);
      else
        text[at] = letter;
    }
    ASSERT_EQ(is_ipv4(text), system_reads(AF_INET, text)) << text;
    ASSERT_EQ(is_ipv6(text), system_reads(AF_INET6, text)) << text;
    v4 += is_ipv4(text) ? 1 : 0, v6 += is_ipv6(text) ? 1 : 0;
  }
  EXPECT_GT(v4, 10'000);
  EXPECT_GT(v6, 10'000);
  EXPECT_FALSE(is_ipv6("fe80::1%eth0"));
  EXPECT_FALSE(is_ipv4(std::string_view("127.0.0.1\0", 10)));
}

}  // namespace
}  // namespace llada
