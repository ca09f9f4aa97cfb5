// Cuts text into pre-tokens: the pieces inside which byte-pair merging works. Each regex cuts the pieces of the one
// before it into its matches and the stretches between them. A piece is a text of its own, so that look-around does not
// see its neighbours. Nothing is dropped: the pre-tokens in order are the text.
//
// Regexes come from files, so they are not trusted. One that is_linear_regex() knows runs compiled (where PCRE2 has a
// JIT) over the whole text. Any other is interpreted under PCRE2's match and heap limits, over windows of 32 KiB. A
// match that ends in the window's last quarter is looked for again from there with more text behind it. So results
// differ from an unlimited match only for pre-tokens longer than 24 KiB. Where a limit is hit, the rest of the window
// (of the text, for a linear regex) is one pre-token: still exact bytes, found in bounded time.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace llada {

class PreTokenizer {
 public:
  // The regexes in tokenizer.json's dialect (regex_syntax.h). The error line does not name the file.
  static Result<PreTokenizer> create(std::span<const std::string> regexes);

  // Memory that one thread reuses between calls.
  class Scratch {
   public:
    explicit Scratch(const PreTokenizer& pre_tokenizer);
    Scratch(Scratch&&) noexcept;
    ~Scratch();

   private:
    friend class PreTokenizer;
    struct State;
    std::unique_ptr<State> state_;
  };

  // `text` is valid UTF-8. The pieces point into it and stay valid as long as it does; the list until the
  // next call.
  const std::vector<std::string_view>& split(std::string_view text, Scratch& scratch) const;

 private:
  struct Pattern;
  std::vector<std::shared_ptr<const Pattern>> patterns_;
};

}  // namespace llada
