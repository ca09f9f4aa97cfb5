// FNV-1a, 64 bits: tells files that belong together from others; no defence against anybody.
#pragma once
#include <cstdint>
#include <string_view>

namespace llada {

class Fnv {
 public:
  void add(const void* data, size_t size) {
    const auto* bytes = static_cast<const unsigned char*>(data);
    for (size_t i = 0; i < size; ++i) hash_ = (hash_ ^ bytes[i]) * 0x100000001b3;
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
