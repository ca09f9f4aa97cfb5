// Whole answers of DiffusionGemma: ids are those of its class's own generate(), whose draws are made as here
// (tools/upstream/diffusion_gemma.py).
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "base/random.h"
#include "engine/inspect.h"
#include "engine/session.h"
#include "failing/failing_device.h"
#include "formats/temp_folder.h"
#include "geometry/tiny_gemma.h"
#include "kernels/kernels.h"
#include "must.h"

namespace llada {
namespace {

using nlohmann::json;
const std::string kMade = LLADA_SOURCE_DIR "/tests/data/diffusion_gemma/";

// On every instruction set, and on a phone whose DSP has what is no expert's.
class DiffusionGemmaAnswers : public testing::TestWithParam<std::string> {};
std::vector<std::string> own_devices() {
  std::vector<std::string> devices;
  for (const auto* table : kernels::available()) devices.emplace_back(table->isa);
  devices.emplace_back("sim:v79-8elite,window=60%,fallback=none");
  return devices;
}
INSTANTIATE_TEST_SUITE_P(Devices, DiffusionGemmaAnswers, testing::ValuesIn(own_devices()),
                         [](const auto& device) { return device.param.substr(0, device.param.find(':')); });

// The file with keys in front of the others. Together they fill 96 bytes, so that its tensors stay aligned to 32.
std::string with_temperatures(float t_min, float t_max) {
  std::ifstream in(kMade + "model.gguf", std::ios::binary);
  std::string file{std::istreambuf_iterator<char>(in), {}}, keys;
  const auto put = [&](auto number) { keys.append(reinterpret_cast<const char*>(&number), sizeof number); };
  const auto add = [&](std::string_view key, uint32_t type, auto value) {
    put(uint64_t{key.size()});
    keys += key;
    put(type);
    put(value);
  };
  constexpr uint32_t kUint32 = 4, kFloat32 = 6;  // GGUF's value types
  add("diffusion.eb_t_min", kFloat32, t_min);
  add("diffusion.eb_t_max", kFloat32, t_max);
  add("test.padding", kUint32, uint32_t{0});
  constexpr size_t kCount = 16, kKeys = 24;  // magic, version, tensors; number of keys; keys
  uint64_t count = 0;
  std::memcpy(&count, &file.at(kCount), sizeof count);
  count += 3;
  std::memcpy(&file.at(kCount), &count, sizeof count);
  return file.insert(kKeys, keys);
}

TEST_P(DiffusionGemmaAnswers, AreThoseOfItsClass) {
  std::ifstream in(kMade + "golden.json");
  const json golden = json::parse(in);
  const bool sim = GetParam().starts_with("sim");
  const TempFolder folder;
  for (const json& answer : golden["answers"]) {
    folder.write("made.gguf", with_temperatures(answer["t_min"], answer["t_max"]));
    const auto model = must(Model::load(folder / "made.gguf", {.device = sim ? GetParam() : "cpu",
                                                               .plugin = &failing_devices(),
                                                               .isa = sim ? "" : GetParam(),
                                                               .threads = 2}));
    const auto session = must(Session::create(*model, {}));
    decode::DecodeOptions o;
    o.gen_length = answer["canvases"].get<int64_t>() * golden["canvas_length"].get<int64_t>();
    o.denoising_steps = answer["steps"];
    o.entropy_bound = answer["entropy_bound"];
    o.seed = answer["seed"];
    const auto got = must((*session)->generate(answer["prompt"].get<std::vector<int32_t>>(), o, {}));
    const auto expected = answer["tokens"].get<std::vector<int32_t>>();  // up to the first end
    ASSERT_GE(got->tokens.size(), expected.size());
    EXPECT_EQ(std::vector<int32_t>(got->tokens.begin(), got->tokens.begin() + std::ssize(expected)), expected)
        << "seed " << o.seed;
  }
}

// A command that would be refused is none.
TEST(DiffusionGemma, InspectNamesTheCommandThatRunsIt) {
  const TempFolder folder;
  const auto bare = inspect_model(kMade + "model.gguf"), whole = inspect_model(write_tiny_gemma(folder / "tiny.gguf"));
  ASSERT_TRUE(bare && whole);
  EXPECT_EQ(bare->missing, "") << "token ids can be run";
  EXPECT_EQ(bare->command, "") << "it has no tokenizer";
  EXPECT_EQ(whole->command, fmt::format("llada run {} 'Why is the sky blue?'", folder / "tiny.gguf"));
}

// Takes the best tokens as a small one does, however small.
TEST(DiffusionGemma, NoTemperatureIsTooSmall) {
  const auto model = must(Model::load(kMade + "model.gguf", {.threads = 1}));
  const auto session = Session::create(*model, {});
  std::vector<int32_t> tokens[2];
  for (const double temperature : {1e-9, 1e-40}) {
    decode::DecodeOptions o;
    o.gen_length = 8, o.denoising_steps = 3, o.seed = 5, o.temperature = temperature;
    const auto got = must((*session)->generate(std::vector<int32_t>{5, 6, 7}, o, {}));
    tokens[temperature < 1e-30] = got->tokens;
  }
  EXPECT_EQ(tokens[0], tokens[1]);
}

// Answers of random weights fit all the same, over several canvases; what the form fixed is fed in every step.
TEST(DiffusionGemma, AnswersFitTheirForm) {
  const TempFolder folder;
  const auto model = must(Model::load(write_tiny_gemma(folder / "tiny.gguf"), {.threads = 2}));
  const auto session = must(Session::create(*model, {}));
  const std::vector<int32_t> prompt = (*model)->tokenizer().encode("why is it so");
  std::set<std::string> texts;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    decode::DecodeOptions o;
    o.gen_length = 40, o.denoising_steps = 3, o.seed = seed;
    o.regex = "(ab|cd|xyz)-[0-9]{20}(, [p-s]+)?";
    const auto got = must((*session)->run(prepare(**model, {.tokens = prompt, .options = o}).value(), {}));
    EXPECT_TRUE(std::regex_match(got->text, std::regex(o.regex))) << got->text;
    EXPECT_TRUE(got->fits);
    texts.insert(got->text);
    o.regex.clear();
    o.form_template = R"({"age": <int 0..150>, "name": <string>})";
    int64_t fixed = 0;
    const auto filled = (*session)->run(
        prepare(**model, {.tokens = prompt, .options = o}).value(), [&](const decode::StepEvent& event) {
          if (event.plan.encode) return true;
          for (size_t i = 0; i < event.plan.rows.size(); ++i) {
            const auto p = static_cast<size_t>(event.plan.rows[i]);
            const bool now =
                std::ranges::find(event.edits, event.plan.rows[i], &decode::Edit::position) != event.edits.end();
            if (event.canvas.states[p] != decode::TokenState::stable || now) continue;
            EXPECT_EQ(event.plan.inputs[i], event.canvas.tokens[p]);
            ++fixed;
          }
          return true;
        });
    ASSERT_TRUE(filled) << filled.error().message;
    const json object = json::parse(filled->text, nullptr, false);
    EXPECT_TRUE(object.is_object() && object["name"].is_string() && object["age"] <= 150) << filled->text;
    EXPECT_GT(fixed, 0);
  }
  EXPECT_GT(texts.size(), 1u) << "chosen by the model";
}

// The model is the same but for the canvas that its file asks for.
std::shared_ptr<const Model> with_canvas(const TempFolder& folder, int64_t length) {
  Preset preset = tiny_gemma();
  preset.config.canvas.length = length;
  const std::string path = folder / fmt::format("canvas-{}.gguf", length);
  return *must(Model::load(write_tiny_gemma(path, DType::F32, preset), {.threads = 2}));
}

TEST(DiffusionGemma, AShortAnswerHasAShortCanvas) {
  const TempFolder folder;
  const auto whole = with_canvas(folder, 64), half = with_canvas(folder, 32);
  const auto answer = [&](const std::shared_ptr<const Model>& model, int64_t gen_length, std::vector<int32_t> prompt) {
    decode::DecodeOptions o;
    o.gen_length = gen_length, o.denoising_steps = 4, o.seed = 3, o.early_stop = decode::EarlyStop::none;
    return *must((*must(Session::create(model, {})))->generate(prompt, o, {}));
  };
  const std::vector<int32_t> prompt = {5, 9, 40, 41, 42};
  const auto got = answer(whole, 20, prompt), same = answer(half, 20, prompt);
  EXPECT_EQ(got.tokens, same.tokens);
  EXPECT_EQ(got.stats.decode.rows, same.stats.decode.rows);
  EXPECT_NE(got.tokens, answer(with_canvas(folder, 48), 48, prompt).tokens) << "the width is part of the input";
  const auto two = answer(whole, 70, prompt);
  EXPECT_EQ(std::ssize(two.tokens), 70);
  EXPECT_EQ(two.stats.decode.rows, (5 + 64 * 4) + (64 + 16 * 4)) << "encoded and denoised, 64 and then 16";
}

// Layers with a sliding window of 20 read what another piece has stored.
TEST(DiffusionGemma, PiecesOfAPromptChangeNoAnswer) {
  const TempFolder folder;
  const auto model = must(Model::load(write_tiny_gemma(folder / "tiny.gguf"), {.threads = 2}));
  decode::DecodeOptions o;
  o.gen_length = 16, o.denoising_steps = 3, o.seed = 2, o.early_stop = decode::EarlyStop::none;
  std::vector<int32_t> prompt;
  for (uint64_t i = 0; i < 1300; ++i) prompt.push_back(8 + static_cast<int32_t>(mix64(i) % 300));
  std::vector<std::vector<int32_t>> tokens;
  std::vector<std::vector<double>> confidences;
  for (const int64_t begin : {0, 40, 530, 1100}) {  // positions that an earlier request has stored
    const auto prefixes = std::make_shared<PrefixCache>(int64_t{64} << 20);
    const auto session = must(Session::create(*model, {.prefixes = prefixes}));
    if (begin > 0) must((*session)->generate(std::vector(prompt.begin(), prompt.begin() + begin), o, {}));
    std::vector<double>& sure = confidences.emplace_back();
    const auto got = must((*session)->run(prepare(**model, {.tokens = prompt, .options = o}).value(),
                                          [&](const decode::StepEvent& event) {
                                            for (const decode::Edit& edit : event.edits)
                                              sure.push_back(edit.confidence);
                                            return true;
                                          }));
    EXPECT_GE(got->stats.reused_positions, begin / 32 * 32);
    tokens.push_back(got->tokens);
  }
  for (size_t i = 1; i < tokens.size(); ++i) {
    EXPECT_EQ(tokens[i], tokens[0]);
    EXPECT_EQ(confidences[i], confidences[0]) << "bit for bit";
  }
}

// A prompt is encoded causally, so what another one begins with may be taken from it.
TEST(DiffusionGemma, KeptPrefixesChangeNoAnswer) {
  const auto model = must(Model::load(kMade + "model.gguf", {.threads = 2}));
  const auto prefixes = std::make_shared<PrefixCache>(int64_t{16} << 20);
  const auto plain = Session::create(*model, {}), keeping = Session::create(*model, {.prefixes = prefixes});
  ASSERT_TRUE(plain && keeping);
  std::vector<int32_t> prompt;
  const auto more = [&](int64_t count) {
    for (int64_t i = 0; i < count; ++i) prompt.push_back(3 + static_cast<int32_t>(mix64(prompt.size() * 31 + 7) % 93));
  };
  decode::DecodeOptions o;
  o.gen_length = 16, o.denoising_steps = 5, o.seed = 2;
  o.early_stop = decode::EarlyStop::none;
  more(70);
  int64_t reused = 0;
  for (int turn = 0; turn < 3; ++turn) {
    const auto alone = (*plain)->generate(prompt, o, {}), kept = (*keeping)->generate(prompt, o, {});
    ASSERT_TRUE(alone && kept);
    EXPECT_EQ(alone->tokens, kept->tokens) << "turn " << turn;
    EXPECT_EQ(alone->stats.reused_positions, 0);
    EXPECT_EQ(kept->stats.reused_positions > reused, turn > 0) << "what the turn before has encoded";
    reused = kept->stats.reused_positions;
    prompt.insert(prompt.end(), kept->tokens.begin(), kept->tokens.end());
    more(20);
  }
  prompt[40] = prompt[40] == 5 ? 6 : 5;
  const auto alone = (*plain)->generate(prompt, o, {}), kept = (*keeping)->generate(prompt, o, {});
  ASSERT_TRUE(alone && kept);
  EXPECT_EQ(alone->tokens, kept->tokens);
  EXPECT_EQ(kept->stats.reused_positions, 32) << "up to the token that differs, in pages of 32";
}

}  // namespace
}  // namespace llada
