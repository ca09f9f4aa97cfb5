#include "formats/gguf.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <numeric>

#include "formats/printable.h"

namespace llada {
namespace {

static_assert(std::endian::native == std::endian::little, "stored types are read as they lie");

constexpr uint64_t kMaxKeys = 4096;  // real files have below 100; bounds the table that we allocate
constexpr uint64_t kGgufMaxTensors = 65536;
constexpr uint64_t kMaxKeyBytes = 65535;     // from the specification
constexpr uint64_t kGgufMaxNameBytes = 255;  // ggml itself stops at 63
constexpr uint64_t kMinKeyEntry = 8 + 4 + 1;
constexpr uint64_t kGgufMinTensorEntry = 8 + 4 + 8 + 4 + 8;
constexpr uint64_t kMaxStrings = uint64_t{1} << 26;  // of an array
constexpr uint64_t kMaxAlignment = uint64_t{1} << 20;
constexpr uint64_t kMaxElements = uint64_t{1} << 59;  // so that bytes fit 64 bits; the file's end is compared later

constexpr std::array<std::string_view, 13> kTypeNames = {"uint8",  "int8",    "uint16",  "int16",  "uint32",
                                                         "int32",  "float32", "boolean", "string", "array",
                                                         "uint64", "int64",   "float64"};
constexpr std::array<uint64_t, 13> kTypeBytes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};  // 0: variable

struct GgmlType {
  uint32_t number;
  DType type;
};
constexpr std::array<GgmlType, kFileTypeCount> kGgmlTypes = {
    {{0, DType::F32},      {1, DType::F16},     {30, DType::BF16},  {8, DType::Q8_0},     {2, DType::Q4_0},
     {3, DType::Q4_1},     {6, DType::Q5_0},    {7, DType::Q5_1},   {12, DType::Q4_K},    {13, DType::Q5_K},
     {14, DType::Q6_K},    {10, DType::Q2_K},   {11, DType::Q3_K},  {20, DType::IQ4_NL},  {23, DType::IQ4_XS},
     {16, DType::IQ2_XXS}, {17, DType::IQ2_XS}, {22, DType::IQ2_S}, {18, DType::IQ3_XXS}, {21, DType::IQ3_S},
     {19, DType::IQ1_S},   {29, DType::IQ1_M},  {34, DType::TQ1_0}, {35, DType::TQ2_0},   {39, DType::MXFP4},
     {40, DType::NVFP4}}};

// ggml's enum ggml_type by number, with the names that it once gave.
constexpr std::array<std::string_view, 43> kGgmlNames = {
    "f32",        "f16",        "q4_0",       "q4_1",  "q4_2",     "q4_3",     "q5_0",     "q5_1",    "q8_0",
    "q8_1",       "q2_K",       "q3_K",       "q4_K",  "q5_K",     "q6_K",     "q8_K",     "iq2_xxs", "iq2_xs",
    "iq3_xxs",    "iq1_s",      "iq4_nl",     "iq3_s", "iq2_s",    "iq4_xs",   "i8",       "i16",     "i32",
    "i64",        "f64",        "iq1_m",      "bf16",  "q4_0_4_4", "q4_0_4_8", "q4_0_8_8", "tq1_0",   "tq2_0",
    "iq4_nl_4_4", "iq4_nl_4_8", "iq4_nl_8_8", "mxfp4", "nvfp4",    "q1_0",     "q2_0"};

std::string supported_types() {
  std::string list;
  for (const GgmlType& known : kGgmlTypes)
    list += fmt::format("{}{}", list.empty() ? "" : ", ", kGgmlNames[known.number]);
  return list;
}

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

std::optional<int64_t> integer_at(GgufType type, const std::byte* from) {
  switch (type) {
    case GgufType::u8:
      return load<uint8_t>(from);
    case GgufType::i8:
      return load<int8_t>(from);
    case GgufType::u16:
      return load<uint16_t>(from);
    case GgufType::i16:
      return load<int16_t>(from);
    case GgufType::u32:
      return load<uint32_t>(from);
    case GgufType::i32:
      return load<int32_t>(from);
    case GgufType::i64:
      return load<int64_t>(from);
    case GgufType::u64: {
      const auto value = load<uint64_t>(from);
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
      return static_cast<int64_t>(value);
    }
    default:
      return std::nullopt;
  }
}

std::string_view text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

std::string_view gguf_type_name(GgufType type) { return kTypeNames[static_cast<size_t>(type)]; }

std::optional<DType> dtype_from_ggml(uint32_t number) {
  for (const GgmlType& known : kGgmlTypes)
    if (known.number == number) return known.type;
  return std::nullopt;
}

uint32_t ggml_from_dtype(DType type) { return std::ranges::find(kGgmlTypes, type, &GgmlType::type)->number; }

std::string_view ggml_type_name(uint32_t number) { return number < kGgmlNames.size() ? kGgmlNames[number] : ""; }

void GgufFile::append_tensors(const GgufFile& other) {
  tensors_.insert(tensors_.end(), other.tensors_.begin(), other.tensors_.end());
}

std::optional<int64_t> GgufValue::as_integer() const { return integer_at(type, data.data()); }

std::optional<double> GgufValue::as_number() const {
  if (type == GgufType::f32) return load<float>(data.data());
  if (type == GgufType::f64) return load<double>(data.data());
  if (const auto integer = as_integer()) return static_cast<double>(*integer);
  return std::nullopt;
}

std::optional<bool> GgufValue::as_bool() const {
  if (type != GgufType::boolean) return std::nullopt;
  return data[0] != std::byte{0};
}

std::optional<std::string_view> GgufValue::as_string() const {
  if (type != GgufType::string) return std::nullopt;
  return text(data);
}

std::optional<std::vector<std::string>> GgufValue::as_strings() const {
  if (type != GgufType::array || element != GgufType::string) return std::nullopt;
  std::vector<std::string> strings;
  strings.reserve(count);
  size_t at = 0;  // lengths were checked when the file was parsed
  for (uint64_t i = 0; i < count; ++i) {
    const auto length = load<uint64_t>(data.data() + at);
    strings.emplace_back(text(data.subspan(at + 8, length)));
    at += 8 + length;
  }
  return strings;
}

uint64_t GgufValue::strings_memory() const {
  if (type != GgufType::array || element != GgufType::string) return 0;
  constexpr uint64_t kInside = 15;      // characters that a string keeps within itself
  constexpr uint64_t kAllocation = 24;  // the heap's overhead of a block, about
  uint64_t memory = count * sizeof(std::string);
  for (size_t at = 0; at < data.size();) {
    const auto length = load<uint64_t>(data.data() + at);
    if (length > kInside) memory += length + kAllocation;
    at += 8 + length;
  }
  return memory;
}

std::optional<std::vector<int64_t>> GgufValue::as_integers() const {
  if (type != GgufType::array) return std::nullopt;
  const uint64_t bytes = kTypeBytes[static_cast<size_t>(element)];
  std::vector<int64_t> integers;
  integers.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    const auto value = bytes == 0 ? std::nullopt : integer_at(element, data.data() + i * bytes);
    if (!value) return std::nullopt;
    integers.push_back(*value);
  }
  return integers;
}

