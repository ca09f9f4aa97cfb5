#include "formats/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <optional>
#include <set>

#include "formats/printable.h"
#include "json/parse.h"

namespace llada {
namespace {

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the reference reader's limit
constexpr size_t kMaxTensors = size_t{1} << 18;
constexpr size_t kMaxNameBytes = 1024;
constexpr size_t kMaxFiles = 4096;
constexpr size_t kMaxValues = 4'000'000;  // bounds the time that a hostile header takes
// {"a":{"dtype":"I8","shape":[],"data_offsets":[0,1]}}, where there are many with longer names and offsets.
constexpr size_t kMinTensorEntry = 56;

// Types that are not computed, with their bytes.
struct RawType {
  std::string_view name;
  uint64_t bytes;
};
constexpr std::array<RawType, 13> kRawTypes = {{{"BOOL", 1},
                                                {"U8", 1},
                                                {"I8", 1},
                                                {"F8_E4M3", 1},
                                                {"F8_E5M2", 1},
                                                {"F8_E8M0", 1},
                                                {"U16", 2},
                                                {"I16", 2},
                                                {"U32", 4},
                                                {"I32", 4},
                                                {"U64", 8},
                                                {"I64", 8},
                                                {"F64", 8}}};

uint64_t element_bytes(const SafetensorsTensor& tensor) {
  if (tensor.raw.empty()) return static_cast<uint64_t>(traits(tensor.view.type).bytes);
  return std::ranges::find(kRawTypes, tensor.raw, &RawType::name)->bytes;
}

struct List {
  std::array<uint64_t, 4> values{};
  size_t count = 0;
};

// A header as events. The tree of a hostile header would be many times its size, so no tree is built.
class HeaderReader : public JsonEvents {
 public:
  HeaderReader(std::string_view name, std::string_view header, std::span<const std::byte> bytes)
      : name_(name), data_begin_(8 + header.size()), bytes_(bytes) {
    // As many as there are objects, but never more than could be written out: growth would double the memory.
    const auto objects = static_cast<size_t>(std::ranges::count(header, '{'));
    tensors.reserve(std::min({kMaxTensors, objects, header.size() / kMinTensorEntry + 1}));
  }

  std::vector<SafetensorsTensor> tensors;

  bool start_object(size_t) override {
    if (depth_ == 2 || list_ != nullptr) return fail("found an object, needed a value");
    ++depth_;
    return true;
  }
  bool end_object() override {
    --depth_;
    if (depth_ == 1 && !in_metadata_) return tensor_done();
    in_metadata_ = false;
    return true;
  }
  bool key(std::string& value) override {
    if (depth_ == 1) {
      name_of_tensor_ = value;
      in_metadata_ = value == "__metadata__";
      dtype_.clear();
      shape_.reset();
      offsets_.reset();
      if (value.empty() || value.size() > kMaxNameBytes) return fail("a name of 1 to 1024 bytes is needed");
    } else {
      field_ = value;
    }
    return true;
  }
  bool string(std::string& value) override {
    if (in_metadata_ && depth_ == 2) return true;
    if (depth_ != 2 || list_ != nullptr || field_ != "dtype" || !dtype_.empty()) return unexpected();
    if (value.empty() || value.size() > 16) return fail("dtype is not a type name");
    dtype_ = value;
    return true;
  }
  bool start_array(size_t) override {
    if (depth_ != 2 || in_metadata_ || list_ != nullptr) return unexpected();
    if (field_ == "shape" && !shape_) {
      list_ = &shape_.emplace();
    } else if (field_ == "data_offsets" && !offsets_) {
      list_ = &offsets_.emplace();
    } else {
      return unexpected();
    }
    return true;
  }
  bool end_array() override {
    list_ = nullptr;
    return true;
  }
  bool number_unsigned(uint64_t value) override {
    if (list_ == nullptr) return unexpected();
    if (list_->count == list_->values.size()) return fail("found more than 4 dimensions");
    list_->values[list_->count++] = value;
    return true;
  }
  bool number_integer(int64_t) override { return fail("a negative number"); }
  bool other() override { return unexpected(); }

 private:
  bool fail(std::string_view why) {
    status = invalid("{}: header entry {}: {}", name_, printable(name_of_tensor_), why);
    return false;
  }
  bool unexpected() {
    return fail(fmt::format("field {}: found a value of another type, or the field twice", printable(field_)));
  }

  bool tensor_done() {
    if (dtype_.empty() || !shape_ || !offsets_ || offsets_->count != 2)
      return fail("dtype, shape and two data_offsets needed");
    SafetensorsTensor tensor;
    tensor.name = name_of_tensor_;
    const uint64_t begin = offsets_->values[0], end = offsets_->values[1], room = bytes_.size() - data_begin_;
    if (begin > end || end > room)
      return fail(fmt::format("data_offsets {} to {}, the file has {} bytes of data{}", begin, end, room,
                              begin > end ? "" : ": it is cut"));
    if (dtype_ == "F32") {
      tensor.view.type = DType::F32;
    } else if (dtype_ == "F16") {
      tensor.view.type = DType::F16;
    } else if (dtype_ == "BF16") {
      tensor.view.type = DType::BF16;
    } else {
      const auto* const found = std::ranges::find(kRawTypes, dtype_, &RawType::name);
      if (found == kRawTypes.end()) return fail(fmt::format("dtype {}, F32, F16 or BF16 needed", printable(dtype_)));
      tensor.raw = found->name;
    }
    // No values: LLaDA2's class writes the matrices of an expert that is not there so. Where they are needed,
    // the tensor is missing.
    const std::span shape_values(shape_->values.data(), shape_->count);
    if (begin == end && std::ranges::find(shape_values, 0u) != shape_values.end()) return true;
    uint64_t elements = 1;
    Shape& shape = tensor.view.shape;
    shape.rank = std::max(1, static_cast<int>(shape_->count));
    for (size_t i = 0; i < shape_->count; ++i) {
      const uint64_t dim = shape_->values[i];
      if (dim == 0 || dim > bytes_.size() / elements)
        return fail(fmt::format("dimension {} is {}, 1 to {} needed", i, dim, bytes_.size() / elements));
      elements *= dim;
      shape.dims[shape_->count - 1 - i] = static_cast<int64_t>(dim);
    }
    const uint64_t needed = elements * element_bytes(tensor);
    if (end - begin != needed)
      return fail(fmt::format("{} bytes of data, {} needed for its shape", end - begin, needed));
    tensor.offset = data_begin_ + begin;
    tensor.view.data = bytes_.data() + tensor.offset;
    if (tensors.size() == kMaxTensors) return fail(fmt::format("more than {} tensors", kMaxTensors));
    tensors.push_back(std::move(tensor));
    return true;
  }

