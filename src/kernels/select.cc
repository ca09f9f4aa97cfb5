// Which kernel tables this build and processor have, and the choice among them.
#include "kernels/tables.h"
#include "kernels/watched.h"

namespace llada::kernels {

const std::vector<const KernelTable*>& available() {
  static const std::vector<const KernelTable*> tables = [] {
    std::vector<const KernelTable*> found;
    for (const KernelTable* table : {avx512vnni_table(), amx_table(), avxvnni_table(), avx2_table(), neon_i8mm_table(),
                                     sme_table(), neon_dotprod_table(), neon_table(), scalar_table()})
      if (table != nullptr) found.push_back(table);
    watch(found);
    return found;
  }();
  return tables;
}

std::string_view packed_layout(const KernelTable& table) {
  for (const KernelTable* other : available())
    if (other->pack == table.pack) return other->isa;
  return table.isa;
}

Result<const KernelTable*> select(std::string_view isa) {
  if (isa.empty()) return available().front();
  std::string names;
  for (const KernelTable* table : available()) {
    if (table->isa == isa) return table;
    names += (names.empty() ? "" : ", ") + std::string(table->isa);
  }
  return invalid("instruction set '{}' is not available here; this build and processor have: {}", isa, names);
}

int64_t attention_scratch(int64_t keys) {
  constexpr int64_t kRows = 32;  // no kernel works on more at once
  return kRows * (keys + 64) + 8192;
}

}  // namespace llada::kernels
