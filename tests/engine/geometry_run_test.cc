// The peaked models (geometry/peaked_model.h) through files, conversions, every instruction set and every
// device that runs here: folder and GGUF of a tied head, windows, a failing device, the emulated DSP with the
// head on either side; and synthesised models whose head is tied.
// labels of this file: native -threads
#include <gmock/gmock.h>

#include "engine/inspect.h"
#include "failing/failing_device.h"
#include "formats/convert.h"
#include "formats/family.h"
#include "formats/temp_folder.h"
#include "geometry/peaked_engine.h"
#include "golden.h"
#include "hexagon/hexagon_tools.h"
#include "kernels/kernels.h"
#include "study/synth.h"

namespace llada {
namespace {

decode::DecodeOptions short_answer(int64_t length) {
  decode::DecodeOptions o;
  o.gen_length = length;
  o.acceptance = decode::Acceptance::threshold;
  o.early_stop = decode::EarlyStop::none;
  return o;
}

// A short prompt and the answer to it.
void expect_answer(const PeakedEngine& engine, const std::string& what, int64_t length = 8) {
  const auto prompt = random_prompt(engine.spec, engine.spec.offset + 5, 7);
  decode::DecodeOptions o = short_answer(length);
  if (const int64_t block = engine.spec.config.attention_block; block > 0) o.block_length = block;
  EXPECT_EQ(engine.generate(prompt, o).tokens, answer_to(engine.spec, prompt, length)) << what;
}

bool has_head(const ModelSummary& summary) {
  return std::ranges::any_of(summary.tensors, [](const auto& t) { return t.name == "output.weight"; });
}

class GeometryFilesGolden : public testing::TestWithParam<const char*> {};
// labels: golden oracle, long for dream llada_moe
INSTANTIATE_TEST_SUITE_P(Models, GeometryFilesGolden, testing::Values("llada", "dream", "llada_moe", "llada2"),
                         [](const auto& model) { return std::string(model.param); });

TEST_P(GeometryFilesGolden, FirstAFolderThenEveryConversionOfIt) {
  const TempFolder folder;
  const PeakedSpec& spec = peaked_spec(GetParam());
  const SmallModel weights = make_peaked_model(spec);
  write_hf_folder(weights, folder / "hf");
  const LoadOptions options = {.isa = isa_from_environment(), .threads = 2};
  const PeakedEngine from_folder(GetParam(), folder / "hf", options);
  EXPECT_TRUE(from_folder.model->config().tied_head);
  expect_answer(from_folder, "folder");

  std::vector<int32_t> tokens = random_prompt(spec, spec.offset + 5, 7);
  tokens.resize(tokens.size() + 3, spec.config.mask_id);
  const std::vector<int32_t> positions = {0, static_cast<int32_t>(tokens.size()) - 1};
  const Rows expected = reference_logits(weights, tokens, positions);
  const auto expect_logits = [&](const PeakedEngine& engine, const char* what) {
    const auto logits = engine.logits(tokens, positions);
    double worst = 0;
    for (size_t i = 0; i < logits.size(); ++i)
      worst = std::max(worst, std::fabs(logits[i] - expected[i / expected[0].size()][i % expected[0].size()]));
    EXPECT_LT(worst, 5e-4) << what;
  };
  expect_logits(from_folder, "folder");

  const auto summary = must(inspect_model(folder / "hf"));
  EXPECT_FALSE(has_head(*summary));
  const std::string gguf = folder / "converted.gguf";
  for (const DType type :
       {DType::F32, DType::F16, DType::BF16, DType::Q8_0, DType::Q4_0, DType::Q4_1, DType::Q5_0, DType::Q5_1}) {
    if (quick() && type != DType::F32 && type != DType::Q4_0) continue;
    const std::string name(traits(type).name);
    const auto converted =
        must(convert_to_gguf(from_folder.model->file(), nullptr, gguf, {.type = type, .progress = {}}));
    const auto file = must(inspect_model(gguf));
    EXPECT_FALSE(has_head(*file)) << "a tied head is not written";
    EXPECT_EQ(file->parameters, summary->parameters);
    const PeakedEngine engine(GetParam(), gguf, options);
    EXPECT_TRUE(engine.model->config().tied_head);
    expect_answer(engine, name);
    if (type == DType::F32) expect_logits(engine, "f32 file");
  }
}

// Some tools write the head of a tied model as well. LLaDA's code has none beside the embedding; of the others it is
// the head, here one that gives other answers.
TEST_P(GeometryFilesGolden, FirstOfTwoHeads) {
  const TempFolder folder;
  const SmallModel weights = make_peaked_model(peaked_spec(GetParam()));
  write_hf_folder(weights, folder / "one");
  write_hf_folder(weights, folder / "two", true);
  const LoadOptions options = {.isa = isa_from_environment(), .threads = 2};
  const auto summary = must(inspect_model(folder / "two"));
  EXPECT_TRUE(has_head(*summary));
  ASSERT_EQ(summary->config.notes.size(), inspect_model(folder / "one")->config.notes.size() + 1);
  if (std::string(GetParam()) != "llada") {
    EXPECT_FALSE(summary->config.tied_head);
    return;
  }
  const PeakedEngine two(GetParam(), folder / "two", options);
  expect_answer(two, "both heads in the folder");
  EXPECT_EQ(summary->parameters, inspect_model(folder / "one")->parameters) << "what is not read does not count";
  if (quick()) return;
  const std::string gguf = folder / "converted.gguf";
  ASSERT_TRUE(convert_to_gguf(two.model->file(), nullptr, gguf, {.type = DType::Q8_0, .progress = {}}));
  EXPECT_FALSE(has_head(*inspect_model(gguf)));
  expect_answer(PeakedEngine(GetParam(), gguf, options), "converted");
}

// DiffusionGemma has models of its own (diffusion_gemma_test.cc).
TEST(GeometryRun, EveryFamilyHasAPeakedModel) {
  for (const Family* family : families())
    if (!family->autoregressive && family != &kDiffusionGemmaFamily) {
      EXPECT_TRUE(std::ranges::any_of(peaked_specs(), [&](const PeakedSpec& s) { return s.config.family == family; }))
          << family->name;
    }
}

// Every family, in types that take turns.
std::vector<std::pair<std::string, DType>> every_family() {
  constexpr DType kTypes[] = {DType::Q4_0, DType::Q8_0, DType::F16, DType::F32};
  std::vector<std::pair<std::string, DType>> all;
  for (const PeakedSpec& spec : peaked_specs())
    if (spec.name != "far") all.emplace_back(spec.name, kTypes[all.size() % std::size(kTypes)]);
  return all;
}

TEST(GeometryRun, EveryInstructionSetGivesTheSameAnswer) {
  for (const auto* table : kernels::available())
    for (const auto& [name, type] : every_family()) {
      const PeakedEngine engine(name, type, {.isa = std::string(table->isa), .threads = 2});
      expect_answer(engine, fmt::format("{} {}", table->isa, name));
    }
}

TEST(GeometryRun, SimWindowsGiveEveryFamilysAnswer) {
  for (const auto& [name, type] : every_family()) {
    const PeakedEngine engine(
        name, type,
        {.device = "sim:v79-8elite,window=60%,head=cpu,fallback=none", .plugin = &failing_devices(), .threads = 2});
    expect_answer(engine, name);
  }
}

TEST(GeometryRun, SimWindowsAndAFailingDeviceGiveTheSameAnswer) {
  for (const auto& [name, type] : {std::pair{"llada", DType::Q4_0}, {"llada2", DType::Q8_0}, {"large", DType::Q4_0}})
    for (const char* device :
         {"sim:v79-8elite,window=60%,head=cpu,fallback=none", "sim:v79-8elite,head=npu,fallback=none",
          "sim:sm8750-paper,window=100%,fallback=none", "sim:v79-8elite,fail=gone:5"}) {
      const PeakedEngine engine(name, type, {.device = device, .plugin = &failing_devices(), .threads = 2});
      expect_answer(engine, fmt::format("{} on {}", name, device));
    }
}

// The head's matrix is the DSP's, the rows that the host picks are the host's: one stored matrix in two
// packed forms. An emulated row is slow. Every family runs, without a fallback.
TEST(GeometryRun, TheEmulatedDspGivesTheSameAnswer) {
  SKIP_WITHOUT_EMULATOR();
  const TempFolder folder;
  for (const auto& [name, any] : every_family()) {
    const bool first = name == "llada" || name == "dream";
    if (name == "large" || (quick() && !first)) continue;
    const DType type = name == "dream" ? DType::Q8_0 : DType::Q4_0;
    const SmallModel weights = make_peaked_model(peaked_spec(name));
    const std::string gguf = folder / (name + ".gguf");
    ASSERT_TRUE(convert_to_gguf(in_memory(weights), nullptr, gguf, {.type = type, .progress = {}}));
    for (const char* device : {"hexagon:fallback=none", "hexagon:head=cpu,window=60%,fallback=none"}) {
      expect_answer(PeakedEngine(name, gguf, {.device = device, .threads = 1}), fmt::format("{} on {}", name, device),
                    3);
      if (!first) break;
    }
  }
}

// The embedding of a tied model is read by the head and picked from, so its stored bytes stay where those of
// the other matrices are let go; without that the prompt would be zeros.
TEST(TiedSynth, TheModelInMemoryIsTheModelInTheFile) {
  const TempFolder folder;
  for (const char* type : {"q4_0", "q8_0", "q4_k", "f16"}) {
    SynthRequest tied = *synth_request("tiny", type, 0), untied = tied;
    tied.preset.config.tied_head = true;
    const std::string path = folder / "tied.gguf", other = folder / "untied.gguf";
    const auto report = must(synthesize_file(path, tied, {.threads = 2}));
    const auto with_head = must(synthesize_file(other, untied, {.threads = 2}));
    const int64_t head = tied.preset.config.vocab * tied.preset.config.width;
    EXPECT_EQ(report->parameters, with_head->parameters - head);
    EXPECT_FALSE(has_head(*inspect_model(path)));
    const auto file = load_model(path);
    EXPECT_TRUE(file->config().tied_head);
    const auto memory = must(synthesize_model(tied, {.threads = 2}, {.isa = isa_from_environment(), .threads = 2}));
    const std::vector<int32_t> tokens = {5, 900, 17, 333, 42}, positions = {0, 4};
    const auto logits = *open_session(*memory)->logits(tokens, positions);
    EXPECT_EQ(logits, *open_session(file)->logits(tokens, positions)) << type;
    EXPECT_GT(*std::ranges::max_element(logits), 0) << "not zeros";
    // As much is packed as where the head has a matrix of its own.
    EXPECT_EQ(load_model(path)->device().memory_bytes(), load_model(other)->device().memory_bytes()) << type;
  }
}

}  // namespace
}  // namespace llada
