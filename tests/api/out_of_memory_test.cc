// No memory, at any allocation: an error, never the end of the process or a thread that waits for ever. This program's own
// operator new fails where it is told to.
// labels of this file: native -threads
#include <atomic>
#include <cstdlib>
#include <new>

#include "api_fixture.h"

namespace {
std::atomic<int64_t> allocations_left{-1};  // until one fails; negative: none does

// Null: none left.
void* allocate(size_t size) {
  if (allocations_left.load(std::memory_order_relaxed) >= 0 && allocations_left.fetch_sub(1) == 0) return nullptr;
  return std::malloc(size == 0 ? 1 : size);
}

void* allocate_or_throw(size_t size) {
  if (void* data = allocate(size)) return data;
  throw std::bad_alloc();
}
}  // namespace

// All that end in std::free(): the address sanitizer looks whether what was allocated one way is freed another.
void* operator new(size_t size) { return allocate_or_throw(size); }
void* operator new[](size_t size) { return allocate_or_throw(size); }
void* operator new(size_t size, const std::nothrow_t&) noexcept { return allocate(size); }
void* operator new[](size_t size, const std::nothrow_t&) noexcept { return allocate(size); }
void operator delete(void* data) noexcept { std::free(data); }
void operator delete(void* data, const std::nothrow_t&) noexcept { std::free(data); }
void operator delete[](void* data, const std::nothrow_t&) noexcept { std::free(data); }
void operator delete[](void* data) noexcept { std::free(data); }
void operator delete(void* data, size_t) noexcept { std::free(data); }
void operator delete[](void* data, size_t) noexcept { std::free(data); }

namespace llada {
namespace {

TEST(CApiMemory, AnyAllocationMayFail) {
  const OptionsHandle options = options_of({{"gen_length", "6"}, {"keep_steps", "true"}});
  const EngineHandle engine = start_engine(tiny().model);
  int failed = 0, well = 0;
  for (int64_t n = 0; n < 6000 && well < 3; n = n < 200 && !quick() ? n + 1 : n + 7 + n / 20) {
    llada_request* request = nullptr;
    llada_step step = LLADA_STEP_INIT;
    llada_result result = LLADA_RESULT_INIT;
    allocations_left = n;
    llada_status status = llada_submit_text(engine, "Sort: 3 1 2", LLADA_TEXT, options, &request);
    while (status == LLADA_OK) status = llada_request_next(request, 20000, &step);
    if (status == LLADA_END) status = llada_request_result(request, &result);
    const bool reached = allocations_left.exchange(-1) < 0;
    ASSERT_TRUE(status == LLADA_OK || status == LLADA_ERROR_MEMORY)
        << n << " " << llada_status_name(status) << " " << llada_error(nullptr);
    EXPECT_TRUE(reached || status == LLADA_OK) << n;
    failed += status == LLADA_ERROR_MEMORY;
    well += status == LLADA_OK;
    llada_request_free(request);
  }
  EXPECT_GT(failed, 20);
  EXPECT_GT(well, 0);
  EXPECT_EQ(result_of(ask(engine, "Sort: 3 1 2", {{"gen_length", "6"}})).count, 6u) << "it goes on";
}

}  // namespace
}  // namespace llada
