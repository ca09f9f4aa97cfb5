// The tokens of a prompt as it is written, piece by piece: text, and control tokens that no text can make. Inside text/
// only.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/call_syntax.h"
#include "text/tokenizer.h"

namespace llada {

// Text between two control tokens is encoded as one, as the published tokenizers do with a rendered template.
class ChatWriter {
 public:
  explicit ChatWriter(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  ChatWriter& text(std::string_view text) {
    pending_ += text;
    return *this;
  }

  // The control token, or its text where the vocabulary has no such token.
  ChatWriter& control(std::string_view name) {
    if (const auto id = tokenizer_.find_control(name)) return token(*id);
    return text(name);
  }

  // UTF-8 with bytes for Gemma's marks.
  ChatWriter& marked(std::string_view bytes) {
    for (const char c : bytes) {
      const auto* mark = std::begin(kGemmaMarks);
      while (mark != std::end(kGemmaMarks) && mark->first != c) ++mark;
      mark == std::end(kGemmaMarks) ? text({&c, 1}) : control(mark->second);
    }
    return *this;
  }

  ChatWriter& token(int32_t id) {
    flush();
    ids_.push_back(id);
    return *this;
  }

  std::vector<int32_t> take() {
    flush();
    return std::move(ids_);
  }

 private:
  void flush() {
    if (pending_.empty()) return;
    const auto ids = tokenizer_.encode(pending_);
    ids_.insert(ids_.end(), ids.begin(), ids.end());
    pending_.clear();
  }

  const Tokenizer& tokenizer_;
  std::string pending_;
  std::vector<int32_t> ids_;
};

}  // namespace llada
