// Compiled where the target is not x86-64.
#include "kernels/tables.h"

namespace llada::kernels {
const KernelTable* avx2_table() { return nullptr; }
const KernelTable* avxvnni_table() { return nullptr; }
const KernelTable* avx512vnni_table() { return nullptr; }
const KernelTable* amx_table() { return nullptr; }
}  // namespace llada::kernels
