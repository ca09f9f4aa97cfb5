// The tokens of a vocabulary as a tree over their bytes (a trie), in the order of a walk. A subtree is a run of nodes,
// so a walk that leaves it out jumps behind it.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace llada {
class Tokenizer;
}

namespace llada::forms {

class Vocabulary {
 public:
  // The ids of a text as the model's tokenizer cuts it; empty: texts have no preferred tokens.
  using Encode = std::function<std::vector<int32_t>(std::string_view)>;

  // pieces[id]: its bytes; an empty one never fits.
  explicit Vocabulary(std::span<const std::string_view> pieces, Encode encode = {});
  // Control, unknown and unused tokens never fit, nor do those of `but`, in which -1 is ignored. The control tokens of
  // Gemma's calls have the bytes that stand for them (text/call_syntax.h).
  static std::shared_ptr<const Vocabulary> of(const Tokenizer& tokenizer, std::span<const int32_t> but = {});

  struct Node {
    int32_t end;     // behind its subtree
    int32_t tokens;  // its first one in tokens(); they end where the next node's begin
    uint16_t depth;  // bytes up to and with this one
    uint8_t byte;
  };
  std::span<const Node> nodes() const { return {nodes_.data(), nodes_.size() - 1}; }
  std::span<const int32_t> tokens_at(int32_t node) const {
    const Node* n = &nodes_[static_cast<size_t>(node)];
    return std::span(tokens_).subspan(static_cast<size_t>(n[0].tokens), static_cast<size_t>(n[1].tokens - n[0].tokens));
  }
  int32_t size() const { return size_; }       // of the vocabulary
  size_t longest() const { return longest_; }  // bytes of a token
  const Encode& encode() const { return encode_; }
  // The token's length in bytes where the text begins with it; 0 where it does not.
  size_t length_in(std::string_view text, int32_t token) const;
  int64_t bytes() const;

 private:
  std::vector<Node> nodes_;      // and one behind the last
  std::vector<int32_t> tokens_;  // ids by bytes
  int32_t size_ = 0;
  size_t longest_ = 0;
  Encode encode_;
};

}  // namespace llada::forms
