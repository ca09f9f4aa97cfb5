// Layouts and loops of the 256-bit integer products, shared by AVX2 and AVX-VNNI. A file includes this once, after it
// has defined the names listed below for its instructions; LLADA_VECTOR_NAMESPACE names its namespace. Everything is in
// an anonymous namespace and nothing inline from other headers is called (see x86_rows-inl.h).
//
// Words (k counts the inputs of a product):
//   column tile  16 output columns, in two vectors X (columns 0..7) and Y (8..15)
//   step         4 consecutive k, so that a vector holds 8 columns x 4 k and meets one 32-bit broadcast of activations
//   group        32 k, that is 8 steps
//   block        8 groups
//
// Weights per column tile and group:
//   Q4_0         packed: 8 x 32 B (low nibbles X, high nibbles Y), 16 F16 scales
//   Q4_1         packed: as Q4_0, and 16 F16 offsets
//   Q8_0         packed: 8 x (X, Y), or with words (kWords) 16 x half as much with 2 k each; 16 F16 scales
//   Q8_M         packed: as Q8_0, but with 16 float scales and 16 float offsets
//   Q4_K         packed: nibbles as Q4_0, 16 scales, 16 mins, a byte each; before a block 16 F16 d and 16 F16 dmin
//   Q6_K         packed: low nibbles as Q4_0, then 4 x 32 B with the upper two bits of X, Y, X, Y of two steps, lowest
//                bits first, 2 x 16 scales of a byte; before a block 16 F16 d
// (Types that were expanded from their stored bytes for each product spent most of the time of 1 to 8 rows on it.)
//
// Activations: rows x groups of ActivationGroup, with q and scales exactly the oracle's.
//
// A group's integer sum is exact, Q6_K's scales (whole numbers) included. It is converted and added as sum * (weight
// scale * activation scale). Results are float sums over the groups in ascending order.
//
// The including file defines, between x86_int8_layout-inl.h and this one:
//   Sum                                   eight columns' sums of half a group or a group
//   first_step<Form, Row, At, StartAt>(Sum (&)[2], x, y, rows)
//                                         sums of X and Y = unsigned quants times the four activations at offset At of
//                                         row Row's group, less kCenter times the activations' sum, which is -kCenter /
//                                         8 times the number at StartAt
//   next_step<Form, Row, At>(...)         adds to them; exact for all that a form adds up
//   broadcast_at<Row, At>(rows)           four bytes eight times
//   factor_of(x), finish<Form>(Sum, factor)
//                                         the sum as 8 x int32, times x (1 where the form has no halves)
//   kWideCenter, kWideFlip                the center of 8 bits, whose quants are packed xor kWideFlip
//   kWords                                whether 8 bits and their activations are multiplied as words of 16 bits, two
//                                         k to a step: then At counts in these
//   kIntRows                              rows of a tile
#pragma once
#include "kernels/x86_int8_layout-inl.h"

namespace llada::kernels::LLADA_VECTOR_NAMESPACE {
namespace {

inline constexpr int64_t kRowBlock = 128;
inline constexpr int64_t kPackedBlock = 32;  // groups; 9 to 17 KiB of packed weights that stay in L1
inline constexpr int64_t kStepBytes = 512, kLine = 64;
// From so many rows on 6-bit weights are unpacked once for all rows; with 4 bits that saves only three instructions of
// a step. No tile then has fewer rows than kReadyRows.
inline constexpr int64_t kUnpackRows = 2 * kIntRows + 1;
inline constexpr int kReadyRows = kIntRows / 2 + 1;

// The constants of a type in the products.
struct PackedForm {
  static constexpr int kHalves = 1;
  static constexpr bool kOffset = false, kNibbles = true, kSixBits = false, kWide = false;
};
struct Q4_0Form : PackedForm {
  static constexpr DType kType = DType::Q4_0;
  static constexpr int kCenter = 8;
};
struct Q8_0Form : PackedForm {
  static constexpr DType kType = DType::Q8_0;
  static constexpr int kCenter = kWideCenter;
  static constexpr bool kNibbles = false, kWide = true;
};
struct Q4_1Form : PackedForm {  // an offset holds the center, too
  static constexpr DType kType = DType::Q4_1;
  static constexpr int kCenter = 0;
  static constexpr bool kOffset = true;
};
struct Q4_KForm : Q4_1Form {
  static constexpr DType kType = DType::Q4_K;
};
struct Q6_KForm : PackedForm {
  static constexpr DType kType = DType::Q6_K;
  static constexpr int kCenter = 32, kHalves = 2;
  static constexpr bool kSixBits = true;
};
struct Q8_MForm : Q8_0Form {
  static constexpr DType kType = DType::Q8_M;
  static constexpr bool kOffset = true;
};

template <class Form>
constexpr int64_t form_bytes() {
  return packed_group_bytes(Form::kType);
}
template <class Form>
constexpr int64_t header_bytes() {
  return packed_header_bytes(Form::kType);
}

struct IntTile {
  const uint8_t* weights;
  const uint8_t* steps;                // X and Y of each step, 512 B to a group, where they were unpacked; or null
  const uint8_t* words;                // the same in 16 bits, where the form reads them
  const ActivationGroup* activations;  // of the tile's first row and group
  int64_t row_groups, groups;          // distance of two rows in `activations`; groups of this call
  float* sums;                         // rows x 16, added to
  const uint8_t* next;                 // read next; `step` bytes of them, whole lines, are prefetched per group
  int64_t step;
};

template <bool First, class A, class B>
struct Choice {
  using Type = A;
};
template <class A, class B>
struct Choice<false, A, B> {
  using Type = B;
};
template <int N>
struct Constant {
  static constexpr int value = N;
};
// f(Constant<0>), ... f(Constant<N - 1>).
template <int N, int I = 0, class F>
inline __attribute__((always_inline)) void repeat(const F& f) {
  if constexpr (I < N) {
    f(Constant<I>{});
    repeat<N, I + 1>(f);
  }
}
#define LLADA_EACH(name) [&](auto name) __attribute__((always_inline))

inline void prefetch_line(const uint8_t* p) { asm volatile("prefetcht0 %0" : : "m"(*p)); }

inline __m256 halves_at(const uint8_t* p) { return _mm256_cvtph_ps(load_128(p)); }
inline __m128i eight_bytes(const uint8_t* p) { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)); }

