#include "formats/model_file.h"

#include <algorithm>
#include <filesystem>
#include <functional>

#include "formats/family.h"
#include "formats/gguf.h"
#include "formats/gguf_model.h"
#include "formats/gguf_parts.h"
#include "formats/hf_config.h"
#include "formats/made_weights.h"
#include "formats/part_name.h"
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

// ---- Mistakes that everybody makes once, and their remedies
bool has_end(std::string_view name, std::initializer_list<std::string_view> ends) {
  return std::ranges::any_of(ends, [&](std::string_view end) { return name.ends_with(end); });
}

// The pieces of `whole`, a file that was cut, in any order.
std::vector<std::string> cut_parts(const std::string& whole) {
  std::vector<std::string> parts;
  const fs::path folder = fs::path(whole).parent_path();
  std::error_code failure;
  for (fs::directory_iterator it(folder.empty() ? "." : folder, failure), end; !failure && it != end;
       it.increment(failure)) {
    const std::string name = (folder / it->path().filename()).string();
    if (cut_name(name).whole == whole) parts.push_back(name);
  }
  std::ranges::sort(parts);
  return parts;
}

// A part of a file that was cut, or such a file that is there in parts alone. `cat` puts together as well as any copy
// of these bytes here would, and a file in one piece can be mapped.
Status check_is_whole(const std::string& path) {
  constexpr size_t kNamed = 16;
  const CutName cut = cut_name(path);
  const std::string whole = cut.whole.empty() ? path : cut.whole;
  if (path.empty() || (cut.whole.empty() && exists(path))) return {};
  const std::vector<std::string> there = cut_parts(whole);
  if (there.empty()) return {};
  // model.gguf.1 alone may be a whole file, downloaded a second time.
  if (cut.count == 0 && there == std::vector{path}) return {};
  const std::string found =
      cut.whole.empty() ? "found in parts alone, which are no model" : "a part of a file that was cut";
  const auto quoted = [](const std::string& text) {
    const bool plain = text.find_first_of(" '\"\\$`&|;<>()*?") == std::string::npos;
    if (plain) return printable(text, 500);
    std::string inside = printable(text, 500);
    for (size_t at = 0; (at = inside.find('\'', at)) != std::string::npos; at += 4) inside.replace(at, 1, "'\\''");
    return fmt::format("'{}'", inside);
  };
  if (exists(whole)) return invalid("{}: {}; needed the whole file: {}", printable(path, 500), found, quoted(whole));
  const auto ordered = pieces_of_cut(there, path);
  if (!ordered) return invalid("{}: {}; {}", printable(path, 500), found, ordered.error().message);
  const std::vector<std::string>& parts = *ordered;
  std::string all;
  for (size_t i = 0; i < parts.size() && i < kNamed; ++i) all += " " + quoted(parts[i]);
  if (parts.size() > kNamed) all += " ...";
  return invalid("{}: {}; needed in one piece: cat{} > {}", printable(path, 500), found, all, quoted(whole));
}

// A path that is not there: an address, a repository's name, or nothing known (then success).
Status check_is_path(const std::string& path) {
  LLADA_TRY_STATUS(check_is_whole(path));
  if (exists(path)) return {};
  if (path.empty()) return invalid("'' is no path: needed a file or a folder");
  if (path.contains("://"))
    return invalid("{}: an address, needed a file or a folder; llada pull OWNER/NAME downloads a repository",
                   printable(path, 200));
  const auto slashes = std::ranges::count(path, '/');
  const bool named = slashes == 1 && !path.starts_with('/') && !path.starts_with('.') && !path.starts_with('~') &&
                     !path.ends_with('/') && !has_end(path, {".gguf", ".safetensors", ".json", ".bin"});
  // "models/mine" is more likely a path where the folder is there.
  if (named && !exists(path.substr(0, path.find('/'))))
    return invalid("{}: no such file or folder; a repository of Hugging Face is taken by -hf {}", printable(path),
                   printable(path));
  return {};
}

