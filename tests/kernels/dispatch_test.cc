// Which table runs: every available table is complete, is found by its name, and an unknown name lists the
// choices.
#include <gtest/gtest.h>

#include "kernels/kernels.h"
#include "kernels/tables.h"
#include "tensor/dtype.h"

namespace llada::kernels {
namespace {

TEST(Dispatch, EveryTableHasEveryKernel) {
  for (const KernelTable* table : available()) {
#define LLADA_KERNEL(result, name, arguments) \
  EXPECT_NE(table->name, nullptr) << table->isa << " lacks " #name;
#include "kernels/kernels.inc"
#undef LLADA_KERNEL
  }
}

TEST(Dispatch, ScalarIsAlwaysThereAndLast) {
  ASSERT_FALSE(available().empty());
  EXPECT_EQ(available().back(), scalar_table());
  EXPECT_EQ(available().back()->isa, "scalar");
}

TEST(Dispatch, NamesAreUniqueAndSelectTheirTable) {
  for (size_t i = 0; i < available().size(); ++i) {
    const KernelTable* table = available()[i];
    const auto found = select(table->isa);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(*found, table) << table->isa;
    for (size_t j = 0; j < i; ++j) EXPECT_NE(available()[j]->isa, table->isa);
  }
}

TEST(Dispatch, EmptyNameIsTheBest) {
  const auto found = select("");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(*found, available().front());
}

TEST(Dispatch, UnknownNameListsWhatThereIs) {
  const auto found = select("avx9");
  ASSERT_FALSE(found.has_value());
  EXPECT_EQ(found.error().kind, ErrorKind::invalid_input);
  EXPECT_NE(found.error().message.find("'avx9'"), std::string::npos) << found.error().message;
  for (const KernelTable* table : available())
    EXPECT_NE(found.error().message.find(table->isa), std::string::npos) << found.error().message;
}

TEST(Dispatch, TablesAgreeOnTheIntegerPath) {
  for (const KernelTable* table : available())
    for (int i = 0; i < kDTypeCount; ++i) {
      const auto type = static_cast<DType>(i);
      EXPECT_EQ(table->integer_path(type), traits(type).quantized) << table->isa << " " << traits(type).name;
    }
}

}  // namespace
}  // namespace llada::kernels
