// Input: a tokenizer.json, a zero byte, a text. Whatever parses must give the text back (its form C when it
// normalises). The text's beginning stands in for the folder's other files first.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "text/tokenizer.h"
#include "text/tokenizer_files.h"
#include "text/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t split = input.find('\0');
  const std::string_view json = input.substr(0, split);
  const std::string_view text = split == std::string_view::npos ? std::string_view() : input.substr(split + 1);
  const std::string other(text.substr(0, 200));
  llada::TokenizerFiles files;
  files.tokenizer = json;
  files.config = files.added_tokens = files.special_tokens_map = files.chat_template = other;
  auto spec = llada::parse_tokenizer_files(files, "fuzz");
  if (!spec) {
    if (spec.error().message.find('\n') != std::string::npos) std::abort();
    files = {};
    files.vocab = json;
    files.merges = other;
    spec = llada::parse_tokenizer_files(files, "fuzz");
  }
  if (!spec) {
    files = {};
    files.tokenizer = json;
    spec = llada::parse_tokenizer_files(files, "fuzz");
  }
  if (!spec) return 0;
  const bool normalises = spec->nfc;
  const auto tokenizer = llada::Tokenizer::create(std::move(*spec), "fuzz");
  if (!tokenizer) {
    if (tokenizer.error().message.find('\n') != std::string::npos) std::abort();
    return 0;
  }
  const auto ids = tokenizer->encode(text);
  for (const int32_t id : ids)
    if (id < 0 || id >= tokenizer->vocab_size() || tokenizer->is_control(id)) std::abort();
  const std::string back = tokenizer->decode(ids);
  if (normalises ? tokenizer->decode(tokenizer->encode(back)) != back : back != text) std::abort();
  return 0;
}
