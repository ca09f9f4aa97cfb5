// The products of kernels/amx_matmul-inl.h with emulated tiles: the same code, for processors without AMX.
#pragma once
#include "kernels/kernels.h"

namespace llada::kernels::amx_emulated {

void matmul(const MatmulArgs& args);  // as amx::matmul
// What the emulated tiles were used wrongly for so far: not configured, or not released, as products begin and end.
const char* misuse();  // null: nothing

}  // namespace llada::kernels::amx_emulated
