// Weights in shared buffers, packed as the DSP reads them (pack.h): one buffer per slab, or more where a slab exceeds
// the size limit of a buffer. A slab is packed once and shared by the devices over the same weights, as long as one
// uses it.
#pragma once
#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/error.h"
#include "devices/device.h"
#include "devices/hexagon/library.h"
#include "devices/hexagon/wire.h"
#include "tensor/view.h"

namespace llada::hexagon {

struct PackedSlab {
  struct Place {
    WeightId weight;
    size_t buffer;
    uint32_t offset;
  };
  std::vector<std::shared_ptr<Buffer>> buffers;
  std::vector<Place> places;

  const Place& place_of(WeightId w) const { return *std::ranges::find(places, w, &Place::weight); }
};

// The smaller window after a refused mapping: less than `window`, and at most the `mapped` bytes of weights at that
// moment less the `missing` bytes of the refused mapping. Whole pages; may be 0.
int64_t narrower(int64_t window, int64_t mapped, int64_t missing);

// The weights of a model as this device sees them.
class Weights {
 public:
  Weights(std::span<const WeightInfo> infos, std::span<const TensorView> views, WeightHooks hooks);

  std::span<const WeightInfo> infos() const { return infos_; }
  // WIRE_NO_LAYOUT where the DSP cannot take the weight.
  std::span<const WireLayout> layouts() const { return layouts_; }
  DType type(WeightId w) const { return views_[static_cast<size_t>(w)].type; }
  // Bytes on the DSP; of those that it cannot take, as stored.
  std::span<const int64_t> bytes() const { return bytes_; }

  Result<std::shared_ptr<const PackedSlab>> pack(const std::shared_ptr<Library>& library,
                                                 const std::vector<WeightId>& weights, int threads);
  // The slab with the weight that was packed last; null: no slab in use has it.
  std::shared_ptr<const PackedSlab> packed(WeightId w);

 private:
  std::vector<WeightInfo> infos_;
  std::vector<TensorView> views_;
  std::vector<WireLayout> layouts_;
  std::vector<int64_t> bytes_;
  WeightHooks hooks_;
  std::mutex mutex_;
  std::map<std::vector<WeightId>, std::weak_ptr<const PackedSlab>> packed_;
  std::vector<std::weak_ptr<const PackedSlab>> slab_of_;  // by weight
};

}  // namespace llada::hexagon
