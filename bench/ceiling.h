// Loops that do nothing but multiply: what the processor's units can do at best.
#pragma once
#include <cstdint>
#include <string_view>

namespace llada::bench {

// Runs `rounds` rounds of independent multiply-adds and returns the operations done (a multiply-add counts
// two); 0 where the instruction is missing. The instruction that counts as int8 peak is named by
// int8_instruction().
double int8_loop(int64_t rounds);
double float_loop(int64_t rounds);
std::string_view int8_instruction();

}  // namespace llada::bench
