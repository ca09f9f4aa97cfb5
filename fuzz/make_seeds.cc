// fuzz_seeds FOLDER: writes FOLDER/gguf/*, FOLDER/safetensors/*, FOLDER/routing/*, FOLDER/packed/* and
// FOLDER/program/*, small inputs of every kind, for the fuzzers to start from.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "base/random.h"
#include "devices/cpu/packed_file.h"
#include "formats/family.h"
#include "formats/gguf.h"
#include "formats/model_fixture.h"
#include "formats/rounded_fixture.h"

using namespace llada;
using namespace llada::testing_models;

int main(int argc, char** argv) {
  if (argc != 2 || argv[1][0] == '-') {
    std::fputs("usage: fuzz_seeds FOLDER\n", stderr);
    return 2;
  }
  const std::string folder = argv[1];
  const auto write = [&](const std::string& name, const std::string& bytes) {
    const std::filesystem::path path = folder + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
  };
  for (const auto& [family, arch] : {std::pair{&kLladaFamily, "llada"}, std::pair{&kDreamFamily, "dream"},
                                     std::pair{&kLladaMoeFamily, "llada-moe"}, std::pair{&kLladaFamily, "diffuse"},
                                     std::pair{find_family("nemotron-labs-diffusion"), "nemotron-labs-diffusion"}}) {
    ModelConfig config = tiny_config(family);
    config.layers = 1;  // short inputs mutate faster
    write(std::string("gguf/") + arch, gguf_bytes(config, {.arch = arch, .type = DType::Q4_0}));
    const auto names = hf_names(config, Style::standard);
    write(std::string("safetensors/weights-") + arch, "s" + safetensors_bytes(fake_tensors(config, true), names));
    write(std::string("safetensors/config-") + arch, "c" + hf_config_json(config, Style::standard));
    const std::string json = hf_config_json(config, Style::standard);
    const std::string length = {static_cast<char>(json.size() & 255), static_cast<char>(json.size() >> 8)};
    write(std::string("safetensors/model-") + arch, "m" + length + json + safetensors_bytes(hf_tensors(config), names));
  }
  for (const RoundedForm& form : rounded_forms()) {
    ModelConfig config = tiny_config(&kLladaFamily);
    config.layers = 1;
    const RoundedFolder rounded = rounded_folder(config, form);
    const std::string length = {static_cast<char>(rounded.config.size() & 255),
                                static_cast<char>(rounded.config.size() >> 8)};
    write("safetensors/rounded-" + form.name, "m" + length + rounded.config + rounded.weights);
  }
  const auto u64 = [](uint64_t v) { return std::string(reinterpret_cast<const char*>(&v), 8); };
  const auto u32 = [](uint32_t v) { return std::string(reinterpret_cast<const char*>(&v), 4); };
  const std::string value(4, '\x3f');  // a float
  write("gguf/imatrix-dat", "i" + u32(1) + u32(1) + "a" + u32(2) + u32(2) + value + value + u32(3) + u32(1) + "t");
  write("gguf/imatrix", "iGGUF" + u32(3) + u64(2) + u64(0) +                            //
                            u64(9) + "a.in_sum2" + u32(1) + u64(8) + u32(0) + u64(0) +  //
                            u64(8) + "a.counts" + u32(1) + u64(8) + u32(0) + u64(32) + std::string(23, '\0') +
                            std::string(64, '\x3f'));
  for (int i = 0; i < kFileTypeCount; ++i) {  // a tensor of each type
    const auto type = static_cast<DType>(i);
    const std::string name(traits(type).name);
    std::string bytes =
        "GGUF" + u32(3) + u64(1) + u64(0) + u64(1) + "t" + u32(1) + u64(256) + u32(ggml_from_dtype(type)) + u64(0);
    bytes.resize((bytes.size() + 31) / 32 * 32);
    write("gguf/type-" + name, bytes + std::string(static_cast<size_t>(row_bytes(type, 256)), '\x35'));
  }
  for (const auto& [name, file] : {std::pair{"gguf/diffusion-gemma", "model.gguf"},
                                   std::pair{"safetensors/config-diffusion-gemma", "folder/config.json"}}) {
    std::ifstream in(std::string(LLADA_SOURCE_DIR "/tests/data/diffusion_gemma/") + file, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    write(name, (bytes.starts_with("GGUF") ? "" : "c") + bytes);
  }
  // q, k and v in one tensor; a model in two files.
  ModelConfig config = tiny_config(&kDreamFamily);
  config.layers = 1;
  const GgufOptions options{.arch = "dream", .type = DType::Q4_0};
  write("gguf/fused-qkv",
        gguf_bytes(gguf_metadata(config, options), with_fused_qkv(fake_tensors(config, false)), options.type));
  const auto parts = gguf_parts(config, options, {5, 0});
  const auto first = static_cast<uint32_t>(parts[0].size());
  write("gguf/parts", "p" + std::string(reinterpret_cast<const char*>(&first), sizeof first) + parts[0] + parts[1]);
  write("safetensors/config-olmo", "c" + hf_config_json(tiny_config(&kLladaFamily), Style::olmo));
  write("safetensors/index",
        R"(i{"metadata":{"total_size":1},"weight_map":{"a":"model-1.safetensors","b":"model-2.safetensors"}})");
  // Packed weights, whole and as an index alone.
  const PackedIndex packed{"avx2",
                           1,
                           {"/m.gguf", {.bytes = 1, .modified_ns = 2, .sample = 3}},
                           {{"a", -1, DType::Q4_0, 64, 64, 0, 100, 4}, {"b", 2, DType::F16, 64, 8, 4096, 10, 5}}};
  const auto tail = packed_index_bytes(packed, 4106);
  const std::string text(reinterpret_cast<const char*>(tail.data()), tail.size());
  write("packed/whole", "w" + std::string(4106, '\0') + text);
  write("packed/index", "i" + text.substr(0, text.size() - kPackedEndBytes));
  // Recorded routing: one step; two layers with a block that moves on; a row that chose nobody.
  const auto header = [](int layers, int experts, int used) {
    return R"({"format":"llada-routing","version":1,"model":"m","layers":)" + std::to_string(layers) +
           R"(,"experts":)" + std::to_string(experts) + R"(,"used":)" + std::to_string(used) + "}\n";
  };
  write("routing/one-step",
        header(1, 4, 2) +
            R"({"step":0,"layer":0,"positions":[3,4],"experts":[[1,2],[0,3]],"gates":[[0.5,0.5],[0.75,0.25]]})");
  std::string blocks = header(2, 3, 1);
  for (const char* step : {R"("step":0,"layer":0,"positions":[3])", R"("step":0,"layer":1,"positions":[3])",
                           R"("step":2,"layer":0,"positions":[4])", R"("step":2,"layer":1,"positions":[4])"})
    blocks += "{" + std::string(step) + R"(,"experts":[[2]],"gates":[[1]]})" + "\n";
  write("routing/blocks", blocks);
  write("routing/nobody", header(1, 2, 2) + "\n" +
                              R"({"step":7,"layer":0,"positions":[0,1],"experts":[[],[1]],"gates":[[],[-2e-3]]})" +
                              "\n");
  // Programs: bytes of no meaning, which make ops that nearly fit.
  for (uint64_t seed = 0; seed < 64; ++seed) {
    std::string bytes(160, '\0');
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(mix64(seed << 16 | i));
    write("program/" + std::to_string(seed), bytes);
  }
  return 0;
}
