// LLADA_CHECK stops the program on a bug (a broken invariant of ours), never on bad input.
#pragma once

namespace llada {
[[noreturn]] void check_failed(const char* condition, const char* file, int line);
}

#define LLADA_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::llada::check_failed(#condition, __FILE__, __LINE__))
