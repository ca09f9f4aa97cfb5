#include "engine/folder_check.h"

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "base/memory_room.h"
#include "engine/fit_check.h"
#include "engine/model.h"
#include "formats/gguf_model.h"
#include "formats/model_file.h"
#include "text/tokenizer_files.h"

namespace llada {

namespace {

void take_ids(const ModelConfig& config, TokenizerSpec& spec) {
  const auto take = [&](int32_t given, int32_t& own) {
    if (own >= 0 || given < 0 || static_cast<size_t>(given) >= spec.tokens.size()) return;
    if (spec.kinds[static_cast<size_t>(given)] != TokenKind::normal) own = given;
  };
  take(config.bos_id, spec.bos);
  take(config.eos_id, spec.eos);
  take(config.pad_id, spec.pad);
  take(config.eot_id, spec.eot);
  take(config.mask_id, spec.mask);
}

}  // namespace

bool has_tokenizer_file(const std::string& folder) {
  return std::ranges::any_of(std::initializer_list<std::string_view>{"tokenizer.json", "vocab.json"},
                             [&](std::string_view name) {
                               std::error_code ignored;
                               return std::filesystem::exists(fmt::format("{}/{}", folder, name), ignored);
                             });
}

Result<TokenizerSpec> read_folder_tokenizer(const std::string& folder, const ModelConfig& config) {
  TokenizerFiles files;
  for (const TokenizerFileName& file : kTokenizerFiles) {
    const std::string path = fmt::format("{}/{}", folder, file.name);
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) continue;
    LLADA_TRY(files.*file.text, read_file(path));
    if ((files.*file.text).empty() && file.text == &TokenizerFiles::tokenizer)
      return invalid("{}: is empty, a JSON object needed", path);
  }
  LLADA_TRY(TokenizerSpec spec, parse_tokenizer_files(files, folder));
  take_ids(config, spec);
  return spec;
}

Status check_tokens_fit(const ModelConfig& config, int64_t tokens, const std::string& path) {
  if (tokens <= config.vocab) return {};
  return invalid("{}: the tokenizer has {} tokens, the embedding table {}", path, tokens, config.vocab);
}

Status check_can_decode(const ModelConfig& config, const decode::SpecialIds& ids, const std::string& path) {
  if (const int64_t together = std::max(config.canvas.length, config.attention_block); together > config.context)
    return invalid("{}: {} positions are decoded together, needed at most the context of {}", path, together,
                   config.context);
  if (config.canvas.length > 0) return {};
  const bool masked = ids.mask >= 0 && ids.mask < config.vocab;
  if (config.attention_block < 0)
    return invalid(
        "{}: {} is the architecture of autoregressive models, and the file says nothing of diffusion; needed "
        "{}attention_block N (0: each position sees all)",
        path, config.family->name, masked ? "" : "mask_id ID and ");
  if (!masked)
    return invalid("{}: no mask token: neither the metadata nor the tokenizer names one; mask_id gives it", path);
  if (ids.eos == ids.mask || ids.eot == ids.mask || std::ranges::count(ids.end_ids, ids.mask) > 0)
    return invalid("{}: token {} is the mask and ends an answer, needed another mask (mask_id) or another end", path,
                   ids.mask);
  return {};
}

Status check_tokens_fit(const ModelConfig& config, const Tokenizer* tokenizer, const decode::SpecialIds& ids,
                        const std::string& path) {
  if (tokenizer != nullptr) LLADA_TRY_STATUS(check_tokens_fit(config, tokenizer->vocab_size(), path));
  return check_can_decode(config, ids, path);
}

Status check_announced(const std::string& name, const std::string& architecture, int64_t bytes,
                       const LoadOptions* load) {
  if (!architecture.empty()) LLADA_TRY_STATUS(check_architecture(name, architecture));
  // Beside an accelerator the host packs a part; and a machine of little memory keeps packed weights on disk.
  if (load == nullptr || load->system_root.empty() || load->device != "cpu") return {};
  const auto room = find_memory_room(load->system_root);
  const bool on_disk = room && room->total < kSmallMachineBytes && load->pack_cache.use != PackCache::Use::none;
  if (!room || on_disk || bytes <= room->available) return {};
  const auto gb = [](int64_t count) { return static_cast<double>(count) / 1e9; };
  return no_memory(
      "{}: its weights are {:.2f} GB, {} has {:.2f} GB of memory left; `llada pull` and `llada convert --type q4_0` "
      "make them a third, fit_check=false goes on anyway",
      name, gb(bytes), room->bound, gb(room->available));
}

Status check_folder(const std::string& folder, const Overrides& overrides) {
  LLADA_TRY(ModelConfig config, read_folder_config(folder));
  LLADA_TRY_STATUS(override_config(config, overrides, folder));
  LLADA_TRY(auto spec, read_folder_tokenizer(folder, config));
  LLADA_TRY(const auto tokenizer, Tokenizer::create(std::move(spec), folder));
  const auto ids = resolve_special_ids(config, &tokenizer, detect_chat_format(tokenizer).style);
  return check_tokens_fit(config, &tokenizer, ids, folder);
}

}  // namespace llada
