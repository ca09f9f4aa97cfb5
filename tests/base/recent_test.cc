// The last values by key: who leaves, and that nothing in use goes.
#include "base/recent.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace llada {
namespace {

// A value that is asked for stays; the one that was not asked for longest leaves, not the one that came first.
TEST(Recent, TheLeastRecentlyUsedLeaves) {
  Recent<int, std::string> recent(3);
  for (const int key : {1, 2, 3}) recent.keep(key, std::to_string(key));
  ASSERT_NE(recent.find(1), nullptr);
  recent.keep(4, "4");
  EXPECT_EQ(recent.find(2), nullptr);
  EXPECT_EQ(recent.size(), 3U);
  // Asked for in this order, 3 is now the oldest, then 1, then 4.
  for (const int key : {3, 1, 4}) {
    ASSERT_NE(recent.find(key), nullptr) << key;
    EXPECT_EQ(*recent.find(key), std::to_string(key));
  }
  for (const int key : {5, 6}) recent.keep(key, std::to_string(key));
  EXPECT_EQ(recent.find(3), nullptr);
  EXPECT_EQ(recent.find(1), nullptr);
  for (const int key : {4, 5, 6}) EXPECT_NE(recent.find(key), nullptr) << key;
}

TEST(Recent, OneValueIsTheFewest) {
  Recent<int, int> recent(1);
  EXPECT_EQ(recent.find(7), nullptr);
  EXPECT_EQ(*recent.keep(7, 70), 70);
  EXPECT_EQ(*recent.find(7), 70);
  recent.keep(8, 80);
  EXPECT_EQ(recent.find(7), nullptr);
  EXPECT_EQ(*recent.find(8), 80);
}

TEST(Recent, AKeyHasOneValue) {
  Recent<int, int> recent(3);
  recent.keep(1, 10);
  recent.keep(2, 20);
  recent.keep(1, 11);
  EXPECT_EQ(recent.size(), 2U);
  EXPECT_EQ(*recent.find(2), 20);
  EXPECT_EQ(*recent.find(1), 11);
}

// Who holds a value has it still when others have taken its place, and when everything is forgotten.
TEST(Recent, AValueInUseOutlivesItsPlace) {
  const auto watched = std::make_shared<int>(5);
  Recent<int, std::shared_ptr<int>> recent(2);
  auto held = recent.keep(0, watched);
  for (int key = 1; key < 5; ++key) recent.keep(key, nullptr);
  EXPECT_EQ(recent.find(0), nullptr);
  EXPECT_EQ(**held, 5);
  EXPECT_EQ(watched.use_count(), 2);
  held.reset();
  EXPECT_EQ(watched.use_count(), 1);

  held = recent.keep(6, watched);
  recent.clear();
  EXPECT_EQ(recent.size(), 0U);
  EXPECT_EQ(recent.find(6), nullptr);
  EXPECT_EQ(watched.use_count(), 2);
}

// A key that is a shared pointer is alive while it is kept, so that no other object can have its address.
TEST(Recent, AKeyIsKeptAlive) {
  Recent<std::shared_ptr<const int>, int> recent(1);
  auto key = std::make_shared<const int>(1);
  const std::weak_ptr<const int> alive = key;
  recent.keep(key, 1);
  key.reset();
  EXPECT_FALSE(alive.expired());
  recent.keep(std::make_shared<const int>(2), 2);
  EXPECT_TRUE(alive.expired());
}

}  // namespace
}  // namespace llada