  std::string_view name_;
  uint64_t data_begin_;
  std::span<const std::byte> bytes_;
  int depth_ = 0;
  bool in_metadata_ = false;
  std::string name_of_tensor_, field_, dtype_;
  std::optional<List> shape_, offsets_;
  List* list_ = nullptr;
};

class IndexReader : public JsonEvents {
 public:
  explicit IndexReader(std::string_view name) : name_(name) {}

  std::set<std::string> files;
  bool has_map = false;

  bool start_object(size_t) override {
    ++depth_;
    in_map_ = depth_ == 2 && field_ == "weight_map";
    has_map |= in_map_;
    return true;
  }
  bool end_object() override {
    --depth_;
    in_map_ = false;
    return true;
  }
  bool key(std::string& value) override {
    (depth_ == 1 ? field_ : tensor_) = value;
    return true;
  }
  bool string(std::string& value) override {
    if (!in_map_) return true;
    if (value.empty() || value.size() > 255 || value.find('/') != std::string::npos ||
        value.find('\0') != std::string::npos || !value.ends_with(".safetensors"))
      return fail(fmt::format("found '{}', needed a .safetensors file of the same folder", printable(value)));
    if (files.insert(value).second && files.size() > kMaxFiles)
      return fail(fmt::format("found more than {} files", kMaxFiles));
    return true;
  }
  bool start_array(size_t) override { return other(); }
  bool end_array() override { return true; }
  bool other() override { return !in_map_ || fail("needed the name of a file"); }

 private:
  bool fail(std::string_view why) {
    status = invalid("{}: weight_map.{}: {}", name_, printable(tensor_), why);
    return false;
  }

  std::string_view name_;
  int depth_ = 0;
  bool in_map_ = false;
  std::string field_, tensor_;
};

}  // namespace

uint64_t SafetensorsTensor::bytes() const {
  return static_cast<uint64_t>(view.shape.elements()) * element_bytes(*this);
}

Result<SafetensorsFile> parse_safetensors(std::span<const std::byte> bytes, std::string_view name) {
  if (bytes.empty()) return invalid("{}: is empty, a safetensors file needed", name);
  if (bytes.size() < 8) return invalid("{}: {} bytes, too short for a safetensors file", name, bytes.size());
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), 8);
  if (header_bytes > kMaxHeaderBytes)
    return invalid("{}: header length {}, at most {} needed: no safetensors file", name, header_bytes, kMaxHeaderBytes);
  if (header_bytes > bytes.size() - 8)
    return invalid("{}: header length {}, the file has {} bytes behind it: it is cut, or no safetensors file", name,
                   header_bytes, bytes.size() - 8);
  const std::string_view header(reinterpret_cast<const char*>(bytes.data()) + 8, header_bytes);
  if (!header.starts_with('{')) return invalid("{}: the header is not a JSON object", name);
  HeaderReader reader(name, header, bytes);
  const std::string source = fmt::format("{}: header", name);
  LLADA_TRY_STATUS(read_json_events(header, source, {.depth = 8, .values = kMaxValues}, reader));
  auto& tensors = reader.tensors;
  std::ranges::sort(tensors, {}, &SafetensorsTensor::offset);
  for (size_t i = 1; i < tensors.size(); ++i)
    if (tensors[i].offset < tensors[i - 1].offset + tensors[i - 1].bytes())
      return invalid("{}: tensors {} and {} overlap", name, printable(tensors[i - 1].name), printable(tensors[i].name));
  std::vector<uint32_t> order(tensors.size());
  std::iota(order.begin(), order.end(), 0u);
  const auto name_of = [&](uint32_t i) -> std::string_view { return tensors[i].name; };
  std::ranges::sort(order, {}, name_of);
  if (const auto twice = std::ranges::adjacent_find(order, {}, name_of); twice != order.end())
    return invalid("{}: tensor {} appears twice", name, printable(name_of(*twice)));
  return SafetensorsFile{std::move(tensors)};
}

Result<std::vector<std::string>> parse_safetensors_index(std::string_view text, std::string_view name) {
  IndexReader reader(name);
  LLADA_TRY_STATUS(read_json_events(text, name, {.depth = 16, .values = kMaxValues}, reader));
  if (reader.files.empty())
    return invalid("{}: weight_map: {}; needed a file for each tensor", name,
                   reader.has_map ? "is empty" : "is missing");
  return std::vector<std::string>(reader.files.begin(), reader.files.end());
}

}  // namespace llada
