#include "hub/listing.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "formats/part_name.h"
#include "formats/printable.h"
#include "hub/repository.h"
#include "json/fields.h"

namespace llada::hub {
namespace {

constexpr size_t kMaxFiles = 20'000;

int64_t size_of(const Fields& fields) {
  return fields.integer("size", 0, kMaxFileBytes, -1).value_or(-1);  // what is no size is none
}

std::string architecture_of(const Fields& root) {
  constexpr size_t kLongest = 64;
  const auto gguf = root.object("gguf");
  return gguf ? gguf->text("architecture").value_or("").substr(0, kLongest) : "";
}

std::string upper(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  return out;
}

// "llada-8b-instruct-Q4_K_M.gguf" has the word Q4_K_M and not Q4_K: words end at '-', '.' and '/'.
bool has_word(std::string_view path, std::string_view word) {
  const std::string text = upper(path), wanted = upper(word);
  const auto border = [](char c) { return c == '-' || c == '.' || c == '/'; };
  for (size_t at = text.find(wanted); at != std::string::npos; at = text.find(wanted, at + 1)) {
    const size_t end = at + wanted.size();
    if ((at == 0 || border(text[at - 1])) && (end == text.size() || border(text[end]))) return true;
  }
  return false;
}

// The first file of a model in parts.
bool is_gguf_model(const std::string& path) {
  if (!path.ends_with(".gguf") || part_name(path).number > 1) return false;
  const std::string name = upper(path.substr(path.rfind('/') + 1));
  return !name.contains("MMPROJ") && !name.contains("IMATRIX");
}

std::string list_of(const std::vector<std::string>& names) {
  constexpr size_t kMost = 12;
  std::vector<std::string> shown;
  for (const std::string& name : names)
    if (shown.size() < kMost) shown.push_back(printable(name));
  return fmt::format("{}{}", fmt::join(shown, ", "),
                     names.size() > kMost ? fmt::format(" and {} more", names.size() - kMost) : "");
}

constexpr std::string_view kFolderFiles[] = {"config.json",
                                             "generation_config.json",
                                             "hf_quant_config.json",
                                             "tokenizer.json",
                                             "vocab.json",
                                             "merges.txt",
                                             "tokenizer_config.json",
                                             "special_tokens_map.json",
                                             "chat_template.jinja",
                                             "added_tokens.json",
                                             "model.safetensors.index.json"};

// Weights of the folder itself; those below it belong to something else.
bool is_folder_weight(const std::string& path) {
  return path.ends_with(".safetensors") && !path.contains('/') && path.starts_with("model");
}

Result<Choice> choose_folder(const std::vector<std::string>& files, std::string_view name) {
  Choice choice{.files = {}, .folder = true};
  for (const std::string_view wanted : kFolderFiles)
    if (std::ranges::count(files, wanted) > 0) choice.files.emplace_back(wanted);
  std::map<std::string, std::pair<int, std::set<int>>> sets;
  bool single = false;
  for (const std::string& file : files) {
    if (!is_folder_weight(file)) continue;
    const PartName part = part_name(file);
    if (part.count > 0) {
      sets[part.whole()].first = part.count;
      sets[part.whole()].second.insert(part.number);
    }
    single |= file == "model.safetensors";
    choice.files.push_back(file);
  }
  if (single)  // alone it is the model; parts beside it are the same again
    std::erase_if(choice.files, [](const std::string& file) {
      return (is_folder_weight(file) && file != "model.safetensors") || file == "model.safetensors.index.json";
    });
  for (const auto& [set, parts] : sets)
    if (!single && static_cast<int>(parts.second.size()) != parts.first)
      return invalid("{}: {} of {} weight files of {} are there", name, parts.second.size(), parts.first,
                     printable(set));
  choice.small = static_cast<size_t>(
      std::ranges::count_if(choice.files, [](const std::string& file) { return !is_folder_weight(file); }));
  if (std::ranges::count(files, "config.json") == 0)
    return invalid("{}: has safetensors and no config.json, so their model is not known", name);
  return choice;
}

// GGUF models that are there as raw pieces alone, and these.
using Cuts = std::map<std::string, std::vector<std::string>>;

Cuts cuts_of(const std::vector<std::string>& files) {
  const std::set<std::string_view> names(files.begin(), files.end());
  Cuts cuts;
  for (const std::string& file : files)
    if (CutName cut = cut_name(file); is_gguf_model(cut.whole) && !names.contains(cut.whole))
      cuts[std::move(cut.whole)].push_back(file);
  std::erase_if(cuts, [](const auto& cut) {  // a copy: model.gguf.1
    return cut.second.size() == 1 && cut_name(cut.second.front()).count == 0;
  });
  return cuts;
}

// One GGUF file; its pieces; or all parts of the model of which `file` is one, the first in front.
Result<Choice> choose_gguf(const std::vector<std::string>& files, const Cuts& cuts, const std::string& file,
                           std::string_view name) {
  const std::string whole = cut_name(file).whole;
  if (const auto cut = cuts.find(whole.empty() ? file : whole); cut != cuts.end()) {
    auto pieces = pieces_of_cut(cut->second, file);
    if (!pieces) return invalid("{}: {}", name, pieces.error().message);
    return Choice{.files = std::move(*pieces), .joined = cut->first};
  }
  const PartName part = part_name(file);
  Choice choice{.files = {file}, .folder = false};
  if (!file.ends_with(".gguf") || part.count <= 1) return choice;
  choice.files.clear();
  std::ranges::copy_if(files, std::back_inserter(choice.files), [&](const std::string& other) {
    const PartName found = part_name(other);
    return found.count == part.count && found.whole() == part.whole();
  });
  std::ranges::sort(choice.files, {}, [](const std::string& other) { return part_name(other).number; });
  if (static_cast<int>(choice.files.size()) != part.count || part_name(choice.files.front()).number != 1)
    return invalid("{}: {} of {} parts of {} are there", name, choice.files.size(), part.count,
                   printable(part.whole()));
  return choice;
}

}  // namespace

Result<Listing> parse_listing(std::string_view text, std::string_view source) {
  if (text.size() > kMaxListingBytes)
    return invalid("{}: {} bytes, at most {} expected", source, text.size(), kMaxListingBytes);
  LLADA_TRY(const Fields root,
            Fields::parse(text, std::string(source), {.depth = 64, .values = 500'000, .run_bytes = size_t{1} << 20}));
  LLADA_TRY(const std::string sha, root.text("sha"));
  if (!is_commit(sha)) return root.unfit("sha", "the 40 hexadecimal digits of a commit");
  Listing listing{.commit = sha, .files = {}, .architecture = architecture_of(root)};
  LLADA_TRY(const auto siblings, root.objects("siblings"));
  if (siblings.size() > kMaxFiles)
    return root.fault("siblings", fmt::format("found {} files, needed at most {}", siblings.size(), kMaxFiles));
  for (const Fields& entry : siblings) {
    RemoteFile file;
    LLADA_TRY(file.path, entry.text("rfilename"));
    if (!is_safe_relative_path(file.path)) return entry.unfit("rfilename", "a file inside the folder");
    const auto lfs = entry.object("lfs");
    file.bytes = lfs ? size_of(*lfs) : -1;
    if (file.bytes < 0) file.bytes = size_of(entry);
    listing.files.push_back(std::move(file));
  }
  return listing;
}

Result<Choice> choose_files(const std::vector<std::string>& files, std::string_view what, std::string_view name) {
  std::vector<std::string> gguf;
  std::ranges::copy_if(files, std::back_inserter(gguf), is_gguf_model);
  const Cuts cuts = cuts_of(files);
  for (const auto& [whole, pieces] : cuts) gguf.push_back(whole);
  if (!what.empty()) {
    if (std::ranges::count(files, what) + std::ranges::count(gguf, what) > 0)
      return choose_gguf(files, cuts, std::string(what), name);
    std::vector<std::string> found;
    std::ranges::copy_if(gguf, std::back_inserter(found), [&](const std::string& f) { return has_word(f, what); });
    if (found.size() == 1) return choose_gguf(files, cuts, found[0], name);
    if (found.size() > 1)
      return invalid("{}: {} files have {} in their names: {}", name, found.size(), printable(what), list_of(found));
    return invalid("{}: no file and no quantization '{}'; {}", name, printable(what),
                   gguf.empty() ? "there are no GGUF files" : "there are " + list_of(gguf));
  }
  if (gguf.size() == 1) return choose_gguf(files, cuts, gguf[0], name);
  for (const std::string_view type : kPreferredTypes) {
    std::vector<std::string> found;
    std::ranges::copy_if(gguf, std::back_inserter(found), [&](const std::string& f) { return has_word(f, type); });
    if (found.size() == 1) return choose_gguf(files, cuts, found[0], name);
    if (found.size() > 1) return invalid("{}: several files of type {}; name one: {}", name, type, list_of(found));
  }
  if (!gguf.empty()) return invalid("{}: name one of its files ({}:FILE): {}", name, name, list_of(gguf));
  if (std::ranges::any_of(files, is_folder_weight)) return choose_folder(files, name);
  const auto pickle = [](const std::string& f) {
    return f.ends_with(".bin") || f.ends_with(".pt") || f.ends_with(".pth");
  };
  if (std::ranges::any_of(files, pickle))
    return invalid(
        "{}: has its weights as Python pickles alone, which are programs and are not run; needed safetensors "
        "or GGUF",
        name);
  return invalid("{}: has no GGUF and no safetensors weights", name);
}

}  // namespace llada::hub