// Scales of columns 8j .. 8j + 7; header: of the group's block.
template <class Form>
inline __m256 weight_scale(const uint8_t* header, const uint8_t* w, int j) {
  if constexpr (Form::kType == DType::Q4_K)
    return _mm256_mul_ps(halves_at(header + 16 * j),
                         _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(eight_bytes(w + 256 + 8 * j))));
  if constexpr (Form::kType == DType::Q6_K) return halves_at(header + 16 * j);
  if constexpr (Form::kType == DType::Q8_M) return _mm256_loadu_ps(reinterpret_cast<const float*>(w + 512 + 32 * j));
  return halves_at(w + (Form::kWide ? 512 : 256) + 16 * j);
}

// The factors of the sums of half a group before the halves are added: Q6_K's scales, which are whole numbers. The
// result stays below 2^24, so as a float it is exact.
template <class Form>
inline __m256i whole_factor(const uint8_t* w, int half, int j) {
  if constexpr (Form::kType == DType::Q6_K)
    return factor_of(_mm256_cvtepi8_epi32(eight_bytes(w + 384 + 16 * half + 8 * j)));
  return factor_of(_mm256_set1_epi32(1));
}

template <class Form>
inline __m256 weight_offset(const uint8_t* header, const uint8_t* w, int j) {
  if constexpr (Form::kType == DType::Q4_K)  // -dmin * min
    return _mm256_mul_ps(_mm256_xor_ps(halves_at(header + 32 + 16 * j), _mm256_set1_ps(-0.0f)),
                         _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(eight_bytes(w + 272 + 8 * j))));
  if constexpr (Form::kType == DType::Q4_1) return halves_at(w + 288 + 16 * j);
  return _mm256_loadu_ps(reinterpret_cast<const float*>(w + 576 + 32 * j));
}

// X and Y of a step.
template <class Form>
inline __attribute__((always_inline)) void load_step(const uint8_t* w, int step, __m256i& x, __m256i& y) {
  if constexpr (!Form::kNibbles) {
    x = load_256(w + 64 * step);
    y = load_256(w + 64 * step + 32);
    return;
  }
  const __m256i both = load_256(w + 32 * step), nibble = _mm256_set1_epi8(15);
  x = _mm256_and_si256(both, nibble);
  y = _mm256_and_si256(_mm256_srli_epi16(both, 4), nibble);
  if constexpr (Form::kSixBits) {
    const __m256i upper = load_256(w + 256 + 32 * (step / 2)), two = bytes_of(0x30);
    const __m256i ux = step % 2 == 0 ? _mm256_slli_epi16(upper, 4) : upper;
    const __m256i uy = step % 2 == 0 ? _mm256_slli_epi16(upper, 2) : _mm256_srli_epi16(upper, 2);
    x = _mm256_or_si256(x, _mm256_and_si256(ux, two));
    y = _mm256_or_si256(y, _mm256_and_si256(uy, two));
  }
}

// A form whose steps lie ready.
template <class Form>
struct Unpacked : Form {
  static constexpr bool kNibbles = false, kSixBits = false;
};

