// fuzz_seeds FOLDER: writes FOLDER/gguf/* and FOLDER/safetensors/*, small valid inputs of every kind, for the
// fuzzers to start from.
#include <filesystem>
#include <fstream>
#include <string>

#include "formats/model_fixture.h"

using namespace llada;
using namespace llada::testing_models;

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "seeds";
  const auto write = [&](const std::string& name, const std::string& bytes) {
    const std::filesystem::path path = folder + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
  };
  for (const auto& [architecture, arch] :
       {std::pair{Architecture::llada, "llada"}, std::pair{Architecture::dream, "dream"},
        std::pair{Architecture::llada_moe, "llada-moe"}, std::pair{Architecture::llada, "diffuse"}}) {
    ModelConfig config = tiny_config(architecture);
    config.layers = 1;  // short inputs mutate faster
    write(std::string("gguf/") + arch, gguf_bytes(config, {.arch = arch, .type = DType::Q4_0}));
    const auto names = hf_names(config, Style::standard);
    write(std::string("safetensors/weights-") + arch,
          "s" + safetensors_bytes(fake_tensors(config, true), names));
    write(std::string("safetensors/config-") + arch, "c" + hf_config_json(config, Style::standard));
  }
  write("safetensors/config-olmo", "c" + hf_config_json(tiny_config(Architecture::llada), Style::olmo));
  write(
      "safetensors/index",
      R"(i{"metadata":{"total_size":1},"weight_map":{"a":"model-1.safetensors","b":"model-2.safetensors"}})");
  return 0;
}