const GgufTensor* GgufFile::tensor(std::string_view name) const {
  const auto found = std::ranges::find(tensors_, name, &GgufTensor::name);
  return found == tensors_.end() ? nullptr : &*found;
}

const GgufValue* GgufFile::find(std::string_view key) const {
  const auto found = std::ranges::find(values_, key, &GgufValue::key);
  return found == values_.end() ? nullptr : &*found;
}

// Walks the bytes once. Every read names its target, so that a cut file says where.
class GgufParser {
 public:
  GgufParser(std::span<const std::byte> bytes, std::string_view name) : bytes_(bytes), name_(name) {}

  Result<GgufFile> parse() {
    uint64_t tensor_count = 0, key_count = 0;
    LLADA_TRY_STATUS(header(tensor_count, key_count));
    file_.values_.reserve(key_count);
    for (uint64_t i = 0; i < key_count; ++i) LLADA_TRY_STATUS(value(i));
    LLADA_TRY_STATUS(unique(file_.values_, &GgufValue::key, "metadata key"));
    LLADA_TRY_STATUS(alignment());
    LLADA_TRY_STATUS(tensors(tensor_count));
    LLADA_TRY_STATUS(unique(file_.tensors_, &GgufTensor::name, "tensor"));
    return std::move(file_);
  }

 private:
  uint64_t left() const { return bytes_.size() - at_; }

  template <class T>
  Result<T> number(std::string_view what) {
    if (left() < sizeof(T))
      return invalid("{}: the file ends inside {} (byte {}, {} needed, {} left)", name_, what, at_, sizeof(T), left());
    const T value = load<T>(bytes_.data() + at_);
    at_ += sizeof(T);
    return value;
  }

  Result<std::string_view> string(std::string_view what, uint64_t limit) {
    LLADA_TRY(const auto length, number<uint64_t>(what));
    if (length > limit || length > left())
      return invalid("{}: {} at byte {} is {} bytes long, at most {} fit", name_, what, at_ - 8, length,
                     std::min(limit, left()));
    const auto view = text(bytes_.subspan(at_, length));
    at_ += length;
    return view;
  }