// Whether quants and activations are multiplied as words of 16 bits, two to a step.
template <class Form>
constexpr bool form_words() {
  return kWords && Form::kWide;
}

// Sums of half a group, or of a group where the form has no halves.
template <class Form, int Rows, int Half>
inline __attribute__((always_inline)) void sum_steps(const uint8_t* w, const TileRows& rows, Sum (&acc)[Rows][2]) {
  constexpr int kSteps = (form_words<Form>() ? 16 : 8) / Form::kHalves, kStart = Form::kHalves == 2 ? Half : 2;
  repeat<kSteps>(LLADA_EACH(s) {
    constexpr int kStep = Half * kSteps + s.value;
    __m256i x, y;
    if constexpr (form_words<Form>()) {
      x = _mm256_cvtepi8_epi16(load_128(w + 32 * kStep));
      y = _mm256_cvtepi8_epi16(load_128(w + 32 * kStep + 16));
    } else {
      load_step<Form>(w, kStep, x, y);
    }
    repeat<Rows>(LLADA_EACH(r) {
      if constexpr (s.value == 0) {
        first_step<Form, r.value, 4 * kStep, kStartsAt + 4 * kStart>(acc[r.value], x, y, rows);
      } else {
        next_step<Form, r.value, 4 * kStep>(acc[r.value], x, y, rows);
      }
    });
  });
}

// Rows keep their sums in memory: registers are for the sums of a group.
template <class Form, bool Ready, int Rows>
__attribute__((noinline)) void multiply_tile(const IntTile& t) {
  using Steps = Choice<Ready, Unpacked<Form>, Form>::Type;
  const uint8_t *w = t.weights, *header = w, *ready = t.steps;
  const int64_t stride = t.row_groups * static_cast<int64_t>(sizeof(ActivationGroup));
  const auto* first = reinterpret_cast<const uint8_t*>(t.activations);
  TileRows rows = {first, first + 3 * stride, stride};
  const int64_t word_stride = t.row_groups * kGroup * 2;
  TileRows words = {t.words, t.words + 3 * word_stride, word_stride};
  const uint8_t* next = t.next;
  for (int64_t g = 0; g < t.groups; ++g, w += form_bytes<Form>()) {
    if (header_bytes<Form>() > 0 && g % kBlockGroups == 0) {
      header = w;
      w += header_bytes<Form>();
    }
    for (const uint8_t* const end = next + t.step; next < end; next += kLine) prefetch_line(next);
    __m256i wholes[Rows][2];
    repeat<Form::kHalves>(LLADA_EACH(half) {
      Sum acc[Rows][2];
      sum_steps<Steps, Rows, half.value>(Ready ? ready : w, form_words<Form>() ? words : rows, acc);
      repeat<2>(LLADA_EACH(j) {
        const __m256i factor = whole_factor<Form>(w, half.value, j.value);
        repeat<Rows>(LLADA_EACH(r) {
          const __m256i whole = finish<Form>(acc[r.value][j.value], factor);
          __m256i& sum = wholes[r.value][j.value];
          sum = half.value == 0 ? whole : _mm256_add_epi32(sum, whole);
        });
      });
    });
    __m256 scale[2], offset[2];
    repeat<2>(LLADA_EACH(j) {
      scale[j.value] = weight_scale<Form>(header, w, j.value);
      if constexpr (Form::kOffset) offset[j.value] = weight_offset<Form>(header, w, j.value);
    });
    repeat<Rows>(LLADA_EACH(r) {
      const __m256 activation = _mm256_castsi256_ps(broadcast_at<r.value, kScaleAt>(rows));
      repeat<2>(LLADA_EACH(j) {
        float* sum = t.sums + r.value * kTile + 8 * j.value;
        __m256 value = _mm256_load_ps(sum);
        if constexpr (Form::kOffset)
          value =
              _mm256_fmadd_ps(offset[j.value], _mm256_castsi256_ps(broadcast_at<r.value, kWeightedAt>(rows)), value);
        value = _mm256_fmadd_ps(_mm256_cvtepi32_ps(wholes[r.value][j.value]), _mm256_mul_ps(scale[j.value], activation),
                                value);
        _mm256_store_ps(sum, value);
      });
    });
    rows.first += sizeof(ActivationGroup), rows.fourth += sizeof(ActivationGroup);
    if constexpr (form_words<Form>()) words.first += kGroup * 2, words.fourth += kGroup * 2;
    if constexpr (Ready) ready += kStepBytes;
  }
}

template <class Form, bool Ready, int Rows>
inline void multiply_some(const IntTile& t, int64_t rows) {
  if (rows == Rows) return multiply_tile<Form, Ready, Rows>(t);
  if constexpr (Rows > (Ready ? kReadyRows : 1)) multiply_some<Form, Ready, Rows - 1>(t, rows);
}

