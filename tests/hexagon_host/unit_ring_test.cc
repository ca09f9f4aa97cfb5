// The ring of stripes by itself, with plain memory in place of the matrix unit: every stripe is widened once, met by
// the multiplication with its bytes, and its tile finished once, whoever does it. Under tsan, that all of this is
// ordered; and a product on the module's threads, which has the bits of one thread.
// labels of this file: threads
#include "devices/hexagon/dsp/unit_ring.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "devices/hexagon/divided.h"
#include "devices/hexagon/host/module.h"
#include "devices/hexagon/pack.h"
#include "tensor/quantize.h"

namespace llada::hexagon {
namespace {

struct Shape {
  uint32_t tiles, stripes, waiting;
};

// Memory of the slots and results is written and read without atomics, as on a DSP.
void work_through(const Shape& shape, int threads) {
  dsp::UnitRing ring(shape.tiles, shape.stripes, shape.waiting);
  std::vector<uint32_t> slots(shape.waiting * shape.stripes), results(dsp::kUnitResults), sums(shape.tiles);
  std::atomic<uint32_t> widened = 0;
  const auto value = [](uint32_t tile, uint32_t stripe) { return tile * 1000 + stripe + 1; };
  const auto widen = [&](uint32_t tile, uint32_t stripe) {
    slots[ring.slot(tile, stripe)] = value(tile, stripe);
    ++widened;
  };
  const auto multiply = [&](uint32_t tile) {
    uint32_t sum = 0;
    for (uint32_t s = 0; s < shape.stripes; ++s) sum += slots[ring.slot(tile, s)];
    results[dsp::UnitRing::result(tile)] = sum;
  };
  const auto finish = [&](uint32_t tile) { sums[tile] += results[dsp::UnitRing::result(tile)]; };
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back([&] { ring.work(widen, finish); });
  ring.multiply(multiply, widen, finish);
  for (std::thread& thread : others) thread.join();
  EXPECT_EQ(widened, shape.tiles * shape.stripes);
  for (uint32_t tile = 0; tile < shape.tiles; ++tile) {
    uint32_t want = 0;
    for (uint32_t s = 0; s < shape.stripes; ++s) want += value(tile, s);
    ASSERT_EQ(sums[tile], want) << "tile " << tile << " of " << shape.tiles << ", " << threads << " threads";
  }
}

TEST(UnitRing, EveryStripeMeetsItsTileOnce) {
  for (const Shape& shape : {Shape{1, 1, 1}, Shape{3, 4, 1}, Shape{40, 4, 2}, Shape{300, 1, 64}, Shape{97, 12, 4}})
    for (const int threads : {1, 2, 4}) work_through(shape, threads);
}

TEST(UnitRing, WorkersLeaveWhereTheUnitIsNotGiven) {
  dsp::UnitRing ring(5, 4, 1);
  std::atomic<uint32_t> finished = 0;
  std::thread worker([&] { ring.work([](uint32_t, uint32_t) {}, [&](uint32_t) { ++finished; }); });
  ring.give_up();
  worker.join();
  EXPECT_EQ(finished, 0u);
}

// A product by the unit's model on 1 and 4 threads of the module in this process.
TEST(UnitRing, AProductHasTheSameBitsOnAnyThreads) {
  constexpr uint32_t kInputs = 1056, kOutputs = 160, kRows = 10;
  std::vector<float> values(kOutputs * kInputs);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(static_cast<int>(i * 7919 % 2001) - 1000);
  std::vector<std::byte> stored(static_cast<size_t>(row_bytes(DType::Q4_0, kInputs)) * kOutputs);
  quantize_row(DType::Q4_0, values.data(), stored.data(), kOutputs * kInputs);
  TensorView view{stored.data(), DType::Q4_0, {}};
  view.shape.dims = {kInputs, kOutputs, 1, 1}, view.shape.rank = 2;
  const auto weights = static_cast<uint32_t>(layout_bytes(WIRE_TILE_Q4_0, kOutputs, kInputs));
  const uint32_t y = weights + kRows * kInputs * 4, scratch = y + kRows * kOutputs * 4, kScratch = 1 << 20;
  struct alignas(128) Line {
    std::byte bytes[128];
  };
  std::vector<Line> memory((scratch + kScratch) / 128);
  std::byte* const at = memory.data()->bytes;
  ASSERT_FALSE(pack(WIRE_TILE_Q4_0, view, 0, kOutputs, at));
  for (uint32_t i = 0; i < kRows * kInputs; ++i)
    reinterpret_cast<float*>(at + weights)[i] = static_cast<float>(static_cast<int>(i * 104729 % 401) - 200);

  const auto product = [&](int threads) {
    HostModule module(threads, 1 << 20);
    module.begin_batch();
    const uint32_t number = module.number(at, static_cast<int64_t>(memory.size() * 128));
    WireOp op = empty_op();
    op.kind = WIRE_MATMUL, op.rows = kRows, op.columns = kInputs;
    op.in[0] = {number, weights}, op.out[0] = {number, y};
    op.weight[0] = {{number, 0}, WIRE_TILE_Q4_0, kInputs, kOutputs};
    EXPECT_EQ(run_alone(module, op, {number, scratch}, kScratch, WIRE_UNIT_MATRIX).status, uint32_t{WIRE_OK});
    const auto* results = reinterpret_cast<const float*>(at + y);
    return std::vector<float>(results, results + kRows * kOutputs);
  };
  const auto one = product(1);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(product(4), one);
}

}  // namespace
}  // namespace llada::hexagon
