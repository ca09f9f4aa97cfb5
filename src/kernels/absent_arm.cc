// Compiled where the target is not 64-bit Arm.
#include "kernels/tables.h"

namespace llada::kernels {
const KernelTable* neon_table() { return nullptr; }
const KernelTable* neon_dotprod_table() { return nullptr; }
const KernelTable* neon_i8mm_table() { return nullptr; }
const KernelTable* sme_table() { return nullptr; }
}  // namespace llada::kernels