// A pointer that Git LFS leaves where the file itself was not fetched.
Status check_is_no_pointer(std::span<const std::byte> bytes, const std::string& path) {
  constexpr std::string_view kPointer = "version https://git-lfs.github.com/spec/";
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), std::min(bytes.size(), kPointer.size()));
  if (text != kPointer || bytes.size() > 1024) return {};
  return invalid(
      "{}: a Git LFS pointer of {} bytes, not the file: run `git lfs pull` in that clone, or llada pull OWNER/NAME",
      path, bytes.size());
}

// A folder without config.json, or without safetensors: says what it has instead; or with a link to nowhere, which
// would pass for a file that nobody needs. Success where both are there.
Status check_is_model_folder(const std::string& folder) {
  std::vector<std::string> gguf;
  bool safetensors = false, pickle = false;
  std::error_code failure;
  for (fs::directory_iterator it(folder, failure), end; !failure && it != end; it.increment(failure)) {
    const std::string name = it->path().filename().string();
    if (has_end(name, {".gguf"})) gguf.push_back(name);
    safetensors |= has_end(name, {".safetensors", ".safetensors.index.json"});
    pickle |= has_end(name, {".bin", ".pt", ".pth"});
    std::error_code none;
    if (it->is_symlink(none) && !it->exists(none) && has_end(name, {".json", ".txt", ".jinja", ".safetensors"}))
      return invalid("{}/{}: a link to {}, which is not there", folder, printable(name),
                     printable(fs::read_symlink(it->path(), none).string(), 500));
  }
  if (failure) return {};  // opening its files says more
  if (exists(folder + "/config.json") && safetensors) return {};
  if (!gguf.empty()) {
    std::ranges::sort(gguf);
    return invalid("{}: a folder with GGUF files; name the file: {}/{}{}", folder, folder, printable(gguf.front()),
                   gguf.size() > 1 ? fmt::format(" ({} in all)", gguf.size()) : "");
  }
  if (!safetensors && pickle)
    return invalid(
        "{}: its weights are Python pickles (*.bin, *.pt), which are programs and are not run; needed "
        "*.safetensors or GGUF: most publishers have the same model in one of them",
        folder);
  if (safetensors) return invalid("{}: has safetensors and no config.json, which says what model they are", folder);
  if (exists(folder + "/config.json"))
    return invalid("{}: has config.json and no *.safetensors: the weights were not downloaded", folder);
  return invalid("{}: a folder without config.json and *.safetensors, so it is no model", folder);
}

