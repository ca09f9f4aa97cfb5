// The contents of a model file or folder, as plain data for people and tools. Nothing is loaded onto a device, so a
// file opens here even where no device could run it.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "formats/model_config.h"
#include "text/chat_template.h"

namespace llada {

struct TensorSummary {
  std::string name;           // canonical: "blk.0.attn_q.weight"
  std::string file_name;      // as the file calls it
  std::string type;           // "q8_0"
  std::vector<int64_t> dims;  // in storage order: {inputs, outputs}, vectors {n}
  int64_t bytes = 0;
  uint64_t offset = 0;  // from the start of the file
};

struct TypeTotal {
  std::string type;
  int64_t tensors = 0, parameters = 0, bytes = 0;
};

// Ids are -1 where nothing names them.
struct TokenizerSummary {
  int64_t tokens = 0, merges = 0;
  std::string pre_tokenizer;  // a name such as "llama-bpe", or "regex" where the file spells it out
  std::string chat_style;     // "llada", "chatml", "bailing", "plain"
  bool add_bos = false, has_chat_template = false;
  bool single_turn = false;  // a message stands alone, whatever was said before it
};

struct ModelSummary {
  std::string path, format, architecture;
  ModelConfig config;  // with ids from the tokenizer, as in a run; notes with GGUF's llama_cpp_notes
  int64_t parameters = 0;
  uint64_t file_bytes = 0;
  std::vector<TypeTotal> types;        // most bytes first
  std::vector<TensorSummary> tensors;  // in file order
  std::optional<TokenizerSummary> tokenizer;

  std::string missing;  // why a run would refuse it as it is, in the words of a run; empty: it would not
  // Bytes that a request of so many positions needs on this machine's cpu (fit_check.h), mapped pages not counted.
  int64_t memory = 0, positions = 0;
  std::vector<std::string> presets;  // decoding presets: the default one, and those of the family's published samplers
  // The command that runs it, or why there is none: no tokenizer, one with more tokens than the vocabulary has rows, a
  // path that a shell would change. Both are empty where something is missing.
  std::string command, no_command;
};

// The overrides as options of the command line, each behind a space.
std::string words_of(const Overrides& overrides);

Result<ModelSummary> inspect_model(const std::string& path, const Overrides& overrides = {});

}  // namespace llada
