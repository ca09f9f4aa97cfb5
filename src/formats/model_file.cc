#include "formats/model_file.h"

#include <algorithm>
#include <filesystem>
#include <functional>

#include "formats/gguf.h"
#include "formats/gguf_model.h"
#include "formats/hf_config.h"
#include "formats/not_a_model.h"
#include "formats/printable.h"
#include "formats/safetensors.h"

namespace llada {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxConfigBytes = size_t{1} << 20;
constexpr size_t kMaxIndexBytes = size_t{64} << 20;

bool is_folder(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

bool exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::string last_part(const std::string& path) {
  std::error_code failure;
  const fs::path absolute = fs::weakly_canonical(path, failure);
  return failure ? path : absolute.filename().string();
}

}  // namespace

Result<ModelFile> ModelFile::open(const std::string& path) {
  LLADA_TRY_STATUS(check_is_path(path));
  if (is_folder(path)) return open_folder(path, path);
  if (path.ends_with(".safetensors")) {
    const std::string parent = fs::path(path).parent_path().string();
    return open_folder(path, parent.empty() ? "." : parent);
  }
  return open_gguf(path);
}

Result<ModelFile> ModelFile::open_gguf(const std::string& path) {
  ModelFile model;
  model.path_ = path;
  LLADA_TRY(auto file, MappedFile::open(path));
  LLADA_TRY_STATUS(check_is_no_pointer(file.bytes(), path));
  LLADA_TRY(const auto gguf, GgufFile::parse(file.bytes(), path));
  LLADA_TRY(model.record_, read_gguf_model(gguf, file.bytes().size(), path));
  if (model.record_.config.name.empty()) model.record_.config.name = fs::path(path).stem().string();
  model.files_.push_back(std::move(file));
  return model;
}

Result<ModelConfig> read_folder_config(const std::string& folder) {
  const std::string config_path = folder + "/config.json", generation_path = folder + "/generation_config.json";
  LLADA_TRY(const auto config_text, read_file(config_path, kMaxConfigBytes));
  std::string generation_text;
  if (exists(generation_path)) {
    LLADA_TRY(generation_text, read_file(generation_path, kMaxConfigBytes));
  }
  LLADA_TRY(auto config, read_hf_config(config_text, generation_text, config_path));
  config.name = last_part(folder);
  return config;
}

Result<ModelFile> ModelFile::open_folder(const std::string& path, const std::string& folder) {
  ModelFile model;
  model.path_ = path;
  model.folder_ = folder;
  if (path == folder) LLADA_TRY_STATUS(check_is_model_folder(folder));
  LLADA_TRY(const auto config, read_folder_config(folder));

  std::vector<std::string> names = {"model.safetensors"};
  if (path != folder) {
    names = {fs::path(path).filename().string()};
  } else if (const std::string index = folder + "/model.safetensors.index.json"; exists(index)) {
    LLADA_TRY(const auto text, read_file(index, kMaxIndexBytes));
    LLADA_TRY(names, parse_safetensors_index(text, index));
  }
  std::vector<NamedBytes> shards;
  for (const std::string& name : names) {
    LLADA_TRY(auto file, MappedFile::open(folder + "/" + name));
    LLADA_TRY_STATUS(check_is_no_pointer(file.bytes(), file.path()));
    shards.push_back({file.bytes(), file.path()});
    model.files_.push_back(std::move(file));
  }
  LLADA_TRY(model.record_, read_hf_model(config, shards, path));
  return model;
}

ModelFile ModelFile::in_memory(std::string name, ModelRecord record) {
  ModelFile model;
  model.path_ = std::move(name);
  model.record_ = std::move(record);
  return model;
}

const TensorView* ModelFile::find(std::string_view name) const {
  const ModelTensor* tensor = record_.find(name);
  return tensor == nullptr ? nullptr : &tensor->view;
}

Result<TensorView> ModelFile::get(std::string_view name, std::initializer_list<int64_t> dims) const {
  Shape needed;
  needed.rank = static_cast<int>(dims.size());
  std::ranges::copy(dims, needed.dims.begin());
  const auto text = [](const Shape& shape) {
    return fmt::format("{}", fmt::join(shape.dims.begin(), shape.dims.begin() + shape.rank, "x"));
  };
  const ModelTensor* tensor = record_.find(name);
  if (tensor == nullptr) return invalid("{}: tensor {} is missing, {} needed", path_, printable(name), text(needed));
  if (tensor->view.shape != needed)
    return invalid("{}: tensor {} is {}, {} needed", path_, printable(tensor->file_name), text(tensor->view.shape),
                   text(needed));
  return tensor->view;
}

Result<TensorView> ModelFile::get_expert(std::string_view stack, int64_t in, int64_t out, int64_t expert,
                                         int64_t count) const {
  if (record_.find(stack) == nullptr)
    return get(fmt::format("{}.{}.weight", stack.substr(0, stack.rfind('.')), expert), {in, out});
  LLADA_TRY(TensorView view, get(stack, {in, out, count}));
  view.shape = {{in, out, 1, 1}, 2};
  view.data += expert * view.bytes();
  return view;
}

Status ModelFile::check_unchanged() const {
  for (const MappedFile& file : files_) LLADA_TRY_STATUS(file.check_unchanged());
  return {};
}

uint64_t ModelFile::file_bytes() const {
  uint64_t sum = 0;
  for (const MappedFile& file : files_) sum += file.bytes().size();
  return sum;
}

std::pair<const MappedFile*, size_t> ModelFile::place_of(const TensorView& view) const {
  for (const MappedFile& file : files_) {
    const auto bytes = file.bytes();
    // std::less orders pointers into different mappings too.
    if (std::less<>()(view.data, bytes.data()) || !std::less<>()(view.data, bytes.data() + bytes.size())) continue;
    return {&file, static_cast<size_t>(view.data - bytes.data())};
  }
  return {nullptr, 0};
}

void ModelFile::drop_pages(const TensorView& view) const {
  const auto [file, begin] = place_of(view);
  if (file != nullptr) file->drop(begin, static_cast<size_t>(view.bytes()));
}

void ModelFile::will_read(const TensorView& view, int64_t offset, int64_t bytes) const {
  const auto [file, begin] = place_of(view);
  if (file != nullptr) file->will_read(begin + static_cast<size_t>(offset), static_cast<size_t>(bytes));
}

}  // namespace llada
