// llada inspect: the contents of a model file.
#include "engine/inspect.h"

#include <algorithm>

#include "cli/commands.h"
#include "cli/hub_access.h"
#include "cli/mistakes.h"
#include "cli/report.h"
#include "cli/terminal.h"
#include "json/parse.h"

namespace llada::cli {
namespace {

Json config_json(const ModelConfig& c) {
  Json json = {{"layers", c.layers},
               {"width", c.width},
               {"heads", c.heads},
               {"kv_heads", c.kv_heads},
               {"head_dim", c.head_dim},
               {"ffn_width", c.ffn_width},
               {"vocab", c.vocab},
               {"context", c.context},
               {"rms_eps", c.rms_eps},
               {"rope_theta", c.rope_theta},
               {"rotary_dims", c.rotary_dims},
               {"rope_pairing", c.rope_pairing == RopePairing::adjacent ? "adjacent" : "half_split"},
               {"shift_logits", c.shift_logits},
               {"qk_norm", c.qk_norm},
               {"qkv_bias", c.qkv_bias},
               {"attention_block", c.attention_block},
               {"tied_head", c.tied_head}};
  if (c.causal_text && c.attention_block > 0) json["causal_text"] = true;
  if (c.decided_first && c.attention_block > 0) json["decided_first"] = true;
  if (c.experts > 0) {
    json["experts"] = c.experts;
    json["experts_used"] = c.experts_used;
    json["expert_ffn_width"] = c.expert_ffn_width;
    json["gates_renormalised"] = c.norm_topk;
  }
  if (c.expert_capacity > 0) json["expert_capacity"] = c.expert_capacity, json["expert_block"] = c.expert_block;
  if (c.gemma) {
    json["global_layers"] = std::ranges::count(c.gemma->global, true);
    json["global_kv_heads"] = c.gemma->kv_heads;
    json["global_head_dim"] = c.gemma->head_dim;
    json["sliding_window"] = c.gemma->window;
    json["canvas_length"] = c.canvas.length;
  }
  json["special_ids"] = {
      {"mask", c.mask_id}, {"bos", c.bos_id}, {"eos", c.eos_id}, {"eot", c.eot_id}, {"pad", c.pad_id}};
  if (c.delete_id >= 0) json["special_ids"]["delete"] = c.delete_id, json["special_ids"]["split"] = c.split_id;
  return json;
}

// Settings of the files that are not followed, and parts of them that are passed over.
std::vector<std::string> notes_of(const ModelConfig& c) {
  std::vector<std::string> notes = c.notes;
  notes.insert(notes.end(), c.remarks.begin(), c.remarks.end());
  return notes;
}

Json summary_json(const ModelSummary& m, bool tensors) {
  Json json = {{"path", m.path},
               {"format", m.format},
               {"architecture", m.architecture},
               {"name", m.config.name},
               {"parameters", m.parameters},
               {"file_bytes", m.file_bytes},
               {"tensor_count", m.tensors.size()},
               {"types", types_json(m.types)},
               {"config", config_json(m.config)},
               {"notes", notes_of(m.config)},
               {"presets", m.presets},
               {"missing", m.missing.empty() ? Json() : Json(m.missing)},
               {"memory_bytes", m.memory},
               {"command", m.command},
               {"tokenizer", nullptr}};
  if (const auto& t = m.tokenizer) {
    json["tokenizer"] = {
        {"tokens", t->tokens},          {"merges", t->merges},   {"pre_tokenizer", t->pre_tokenizer},
        {"chat_style", t->chat_style},  {"add_bos", t->add_bos}, {"has_chat_template", t->has_chat_template},
        {"single_turn", t->single_turn}};
  }
  if (tensors) {
    json["tensors"] = Json::array();
    for (const TensorSummary& t : m.tensors) {
      json["tensors"].push_back({{"name", t.name},
                                 {"file_name", t.file_name},
                                 {"type", t.type},
                                 {"dims", t.dims},
                                 {"bytes", t.bytes},
                                 {"offset", t.offset}});
    }
  }
  return json;
}

std::string id_text(int32_t id) { return id < 0 ? "none" : fmt::format("{}", id); }

std::string attention_text(const ModelConfig& c) {
  if (c.canvas.length > 0)
    return fmt::format("; causal, behind it canvases of {} that see themselves", c.canvas.length);
  if (c.causal_text && c.attention_block > 0)
    return fmt::format("; causal, behind it blocks of {} that see themselves", c.attention_block);
  if (c.decided_first && c.attention_block > 0)
    return fmt::format("; causal, in windows of {} with decided tokens first", c.attention_block);
  const std::string sees = c.attention_block > 0    ? fmt::format("block-causal over blocks of {}", c.attention_block)
                           : c.attention_block == 0 ? "full"
                                                    : "not said";
  return fmt::format("; {}{}", sees, c.shift_logits ? "; row i - 1 predicts position i" : "");
}

std::string summary_text(const ModelSummary& m, bool tensors) {
  const ModelConfig& c = m.config;
  std::string out;
  const auto row = [&](std::string_view key, const std::string& value) {
    out += fmt::format("{:<14} {}\n", key, one_line(value));
  };
  row("path", m.path);
  row("format", m.format);
  row("architecture", c.name.empty() ? m.architecture : fmt::format("{} ({})", m.architecture, c.name));
  row("parameters", fmt::format("{} in {}", m.parameters, counted(std::ssize(m.tensors), "tensor")));
  row("file size", fmt::format("{} bytes ({})", m.file_bytes, bytes_text(static_cast<double>(m.file_bytes))));
  for (const TypeTotal& t : m.types)
    row(&t == &m.types.front() ? "types" : "",
        fmt::format("{}: {}, {}", t.type, counted(t.tensors, "tensor"), bytes_text(static_cast<double>(t.bytes))));
  row("layers", fmt::format("{} of width {}, feed-forward {}", c.layers, c.width,
                            c.experts > 0 ? fmt::format("{} of {} experts of {}, gates {}renormalised", c.experts_used,
                                                        c.experts, c.expert_ffn_width, c.norm_topk ? "" : "not ")
                                          : fmt::format("{}", c.ffn_width)));
  if (c.experts > 0 && (c.gemma || c.shared_expert_ffn_width > 0))
    row("", c.gemma ? fmt::format("beside them a dense network of {}", c.ffn_width)
                    : fmt::format("beside them a shared expert of {}", c.shared_expert_ffn_width));
  if (c.expert_capacity > 0)
    row("", fmt::format("the rows of {} positions choose {} experts together", c.expert_block, c.expert_capacity));
  row("attention", fmt::format("{} heads of {}, {} for K/V{}", c.heads, c.head_dim, c.kv_heads, attention_text(c)));
  if (c.gemma)
    row("", fmt::format("a window of {} keys in {} layers; in {} all keys, heads of {}, {} for K/V", c.gemma->window,
                        std::ranges::count(c.gemma->global, false), std::ranges::count(c.gemma->global, true),
                        c.gemma->head_dim, c.gemma->kv_heads));
  row("rope", fmt::format("theta {}, {} dims, {} pairs", c.rope_theta, c.rotary_dims,
                          c.rope_pairing == RopePairing::adjacent ? "adjacent" : "half-split"));
  row("context", fmt::format("{} positions", c.context));
  row("vocabulary", fmt::format("{} rows", c.vocab));
  row("special ids", fmt::format("mask {}, bos {}, eos {}, eot {}, pad {}", id_text(c.mask_id), id_text(c.bos_id),
                                 id_text(c.eos_id), id_text(c.eot_id), id_text(c.pad_id)));
  if (const auto& t = m.tokenizer) {
    row("tokenizer", fmt::format("byte-level BPE, {} tokens, {} merges, pre-tokenizer {}{}", t->tokens, t->merges,
                                 t->pre_tokenizer, t->add_bos ? ", adds bos" : ""));
    row("chat", fmt::format("{} style{}", t->chat_style, t->has_chat_template ? "" : " (no template in the file)"));
    if (t->single_turn) row("", "each message stands alone: trained on single questions");
  } else {
    row("tokenizer", "none: takes token ids only");
  }
  for (const std::string& text : notes_of(c)) row("note", with_flags(text));
  row("presets", m.presets.empty() ? "none: it was published with numbers of its own"
                                   : fmt::format("{}", fmt::join(m.presets, ", ")));
  if (m.missing.empty()) {
    row("memory", fmt::format("{} on this machine's cpu beside the file's pages, for {} positions",
                              bytes_text(static_cast<double>(m.memory)), m.positions));
    row("run it", m.command.empty() ? m.no_command : m.command);
  } else {
    row("missing", m.missing);
  }
  if (!tensors) return out;
  size_t width = 0;
  for (const TensorSummary& t : m.tensors) width = std::max(width, t.name.size());
  out += '\n';
  for (const TensorSummary& t : m.tensors)
    out += fmt::format("{:<{}}  {:<5} {:>16}  {:>10}\n", one_line(t.name), width, t.type,
                       fmt::format("{}", fmt::join(t.dims, " x ")), bytes_text(static_cast<double>(t.bytes)));
  return out;
}

}  // namespace

Work setup_inspect(CLI::App& app) {
  struct Options {
    ModelOptions model;
    bool tensors = false, json = false;
  };
  auto o = std::make_shared<Options>();
  app.add_option("-m,--model,MODEL", o->model.path, "a GGUF file or a Hugging Face folder")
      ->check(refuse_empty_path, "");
  add_hub_option(app, o->model, "Options");
  add_override_options(app, o->model.load.overrides, "Options");
  app.add_flag("--tensors", o->tensors, "list every tensor with its type and shape (inputs x outputs)");
  app.add_flag("--json", o->json, "one JSON object on stdout");
  app.footer(
      "Examples:\n"
      "  llada inspect model.gguf\n"
      "  llada inspect models/tiny-llada --tensors --json");
  return [o]() -> Result<int> {
    LLADA_TRY(const std::string path, model_path(o->model));
    LLADA_TRY(const ModelSummary summary, inspect_model(path, o->model.load.overrides));
    LLADA_TRY_STATUS(print(o->json ? json_line(summary_json(summary, o->tensors)) : summary_text(summary, o->tensors)));
    return 0;
  };
}

}  // namespace llada::cli
