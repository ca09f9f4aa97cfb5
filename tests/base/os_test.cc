// The layer over the operating system: names, kinds of files, waiting, locks, as callers count on them.
#include "base/os.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

namespace llada::os {
namespace {

class Os : public testing::Test {
 protected:
  Os() {
    char name[] = "/tmp/llada_os_XXXXXX";
    folder_ = ::mkdtemp(name);
  }
  ~Os() override { std::filesystem::remove_all(folder_); }
  std::string at(const std::string& name) const { return folder_ + "/" + name; }
  std::string folder_;
};

TEST_F(Os, FoldersOfNames) {
  EXPECT_EQ(folder_of("a/b/c"), "a/b");
  EXPECT_EQ(folder_of("/a"), "/");
  EXPECT_EQ(folder_of("a"), ".");
  EXPECT_TRUE(is_absolute("/a"));
  EXPECT_FALSE(is_absolute("a/b"));
  EXPECT_FALSE(is_absolute(""));
}

TEST_F(Os, AFileIsWrittenAppendedAndReadAtPlaces) {
  const int fd = open(at("f"), kRead | kWrite | kCreate | kNew | kOwnersAlone);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(write(fd, "abc", 3), 3);
  EXPECT_EQ(write_at(fd, "X", 1, 1), 1);
  EXPECT_EQ(position(fd), 3);
  EXPECT_EQ(info(fd)->mode, kOwnersMode);
  EXPECT_LT(open(at("f"), kWrite | kCreate | kNew), 0);
  EXPECT_EQ(errno, EEXIST);
  const int end = open(at("f"), kWrite | kAppend);
  EXPECT_EQ(write(end, "d", 1), 1);
  char bytes[8] = {};
  EXPECT_EQ(read_at(fd, bytes, sizeof bytes, 0), 4);
  EXPECT_STREQ(bytes, "aXcd");
  EXPECT_TRUE(resize(fd, 2));
  EXPECT_EQ(read_at(fd, bytes, sizeof bytes, 2), 0);
  close(fd), close(end);
}

TEST_F(Os, KindsAndIdentitiesOfFiles) {
  close(open(at("f"), kWrite | kCreate));
  ASSERT_TRUE(link(at("f"), at("same")));
  ASSERT_TRUE(symbolic_link("f", at("link")));
  close(open(at("other"), kWrite | kCreate));
  EXPECT_EQ(info(folder_)->kind, FileKind::folder);
  EXPECT_EQ(info(at("link"))->kind, FileKind::regular);
  EXPECT_EQ(link_info(at("link"))->kind, FileKind::other);
  EXPECT_EQ(link_target(at("link")), "f");
  EXPECT_FALSE(link_target(at("f")));
  EXPECT_FALSE(info(at("none")));
  EXPECT_TRUE(same_file(*info(at("f")), *info(at("same"))));
  EXPECT_FALSE(same_file(*info(at("f")), *info(at("other"))));
  EXPECT_TRUE(replace(at("other"), at("f")));
  EXPECT_FALSE(exists(at("other")));
  EXPECT_FALSE(same_file(*info(at("f")), *info(at("same"))));
}

TEST_F(Os, ALockIsOneDescriptors) {
  const int first = open(at("f"), kRead | kWrite | kCreate), second = open(at("f"), kRead | kWrite);
  EXPECT_TRUE(lock(first));
  EXPECT_FALSE(lock(second));
  EXPECT_EQ(errno, EWOULDBLOCK);
  close(first);
  EXPECT_TRUE(lock(second));
  close(second);
}

TEST_F(Os, WaitsForAPipe) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  EXPECT_FALSE(wait_readable(ends[0], 1));
  EXPECT_EQ(info(ends[0])->kind, FileKind::pipe);
  EXPECT_TRUE(writable_only(ends[1]));
  EXPECT_FALSE(writable_only(ends[0]));
  EXPECT_EQ(write(ends[1], "a", 1), 1);
  EXPECT_TRUE(wait_readable(ends[0], -1));
  close(ends[1]);
  char byte = 0;
  EXPECT_EQ(read(ends[0], &byte, 1), 1);
  EXPECT_TRUE(wait_readable(ends[0], -1)) << "its end need not be waited for";
  EXPECT_EQ(read(ends[0], &byte, 1), 0);
  close(ends[0]);
}

TEST_F(Os, ANamelessFileGetsItsName) {
  const int fd = open_nameless(folder_, kWrite);
  if (fd < 0) GTEST_SKIP() << "this file system has no files without names";
  EXPECT_EQ(write(fd, "abc", 3), 3);
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
  EXPECT_EQ(info(path_of_open(fd))->bytes, 3);
  EXPECT_TRUE(name_open(fd, at("named")));
  EXPECT_EQ(info(at("named"))->bytes, 3);
  close(fd);
}

}  // namespace
}  // namespace llada::os
