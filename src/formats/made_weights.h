// Matrices that other software has rounded, as tensors of the engine's types, in memory of this process. Rows are made
// from the file's mapped bytes when somebody asks for them, and given back when they are packed. So a model never lies
// in memory in both forms. The addresses stay the same all along; before a tensor is made they hold nothing.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/pages.h"
#include "base/threads.h"
#include "formats/rounded_matrix.h"
#include "tensor/view.h"

namespace llada {

class MadeWeights {
 public:
  // The matrices' parts stay mapped. `file` stands for the whole in errors.
  static Result<std::shared_ptr<MadeWeights>> create(std::vector<RoundedMatrix> matrices, std::string file);

  // Where matrix `index` lies, as a whole.
  TensorView view(size_t index) const;
  bool holds(const TensorView& view) const;

  // Makes the rows of a view, on the pool's threads where there is one; again at no cost. Any thread may call it.
  // Invalid: a scale that is not finite, or too large for F16.
  Status make(const TensorView& view, ThreadPool* pool);
  // Gives the rows of a view back.
  void forget(const TensorView& view);
  // The codes of a view, or where its rows share bytes with others, those of its matrix.
  std::span<const std::byte> stored(const TensorView& view) const;
  bool has_own_codes(const TensorView& view) const;
  // From now on forget() does nothing: somebody reads the rows whenever they are needed.
  void keep();

 private:
  MadeWeights(std::vector<RoundedMatrix> matrices, std::string file);
  size_t index_of(const TensorView& view) const;

  const std::vector<RoundedMatrix> matrices_;
  const std::string file_;
  std::vector<int64_t> begins_;  // of each matrix, and where the last ends
  AlignedBytes bytes_;
  std::mutex mutex_;  // guards the members below
  std::set<const std::byte*> made_;
  bool keep_ = false;
};

}  // namespace llada
