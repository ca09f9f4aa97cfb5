// Names of files that hold a model in parts: NAME-00002-of-00004.gguf, model-00001-of-00003.safetensors. Each of these
// is a file of its format. Other parts are bytes of one file that was cut, in its order, and are put together first.
#pragma once
#include <string>
#include <vector>

#include "base/error.h"

namespace llada {

struct PartName {
  int number = 0, count = 0;  // number from 1; 0: not the name of a part
  std::string stem, ending;   // the name before "-00002-of-00004" and behind it, with the dot

  std::string whole() const { return stem + ending; }
  std::string of(int part) const;  // the name of another part
};

PartName part_name(const std::string& path);

// The name of such a piece: NAME.gguf.part2of3, NAME.gguf.part-00002-of-00003, NAME.gguf-split-b, NAME.gguf.002. The
// index is digits, or behind "part" and "split" letters as split(1) gives them; nothing but the count stands behind it.
struct CutName {
  std::string whole;  // the file that was cut; empty: the name is none of these
  int count = 0;      // of its pieces; 0: the name does not say
  int index = 0;      // of letters a, aa: 0
  bool letters = false;
  std::string scheme = {};  // the name without its index, which is that of all pieces of one cut
};
CutName cut_name(const std::string& path);

// The pieces of one cut among `pieces` of a file, in the order of their indices, which count from 0 or 1 without a gap.
// name: a piece, where several cuts lie side by side, or the whole. Invalid: a piece is missing.
Result<std::vector<std::string>> pieces_of_cut(const std::vector<std::string>& pieces, const std::string& name);

}  // namespace llada
