// What the text tests share: the repository's tokenizers, a slow and obvious byte-pair encoder to compare
// with, and deterministic random text.
#pragma once
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace llada::text_test {

std::string read_text(const std::string& path);     // aborts the test program when the file is missing
std::string fixture_path(const std::string& name);  // tests/data/text/NAME
nlohmann::json read_json(const std::string& path);
Result<TokenizerSpec> parse_tokenizer_json(const std::string& tokenizer_json, const std::string& config_json,
                                           const std::string& source);
Tokenizer load_tokenizer(const std::string& tokenizer_json, const std::string& config_json = "");
Tokenizer fixture(const std::string& name, const std::string& config_json = "");  // tests/data/text/NAME.json
Tokenizer tiny_llada();

// The 256 byte tokens (id = byte), the merges (each making a new token from id 256 on), then control tokens.
TokenizerSpec byte_spec(const std::vector<std::string>& merges, const std::vector<std::string>& controls = {});

// Repeats: of all neighbours that have a merge, join the leftmost pair of the lowest rank.
std::vector<int32_t> slow_merge(const TokenizerSpec& spec, std::string_view word);

std::string random_bytes(std::mt19937& random, size_t length);

// Letters, digits, white space, symbols and control-token texts of many scripts, with `invalid_percent` stray
// bytes.
std::string random_text(std::mt19937& random, int atoms, int invalid_percent);

}  // namespace llada::text_test
