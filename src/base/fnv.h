// FNV-1a, 64 bits: tells files that belong together from others; no defence against anybody.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace llada {

class Fnv {
 public:
  void add(const void* data, size_t size) {
    const auto* bytes = static_cast<const unsigned char*>(data);
    for (size_t i = 0; i < size; ++i) hash_ = (hash_ ^ bytes[i]) * 0x100000001b3;
  }
  // Another hash, for values that only this program computes: at the speed of memory, by words of 8 bytes in
  // independent lanes.
  void add_words(std::span<const std::byte> bytes) {
    constexpr size_t kLanes = 8;
    uint64_t lanes[kLanes] = {0, 1, 2, 3, 4, 5, 6, 7};
    size_t at = 0;
    for (; at + sizeof lanes <= bytes.size(); at += sizeof lanes)
      for (size_t i = 0; i < kLanes; ++i) {
        uint64_t word;
        std::memcpy(&word, bytes.data() + at + 8 * i, sizeof word);
        lanes[i] = std::rotl((lanes[i] ^ word) * 0x100000001b3, 23);
      }
    add(lanes, sizeof lanes);
    add(bytes.data() + at, bytes.size() - at);
  }
  void add(std::string_view text) { add(text.data(), text.size()); }
  void add(int64_t value) { add(&value, sizeof value); }
  void add_little_endian(uint32_t value) {  // the same on every machine
    for (int shift = 0; shift < 32; shift += 8) hash_ = (hash_ ^ ((value >> shift) & 0xff)) * 0x100000001b3;
  }
  uint64_t hash() const { return hash_; }

 private:
  uint64_t hash_ = 0xcbf29ce484222325;
};

}  // namespace llada
