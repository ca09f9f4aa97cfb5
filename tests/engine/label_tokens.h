// A label of a question as the definition of a decision reads it.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace llada {

struct LabelTokens {
  std::vector<int32_t> wanted;  // with an end token where another label goes on from it
  size_t width = 0;             // of the longest label
};

inline LabelTokens label_tokens(const Tokenizer& tokenizer, const std::vector<std::string>& labels, size_t label,
                                int32_t end) {
  std::vector<std::vector<int32_t>> tokens;
  LabelTokens read;
  for (const std::string& l : labels) {
    tokens.push_back(tokenizer.encode(l));
    read.width = std::max(read.width, tokens.back().size());
  }
  read.wanted = tokens[label];
  for (const auto& other : tokens)
    if (other.size() > read.wanted.size() && std::equal(read.wanted.begin(), read.wanted.end(), other.begin())) {
      read.wanted.push_back(end);
      break;
    }
  return read;
}

}  // namespace llada
