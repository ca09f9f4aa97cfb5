// Part of every test program: memory that nobody has written holds bytes that make NaN of F32 and F16 (base/pages.h),
// and what malloc gives and takes back is filled too, so that nothing comes out right because memory happened to be
// zero. Programs that a test starts inherit it. LLADA_POISON=0 in the environment turns it off.
#include <malloc.h>

#include <cstdlib>
#include <string_view>

#include "base/pages.h"

// Memory that is not there is an answer here, under a sanitizer too.
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }
extern "C" const char* __tsan_default_options() { return "allocator_may_return_null=1"; }

namespace {

[[maybe_unused]] const bool hostile = [] {
  constexpr int kNan = 0xff;
  constexpr int kFreed = 0x80;  // malloc's new memory is the complement: NaN in F16, 3.4e38 in F32
  ::setenv("LLADA_POISON", "1", 0);
  if (std::string_view(std::getenv("LLADA_POISON")) == "0") return false;
  llada::fill_forgotten_memory(kNan);
  ::mallopt(M_PERTURB, kFreed);
  return true;
}();

}  // namespace
