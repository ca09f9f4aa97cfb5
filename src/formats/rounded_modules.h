// The parts of a folder's rounded matrices, collected from its files, as tensors of the model. Private to formats/.
#pragma once
#include <map>
#include <string>
#include <string_view>

#include "base/error.h"
#include "formats/model_record.h"
#include "formats/rounded_matrix.h"
#include "formats/tensor_table.h"

namespace llada {

class RoundedModules {
 public:
  // scheme: null where the folder's configuration names none; then nothing is taken.
  explicit RoundedModules(const RoundedScheme* scheme) : scheme_(scheme) {}

  // Whether the tensor is a part of a matrix of this architecture, which is taken, or a scale that nobody needs here.
  // Invalid: the part is in two files.
  Result<bool> take(const SafetensorsTensor& tensor, std::string_view file);
  // Makes tensors of the parts, which fill the record's `made`. Invalid: parts that do not fit (rounded_matrix).
  Status finish(ModelRecord& record, TensorTable& table, std::string_view file);

 private:
  const RoundedScheme* scheme_;
  std::map<std::string, RoundedParts, std::less<>> modules_;  // by path
  size_t unused_ = 0;
};

}  // namespace llada
