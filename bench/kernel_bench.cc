// Matrix products of one kernel table beside the machine's own ceilings.
//   kernel_bench [--isa NAME] [--threads N] [--types q4_0,q8_0] [--rows 1,8,32,128] [--shapes
//   4096x4096,4096x12288] [--repeats 5]
// A shape is k x n. The weights of as many equal matrices as fill 256 MiB are used in turn, so they come from
// memory. Times are medians over the repeats (one repeat: every matrix once); `best` is the fastest repeat,
// for machines shared with others. The share of the peak is of the int8 loop (float loop for float types)
// measured just before and after.
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include "base/threads.h"
#include "ceiling.h"
#include "kernels/kernels.h"
#include "kernels/tables.h"
#include "tensor/half.h"
#include "tensor/quantize.h"

namespace llada::bench {
namespace {

using namespace kernels;

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// Page-aligned memory that asks for huge pages.
class Buffer {
 public:
  explicit Buffer(size_t size) : size_((size + (2u << 20)) & ~((size_t{2} << 20) - 1)) {
    data_ = static_cast<std::byte*>(std::aligned_alloc(size_t{2} << 20, size_));
    madvise(data_, size_, MADV_HUGEPAGE);
    std::memset(data_, 0, size_);
  }
  ~Buffer() { std::free(data_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  std::byte* data() const { return data_; }

 private:
  size_t size_;
  std::byte* data_;
};

double peak(ThreadPool& pool, int threads, double (*loop)(int64_t)) {
  constexpr int64_t kRounds = 400000;
  std::vector<double> rates;
  for (int i = 0; i < 7; ++i) {
    std::vector<double> operations(static_cast<size_t>(threads));
    const double begin = seconds();
    pool.run(threads, [&](int64_t index, int) { operations[static_cast<size_t>(index)] = loop(kRounds); });
    double sum = 0;
    for (const double o : operations) sum += o;
    rates.push_back(sum / (seconds() - begin) / 1e9);
  }
  return *std::ranges::max_element(rates);
}

double read_rate(ThreadPool& pool, int threads, const Buffer& memory, size_t size) {
  std::vector<double> rates;
  for (int i = 0; i < 7; ++i) {
    std::vector<uint64_t> sums(static_cast<size_t>(threads));
    const size_t part = size / static_cast<size_t>(threads) / 64 * 64;
    const double begin = seconds();
    pool.run(threads, [&](int64_t index, int) {
      const auto* words =
          reinterpret_cast<const uint64_t*>(memory.data() + static_cast<size_t>(index) * part);
      uint64_t a = 0, b = 0, c = 0, d = 0;
      for (size_t w = 0; w < part / 8; w += 8) {  // one word of every line pulls the whole line
        __builtin_prefetch(words + w + 512);
        a += words[w];
        b += words[w + 2];
        c += words[w + 4];
        d += words[w + 6];
      }
      sums[static_cast<size_t>(index)] = a + b + c + d;
    });
    const double rate = static_cast<double>(part) * threads / (seconds() - begin) / 1e9;
    volatile uint64_t sink = sums[0];
    static_cast<void>(sink);
    rates.push_back(rate);
  }
  return *std::ranges::max_element(rates);
}

// Microseconds from the start of a loop to its end when there is nothing to do.
double barrier(ThreadPool& pool) {
  std::vector<double> times;
  for (int i = 0; i < 200; ++i) {
    const double begin = seconds();
    for (int j = 0; j < 100; ++j) pool.run(pool.size(), [](int64_t, int) {});
    times.push_back((seconds() - begin) / 100 * 1e6);
  }
  return median(times);
}

uint64_t state = 1;
uint64_t random_bits() {
  uint64_t z = (state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  return z ^ (z >> 31);
}
float uniform() { return static_cast<float>(random_bits() >> 40) * 0x1p-24f; }

void put_half(std::byte* at, float value) {
  const uint16_t bits = float_to_f16(value);
  std::memcpy(at, &bits, 2);
}

// Random groups with scales of a trained model's spread.
void fill_weights(DType type, std::byte* data, int64_t bytes) {
  const int64_t size = traits(type).bytes;
  for (int64_t i = 0; i + 8 <= bytes; i += 8) {
    const uint64_t bits = random_bits();
    std::memcpy(data + i, &bits, 8);
  }
  for (int64_t i = 0; i < bytes; i += size) {
    const float scale = 0.004f * (1 + 0.5f * uniform());
    switch (type) {
      case DType::F32: {
        const float value = uniform() - 0.5f;
        std::memcpy(data + i, &value, 4);
        break;
      }
      case DType::F16:
        put_half(data + i, uniform() - 0.5f);
        break;
      case DType::BF16: {
        const uint16_t bits = float_to_bf16(uniform() - 0.5f);
        std::memcpy(data + i, &bits, 2);
        break;
      }
      case DType::Q6_K:
        put_half(data + i + 208, scale / 32);
        break;
      case DType::Q4_K:
      case DType::Q5_K:
        put_half(data + i, scale / 32);
        put_half(data + i + 2, scale / 4);
        break;
      case DType::Q4_1:
      case DType::Q5_1:
        put_half(data + i, scale);
        put_half(data + i + 2, -8 * scale);
        break;
      default:
        put_half(data + i, scale);
    }
  }
}

struct Options {
  std::string isa;
  int threads = 0, repeats = 5;
  std::vector<DType> types = {DType::Q4_0, DType::Q8_0, DType::Q4_K, DType::Q6_K};
  std::vector<int64_t> rows = {1, 8, 32, 128};
  std::vector<std::pair<int64_t, int64_t>> shapes = {{4096, 4096}, {4096, 12288}, {12288, 4096}};
};

// The largest difference to the oracle over some columns, relative to the norm of a row's results.
double error_of(const MatmulArgs& args, const std::byte* stored) {
  const int64_t columns = std::min<int64_t>(args.n, 64);
  std::vector<float> w(static_cast<size_t>(args.k));
  double error2 = 0, norm2 = 0;
  // The same quantized activations: a matrix that selects one input at a time would read them back, but only
  // the table knows their layout; so the oracle multiplies inputs that quantize without error.
  for (int64_t c = 0; c < columns; ++c) {
    dequantize_row(args.type, stored + c * row_bytes(args.type, args.k), w.data(), args.k);
    for (int64_t r = 0; r < args.rows; ++r) {
      double want = 0;
      for (int64_t i = 0; i < args.k; ++i)
        want += static_cast<double>(w[static_cast<size_t>(i)]) * args.x[r * args.k + i];
      const double difference = args.y[r * args.y_stride + c] - want;
      error2 += difference * difference;
      norm2 += want * want;
    }
  }
  return std::sqrt(error2 / norm2);
}

void run_case(const KernelTable& table, ThreadPool& pool, int threads, const Options& options, DType type,
              int64_t k, int64_t n) {
  const int64_t stored_bytes = n * row_bytes(type, k);
  const int64_t packed = table.packed_bytes(type, n, k), used = packed > 0 ? packed : stored_bytes;
  const int64_t stride = (used + 4095) / 4096 * 4096;
  const int64_t copies = (int64_t{256} << 20) / stride + 1;
  Buffer stored(static_cast<size_t>(stored_bytes)), weights(static_cast<size_t>(stride * copies));
  fill_weights(type, stored.data(), stored_bytes);
  const TensorView view{stored.data(), type, {{k, n, 1, 1}, 2}};
  double pack_seconds = 0;
  if (packed > 0) {
    const int64_t tile = table.column_tile(type), tiles = (n + tile - 1) / tile;
    const double begin = seconds();
    pool.run(tiles, [&](int64_t t, int) {
      table.pack(view, t * tile, std::min(n, (t + 1) * tile), weights.data());
    });
    pack_seconds = seconds() - begin;
  } else {
    std::memcpy(weights.data(), stored.data(), static_cast<size_t>(stored_bytes));
  }
  for (int64_t i = 1; i < copies; ++i)
    std::memcpy(weights.data() + i * stride, weights.data(), static_cast<size_t>(used));

  for (const int64_t rows : options.rows) {
    Buffer x(static_cast<size_t>(rows * k) * 4), y(static_cast<size_t>(rows * n) * 4);
    auto* inputs = reinterpret_cast<float*>(x.data());
    for (int64_t i = 0; i < rows * k; ++i) {  // integers with the extreme in every group: quantized without error
      const float normal = 70 * (uniform() + uniform() + uniform() + uniform() - 2);  // deviation 40, as in a model
      inputs[i] = i % 32 == 0 ? 127.0f : std::round(std::clamp(normal, -127.0f, 127.0f));
    }
    Buffer activations(static_cast<size_t>(table.activation_bytes(rows, k)));
    const double quantize_begin = seconds();
    if (table.integer_path(type)) table.quantize_rows(inputs, rows, k, 0, rows, activations.data());
    const double quantize_seconds = seconds() - quantize_begin;
    MatmulArgs args{};
    args.type = type;
    args.n = n;
    args.k = k;
    args.x = inputs;
    args.activations = activations.data();
    args.rows = rows;
    args.y = reinterpret_cast<float*>(y.data());
    args.y_stride = n;
    const int64_t tile = table.column_tile(type);
    const int64_t slice = std::max(tile, (n / (threads * 8) + tile - 1) / tile * tile),
                  slices = (n + slice - 1) / slice;
    const auto once = [&](int64_t copy) {
      pool.run(slices, [&](int64_t index, int) {
        MatmulArgs part = args;
        part.weights = weights.data() + copy * stride;
        part.n0 = index * slice;
        part.n1 = std::min(n, part.n0 + slice);
        table.matmul(part);
      });
    };
    once(0);
    const double error = error_of(args, stored.data());
    const bool integer = table.integer_path(type);
    double top = peak(pool, threads, integer ? int8_loop : float_loop);
    std::vector<double> times;
    for (int repeat = 0; repeat < options.repeats; ++repeat) {
      const double begin = seconds();
      for (int64_t copy = 0; copy < copies; ++copy) once(copy);
      times.push_back((seconds() - begin) / static_cast<double>(copies));
    }
    top = std::max(top, peak(pool, threads, integer ? int8_loop : float_loop));
    const double operations =
        2.0 * static_cast<double>(rows) * static_cast<double>(k) * static_cast<double>(n);
    const double middle = median(times), best = *std::ranges::min_element(times);
    fmt::print(
        "{:5} {:6} {:6} {:4} {:8.3f} {:8.1f} {:6.1f} {:8.1f} {:6.1f} {:7.1f} {:9.2e} {:7.1f} {:7.3f} "
        "{:6.3f}\n",
        traits(type).name, k, n, rows, middle * 1e3, operations / middle / 1e9,
        operations / middle / 1e7 / top, operations / best / 1e9, operations / best / 1e7 / top,
        static_cast<double>(used) / middle / 1e9, error,
        static_cast<double>(stored_bytes) / pack_seconds / 1e9, quantize_seconds * 1e3,
        static_cast<double>(used) / static_cast<double>(stored_bytes));
    std::fflush(stdout);
  }
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

int run(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--isa") options.isa = value;
    if (name == "--threads") options.threads = std::atoi(value.c_str());
    if (name == "--repeats") options.repeats = std::max(1, std::atoi(value.c_str()));
    if (name == "--types") {
      options.types.clear();
      for (const std::string& type : split(value, ','))
        if (const auto found = dtype_from_name(type)) options.types.push_back(*found);
    }
    if (name == "--rows") {
      options.rows.clear();
      for (const std::string& rows : split(value, ','))
        options.rows.push_back(std::max(1L, std::atol(rows.c_str())));
    }
    if (name == "--shapes") {
      options.shapes.clear();
      for (const std::string& shape : split(value, ',')) {
        const auto parts = split(shape, 'x');
        if (parts.size() == 2)
          options.shapes.emplace_back(std::atol(parts[0].c_str()), std::atol(parts[1].c_str()));
      }
    }
  }
  const auto table = kernels::select(options.isa);
  if (!table) {
    fmt::print(stderr, "{}\n", table.error().message);
    return exit_status(table.error());
  }
  ThreadPool pool(options.threads);
  const int threads = pool.size();
  {
    ThreadPool single(1);
    Buffer memory(size_t{1} << 30);
    std::memset(memory.data(), 1, size_t{1} << 30);
    fmt::print("kernels {}, int8 peak by {}\n", (*table)->isa, int8_instruction());
    fmt::print("1 thread:  read {:.1f} GB/s, int8 {:.0f} GOP/s, float {:.0f} GFLOP/s\n",
               read_rate(single, 1, memory, size_t{1} << 30), peak(single, 1, int8_loop),
               peak(single, 1, float_loop));
    fmt::print("{} threads: read {:.1f} GB/s, int8 {:.0f} GOP/s, float {:.0f} GFLOP/s, barrier {:.2f} us\n", threads,
               read_rate(pool, threads, memory, size_t{1} << 30), peak(pool, threads, int8_loop),
               peak(pool, threads, float_loop), barrier(pool));
  }
  fmt::print("{:5} {:>6} {:>6} {:>4} {:>8} {:>8} {:>6} {:>8} {:>6} {:>7} {:>9} {:>7} {:>7} {:>6}\n", "type",
             "k", "n", "rows", "ms", "GOP/s", "%peak", "best", "%peak", "GB/s", "error", "packGBs", "quantms",
             "size");
  for (const DType type : options.types)
    for (const auto& [k, n] : options.shapes) run_case(**table, pool, threads, options, type, k, n);
  return 0;
}

}  // namespace
}  // namespace llada::bench

int main(int argc, char** argv) { return llada::bench::run(argc, argv); }
