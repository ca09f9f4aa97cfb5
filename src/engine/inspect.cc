#include "engine/inspect.h"

#include <algorithm>
#include <filesystem>

#include "base/pretokenizer_regexes.h"
#include "engine/decode_preset.h"
#include "engine/fit_check.h"
#include "engine/folder_check.h"
#include "engine/model.h"
#include "engine/open_device.h"
#include "engine/text_rows.h"
#include "formats/convert.h"
#include "formats/family.h"

namespace llada {

namespace {

void add_tensors(const ModelFile& file, ModelSummary& summary) {
  for (const ModelFile::Entry& entry : file.tensors()) {
    const TensorView& view = entry.view;
    const std::string type(traits(view.type).name);
    summary.tensors.push_back({entry.name,
                               entry.file_name,
                               type,
                               {view.shape.dims.begin(), view.shape.dims.begin() + view.shape.rank},
                               view.bytes(),
                               entry.offset});
    // A tied head that the file repeats all the same is not read.
    if (!(summary.config.tied_head && entry.name == "output.weight")) summary.parameters += view.shape.elements();
    auto total = std::ranges::find(summary.types, type, &TypeTotal::type);
    if (total == summary.types.end()) total = summary.types.insert(total, TypeTotal{.type = type});
    total->tensors += 1;
    total->parameters += view.shape.elements();
    total->bytes += view.bytes();
  }
  std::ranges::stable_sort(summary.types, std::greater<>(), &TypeTotal::bytes);
}

// Publishers of types that the hub does not know give their files the names of others.
void note_name(const ModelFile& file, ModelSummary& summary) {
  if (file.format() == "safetensors" || summary.types.empty()) return;
  const std::string name = std::filesystem::path(file.path()).stem().string();
  for (size_t at = 0; at < name.size();) {
    const size_t end = std::min(name.find_first_of("-. ", at), name.size());
    const auto type = dtype_from_name(name.substr(at, end - at));
    at = end + 1;
    if (!type || std::ranges::find(summary.types, traits(*type).name, &TypeTotal::type) != summary.types.end())
      continue;
    summary.config.remarks.push_back(
        fmt::format("the file's name says {}, and no tensor has that type: most of it is {}", traits(*type).name,
                    summary.types.front().type));
  }
}

// Folders that a converter with a wrong default wrote cut numbers, and words of capitals, in other places than the
// corrected ones. transformers mends them when it is told to (fix_mistral_regex); which one a model was fine-tuned with
// is not known, so a file's own rule stands.
void note_cuts(const TokenizerSpec& spec, ModelSummary& summary) {
  const std::string_view wanted = summary.config.family->made_for;
  if (wanted.empty()) return;
  const PreTokenizerRules* rules =
      spec.regexes.empty() ? find_pre_tokenizer(spec.pre) : find_pre_tokenizer(std::span(spec.regexes));
  if (rules == find_pre_tokenizer(wanted)) return;
  summary.config.remarks.push_back(
      fmt::format("the tokenizer cuts text as {}, and the vocabulary was made for {}: a known fault of published "
                  "folders; with a corrected tokenizer.json some texts, numbers above all, become other tokens",
                  rules != nullptr ? rules->written_name() : "no known one does", wanted));
}

// A folder is no file for llama.cpp.
void note_llama_cpp(const ModelFile& file, const TokenizerSpec* tokenizer, ModelSummary& summary) {
  if (file.format() != "gguf") return;
  std::ranges::move(llama_cpp_notes(file.config(), tokenizer), std::back_inserter(summary.config.remarks));
}

Status add_tokenizer(const ModelFile& file, ModelSummary& summary) {
  std::optional<TokenizerSpec> spec;
  if (auto found = load_tokenizer_spec(file); found)
    spec = std::move(*found);
  else if (has_tokenizer_file(file.folder()))
    return std::unexpected(found.error());
  else
    summary.missing = found.error().message;
  decode::SpecialIds ids;
  if (spec) {
    LLADA_TRY(const auto tokenizer, Tokenizer::create(std::move(*spec), file.path()));
    const TokenizerSpec& s = tokenizer.spec();
    note_llama_cpp(file, &s, summary);
    const ChatFormat format = detect_chat_format(tokenizer);
    summary.tokenizer = {.tokens = tokenizer.vocab_size(),
                         .merges = static_cast<int64_t>(s.merges.size()),
                         .pre_tokenizer = !s.regexes.empty() ? "regex"
                                          : s.pre.empty()    ? "default"
                                                             : s.pre,
                         .chat_style = std::string(name(format.style)),
                         .add_bos = s.add_bos,
                         .has_chat_template = !s.chat_template.empty(),
                         .single_turn = format.single_turn};
    note_cuts(s, summary);
    if (!cut_note(s).empty()) summary.config.notes.emplace_back(cut_note(s));
    int holes = 0;
    for (int byte = 0; byte < 256; ++byte) holes += tokenizer.encode(std::string(1, static_cast<char>(byte))).empty();
    if (holes > 0)
      summary.config.remarks.push_back(fmt::format("{} of 256 bytes have no token and are left out of a text", holes));
    if (!format.note.empty()) summary.config.notes.push_back(format.note);
    if (const Status fits = check_tokens_fit(summary.config, tokenizer.vocab_size(), file.path()); !fits)
      summary.config.notes.push_back(fits.error().message);
    if (summary.config.bos_id < 0) summary.config.bos_id = s.bos;
    if (summary.config.pad_id < 0) summary.config.pad_id = s.pad;
    ids = resolve_special_ids(summary.config, &tokenizer, format.style);
  } else {
    note_llama_cpp(file, nullptr, summary);
    ids = resolve_special_ids(summary.config, nullptr, ChatStyle::plain);
  }
  summary.config.mask_id = ids.mask;
  summary.config.eos_id = ids.eos;
  summary.config.eot_id = ids.eot;
  return {};
}

Result<MemoryNeed> needed_memory(const ModelFile& file, ModelSummary& summary) {
  LLADA_TRY(const ModelGraph graph, build_model(file.config()));
  LLADA_TRY(const auto weights, weight_views(file, graph));
  LLADA_TRY(const auto* kernels, kernels::select(""));
  summary.positions = counted_positions(graph);
  return memory_need(file, graph, weights, *kernels, every_weight(graph));
}

// The needs and the notes of a run.
void add_run(const ModelFile& file, const Overrides& overrides, ModelSummary& summary) {
  const ModelConfig& c = summary.config;
  const decode::SpecialIds ids{.mask = c.mask_id, .eos = c.eos_id, .eot = c.eot_id, .end_ids = c.end_ids};
  if (const Status fits = check_can_decode(c, ids, summary.path); !fits) {
    summary.missing = fits.error().message;
  } else if (const auto need = needed_memory(file, summary)) {
    summary.memory = need->total();
  } else {
    summary.missing = need.error().message;
  }
  if (c.canvas.length == 0) summary.presets = {std::string(kDefaultPreset)};
  for (const FamilyPreset& preset : c.family->presets) summary.presets.emplace_back(preset.name);
  const auto& tokenizer = summary.tokenizer;  // a prompt of the command line is text
  if (!summary.missing.empty()) return;
  if (!tokenizer) {
    summary.no_command = "not with a text: there is no tokenizer";
    return;
  }
  if (tokenizer->tokens > c.vocab) {
    summary.no_command =
        fmt::format("not with a text: the tokenizer has {} tokens, the vocabulary {} rows", tokenizer->tokens, c.vocab);
    return;
  }
  const bool plain = file.path().find_first_of(" '\"$&;()<>|*?`\\") == std::string::npos;
  if (plain)
    summary.command = fmt::format("llada run {}{} 'Why is the sky blue?'", file.path(), words_of(overrides));
  else
    summary.no_command = "with quotes around the path, which has characters that a shell changes";
}

}  // namespace

std::string words_of(const Overrides& overrides) {
  std::string words;
  if (overrides.mask_id >= 0) words += fmt::format(" --mask-id {}", overrides.mask_id);
  if (overrides.attention_block >= 0) words += fmt::format(" --attention-block {}", overrides.attention_block);
  if (overrides.shift_logits) words += fmt::format(" --shift {}", *overrides.shift_logits);
  return words;
}

Result<ModelSummary> inspect_model(const std::string& path, const Overrides& overrides) {
  LLADA_TRY(const auto file, ModelFile::open(path, overrides));
  ModelSummary summary{.path = file.path(),
                       .format = std::string(file.format()),
                       .architecture = std::string(file.config().family->name),
                       .config = file.config(),
                       .parameters = 0,
                       .file_bytes = file.file_bytes(),
                       .types = {},
                       .tensors = {},
                       .tokenizer = std::nullopt,
                       .missing = {},
                       .memory = 0,
                       .positions = 0,
                       .presets = {},
                       .command = {},
                       .no_command = {}};
  add_tensors(file, summary);
  note_name(file, summary);
  LLADA_TRY_STATUS(add_tokenizer(file, summary));
  add_run(file, overrides, summary);
  return summary;
}

}  // namespace llada
