// The rules that keep the house in order, as functions over the text of source files, so that they can be
// tested on scripted input. Words: layer = a folder of src/ (or one below devices/) with its own row in the
// table; finding = one broken rule, "path:line: what is wrong". Deliberately absent: a C++ parser. An
// #include is a line that starts with it; macros and #if are texts like others.
#pragma once
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace llada::layering {

struct SourceFile {
  std::string path;  // from the root of the repository, with '/', e.g. "src/base/error.h"
  std::string text;
};

struct Layer {
  std::string_view folder;                    // below src/; the longest match decides
  std::vector<std::string_view> may_include;  // besides itself; a name covers what lies below it
};

using Findings = std::vector<std::string>;

// The #include "..." lines below src/ and include/, in any order of files: what a layer must not see, paths
// that are not written from the root of src/ or include/, and folders that the table does not know.
Findings forbidden_includes(std::span<const SourceFile> files, std::span<const Layer> table);

// What files of the layers `above` see of layers that they must not include: the #include lines of headers that they reach
// through other layers' headers, any number of steps. Every such header must be in `shown`, and every one in `shown` be
// seen. Includes of a header that is itself seen so are not followed: its layer's row bounds them. Headers of the layers
// `through` are followed, of others not.
Findings seen_through_headers(std::span<const SourceFile> files, std::span<const Layer> table,
                              std::span<const std::string_view> above, std::span<const std::string_view> through,
                              std::span<const std::string_view> shown);

// Files below src/ that reach themselves through #include "..."; one finding per cycle.
Findings include_cycles(std::span<const SourceFile> files);

// C++ files that do not start with a comment. A .cc may start with the #include of its own header: that has
// the comment.
Findings missing_head_comments(std::span<const SourceFile> files);

Findings too_many_lines(std::span<const SourceFile> files, size_t limit);

// Columns are code points.
Findings too_long_lines(std::span<const SourceFile> files, size_t limit);

// Lines that contain one of the words, as it is.
Findings banned_text(std::span<const SourceFile> files, std::span<const std::string> words);

// The #include <...> lines with headers that are neither C++'s own, which have no ending and no folder, nor begin with
// one of `known`.
Findings foreign_headers(std::span<const SourceFile> files, std::span<const std::string_view> known);

bool is_cpp(std::string_view path);

// Every text file (no zero byte in it) below the given folders or at the given paths of the repository, by
// path. Missing ones are skipped: a folder may not exist yet.
std::vector<SourceFile> read_tree(const std::string& root, std::initializer_list<std::string_view> places);

}  // namespace llada::layering
