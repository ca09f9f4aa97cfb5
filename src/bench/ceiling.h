// Loops that do nothing but multiply, or nothing but read: the best rates of one core's units. Benchmarks print rates
// as shares of these peaks.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace llada::bench {

// Runs `rounds` rounds of independent multiply-adds on registers and returns the operations done (a multiply-add counts
// two); 0 where no loop for this processor is built in. isa: the name of a kernel table (kernels.h), whose instructions
// alone are used. For "scalar" and unknown names they are the processor's widest.
double int8_loop(std::string_view isa, int64_t rounds);
double float_loop(std::string_view isa, int64_t rounds);

// The multiply-add instruction of the loop: "vpdpbusd zmm"; "none" where there is no loop.
std::string_view int8_instruction(std::string_view isa);
std::string_view float_instruction(std::string_view isa);

// Reads every cache line once, in order. Returns a sum, so that no compiler can leave out the reads.
uint64_t read_loop(std::span<const std::byte> bytes);

}  // namespace llada::bench
