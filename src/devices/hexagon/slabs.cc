#include "devices/hexagon/slabs.h"

#include "base/threads.h"
#include "devices/hexagon/pack.h"

namespace llada::hexagon {

int64_t narrower(int64_t window, int64_t mapped, int64_t missing) {
  constexpr int64_t kStep = int64_t{256} << 20;
  const int64_t step = std::min(kStep, window / 8);
  const int64_t room = missing > 0 ? std::max(missing, step) : 0;
  return std::max<int64_t>(0, std::min(window - step, mapped - room)) / kPageBytes * kPageBytes;
}

Weights::Weights(std::span<const WeightInfo> infos, std::span<const TensorView> views, WeightHooks hooks)
    : infos_(infos.begin(), infos.end()),
      views_(views.begin(), views.end()),
      hooks_(std::move(hooks)),
      slab_of_(infos.size()) {
  for (size_t i = 0; i < infos_.size(); ++i) {
    const auto layout = layout_for(views_[i].type, is_vector(infos_[i]));
    layouts_.push_back(layout.value_or(WIRE_NO_LAYOUT));
    // For the layout a vector is one output.
    bytes_.push_back(layout ? layout_bytes(*layout, infos_[i].dims[1], infos_[i].dims[0]) : views_[i].bytes());
  }
}

Result<std::shared_ptr<const PackedSlab>> Weights::pack(const std::shared_ptr<Library>& library,
                                                        const std::vector<WeightId>& weights, int threads) {
  const std::lock_guard lock(mutex_);
  if (auto known = packed_[weights].lock()) return known;
  auto slab = std::make_shared<PackedSlab>();
  std::vector<int64_t> sizes;
  for (const WeightId w : weights) {
    const int64_t bytes = (bytes_[static_cast<size_t>(w)] + 127) / 128 * 128;
    const auto& name = infos_[static_cast<size_t>(w)].name;
    if (layouts_[static_cast<size_t>(w)] == WIRE_NO_LAYOUT)
      return failed("hexagon: {} has a type that the DSP does not take", name);
    if (bytes + kPageBytes >= kBufferLimit)
      return failed("hexagon: {} has {} bytes, a buffer fewer than {}", name, bytes, kBufferLimit);
    if (sizes.empty() || sizes.back() + bytes + kPageBytes >= kBufferLimit) sizes.push_back(0);
    slab->places.push_back({w, sizes.size() - 1, static_cast<uint32_t>(sizes.back())});
    sizes.back() += bytes;
  }
  for (const int64_t size : sizes) {
    slab->buffers.push_back(Buffer::allocate(library, size));
    if (slab->buffers.back() == nullptr)
      return failed("hexagon: {} bytes of shared memory for weights could not be allocated", size);
  }
  ThreadPool pool(threads);
  for (const PackedSlab::Place& place : slab->places) {
    const auto w = static_cast<size_t>(place.weight);
    constexpr int64_t kOutputs = 256;  // a multiple of the tile
    const int64_t outputs = infos_[w].dims[1];
    std::byte* const to = slab->buffers[place.buffer]->data() + place.offset;
    if (hooks_.wanted) hooks_.wanted(w);
    std::vector<std::optional<int64_t>> bad(static_cast<size_t>((outputs + kOutputs - 1) / kOutputs));
    pool.run(static_cast<int64_t>(bad.size()), [&](int64_t chunk, int) {
      bad[static_cast<size_t>(chunk)] =
          hexagon::pack(layouts_[w], views_[w], chunk * kOutputs, std::min(outputs, (chunk + 1) * kOutputs), to);
    });
    for (const auto& output : bad)
      if (output)
        return damaged("hexagon: output {} of {} has a value that is not finite; the weights are damaged", *output,
                       infos_[w].name);
    if (hooks_.packed) hooks_.packed(w);
  }
  packed_[weights] = slab;
  for (const WeightId w : weights) slab_of_[static_cast<size_t>(w)] = slab;
  return slab;
}

std::shared_ptr<const PackedSlab> Weights::packed(WeightId w) {
  const std::lock_guard lock(mutex_);
  return slab_of_[static_cast<size_t>(w)].lock();
}

}  // namespace llada::hexagon
