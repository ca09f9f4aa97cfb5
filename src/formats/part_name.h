// Names of files that hold a model in parts: NAME-00002-of-00004.gguf, model-00001-of-00003.safetensors.
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

}  // namespace llada
