#include "layering/source_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>

namespace llada::layering {
namespace {

constexpr std::string_view kSource = "src/", kPublic = "include/";

struct Include {
  size_t line;  // from 1
  std::string path;
};

// Calls visit(line number from 1, line without its end) for every line.
template <class Visit>
void for_each_line(std::string_view text, Visit visit) {
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    visit(number, text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

std::string_view trimmed(std::string_view text) {
  const size_t start = text.find_first_not_of(" \t\r");
  if (start == std::string_view::npos) return {};
  return text.substr(start, text.find_last_not_of(" \t\r") - start + 1);
}

// The path of an #include line between these marks.
std::optional<std::string> included(std::string_view line, char begin, char end) {
  line = trimmed(line);
  if (!line.starts_with('#')) return std::nullopt;
  line = trimmed(line.substr(1));
  if (!line.starts_with("include")) return std::nullopt;
  line = trimmed(line.substr(std::string_view("include").size()));
  if (!line.starts_with(begin)) return std::nullopt;
  line.remove_prefix(1);
  return std::string(line.substr(0, line.find(end)));
}

std::optional<std::string> quoted_include(std::string_view line) { return included(line, '"', '"'); }

std::vector<Include> includes_of(const SourceFile& file) {
  std::vector<Include> out;
  for_each_line(file.text, [&](size_t number, std::string_view line) {
    if (auto path = quoted_include(line)) out.push_back({number, std::move(*path)});
  });
  return out;
}

bool lies_below(std::string_view path, std::string_view folder) {
  return path.starts_with(folder) && path.size() > folder.size() && path[folder.size()] == '/';
}

// path: below src/ or include/, e.g. "devices/cpu/cpu_device.h".
const Layer* layer_of(std::string_view path, std::span<const Layer> table) {
  const Layer* best = nullptr;
  for (const Layer& layer : table) {
    if (lies_below(path, layer.folder) && (!best || layer.folder.size() > best->folder.size())) best = &layer;
  }
  return best;
}

// Why `from` must not include `path`; empty where it may.
std::string objection(const Layer& from, std::string_view path, std::span<const Layer> table) {
  if (path.starts_with("./") || path.find("../") != std::string_view::npos ||
      path.find('/') == std::string_view::npos) {
    return fmt::format("#include \"{}\": write the path from src/ or include/", path);
  }
  const Layer* to = layer_of(path, table);
  if (!to) return fmt::format("#include \"{}\": no layer of the table holds it", path);
  if (to == &from) return {};
  const auto covers = [&](std::string_view folder) { return lies_below(path, folder); };
  if (std::ranges::any_of(from.may_include, covers)) return {};
  return fmt::format(
      "#include \"{}\": {} may include {}", path, from.folder,
      from.may_include.empty() ? "nothing else" : fmt::format("only {}", fmt::join(from.may_include, ", ")));
}

// Depth-first search over src/; `done` files cannot reach a cycle that was not reported.
class CycleSearch {
 public:
  explicit CycleSearch(std::span<const SourceFile> files) {
    for (const SourceFile& file : files) {
      if (file.path.starts_with(kSource)) edges_[file.path.substr(kSource.size())] = includes_of(file);
    }
  }

  Findings run() {
    for (const auto& [path, unused] : edges_) visit(path);
    return std::move(findings_);
  }

 private:
  void visit(const std::string& path) {
    if (done_.contains(path)) return;
    stack_.push_back(path);
    for (const Include& include : edges_.at(path)) {
      if (!edges_.contains(include.path)) continue;
      const auto open = std::ranges::find(stack_, include.path);
      if (open == stack_.end()) {
        visit(include.path);
      } else {
        findings_.push_back(fmt::format("{}{}:{}: include cycle {} -> {}", kSource, path, include.line,
                                        fmt::join(open, stack_.end(), " -> "), include.path));
      }
    }
    stack_.pop_back();
    done_.insert(path);
  }

  std::map<std::string, std::vector<Include>> edges_;  // by path below src/
  std::set<std::string> done_;
  std::vector<std::string> stack_;
  Findings findings_;
};

}  // namespace

Findings foreign_headers(std::span<const SourceFile> files, std::span<const std::string_view> known) {
  Findings out;
  for (const SourceFile& file : files)
    for_each_line(file.text, [&](size_t number, std::string_view line) {
      const auto header = included(line, '<', '>');
      if (!header || header->find_first_of("./") == std::string::npos) return;
      if (std::ranges::none_of(known, [&](std::string_view begin) { return header->starts_with(begin); }))
        out.push_back(fmt::format("{}:{}: <{}> is no header of C++ or of a known library", file.path, number, *header));
    });
  return out;
}

bool is_cpp(std::string_view path) {
  constexpr std::string_view kEndings[] = {".h", ".hpp", ".inc", ".cc", ".c", ".cu", ".cuh"};
  return std::ranges::any_of(kEndings, [&](std::string_view ending) { return path.ends_with(ending); });
}

Findings forbidden_includes(std::span<const SourceFile> files, std::span<const Layer> table) {
  Findings out;
  for (const SourceFile& file : files) {
    const std::string_view root = file.path.starts_with(kSource) ? kSource : kPublic;
    if (!file.path.starts_with(root) || !is_cpp(file.path)) continue;
    const Layer* from = layer_of(std::string_view(file.path).substr(root.size()), table);
    if (!from) {
      out.push_back(fmt::format("{}:1: no layer of the table holds this file", file.path));
      continue;
    }
    for (const Include& include : includes_of(file)) {
      const std::string why = objection(*from, include.path, table);
      if (!why.empty()) out.push_back(fmt::format("{}:{}: {}", file.path, include.line, why));
    }
  }
  return out;
}

Findings seen_through_headers(std::span<const SourceFile> files, std::span<const Layer> table,
                              std::span<const std::string_view> above, std::span<const std::string_view> through,
                              std::span<const std::string_view> shown) {
  std::map<std::string, std::vector<Include>> includes;  // by path below src/
  for (const SourceFile& file : files)
    if (file.path.starts_with(kSource)) includes[file.path.substr(kSource.size())] = includes_of(file);
  const auto is_in = [](const std::string& path, std::span<const std::string_view> folders) {
    return std::ranges::any_of(folders, [&](std::string_view folder) { return lies_below(path, folder); });
  };
  Findings findings;
  std::set<std::string> reached, seen;
  std::vector<const Layer*> watchers;
  for (const std::string_view folder : above) watchers.push_back(layer_of(std::string(folder) + "/x", table));
  for (const Layer* const watcher : watchers) {
    std::vector<std::string> open;
    for (const auto& [path, unused] : includes)
      if (layer_of(path, table) == watcher) open.push_back(path);
    reached.clear();
    while (!open.empty()) {
      const std::string path = open.back();
      open.pop_back();
      for (const Include& include : includes[path]) {
        if (is_in(include.path, through) && reached.insert(include.path).second) open.push_back(include.path);
        if (layer_of(path, table) == watcher || objection(*watcher, include.path, table).empty()) continue;
        seen.insert(include.path);
        if (std::ranges::find(shown, include.path) == shown.end())
          findings.push_back(fmt::format("{}{}:{}: {} sees {} through this header, which is not among the shown ones",
                                         kSource, path, include.line, watcher->folder, include.path));
      }
    }
  }
  for (const std::string_view header : shown)
    if (!seen.contains(std::string(header)))
      findings.push_back(fmt::format("{}{}:1: is among the shown headers, but nobody sees it", kSource, header));
  std::ranges::sort(findings);
  findings.erase(std::ranges::unique(findings).begin(), findings.end());
  return findings;
}

Findings include_cycles(std::span<const SourceFile> files) { return CycleSearch(files).run(); }

Findings missing_head_comments(std::span<const SourceFile> files) {
  std::set<std::string_view> paths;
  for (const SourceFile& file : files) paths.insert(file.path);
  Findings out;
  for (const SourceFile& file : files) {
    if (!is_cpp(file.path)) continue;
    std::string_view first;
    size_t line_number = 1;
    for_each_line(file.text, [&](size_t number, std::string_view line) {
      if (!first.empty() || trimmed(line).empty()) return;
      first = trimmed(line);
      line_number = number;
    });
    if (first.starts_with("//") || first.starts_with("/*")) continue;
    if (file.path.ends_with(".cc")) {
      const std::string header = file.path.substr(0, file.path.size() - 3) + ".h";
      const auto included = quoted_include(first);
      if (included && paths.contains(header) && header.ends_with("/" + *included)) continue;
    }
    out.push_back(
        fmt::format("{}:{}: the file does not start with a comment that says what it is", file.path, line_number));
  }
  return out;
}

Findings too_many_lines(std::span<const SourceFile> files, size_t limit) {
  Findings out;
  for (const SourceFile& file : files) {
    size_t lines = 0;
    for_each_line(file.text, [&](size_t number, std::string_view) { lines = number; });
    if (lines > limit)
      out.push_back(
          fmt::format("{}:{}: the file has {} lines, at most {} are wanted", file.path, limit + 1, lines, limit));
  }
  return out;
}

Findings too_long_lines(std::span<const SourceFile> files, size_t limit) {
  Findings out;
  for (const SourceFile& file : files) {
    for_each_line(file.text, [&](size_t number, std::string_view line) {
      // UTF-8: bytes 10xxxxxx continue a code point.
      const auto columns = static_cast<size_t>(std::ranges::count_if(line, [](char c) { return (c & 0xC0) != 0x80; }));
      if (columns > limit)
        out.push_back(fmt::format("{}:{}: {} columns, at most {} are wanted", file.path, number, columns, limit));
    });
  }
  return out;
}

Findings banned_text(std::span<const SourceFile> files, std::span<const std::string> words) {
  Findings out;
  for (const SourceFile& file : files) {
    for_each_line(file.text, [&](size_t number, std::string_view line) {
      for (const std::string& word : words) {
        if (line.find(word) != std::string_view::npos)
          out.push_back(fmt::format("{}:{}: contains '{}'", file.path, number, word));
      }
    });
  }
  return out;
}

std::vector<SourceFile> read_tree(const std::string& root, std::initializer_list<std::string_view> places) {
  namespace fs = std::filesystem;
  std::vector<SourceFile> out;
  const auto add = [&](const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(in), {}};
    if (text.find('\0') == std::string::npos)
      out.push_back({path.lexically_relative(root).generic_string(), std::move(text)});
  };
  for (const std::string_view place : places) {
    const fs::path start = fs::path(root) / place;
    if (fs::is_regular_file(start)) add(start);
    if (!fs::is_directory(start)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(start)) {
      if (entry.is_regular_file()) add(entry.path());
    }
  }
  std::ranges::sort(out, {}, &SourceFile::path);
  return out;
}

}  // namespace llada::layering
