// Processors whose peak is not measured here.
#include "ceiling.h"

namespace llada::bench {

double int8_loop(int64_t) { return 0; }
double float_loop(int64_t) { return 0; }
std::string_view int8_instruction() { return "none"; }

}  // namespace llada::bench
