// Names of files that hold a model in parts: NAME-00002-of-00004.gguf, model-00001-of-00003.safetensors. Each of these
// is a file of its format. Other parts are bytes of one file that was cut, in its order, and are put together first.
#pragma once
#include <string>

namespace llada {

struct PartName {
  int number = 0, count = 0;  // number from 1; 0: the name is none of a part
  std::string stem, ending;   // what stands before "-00002-of-00004" and behind it, with the dot

  std::string whole() const { return stem + ending; }
  std::string of(int part) const;  // the name of another part
};

PartName part_name(const std::string& path);

// Of the name of such a part: NAME.gguf.part2of3, NAME.gguf.part-00002-of-00003, NAME.gguf-split-b, NAME.gguf.002.
struct CutName {
  std::string whole;  // the file that was cut; empty: the name is none of these
  int count = 0;      // of its parts; 0: the name does not say
};
CutName cut_name(const std::string& path);
// Whether a part of a file that was cut comes before another one of it: part2 before part10.
bool is_earlier_cut(const std::string& part, const std::string& other);

}  // namespace llada
