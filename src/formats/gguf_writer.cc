#include "formats/gguf_writer.h"

#include "base/check.h"

namespace llada {
namespace {

void put(std::string& out, const void* data, size_t size) { out.append(static_cast<const char*>(data), size); }
void put_u32(std::string& out, uint32_t value) { put(out, &value, sizeof value); }
void put_u64(std::string& out, uint64_t value) { put(out, &value, sizeof value); }
void put_string(std::string& out, std::string_view text) {
  put_u64(out, text.size());
  out += text;
}

}  // namespace

void GgufWriter::key_and_type(std::string_view key, GgufType type) {
  put_string(metadata_, key);
  put_u32(metadata_, static_cast<uint32_t>(type));
  ++keys_;
}

void GgufWriter::scalar(std::string_view key, GgufType type, const void* value, size_t size) {
  key_and_type(key, type);
  put(metadata_, value, size);
}

void GgufWriter::add_string(std::string_view key, std::string_view value) {
  key_and_type(key, GgufType::string);
  put_string(metadata_, value);
}

void GgufWriter::add_strings(std::string_view key, std::span<const std::string> values) {
  key_and_type(key, GgufType::array);
  put_u32(metadata_, static_cast<uint32_t>(GgufType::string));
  put_u64(metadata_, values.size());
  for (const std::string& value : values) put_string(metadata_, value);
}

void GgufWriter::add_i32s(std::string_view key, std::span<const int32_t> values) {
  key_and_type(key, GgufType::array);
  put_u32(metadata_, static_cast<uint32_t>(GgufType::i32));
  put_u64(metadata_, values.size());
  put(metadata_, values.data(), values.size_bytes());
}

void GgufWriter::add_bools(std::string_view key, const std::vector<bool>& values) {
  key_and_type(key, GgufType::array);
  put_u32(metadata_, static_cast<uint32_t>(GgufType::boolean));
  put_u64(metadata_, values.size());
  for (const bool one : values) metadata_ += one ? '\1' : '\0';
}

void GgufWriter::add_tensor(std::string_view name, DType type, const Shape& shape) {
  const auto bytes = static_cast<uint64_t>(TensorView{nullptr, type, shape}.bytes());
  tensors_.push_back({std::string(name), type, shape, data_bytes_, bytes});
  data_bytes_ += bytes + padding(bytes);
}

std::string GgufWriter::header() const {
  std::string out = "GGUF";
  put_u32(out, 3);
  put_u64(out, tensors_.size());
  put_u64(out, keys_);
  out += metadata_;
  for (const Info& tensor : tensors_) {
    put_string(out, tensor.name);
    put_u32(out, static_cast<uint32_t>(tensor.shape.rank));
    for (int i = 0; i < tensor.shape.rank; ++i)
      put_u64(out, static_cast<uint64_t>(tensor.shape.dims[static_cast<size_t>(i)]));
    put_u32(out, ggml_from_dtype(tensor.type));
    put_u64(out, tensor.offset);
  }
  out.append(padding(out.size()), '\0');
  return out;
}

Status GgufWriter::write(const std::string& path, const std::function<Status(size_t, AtomicFile&)>& fill,
                         const std::function<Status(const std::string&)>& check, size_t seen) const {
  LLADA_TRY(auto file, AtomicFile::create(path));
  const std::string head = header();
  const std::string zeros(alignment_, '\0');
  LLADA_TRY_STATUS(file.write(head.data(), head.size()));
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (check && i == seen) LLADA_TRY_STATUS(file.try_out(head.size() + data_bytes_, check));
    LLADA_CHECK(file.position() == head.size() + tensors_[i].offset);
    LLADA_TRY_STATUS(fill(i, file));
    LLADA_CHECK(file.position() == head.size() + tensors_[i].offset + tensors_[i].bytes);
    LLADA_TRY_STATUS(file.write(zeros.data(), padding(file.position())));
  }
  return file.commit();
}

}  // namespace llada
