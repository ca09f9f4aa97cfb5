#include "formats/imatrix.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/file.h"
#include "formats/gguf.h"
#include "formats/gguf_writer.h"
#include "formats/printable.h"

namespace llada {
namespace {

constexpr std::string_view kSums = ".in_sum2", kCounts = ".counts", kMagic = "GGUF";
constexpr size_t kLongestName = 1024;  // bytes

Result<std::vector<float>> checked(std::vector<float> values, std::string_view file, std::string_view tensor) {
  const auto bad = std::ranges::find_if_not(values, [](float v) { return v >= 0 && std::isfinite(v); });
  if (bad == values.end()) return values;
  return invalid("{}: {}: value {} is {}, a finite number of at least 0 needed", file, printable(tensor),
                 bad - values.begin(), *bad);
}

Result<std::vector<float>> floats_of(const GgufTensor& tensor, std::string_view file) {
  if (tensor.view.type != DType::F32)
    return invalid("{}: {} is {}, f32 needed", file, printable(tensor.name), traits(tensor.view.type).name);
  std::vector<float> values(static_cast<size_t>(tensor.view.shape.elements()));
  std::memcpy(values.data(), tensor.view.data, values.size() * sizeof(float));
  return checked(std::move(values), file, tensor.name);
}

Result<std::vector<Imatrix::Entry>> from_gguf(std::span<const std::byte> bytes, std::string_view name) {
  LLADA_TRY(const GgufFile file, GgufFile::parse(bytes, name));
  std::vector<Imatrix::Entry> entries;
  for (const GgufTensor& tensor : file.tensors()) {
    if (!tensor.name.ends_with(kSums)) continue;
    const std::string matrix(tensor.name.substr(0, tensor.name.size() - kSums.size()));
    const GgufTensor* counted = file.tensor(matrix + std::string(kCounts));
    if (counted == nullptr)
      return invalid("{}: {} has no {}{} beside it", name, printable(tensor.name), printable(matrix), kCounts);
    LLADA_TRY(auto sums, floats_of(tensor, name));
    LLADA_TRY(const auto counts, floats_of(*counted, name));
    if (counts.empty() || sums.empty() || sums.size() % counts.size() != 0)
      return invalid("{}: {} has {} values and {} counts, a multiple needed", name, printable(matrix), sums.size(),
                     counts.size());
    const size_t columns = sums.size() / counts.size();
    for (size_t i = 0; i < sums.size(); ++i) sums[i] = counts[i / columns] > 0 ? sums[i] / counts[i / columns] : 1.0f;
    LLADA_TRY(sums, checked(std::move(sums), name, matrix));  // a tiny count may overflow
    entries.push_back({matrix, std::move(sums)});
  }
  if (entries.empty()) return invalid("{}: has no tensor NAME{}, as an importance matrix has", name, kSums);
  return entries;
}

// The older form: the number of entries; of each the length of its name, the name, by what its values are to be
// divided, how many there are, the values. Behind them may be the number of chunks and the name of the texts.
class DatReader {
 public:
  DatReader(std::span<const std::byte> bytes, std::string name) : bytes_(bytes), name_(std::move(name)) {}

  Result<std::vector<Imatrix::Entry>> read() {
    constexpr size_t kLeastEntry = 4 + 1 + 4 + 4 + 4;  // bytes
    LLADA_TRY(const size_t count, length("the number of entries", kLeastEntry));
    std::vector<Imatrix::Entry> entries;
    entries.reserve(count);
    for (size_t i = 0; i < count; ++i) {
      LLADA_TRY(auto entry, entry_at(i));
      entries.push_back(std::move(entry));
    }
    if (bytes_.empty()) return entries;
    LLADA_TRY([[maybe_unused]] const int32_t chunks, number("the number of chunks"));
    LLADA_TRY(const size_t texts, length("the length of the texts' name", 1, 0));
    if (texts != bytes_.size())
      return invalid("{}: {} bytes behind the name of the texts, none needed", name_, bytes_.size() - texts);
    return entries;
  }

