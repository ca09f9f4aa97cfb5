// Forms over a model's tokens, made at their first use and kept. The vocabulary's tree is kept as long as the model is
// loaded, of the forms those that were used last.
#pragma once
#include <list>
#include <memory>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "decode/types.h"
#include "forms/form.h"
#include "forms/token_form.h"

namespace llada {

class Tokenizer;

// All methods may be called from many threads at once.
class FormStore {
 public:
  bool has(const forms::Form& form) { return kept(form) != nullptr; }
  Result<std::shared_ptr<const forms::TokenForm>> get(const forms::Form& form, const Tokenizer& tokenizer,
                                                      const decode::SpecialIds& ids);

 private:
  std::shared_ptr<const forms::TokenForm> kept(const forms::Form& form);  // null: it has to be made

  static constexpr int64_t kMostBytes = int64_t{32} << 20;  // of all forms together, less the one in use

  std::mutex mutex_;
  std::shared_ptr<const forms::Vocabulary> vocabulary_;
  std::list<std::pair<forms::Form, std::shared_ptr<const forms::TokenForm>>> kept_;  // used last first
};

}  // namespace llada
