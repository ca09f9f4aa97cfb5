#include "formats/not_a_model.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <vector>

#include "formats/printable.h"

namespace llada {
namespace {

namespace fs = std::filesystem;

bool there(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

bool has_end(std::string_view name, std::initializer_list<std::string_view> ends) {
  return std::ranges::any_of(ends, [&](std::string_view end) { return name.ends_with(end); });
}

}  // namespace

Status check_is_path(const std::string& path) {
  if (there(path)) return {};
  if (path.empty()) return invalid("'' is no path: needed a file or a folder");
  if (path.contains("://"))
    return invalid("{}: an address, needed a file or a folder; llada pull OWNER/NAME downloads a repository",
                   printable(path, 200));
  const auto slashes = std::ranges::count(path, '/');
  const bool named = slashes == 1 && !path.starts_with('/') && !path.starts_with('.') && !path.starts_with('~') &&
                     !path.ends_with('/') && !has_end(path, {".gguf", ".safetensors", ".json", ".bin"});
  // "models/mine" is more likely a path where the folder is there.
  if (named && !there(path.substr(0, path.find('/'))))
    return invalid("{}: no such file or folder; a repository of Hugging Face is taken by -hf {}", printable(path),
                   printable(path));
  return {};
}

Status check_is_no_pointer(std::span<const std::byte> bytes, const std::string& path) {
  constexpr std::string_view kPointer = "version https://git-lfs.github.com/spec/";
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), std::min(bytes.size(), kPointer.size()));
  if (text != kPointer || bytes.size() > 1024) return {};
  return invalid(
      "{}: a Git LFS pointer of {} bytes, not the file: run `git lfs pull` in that clone, or llada pull OWNER/NAME",
      path, bytes.size());
}

Status check_is_model_folder(const std::string& folder) {
  std::vector<std::string> gguf;
  bool safetensors = false, pickle = false;
  std::error_code failure;
  for (fs::directory_iterator it(folder, failure), end; !failure && it != end; it.increment(failure)) {
    const std::string name = it->path().filename().string();
    if (has_end(name, {".gguf"})) gguf.push_back(name);
    safetensors |= has_end(name, {".safetensors", ".safetensors.index.json"});
    pickle |= has_end(name, {".bin", ".pt", ".pth"});
  }
  if (failure) return {};  // opening its files says more
  if (there(folder + "/config.json") && safetensors) return {};
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
  if (there(folder + "/config.json"))
    return invalid("{}: has config.json and no *.safetensors: the weights were not downloaded", folder);
  return invalid("{}: a folder without config.json and *.safetensors, so it is no model", folder);
}

}  // namespace llada
