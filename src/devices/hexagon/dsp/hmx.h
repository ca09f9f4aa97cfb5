// The matrix unit's packets that a product in FP16 takes: the one place that names their words. Six words in five
// packets, the same from v73 to v81: on a phone they stand in the code as numbers, since the open compiler has no names
// for them. Under the emulator, which lacks the unit, each is a call of the model (hmx_model.h) with the operands in
// the registers that the words name, r0 to r3. On the host they are plain calls.
//
// Encodings, operands and layouts are facts of Qualcomm's public emulator and its tests; a second public source, a
// disassembly, agrees with the fields. Uncertain until a phone has answered: all that concerns time and order, such as
// the barrier that a tile written by another thread needs.
#pragma once
#include <stdint.h>

#include "devices/hexagon/dsp/hmx_model.h"

#if !defined(__hexagon__)
#define DSP_UNIT(words, name, ...) name(__VA_ARGS__)
#elif defined(__linux__)
#define DSP_UNIT(words, name, ...) DSP_UNIT_ASM("call " #name, __VA_ARGS__)
#elif __HEXAGON_ARCH__ >= 73
#define DSP_UNIT(words, name, ...) DSP_UNIT_ASM(".word " words, __VA_ARGS__)
#else  // v68 stores by another word; os_phone.cc offers no unit there
#define DSP_UNIT(words, name, ...) __builtin_trap()
#endif

// A call may change all that the calling convention lets it.
#define DSP_UNIT_ASM(text, ...)                                                                                       \
  ::dsp::UnitOperands(__VA_ARGS__)                                                                                    \
      .pass([](uint32_t a, uint32_t b, uint32_t c, uint32_t d) __attribute__((always_inline)) {                       \
        register uint32_t r0 asm("r0") = a;                                                                           \
        register uint32_t r1 asm("r1") = b;                                                                           \
        register uint32_t r2 asm("r2") = c;                                                                           \
        register uint32_t r3 asm("r3") = d;                                                                           \
        asm volatile(text                                                                                             \
                     : "+r"(r0), "+r"(r1), "+r"(r2), "+r"(r3)                                                         \
                     :                                                                                                \
                     : "memory", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "r28", \
                       "r31", "p0", "p1", "p2", "p3", "lc0", "sa0", "lc1", "sa1", "m0", "m1", "usr");                 \
      })

namespace dsp {

#ifdef __hexagon__
// Up to four operands as words.
struct UnitOperands {
  uint32_t words[4] = {};
  template <class... T>
  explicit UnitOperands(T... values) {
    uint32_t* at = words;
    ((*at++ = word(values)), ...);
  }
  static uint32_t word(uint32_t value) { return value; }
  static uint32_t word(const void* at) { return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(at)); }
  template <class Body>
  inline __attribute__((always_inline)) void pass(const Body& body) const {
    body(words[0], words[1], words[2], words[3]);
  }
};
#endif

constexpr uint32_t kUnitTile = 32;                                   // rows, inputs and outputs of a tile
constexpr uint32_t kUnitTileBytes = kUnitTile * kUnitTile * 2;       // FP16
constexpr uint32_t kUnitStripe = 32;                                 // tiles that one pair multiplies at most
constexpr uint32_t kUnitStripeBytes = kUnitStripe * kUnitTileBytes;  // aligned to its size, it crosses no boundary
constexpr uint32_t kUnitTableWords = 64;

// The table by which sums become results: word c, of output c: the scale as FP16; the words from 32 on: 0.
inline void unit_table(const uint8_t* table) { DSP_UNIT("0x9200C3FE", hmx_model_table, table); }
inline void unit_clear() { DSP_UNIT("0xA6E0C013", hmx_model_clear); }
// Adds rows x weights of `tiles` tiles each, one behind the other.
inline void unit_multiply(const uint8_t* rows, const uint8_t* weights, uint32_t tiles) {
  const uint32_t last = tiles * kUnitTileBytes - 1;
  DSP_UNIT("0x920041E2, 0x9202E3EF", hmx_model_pair, rows, last, weights, last);
}
// Sums to results, negative ones too, and clears the sums.
inline void unit_convert() { DSP_UNIT("0xA6E0DA10", hmx_model_convert, 2u); }
inline void unit_store(uint8_t* results) { DSP_UNIT("0xA6E0C118", hmx_model_store, results, 0u); }

// Stands between stores of threads and loads of the unit, and the other way.
inline void unit_barrier() {
#ifdef __hexagon__
  asm volatile("syncht" : : : "memory");
#endif
}

}  // namespace dsp
