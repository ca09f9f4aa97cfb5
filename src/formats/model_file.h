// A model on disk, whatever its format, as mapped tensors under canonical names (see model_record.h) with a
// configuration. Opening validates everything: names, types, shapes, offsets and sizes against the file and
// against the architecture. No weight byte is read or copied; pages come in when a tensor is used.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/threads.h"
#include "base/tokenizer_spec.h"
#include "formats/model_config.h"
#include "formats/model_record.h"
#include "tensor/view.h"

namespace llada {

// The name of a model that has none in its files: its folder, or its GGUF file without ending and number of a part. In
// the cache of Hugging Face's tools (models--OWNER--NAME/snapshots/COMMIT) it is the repository.
std::string model_name(const std::string& path);

// config.json and generation_config.json of a Hugging Face folder; its weights need not be there.
Result<ModelConfig> read_folder_config(const std::string& folder);

// Applies the overrides, and checks the configuration (check_config). `path` is for errors.
Status override_config(ModelConfig& config, const Overrides& overrides, const std::string& path);

class ModelFile {
 public:
  using Entry = ModelTensor;

  // A .gguf file (of a model in parts the first), a Hugging Face folder (config.json with model.safetensors or
  // its sharded form), or a .safetensors file inside such a folder.
  static Result<ModelFile> open(const std::string& path, const Overrides& overrides = {});

  // A model that no file holds: the record's views point into memory that the caller keeps. `name` stands
  // where errors name a path. The record is taken as it is.
  static ModelFile in_memory(std::string name, ModelRecord record);

  const std::string& path() const { return path_; }
  std::string_view format() const { return record_.format; }  // "gguf", "gguf (diffuse)", "safetensors"
  const ModelConfig& config() const { return record_.config; }

  const TensorView* find(std::string_view name) const;  // nullptr: no such tensor
  // The tensor with its shape checked; dims in storage order, {in, out}. The error names file, tensor, found,
  // needed.
  Result<TensorView> get(std::string_view name, std::initializer_list<int64_t> dims) const;
  // Matrix `expert` of a stack of `count` equal matrices {in, out}: "blk.0.ffn_up_exps.weight", stored whole
  // or as one tensor per expert ("blk.0.ffn_up_exps.5.weight").
  Result<TensorView> get_expert(std::string_view stack, int64_t in, int64_t out, int64_t expert, int64_t count) const;
  const std::vector<Entry>& tensors() const { return record_.tensors; }  // in file order

  // From GGUF metadata; nullopt for folders and for files without one.
  const std::optional<TokenizerSpec>& tokenizer() const { return record_.tokenizer; }
  const std::string& folder() const { return folder_; }  // Hugging Face: where tokenizer.json lies; empty for GGUF
  uint64_t file_bytes() const;                           // all weight files together
  const std::vector<MappedFile>& files() const { return files_; }
  Status check_unchanged() const;  // of all weight files: MappedFile::check_unchanged()

  // Makes a weight that other software has rounded, before its bytes are read; does nothing where the file has them as
  // they are. Any thread may call it. Invalid: damaged scales.
  Status make(const TensorView& view, ThreadPool* pool = nullptr) const;
  bool makes() const { return record_.made != nullptr; }  // whether there are such
  void keep_made() const;                                 // from now on drop_pages leaves them alone

  // A tensor's bytes as they are in the file: of one that is made, its codes.
  std::span<const std::byte> stored(const TensorView& view) const;

  // Tell the system that a tensor's pages are not needed soon; that a part of one will be read.
  void drop_pages(const TensorView& view) const;
  void will_read(const TensorView& view, int64_t offset, int64_t bytes) const;

 private:
  Status map(const std::string& path);
  static Result<ModelFile> open_any(const std::string& path);
  static Result<ModelFile> open_gguf(const std::string& path);
  // The file that holds the view and where it begins there; null where none does.
  std::pair<const MappedFile*, size_t> place_of(const TensorView& view) const;
  static Result<ModelFile> open_folder(const std::string& path, const std::string& folder);

  std::string path_, folder_;
  std::vector<MappedFile> files_;
  ModelRecord record_;
};

}  // namespace llada
