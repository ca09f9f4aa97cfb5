#include "text/support.h"

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>

#include "text/byte_alphabet.h"
#include "text/tokenizer_files.h"
#include "text/utf8.h"

namespace llada::text_test {
namespace {

[[noreturn]] void stop(const std::string& message) {
  std::cerr << message << '\n';
  std::exit(1);
}

}  // namespace

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) stop("cannot read " + path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string fixture_path(const std::string& name) { return LLADA_SOURCE_DIR "/tests/data/text/" + name; }

nlohmann::json read_json(const std::string& path) { return nlohmann::json::parse(read_text(path)); }

Result<TokenizerSpec> parse_tokenizer_json(const std::string& tokenizer_json, const std::string& config_json,
                                           const std::string& source) {
  TokenizerFiles files;
  files.tokenizer = tokenizer_json;
  files.config = config_json;
  return parse_tokenizer_files(files, source);
}

Tokenizer load_tokenizer(const std::string& tokenizer_json, const std::string& config_json) {
  auto spec = parse_tokenizer_json(tokenizer_json, config_json, "test");
  if (!spec) stop(spec.error().message);
  auto tokenizer = Tokenizer::create(std::move(*spec), "test");
  if (!tokenizer) stop(tokenizer.error().message);
  return *tokenizer;
}

Tokenizer fixture(const std::string& name, const std::string& config_json) {
  return load_tokenizer(read_text(fixture_path(name + ".json")), config_json);
}

Tokenizer tiny_llada() {
  const std::string folder = LLADA_SOURCE_DIR "/models/tiny-llada/";
  return load_tokenizer(read_text(folder + "tokenizer.json"), read_text(folder + "tokenizer_config.json"));
}

TokenizerSpec byte_spec(const std::vector<std::string>& merges, const std::vector<std::string>& controls) {
  TokenizerSpec spec;
  spec.pre = "gpt-2";
  const auto add = [&](const std::string& text, TokenKind kind) {
    spec.tokens.push_back(text);
    spec.kinds.push_back(kind);
  };
  for (int byte = 0; byte < 256; ++byte)
    add(to_byte_alphabet(std::string(1, static_cast<char>(byte))), TokenKind::normal);
  for (const std::string& merge : merges) {
    spec.merges.push_back(merge);
    std::string result = merge;
    result.erase(result.find(' '), 1);
    add(result, TokenKind::normal);
  }
  for (const std::string& text : controls) add(text, TokenKind::control);
  return spec;
}

std::vector<int32_t> slow_merge(const TokenizerSpec& spec, std::string_view word) {
  std::map<std::string, size_t> rank;
  for (size_t i = 0; i < spec.merges.size(); ++i) rank.emplace(spec.merges[i], i);
  std::vector<std::string> parts;
  for (const char byte : word) parts.push_back(to_byte_alphabet(std::string(1, byte)));
  while (true) {
    size_t best = parts.size(), best_rank = spec.merges.size();
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto it = rank.find(parts[i] + " " + parts[i + 1]);
      if (it != rank.end() && it->second < best_rank) best = i, best_rank = it->second;
    }
    if (best == parts.size()) break;
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<ptrdiff_t>(best) + 1);
  }
  std::map<std::string, int32_t> id;
  for (size_t i = 0; i < spec.tokens.size(); ++i)
    if (spec.kinds[i] == TokenKind::normal) id.emplace(spec.tokens[i], static_cast<int32_t>(i));
  std::vector<int32_t> ids;
  for (const std::string& part : parts) ids.push_back(id.at(part));
  return ids;
}

std::string random_bytes(std::mt19937& random, size_t length) {
  std::string out(length, '\0');
  for (char& byte : out) byte = static_cast<char>(random() & 0xFF);
  return out;
}

std::string random_text(std::mt19937& random, int atoms, int invalid_percent) {
  static const char* const kAtoms[] = {"a",
                                       "the",
                                       " The",
                                       "don't",
                                       "WE'LL",
                                       " ",
                                       "  ",
                                       "\n",
                                       "\r\n",
                                       "\t",
                                       "1",
                                       "2024",
                                       "\u00bd",
                                       "!",
                                       "...",
                                       " =>",
                                       "\u00e9",
                                       "e\u0301",
                                       "\u4f60\u597d",
                                       "\u0645",
                                       "\u0939\u093f",
                                       "\u3000",
                                       "\u00a0",
                                       "\u0085",
                                       "\u180e",
                                       "\ufeff",
                                       "\U0001f600\u200d",
                                       "<|mdm_mask|>",
                                       "<|eot_id|>",
                                       "<|im_end|>"};
  std::string out;
  for (int i = 0; i < atoms; ++i) {
    const auto dice = static_cast<int>(random() % 100);
    if (dice < invalid_percent) {
      out += static_cast<char>(0x80 | (random() & 0x7F));
    } else if (dice < invalid_percent + 20) {
      char32_t c = random() % (random() % 2 == 0 ? 0x3000 : 0x110000);
      if (c >= 0xD800 && c < 0xE000) c = 0xFFFD;
      append_utf8(out, c);
    } else {
      out += kAtoms[random() % std::size(kAtoms)];
    }
  }
  return out;
}

}  // namespace llada::text_test
