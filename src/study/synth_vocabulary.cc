#include "study/synth_vocabulary.h"

#include <algorithm>

#include "text/byte_alphabet.h"

namespace llada {

TokenizerSpec synthesize_vocabulary(const Preset& preset) {
  const auto size = static_cast<size_t>(preset.config.vocab);
  TokenizerSpec spec;
  spec.tokens.resize(size);
  spec.kinds.assign(size, TokenKind::unused);
  int32_t first_control = static_cast<int32_t>(size);
  for (const PresetToken& token : preset.control_tokens) {
    spec.tokens[static_cast<size_t>(token.id)] = token.text;
    spec.kinds[static_cast<size_t>(token.id)] = TokenKind::control;
    if (token.id >= 256) first_control = std::min(first_control, token.id);
  }
  const auto wanted =
      static_cast<size_t>(std::count(spec.kinds.begin(), spec.kinds.begin() + first_control, TokenKind::unused));
  std::vector<std::string> words;
  for (int byte = 0; byte < 256; ++byte) words.push_back(to_byte_alphabet(std::string(1, static_cast<char>(byte))));
  // Stems whose longer forms come next: the space and the letters first, then every word in the order in
  // which it was made.
  std::vector<std::string> stems = {words[' ']};
  for (char letter = 'a'; letter <= 'z'; ++letter) stems.push_back(words[static_cast<size_t>(letter)]);
  const auto add = [&](const std::string& stem, char letter) {
    spec.merges.push_back(stem + ' ' + letter);
    words.push_back(stem + letter);
  };
  for (size_t stem = 0; words.size() < wanted; ++stem) {
    for (char letter = 'a'; letter <= 'z' && words.size() < wanted; ++letter) {
      add(stems[stem], letter);
      stems.push_back(words.back());
    }
    // A lettered label behind a space is one token of every published vocabulary.
    for (char letter = 'A'; letter <= 'Z' && stem == 0 && words.size() < wanted; ++letter) add(words[' '], letter);
  }
  size_t word = 0;
  for (size_t id = 0; id < static_cast<size_t>(first_control); ++id) {
    if (spec.kinds[id] == TokenKind::control) continue;
    spec.tokens[id] = std::move(words[word++]);
    spec.kinds[id] = TokenKind::normal;
  }
  const ModelConfig& c = preset.config;
  spec.pre = preset.pre_tokenizer;
  spec.nfc = preset.nfc;
  spec.add_bos = preset.add_bos;
  spec.chat_template = preset.chat_template;
  spec.bos = c.bos_id, spec.eos = c.eos_id, spec.pad = c.pad_id, spec.eot = c.eot_id, spec.mask = c.mask_id;
  return spec;
}

}  // namespace llada
