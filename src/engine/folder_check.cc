#include "engine/folder_check.h"

#include <filesystem>

#include "base/file.h"
#include "engine/model.h"
#include "formats/model_file.h"
#include "text/tokenizer_files.h"

namespace llada {

Result<TokenizerSpec> read_folder_tokenizer(const std::string& folder) {
  TokenizerFiles files;
  for (const TokenizerFileName& file : kTokenizerFiles) {
    const std::string path = fmt::format("{}/{}", folder, file.name);
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) continue;
    LLADA_TRY(files.*file.text, read_file(path));
  }
  return parse_tokenizer_files(files, folder);
}

Status check_tokens_fit(const ModelConfig& config, const Tokenizer* tokenizer, const decode::SpecialIds& ids,
                        const std::string& path) {
  if (tokenizer != nullptr && tokenizer->vocab_size() > config.vocab)
    return invalid("{}: the tokenizer has {} tokens, the embedding table {}", path, tokenizer->vocab_size(),
                   config.vocab);
  if (ids.mask < 0 || ids.mask >= config.vocab)
    return invalid("{}: no mask token: neither the metadata nor the tokenizer names one", path);
  return {};
}

Status check_folder(const std::string& folder) {
  LLADA_TRY(const ModelConfig config, read_folder_config(folder));
  LLADA_TRY(auto spec, read_folder_tokenizer(folder));
  LLADA_TRY(const auto tokenizer, Tokenizer::create(std::move(spec), folder));
  const auto ids = resolve_special_ids(config, &tokenizer, detect_chat_format(tokenizer).style);
  return check_tokens_fit(config, &tokenizer, ids, folder);
}

}  // namespace llada
