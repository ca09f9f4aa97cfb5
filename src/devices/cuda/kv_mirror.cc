#include "devices/cuda/kv_mirror.h"

#include <algorithm>

namespace llada::cuda {
namespace {

constexpr size_t kMirrors = 4;  // kept at least: a run's, the sparse path's beside it, those of the run before

int64_t element(const KvStore& kv) { return kv.shape().type == DType::F16 ? 2 : 4; }

int64_t head_bytes(const KvStore& kv) {
  const KvShape& s = kv.shape();
  return kv.half_bytes() / (int64_t{s.layers} * s.sequences * s.kv_heads);
}

}  // namespace

Result<const KvMirrors::Mirror*> KvMirrors::of(Memory& memory, KvStore& kv) {
  const int64_t bytes = 2 * kv.half_bytes();
  for (auto it = mirrors_.begin(); it != mirrors_.end(); ++it) {
    if (it->store != kv.memory() || it->data.bytes() != bytes) continue;
    mirrors_.splice(mirrors_.begin(), mirrors_, it);
    kv.look(KvViewer::gpu, &mirrors_.front());
    return &mirrors_.front();
  }
  cudaPointerAttributes attributes{};
  LLADA_TRY_STATUS(check(cudaPointerGetAttributes(&attributes, kv.memory()), "looking at the K/V store"));
  if (attributes.type != cudaMemoryTypeHost) return failed("cuda: the K/V store is not of the device's memory");
  while (mirrors_.size() >= most_) mirrors_.pop_back();
  LLADA_TRY(auto data, memory.allocate(bytes, "the K/V store"));
  mirrors_.push_front({kv.memory(), std::move(data)});
  kv.look(KvViewer::gpu, nullptr);  // for a mirror that is gone, and may have lain at this address
  kv.look(KvViewer::gpu, &mirrors_.front());
  return &mirrors_.front();
}

Result<std::vector<KvPlace>> KvMirrors::of(Memory& memory, std::span<const Stream> streams) {
  most_ = std::max(kMirrors, streams.size());
  std::vector<KvPlace> places;
  for (const Stream& stream : streams) {
    KvPlace& place = places.emplace_back();
    if (stream.kv == nullptr) continue;
    KvStore& kv = *stream.kv;
    LLADA_TRY(const Mirror* mirror, of(memory, kv));
    auto* const host = reinterpret_cast<uint8_t*>(kv.memory());
    place = {.keys = mirror->data.data(),
             .values = mirror->data.data() + kv.half_bytes(),
             .host_keys = host,
             .host_values = host + kv.half_bytes(),
             .layer_bytes = kv.half_bytes() / kv.shape().layers,
             .head_bytes = head_bytes(kv),
             .half = kv.shape().type == DType::F16};
  }
  return places;
}

Status KvMirrors::refresh(const KvPlace& place, KvStore& kv, int layer, int sequence, KeyRange keys,
                          cudaStream_t stream) {
  const int64_t row = kv.shape().head_dim * element(kv);
  const auto copy = [&](int64_t p0, int64_t p1) -> Status {
    const auto pitch = static_cast<size_t>(head_bytes(kv)), width = static_cast<size_t>((p1 - p0) * row),
               heads = static_cast<size_t>(kv.shape().kv_heads);
    for (const std::byte* from : {kv.keys(layer, sequence, 0), kv.values(layer, sequence, 0)}) {
      from += p0 * row;
      LLADA_TRY_STATUS(check(cudaMemcpy2DAsync(place.keys + (from - kv.memory()), pitch, from, pitch, width, heads,
                                               cudaMemcpyHostToDevice, stream),
                             "copying keys and values"));
    }
    return {};
  };
  int64_t stale = -1;  // first of a stretch
  for (int64_t p = keys.first; p <= keys.last; ++p) {
    const bool old = p < keys.last && !kv.fresh(KvViewer::gpu, layer, sequence, p);
    if (old && stale < 0) stale = p;
    if (old) kv.renewed(KvViewer::gpu, layer, sequence, p);
    if (old || stale < 0) continue;
    LLADA_TRY_STATUS(copy(stale, p));
    stale = -1;
  }
  return {};
}

}  // namespace llada::cuda
