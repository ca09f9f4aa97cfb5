// The tables that may exist in a build. A function returns null when the build or the processor lacks the
// instructions; for an instruction set of another architecture CMake compiles its stub, absent_arm.cc or absent_x86.cc.
#pragma once
#include "kernels/kernels.h"

namespace llada::kernels {

const KernelTable* scalar_table();
const KernelTable* avx2_table();
const KernelTable* avxvnni_table();
const KernelTable* avx512vnni_table();
const KernelTable* amx_table();
const KernelTable* neon_table();
const KernelTable* neon_dotprod_table();
const KernelTable* neon_i8mm_table();
const KernelTable* sme_table();

}  // namespace llada::kernels