 private:
  Result<Imatrix::Entry> entry_at(size_t index) {
    LLADA_TRY(const size_t size, length(fmt::format("the name's length of entry {}", index), 1));
    if (size > kLongestName)
      return invalid("{}: the name of entry {} has {} bytes, at most {} needed", name_, index, size, kLongestName);
    Imatrix::Entry entry{.name = std::string(reinterpret_cast<const char*>(bytes_.data()), size), .weights = {}};
    bytes_ = bytes_.subspan(size);
    LLADA_TRY(const int32_t calls, number("a number of calls"));
    LLADA_TRY(const size_t count, length("the number of values of " + printable(entry.name), sizeof(float)));
    entry.weights.resize(count);
    std::memcpy(entry.weights.data(), bytes_.data(), count * sizeof(float));
    bytes_ = bytes_.subspan(count * sizeof(float));
    for (float& value : entry.weights)
      if (calls > 0) value /= static_cast<float>(calls);
    LLADA_TRY(entry.weights, checked(std::move(entry.weights), name_, entry.name));
    return entry;
  }

  Result<int32_t> number(std::string_view what) {
    int32_t value = 0;
    if (bytes_.size() < sizeof value) return invalid("{}: ends before {}", name_, what);
    std::memcpy(&value, bytes_.data(), sizeof value);
    bytes_ = bytes_.subspan(sizeof value);
    return value;
  }
  // A count of things that take at least `each` bytes of those that are left.
  Result<size_t> length(const std::string& what, size_t each, int32_t least = 1) {
    LLADA_TRY(const int32_t value, number(what));
    const size_t most = bytes_.size() / each;
    if (most < static_cast<size_t>(least)) return invalid("{}: ends behind {}, which is {}", name_, what, value);
    if (value < least || static_cast<size_t>(value) > most)
      return invalid("{}: {} is {}, {} to {} needed: so much is left of the file", name_, what, value, least, most);
    return static_cast<size_t>(value);
  }

  std::span<const std::byte> bytes_;
  std::string name_;  // begins errors
};

Result<std::vector<Imatrix::Entry>> from_dat(std::span<const std::byte> bytes, std::string_view name) {
  return DatReader(bytes, fmt::format("{}: no GGUF file, so read as a .dat importance matrix", name)).read();
}

}  // namespace

Result<Imatrix> Imatrix::parse(std::span<const std::byte> bytes, std::string_view name) {
  static_assert(std::endian::native == std::endian::little);
  Imatrix matrix;
  matrix.path_ = name;
  if (bytes.empty()) return invalid("{}: is empty, an importance matrix needed", name);
  const bool gguf = bytes.size() >= kMagic.size() && std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) == 0;
  LLADA_TRY(matrix.entries_, gguf ? from_gguf(bytes, name) : from_dat(bytes, name));
  std::ranges::sort(matrix.entries_, {}, &Entry::name);
  const auto twice = std::ranges::adjacent_find(matrix.entries_, {}, &Entry::name);
  if (twice != matrix.entries_.end()) return invalid("{}: {} is there twice", name, printable(twice->name));
  return matrix;
}

Result<Imatrix> Imatrix::open(const std::string& path) {
  LLADA_TRY(const MappedFile file, MappedFile::open(path));
  return parse(file.bytes(), path);
}

const Imatrix::Entry* Imatrix::find(std::string_view name) const {
  const auto at = std::ranges::lower_bound(entries_, name, {}, &Entry::name);
  return at != entries_.end() && at->name == name ? &*at : nullptr;
}

Status write_imatrix(const std::string& path, std::span<const ImatrixSums> sums, const ImatrixSource& source) {
  GgufWriter writer;
  writer.add_string("general.type", "imatrix");
  const std::string texts[] = {source.texts};
  writer.add_strings("imatrix.datasets", texts);
  writer.add_u32("imatrix.chunk_count", source.chunks);
  writer.add_u32("imatrix.chunk_size", source.chunk_rows);
  for (const ImatrixSums& s : sums) {
    const auto experts = std::ssize(s.counts);
    writer.add_tensor(s.name + std::string(kSums), DType::F32, Shape{{s.columns, experts, 1, 1}, 2});
    writer.add_tensor(s.name + std::string(kCounts), DType::F32, Shape{{1, experts, 1, 1}, 2});
  }
  return writer.write(path, [&](size_t index, AtomicFile& out) -> Status {
    const ImatrixSums& s = sums[index / 2];
    if (index % 2 == 0) return out.write(s.squares.data(), s.squares.size() * sizeof(float));
    const std::vector<float> counts(s.counts.begin(), s.counts.end());
    return out.write(counts.data(), counts.size() * sizeof(float));
  });
}

}  // namespace llada