// Groups [g0, g0 + groups) of one column tile for rows [r0, r0 + rows); weights and steps: of group g0. Packed weights
// are read in one stream: as many as these are prefetched from behind them, evenly over the row tiles. Without that the
// times of computing and of memory add up: 8 rows took 1.4 times as long, 32 rows 1.05 to 1.2 times. One or two rows
// wait for memory anyway, and the processor's own prefetching does better there.
template <class Form>
inline void multiply_groups(const MatmulArgs& a, int64_t r0, int64_t rows, int64_t g0, int64_t groups,
                            const uint8_t* weights, const uint8_t* steps, float* sums) {
  const int64_t row_groups = a.k / kGroup, tiles = (rows + kIntRows - 1) / kIntRows;
  const int64_t bytes = rows > 2 ? packed_tile_bytes(Form::kType, groups) : 0, share = bytes / tiles;
  for (int64_t i = 0; i < tiles; ++i) {  // of nearly equal height
    const int64_t first = rows * i / tiles, last = rows * (i + 1) / tiles;
    const auto* activations = reinterpret_cast<const ActivationGroup*>(a.activations);
    const int64_t at = (r0 + first) * row_groups + g0;
    const IntTile t = {
        .weights = weights,
        .steps = steps,
        .words = reinterpret_cast<const uint8_t*>(a.activations) + words_at(a.rows, a.k) + at * kGroup * 2,
        .activations = activations + at,
        .row_groups = row_groups,
        .groups = groups,
        .sums = sums + first * kTile,
        .next = weights + bytes + i * share,
        .step = (share / groups + kLine - 1) / kLine * kLine};
    if constexpr (Form::kSixBits) {
      if (steps != nullptr) {
        multiply_some<Form, true, kIntRows>(t, last - first);
        continue;
      }
    }
    multiply_some<Form, false, kIntRows>(t, last - first);
  }
}

template <class Form>
inline void unpack_steps(const uint8_t* w, int64_t groups, uint8_t* steps) {
  for (int64_t g = 0; g < groups; ++g, w += form_bytes<Form>(), steps += kStepBytes) {
    if (g % kBlockGroups == 0) w += header_bytes<Form>();
    repeat<8>(LLADA_EACH(s) {
      __m256i x, y;
      load_step<Form>(w, s.value, x, y);
      store_256(steps + 64 * s.value, x);
      store_256(steps + 64 * s.value + 32, y);
    });
  }
}

template <class Form>
inline void multiply_form(const MatmulArgs& a) {
  alignas(64) float sums[kRowBlock * kTile];
  alignas(64) uint8_t steps[Form::kSixBits ? kPackedBlock * kStepBytes : 1];
  const int64_t groups = a.k / kGroup;
  for (int64_t r0 = 0; r0 < a.rows; r0 += kRowBlock) {
    const int64_t rows = a.rows - r0 < kRowBlock ? a.rows - r0 : kRowBlock;
    const bool ready = Form::kSixBits && rows >= kUnpackRows;
    for (int64_t c = a.n0; c < a.n1; c += kTile) {
      __builtin_memset(sums, 0, static_cast<size_t>(rows * kTile) * sizeof(float));
      for (int64_t g = 0; g < groups; g += kPackedBlock) {
        const int64_t count = groups - g < kPackedBlock ? groups - g : kPackedBlock;
        const uint8_t* weights = reinterpret_cast<const uint8_t*>(a.weights) +
                                 c / kTile * packed_tile_bytes(Form::kType, groups) + packed_tile_bytes(Form::kType, g);
        if constexpr (Form::kSixBits) {
          if (ready) unpack_steps<Form>(weights, count, steps);
        }
        multiply_groups<Form>(a, r0, rows, g, count, weights, ready ? steps : nullptr, sums);
      }
      const int64_t columns = a.n1 - c < kTile ? a.n1 - c : kTile;
      for (int64_t r = 0; r < rows; ++r)
        __builtin_memcpy(a.y + (r0 + r) * a.y_stride + c, sums + r * kTile,
                         static_cast<size_t>(columns) * sizeof(float));
    }
  }
}

inline void multiply_int8(const MatmulArgs& a) {
  switch (a.type) {
    case DType::Q4_0:
      return multiply_form<Q4_0Form>(a);
    case DType::Q4_1:
      return multiply_form<Q4_1Form>(a);
    case DType::Q8_0:
      return multiply_form<Q8_0Form>(a);
    case DType::Q4_K:
      return multiply_form<Q4_KForm>(a);
    case DType::Q8_M:
      return multiply_form<Q8_MForm>(a);
    default:
      return multiply_form<Q6_KForm>(a);
  }
}

}  // namespace
}  // namespace llada::kernels::LLADA_VECTOR_NAMESPACE