// Reads the configuration of a folder that holds a model; a pipe would never end.
Result<std::string> read_config(const std::string& path) {
  LLADA_TRY(const auto file, MappedFile::open(path));
  const auto bytes = file.bytes();
  if (bytes.size() > kMaxConfigBytes)
    return invalid("{}: {} bytes, at most {} needed", path, bytes.size(), kMaxConfigBytes);
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Result<std::vector<std::string>> read_index(const std::string& path) {
  LLADA_TRY(const auto file, MappedFile::open(path));
  const auto bytes = file.bytes();
  if (bytes.size() > kMaxIndexBytes)
    return invalid("{}: {} bytes, at most {} needed", path, bytes.size(), kMaxIndexBytes);
  return parse_safetensors_index({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);
}

struct WeightFiles {
  std::vector<std::string> names;
  std::vector<std::string> notes, remarks;  // as in ModelConfig
};

// A folder's weight files. As transformers has it, model.safetensors comes before model.safetensors.index.json, which
// stays behind where a model is saved again in one file.
Result<WeightFiles> weight_files(const std::string& folder) {
  const std::string single = "model.safetensors", index = folder + "/model.safetensors.index.json";
  if (!exists(folder + "/" + single) && exists(index)) {
    LLADA_TRY(auto names, read_index(index));
    return WeightFiles{.names = std::move(names), .notes = {}, .remarks = {}};
  }
  WeightFiles files{.names = {single}, .notes = {}, .remarks = {}};
  if (!exists(index)) return files;
  const auto names = read_index(index);
  if (names && *names == files.names) return files;
  if (names && std::ranges::all_of(*names, [&](const std::string& name) { return exists(folder + "/" + name); }))
    files.notes.push_back(
        "model.safetensors is read, as transformers does, and not the files of model.safetensors.index.json, which are "
        "there too");
  else
    files.remarks.push_back(fmt::format("model.safetensors is read; model.safetensors.index.json {}",
                                        names ? "names files that are not there" : "is damaged"));
  return files;
}

}  // namespace

std::string model_name(const std::string& path) {
  if (path.ends_with(".gguf"))
    return fs::path(part_name(path).count > 1 ? part_name(path).whole() : path).stem().string();
  std::error_code failure;
  fs::path absolute = fs::absolute(path, failure).lexically_normal();
  if (failure) return path;
  if (!absolute.has_filename()) absolute = absolute.parent_path();
  const fs::path above = absolute.parent_path();
  const std::string repository = above.parent_path().filename().string();
  if (above.filename() != "snapshots" || !repository.starts_with("models--")) return absolute.filename().string();
  const size_t owner_end = repository.find("--", std::string_view("models--").size());
  return owner_end == std::string::npos ? repository.substr(8) : repository.substr(owner_end + 2);
}

static constexpr std::string_view kBlockNote = "attention is block-causal";

Status override_config(ModelConfig& c, const Overrides& overrides, const std::string& path) {
  const bool any = overrides.mask_id >= 0 || overrides.attention_block >= 0 || overrides.shift_logits;
  if (any && c.canvas.length > 0)
    return invalid(
        "{}: mask id, attention block and shift: found one given, needed none: {} decodes canvases of random "
        "tokens",
        path, c.family->name);
  if (overrides.attention_block >= 0)
    std::erase_if(c.notes, [](const std::string& note) { return note.starts_with(kBlockNote); });
  if (overrides.mask_id >= 0) c.mask_id = overrides.mask_id;
  if (overrides.attention_block >= 0) c.attention_block = overrides.attention_block;
  c.shift_logits = overrides.shift_logits.value_or(c.shift_logits);
  return check_config(c, path);
}

Result<ModelFile> ModelFile::open(const std::string& path, const Overrides& overrides) {
  LLADA_TRY_STATUS(check_is_path(path));
  LLADA_TRY(auto model, open_any(path));
  LLADA_TRY_STATUS(override_config(model.record_.config, overrides, path));
  return model;
}

Result<ModelFile> ModelFile::open_any(const std::string& path) {
  if (is_folder(path)) return open_folder(path, path);
  if (path.ends_with(".safetensors")) {
    const std::string parent = fs::path(path).parent_path().string();
    return open_folder(path, parent.empty() ? "." : parent);
  }
  return open_gguf(path);
}

Status ModelFile::map(const std::string& path) {
  LLADA_TRY(auto file, MappedFile::open(path));
  LLADA_TRY_STATUS(check_is_no_pointer(file.bytes(), path));
  files_.push_back(std::move(file));
  return {};
}

Result<ModelFile> ModelFile::open_gguf(const std::string& path) {
  ModelFile model;
  model.path_ = path;
  LLADA_TRY_STATUS(model.map(path));
  LLADA_TRY(auto gguf, GgufFile::parse(model.files_[0].bytes(), path));
  LLADA_TRY(const auto others, other_gguf_parts(gguf, path));
  if (!others.empty()) {
    std::vector<NamedBytes> parts;
    for (const std::string& other : others) {
      if (!exists(other))
        return invalid("{}: missing; {} is part 1 of {} of a model, and all are needed", other, path,
                       others.size() + 1);
      LLADA_TRY_STATUS(model.map(other));
      parts.push_back({model.files_.back().bytes(), other});
    }
    LLADA_TRY(gguf, join_gguf_parts(std::move(gguf), path, parts));
  }
  LLADA_TRY(model.record_, read_gguf_model(gguf, model.file_bytes(), path));
  if (std::string& name = model.record_.config.name; name.empty()) name = model_name(path);
  return model;
}

Result<ModelConfig> read_folder_config(const std::string& folder) {
  const std::string config_path = folder + "/config.json", generation_path = folder + "/generation_config.json";
  LLADA_TRY(const auto config_text, read_config(config_path));
  if (config_text.empty()) return invalid("{}: is empty, a JSON object needed", config_path);
  std::string generation_text;
  if (exists(generation_path)) {
    LLADA_TRY(generation_text, read_config(generation_path));
  }
  std::string quant_text;
  if (const std::string path = folder + "/hf_quant_config.json"; exists(path)) {
    LLADA_TRY(quant_text, read_config(path));
  }
  LLADA_TRY(auto config, read_hf_config(config_text, generation_text, config_path, quant_text));
  config.name = model_name(folder);
  if (exists(folder + "/linear_spec_lora"))
    config.remarks.push_back("the adapter in linear_spec_lora is not read: drafts are the model's own");
  if (const Family& f = *config.family; !f.block_word.empty() && config.name.contains(f.block_word)) {
    config.attention_block = f.named_block;
    config.notes.push_back(
        fmt::format("{} over blocks of {} because the name has {} in it: no file says so; "
                    "attention_block 0 is full attention",
                    kBlockNote, f.named_block, f.block_word));
  }
  return config;
}

Result<ModelFile> ModelFile::open_folder(const std::string& path, const std::string& folder) {
  ModelFile model;
  model.path_ = path;
  model.folder_ = folder;
  if (path == folder) LLADA_TRY_STATUS(check_is_model_folder(folder));
  LLADA_TRY(auto config, read_folder_config(folder));

  WeightFiles weights{.names = {fs::path(path).filename().string()}, .notes = {}, .remarks = {}};
  if (path == folder) {
    LLADA_TRY(weights, weight_files(folder));
  } else if (const PartName part = part_name(path); part.count > 1) {
    return invalid("{}: part {} of {} of a model; needed the folder: {}", path, part.number, part.count, folder);
  }
  std::ranges::move(weights.notes, std::back_inserter(config.notes));
  std::ranges::move(weights.remarks, std::back_inserter(config.remarks));
  std::vector<NamedBytes> shards;
  for (const std::string& name : weights.names) {
    LLADA_TRY_STATUS(model.map(fmt::format("{}/{}", folder, name)));
    shards.push_back({model.files_.back().bytes(), model.files_.back().path()});
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

Status ModelFile::make(const TensorView& view, ThreadPool* pool) const {
  if (record_.made == nullptr || !record_.made->holds(view)) return {};
  LLADA_TRY_STATUS(record_.made->make(view, pool));
  if (record_.made->has_own_codes(view)) {
    const auto codes = record_.made->stored(view);
    const auto [file, begin] = place_of({codes.data(), view.type, view.shape});
    if (file != nullptr) file->drop(begin, codes.size());
  }
  return {};
}

std::span<const std::byte> ModelFile::stored(const TensorView& view) const {
  if (record_.made != nullptr && record_.made->holds(view)) return record_.made->stored(view);
  return {view.data, static_cast<size_t>(view.bytes())};
}

void ModelFile::keep_made() const {
  if (record_.made != nullptr) record_.made->keep();
}

void ModelFile::drop_pages(const TensorView& view) const {
  if (record_.made != nullptr && record_.made->holds(view)) return record_.made->forget(view);
  const auto [file, begin] = place_of(view);
  if (file != nullptr) file->drop(begin, static_cast<size_t>(view.bytes()));
}

void ModelFile::will_read(const TensorView& view, int64_t offset, int64_t bytes) const {
  const auto [file, begin] = place_of(view);
  if (file != nullptr) file->will_read(begin + static_cast<size_t>(offset), static_cast<size_t>(bytes));
}

}  // namespace llada