  Status header(uint64_t& tensor_count, uint64_t& key_count) {
    if (bytes_.empty()) return invalid("{}: is empty, a GGUF file needed", name_);
    if (bytes_.size() < 4 || text(bytes_.first(4)) != "GGUF")
      return invalid("{}: not a GGUF file: it begins with \"{}\"", name_,
                     printable(text(bytes_.first(std::min<size_t>(4, bytes_.size())))));
    at_ = 4;
    LLADA_TRY(file_.version_, number<uint32_t>("the version"));
    if ((file_.version_ & 0xffffu) == 0 && file_.version_ != 0)
      return invalid("{}: big-endian GGUF (version field {:#010x}), little-endian needed", name_, file_.version_);
    if (file_.version_ != 2 && file_.version_ != 3)
      return invalid("{}: GGUF version {}, 2 or 3 needed", name_, file_.version_);
    LLADA_TRY(tensor_count, number<uint64_t>("the tensor count"));
    LLADA_TRY(key_count, number<uint64_t>("the metadata count"));
    if (tensor_count > kGgufMaxTensors || tensor_count > left() / kGgufMinTensorEntry)
      return invalid("{}: tensor count {}, at most {} fit", name_, tensor_count,
                     std::min(kGgufMaxTensors, left() / kGgufMinTensorEntry));
    if (key_count > kMaxKeys || key_count > left() / kMinKeyEntry)
      return invalid("{}: metadata count {}, at most {} fit", name_, key_count,
                     std::min(kMaxKeys, left() / kMinKeyEntry));
    return {};
  }

  Result<GgufType> type(std::string_view key) {
    LLADA_TRY(const auto number_of_type, number<uint32_t>("a metadata type"));
    if (number_of_type >= kTypeNames.size())
      return invalid("{}: metadata key {}: type {}, 0 to 12 needed", name_, printable(key), number_of_type);
    return static_cast<GgufType>(number_of_type);
  }

  Status value(uint64_t index) {
    LLADA_TRY(const auto key, string(fmt::format("metadata key {}", index), kMaxKeyBytes));
    if (key.empty()) return invalid("{}: metadata key {} is empty", name_, index);
    GgufValue value{.key = key, .data = {}};
    LLADA_TRY(value.type, type(key));
    value.element = value.type;
    if (value.type == GgufType::string) {
      LLADA_TRY(const auto content, string(fmt::format("metadata value of {}", printable(key)), left()));
      value.data = std::as_bytes(std::span(content));
    } else {
      if (value.type == GgufType::array) LLADA_TRY_STATUS(array(value));
      const size_t begin = at_;
      if (value.element == GgufType::string) {
        for (uint64_t i = 0; i < value.count; ++i) LLADA_TRY_STATUS(string_element(value, i));
      } else {
        const uint64_t bytes = kTypeBytes[static_cast<size_t>(value.element)];
        if (value.count > left() / bytes)
          return invalid("{}: metadata value of {}: {} x {} at byte {}, {} bytes left", name_, printable(key),
                         value.count, gguf_type_name(value.element), at_, left());
        at_ += value.count * bytes;
      }
      value.data = bytes_.subspan(begin, at_ - begin);
    }
    file_.values_.push_back(value);
    return {};
  }

  Status array(GgufValue& value) {
    LLADA_TRY(value.element, type(value.key));
    if (value.element == GgufType::array)
      return invalid("{}: metadata key {}: array of arrays, not supported", name_, printable(value.key));
    LLADA_TRY(value.count, number<uint64_t>("an array length"));
    if (value.element == GgufType::string && value.count > kMaxStrings)  // each of which is looked at
      return invalid("{}: metadata value of {}: {} strings, at most {} needed", name_, printable(value.key),
                     value.count, kMaxStrings);
    return {};
  }

  Status string_element(const GgufValue& value, uint64_t index) {
    uint64_t length = 0;
    if (left() >= 8) length = load<uint64_t>(bytes_.data() + at_);
    if (left() < 8 || length > left() - 8)
      return invalid("{}: metadata value of {}: string {} of {} at byte {} does not fit in the file ({} bytes left)",
                     name_, printable(value.key), index, value.count, at_, left());
    at_ += 8 + length;
    return {};
  }

  Status alignment() {
    const GgufValue* value = file_.find("general.alignment");
    if (value == nullptr) return {};
    const auto number_given = value->as_integer();
    if (!number_given || *number_given < 8 || static_cast<uint64_t>(*number_given) > kMaxAlignment ||
        !std::has_single_bit(static_cast<uint64_t>(*number_given)))
      return invalid("{}: general.alignment is {}, a power of two from 8 to {} needed", name_,
                     number_given ? fmt::to_string(*number_given) : fmt::format("a {}", gguf_type_name(value->type)),
                     kMaxAlignment);
    file_.alignment_ = static_cast<uint64_t>(*number_given);
    return {};
  }

