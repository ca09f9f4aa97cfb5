// Which table runs: every available table is complete, is found by its name, and an unknown name lists the
// choices.
#include <gtest/gtest.h>

#include "kernels/kernels.h"
#include "kernels/tables.h"
#include "tensor/dtype.h"

namespace llada::kernels {
namespace {

// Tables begin as copies of another one, so a kernel that was forgotten is the other's and no null pointer.
TEST(Dispatch, EveryTableHasKernelsOfItsOwn) {
  for (const KernelTable* table : available()) {
    if (table == scalar_table()) continue;
#define LLADA_KERNEL(result, name, arguments)                                                   \
  EXPECT_TRUE(table->name != scalar_table()->name || #name == std::string_view("integer_path")) \
      << table->isa << " runs the oracle's " #name;
#include "kernels/kernels.inc"
#undef LLADA_KERNEL
    for (const KernelTable* other : available()) {
      if (other == table) continue;
      EXPECT_NE(table->matmul, other->matmul) << table->isa << " and " << other->isa;
      // These two have products of their own and nothing else.
      const auto products_alone = [](std::string_view isa) { return isa == "amx" || isa == "sme"; };
      if (!products_alone(table->isa) && !products_alone(other->isa)) {
        EXPECT_NE(table->attention, other->attention) << table->isa << " and " << other->isa;
      }
    }
  }
}

TEST(Dispatch, TablesOfOnePackingShareItsName) {
  for (const KernelTable* table : available())
    EXPECT_EQ(packed_layout(*table), table->isa == "amx" ? "avx512vnni" : table->isa);
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

// Which activations are rounded is no table's own affair: ids must not depend on the processor. What the
// scalar table says is compared with the type; that others really round, with sums in matmul_test.cc.
TEST(Dispatch, TheIntegerPathIsThatOfQuantizedTypes) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto type = static_cast<DType>(i);
    for (const KernelTable* table : available())
      EXPECT_EQ(table->integer_path(type), traits(type).quantized) << table->isa << " " << traits(type).name;
  }
}

}  // namespace
}  // namespace llada::kernels
