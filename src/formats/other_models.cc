#include "formats/other_models.h"

#include <fmt/format.h>

#include <algorithm>

#include "formats/family.h"

namespace llada {
namespace {

// Models that decide one token behind another, by llama.cpp's architectures and by the classes of transformers in lower
// case without their ends; those that diffusion models have kept for their files are families (Family::autoregressive).
constexpr std::string_view kAutoregressive[] = {
    "arcee",      "baichuan", "bailingmoe", "bailingmoe2",   "bitnet",       "bloom",    "chatglm",       "codeshell",
    "cohere",     "cohere2",  "command-r",  "dbrx",          "deci",         "deepseek", "deepseek2",     "deepseekv2",
    "deepseekv3", "dots1",    "ernie4_5",   "exaone",        "exaone4",      "falcon",   "falcon-h1",     "gemma",
    "gemma2",     "gemma3",   "gemma3n",    "gemma4",        "glm4",         "glm4moe",  "gpt-oss",       "gptoss",
    "gpt2",       "gptneox",  "granite",    "granitehybrid", "granitemoe",   "grok",     "hunyuan-dense", "hunyuan-moe",
    "internlm2",  "jais",     "jamba",      "lfm2",          "lfm2moe",      "llama4",   "mamba",         "mamba2",
    "minicpm",    "minicpm3", "mistral",    "mixtral",       "mpt",          "nemotron", "nemotron_h",    "olmo",
    "olmo2",      "olmoe",    "openelm",    "opt",           "orion",        "phi",      "phi2",          "phi3",
    "phimoe",     "plamo",    "plamo2",     "qwen",          "qwen2moe",     "qwen2vl",  "qwen3next",     "qwen3vl",
    "refact",     "rwkv6",    "rwkv7",      "seed_oss",      "smallthinker", "smollm3",  "stablelm",      "starcoder",
    "starcoder2", "xverse"};

// "Gemma3ForConditionalGeneration" as "gemma3".
std::string plain(std::string_view name) {
  for (const std::string_view end : {"ForCausalLM", "LMHeadModel", "ForConditionalGeneration"})
    if (name.ends_with(end)) name.remove_suffix(end.size());
  std::string out(name);
  std::ranges::transform(out, out.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return out;
}

}  // namespace

std::string why_not_computed(std::string_view name) {
  if (const std::string_view missing = missing_for(name); !missing.empty())
    return fmt::format("is not supported: it needs {}", missing);
  if (std::ranges::count(kAutoregressive, plain(name)) == 0) return "";
  return "is an ordinary, autoregressive model's, which other programs run";
}

}  // namespace llada
