#include "devices/cpu/packed_file.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/fnv.h"

namespace llada {
namespace {

static_assert(std::endian::native == std::endian::little, "fields are copied as they are");

constexpr char kMagic[8] = {'L', 'L', 'A', 'D', 'A', 'P', 'A', 'K'};
constexpr uint64_t kVersion = 1;

struct End {
  char magic[8];
  uint64_t version, index_at, index_bytes, file_bytes, index_hash, reserved;
};
static_assert(sizeof(End) == kPackedEndBytes);

// Reads past the end give nothing, and so do all later ones.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  template <class T>
  T number() {
    T value{};
    const auto from = take(sizeof value);
    if (whole_) std::memcpy(&value, from.data(), sizeof value);
    return value;
  }
  std::string text() {
    const auto from = take(number<uint32_t>());
    return whole_ ? std::string(reinterpret_cast<const char*>(from.data()), from.size()) : std::string();
  }
  bool whole() const { return whole_; }
  size_t left() const { return bytes_.size(); }

 private:
  std::span<const std::byte> take(size_t size) {
    whole_ = whole_ && size <= bytes_.size();
    if (!whole_) return {};
    const auto taken = bytes_.first(size);
    bytes_ = bytes_.subspan(size);
    return taken;
  }
  std::span<const std::byte> bytes_;
  bool whole_ = true;
};

class Writer {
 public:
  template <class T>
  void number(T value) {
    append(&value, sizeof value);
  }
  void text(const std::string& text) {
    number(static_cast<uint32_t>(text.size()));
    append(text.data(), text.size());
  }
  void append(const void* data, size_t size) {
    const auto* bytes = static_cast<const std::byte*>(data);
    out.insert(out.end(), bytes, bytes + size);
  }
  std::vector<std::byte> out;
};

// Least bytes of a matrix in the index: an empty name.
constexpr size_t kLeastMatrix = 4 + 4 + 4 + 5 * 8;

PackedMatrix read_matrix(Reader& from) {
  PackedMatrix m;
  m.name = from.text();
  m.expert = from.number<int32_t>();
  m.type = static_cast<DType>(std::min(from.number<uint32_t>(), uint32_t{kDTypeCount}));
  m.inputs = from.number<int64_t>();
  m.outputs = from.number<int64_t>();
  m.offset = from.number<uint64_t>();
  m.bytes = from.number<uint64_t>();
  m.checksum = from.number<uint64_t>();
  return m;
}

}  // namespace

uint64_t packed_checksum(std::span<const std::byte> bytes) {
  Fnv hash;
  hash.add_words(bytes);
  return hash.hash();
}

Result<PackedIndex> parse_packed_file(std::span<const std::byte> file, const std::string& name) {
  End end{};
  if (file.size() < sizeof end) return invalid("{}: {} bytes are no packed weights", name, file.size());
  std::memcpy(&end, file.data() + file.size() - sizeof end, sizeof end);
  if (std::memcmp(end.magic, kMagic, sizeof kMagic) != 0)
    return invalid("{}: no packed weights: its end does not say so, which may be missing", name);
  if (end.version != kVersion)
    return invalid("{}: packed weights of version {}, {} needed", name, end.version, kVersion);
  if (end.file_bytes != file.size() || end.index_at > file.size() - sizeof end ||
      end.index_bytes != file.size() - sizeof end - end.index_at)
    return invalid("{}: {} bytes, {} needed", name, file.size(), end.file_bytes);
  const auto index_bytes = file.subspan(end.index_at, end.index_bytes);
  if (packed_checksum(index_bytes) != end.index_hash) return invalid("{}: the index is damaged", name);
  return parse_packed_index(index_bytes, end.index_at, name);
}

Result<PackedIndex> parse_packed_index(std::span<const std::byte> bytes, uint64_t index_at, const std::string& name) {
  Reader from(bytes);
  PackedIndex index;
  index.isa = from.text();
  index.layout = from.number<uint64_t>();
  index.source.path = from.text();
  index.source.identity.bytes = from.number<uint64_t>();
  index.source.identity.modified_ns = from.number<int64_t>();
  index.source.identity.sample = from.number<uint64_t>();
  const auto count = from.number<uint64_t>();
  if (!from.whole() || count > from.left() / kLeastMatrix)
    return invalid("{}: the index names {} matrices, more than it has room for", name, count);
  index.matrices.reserve(count);
  uint64_t least = 0;  // where the next matrix may begin
  for (uint64_t i = 0; i < count; ++i) {
    PackedMatrix m = read_matrix(from);
    if (from.whole() && static_cast<int>(m.type) >= kDTypeCount)
      return invalid("{}: matrix {} of the index is of no known type", name, i);
    if (!from.whole() || m.offset % kPackedAlign != 0 || m.offset < least || m.offset > index_at ||
        m.bytes > index_at - m.offset)
      return invalid("{}: matrix {} of the index does not lie in the file", name, i);
    least = m.offset + m.bytes;
    index.matrices.push_back(std::move(m));
  }
  if (from.left() != 0) return invalid("{}: {} bytes behind the index", name, from.left());
  return index;
}

std::vector<std::byte> packed_index_bytes(const PackedIndex& index, uint64_t index_at) {
  Writer to;
  to.text(index.isa);
  to.number(index.layout);
  to.text(index.source.path);
  to.number(index.source.identity.bytes);
  to.number(index.source.identity.modified_ns);
  to.number(index.source.identity.sample);
  to.number(uint64_t{index.matrices.size()});
  for (const PackedMatrix& m : index.matrices) {
    to.text(m.name);
    to.number(m.expert);
    to.number(static_cast<uint32_t>(m.type));
    to.number(m.inputs);
    to.number(m.outputs);
    to.number(m.offset);
    to.number(m.bytes);
    to.number(m.checksum);
  }
  End end{.magic = {},
          .version = kVersion,
          .index_at = index_at,
          .index_bytes = to.out.size(),
          .file_bytes = index_at + to.out.size() + sizeof(End),
          .index_hash = packed_checksum(to.out),
          .reserved = 0};
  std::memcpy(end.magic, kMagic, sizeof kMagic);
  to.append(&end, sizeof end);
  return std::move(to.out);
}

}  // namespace llada
