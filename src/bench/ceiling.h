// Loops that do nothing but multiply, or nothing but read: the best rates of one core's units. Every share of a peak
// that a benchmark prints is of these.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace llada::bench {

// Runs `rounds` rounds of independent multiply-adds on registers and returns the operations done (a multiply-add counts
// two); 0 where no loop for this processor is built in. isa: a table's of kernels.h, whose instructions alone are used;
// "scalar" and names that are not known: the widest of the processor.
double int8_loop(std::string_view isa, int64_t rounds);
double float_loop(std::string_view isa, int64_t rounds);

// The instructions that count as the peaks: "vpdpbusd zmm"; "none" without a loop.
std::string_view int8_instruction(std::string_view isa);
std::string_view float_instruction(std::string_view isa);

// Touches every cache line once, in order. The sum is only there to be used.
uint64_t read_loop(std::span<const std::byte> bytes);

}  // namespace llada::bench
