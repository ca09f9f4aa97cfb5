// An importance matrix: for each matrix of a model, how large its inputs are, column by column. It has the means of
// their squares over many rows, for each expert of a stack. Quantizers weigh errors by it. Read in both of llama.cpp's
// forms: GGUF (tensors NAME.in_sum2 and NAME.counts) and its older binary ".dat". Written as GGUF, so that llama.cpp's
// quantizer reads it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace llada {

class Imatrix {
 public:
  struct Entry {
    std::string name;            // of the matrix: "blk.0.attn_q.weight"
    std::vector<float> weights;  // means of squares; of experts one after another. 1 where no row was seen
  };

  static Result<Imatrix> open(const std::string& path);
  // name: stands for the file in errors.
  static Result<Imatrix> parse(std::span<const std::byte> bytes, std::string_view name);

  const std::string& path() const { return path_; }
  const std::vector<Entry>& entries() const { return entries_; }  // by name
  const Entry* find(std::string_view name) const;                 // null: none

 private:
  std::string path_;
  std::vector<Entry> entries_;
};

// The sums from which one is made.
struct ImatrixSums {
  std::string name;
  int64_t columns = 0;
  std::vector<float> squares;   // of all rows: columns for each expert
  std::vector<int64_t> counts;  // rows, for each expert
};

struct ImatrixSource {
  std::string texts;                    // the file of the texts
  uint32_t chunks = 0, chunk_rows = 0;  // texts, and rows of the longest
};

// Whole or not at all (AtomicFile).
Status write_imatrix(const std::string& path, std::span<const ImatrixSums> sums, const ImatrixSource& source);

}  // namespace llada