  Status tensors(uint64_t count) {
    if (count > left() / kGgufMinTensorEntry)
      return invalid("{}: tensor count {}, at most {} fit in the {} bytes left", name_, count,
                     left() / kGgufMinTensorEntry, left());
    file_.tensors_.reserve(count);
    for (uint64_t i = 0; i < count; ++i) LLADA_TRY_STATUS(tensor_info(i));
    // at_ and alignment_ are both far below 2^63, so rounding up cannot overflow.
    const uint64_t data = (at_ + file_.alignment_ - 1) / file_.alignment_ * file_.alignment_;
    uint64_t end = 0;  // of the previous tensor, from `data`
    for (GgufTensor& tensor : file_.tensors_) {
      const auto size = static_cast<uint64_t>(tensor.view.bytes());
      if (tensor.offset % file_.alignment_ != 0)
        return invalid("{}: tensor {}: offset {}, a multiple of {} needed", name_, printable(tensor.name),
                       tensor.offset, file_.alignment_);
      if (tensor.offset < end)
        return invalid("{}: tensor {}: offset {} lies before the end of the previous tensor ({})", name_,
                       printable(tensor.name), tensor.offset, end);
      const uint64_t room = bytes_.size() > data ? bytes_.size() - data : 0;
      if (tensor.offset > room || size > room - tensor.offset)
        return invalid("{}: tensor {}: {} bytes at offset {} of the data, which has {} bytes: the file is cut", name_,
                       printable(tensor.name), size, tensor.offset, room);
      end = tensor.offset + size;
      tensor.offset += data;
      tensor.view.data = bytes_.data() + tensor.offset;
    }
    return {};
  }

  Status tensor_info(uint64_t index) {
    GgufTensor tensor;
    LLADA_TRY(tensor.name, string(fmt::format("name of tensor {}", index), kGgufMaxNameBytes));
    if (tensor.name.empty()) return invalid("{}: tensor {} has no name", name_, index);
    LLADA_TRY(const auto rank, number<uint32_t>("a tensor's rank"));
    if (rank < 1 || rank > 4)
      return invalid("{}: tensor {}: rank {}, 1 to 4 needed", name_, printable(tensor.name), rank);
    tensor.view.shape.rank = static_cast<int>(rank);
    uint64_t elements = 1;
    for (uint32_t i = 0; i < rank; ++i) {
      LLADA_TRY(const auto dim, number<uint64_t>("a tensor's shape"));
      if (dim == 0 || dim > kMaxElements / elements)
        return invalid("{}: tensor {}: dimension {} is {}, 1 to {} needed", name_, printable(tensor.name), i, dim,
                       kMaxElements / elements);
      elements *= dim;
      tensor.view.shape.dims[i] = static_cast<int64_t>(dim);
    }
    LLADA_TRY(const auto type_number, number<uint32_t>("a tensor's type"));
    const auto dtype = dtype_from_ggml(type_number);
    if (!dtype) {
      const std::string_view known = ggml_type_name(type_number);
      return invalid("{}: tensor {}: type {}, needed one of {}", name_, printable(tensor.name),
                     known.empty() ? fmt::format("number {}", type_number) : std::string(known), supported_types());
    }
    tensor.view.type = *dtype;
    if (tensor.view.shape.columns() % traits(*dtype).elements != 0)
      return invalid("{}: tensor {}: rows of {} values in type {}, a multiple of {} needed", name_,
                     printable(tensor.name), tensor.view.shape.columns(), traits(*dtype).name, traits(*dtype).elements);
    LLADA_TRY(tensor.offset, number<uint64_t>("a tensor's offset"));
    file_.tensors_.push_back(tensor);
    return {};
  }

  template <class Record>
  Status unique(const std::vector<Record>& records, std::string_view Record::*name, std::string_view what) {
    std::vector<uint32_t> order(records.size());
    std::iota(order.begin(), order.end(), 0u);
    const auto name_of = [&](uint32_t i) { return records[i].*name; };
    std::ranges::sort(order, {}, name_of);
    const auto twice = std::ranges::adjacent_find(order, {}, name_of);
    if (twice == order.end()) return {};
    return invalid("{}: {} {} appears twice", name_, what, printable(name_of(*twice)));
  }

  std::span<const std::byte> bytes_;
  std::string_view name_;
  size_t at_ = 0;
  GgufFile file_;
};

Result<GgufFile> GgufFile::parse(std::span<const std::byte> bytes, std::string_view name) {
  return GgufParser(bytes, name).parse();
}

}  // namespace llada
