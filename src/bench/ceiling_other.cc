// Processors whose peaks are not measured here.
#include "bench/ceiling.h"

namespace llada::bench {

double int8_loop(int64_t) { return 0; }
double float_loop(int64_t) { return 0; }
std::string_view int8_instruction() { return "none"; }
std::string_view float_instruction() { return "none"; }

}  // namespace llada::bench
