// A file that shrinks under its mapping ends the program with one line and status 1, not with a signal.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "base/console.h"
#include "base/file.h"

namespace llada::os {
namespace {

TEST(MappingFaultDeathTest, NamesTheFileThatShrank) {
  char path[] = "/tmp/llada_shrinking_model_XXXXXX";
  const int fd = ::mkstemp(path);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(::ftruncate(fd, 3 << 20), 0);
  auto file = MappedFile::open(path);
  ASSERT_TRUE(file);
  EXPECT_EXIT(
      {
        report_mapping_faults();
        if (::ftruncate(fd, 1 << 20) != 0) std::exit(3);
        volatile auto byte = file->bytes()[2 << 20];
        std::exit(byte == std::byte{} ? 4 : 5);
      },
      ::testing::ExitedWithCode(1),
      "^llada: /tmp/llada_shrinking_model_[A-Za-z0-9]+: the file became shorter, or could not be read, while it was in "
      "use\n$");
  ::close(fd);
  ::unlink(path);
}

}  // namespace
}  // namespace llada::os
