// Presets: the built-in ones parse, files come back as written, and a file that is wrong is refused by field.
#include <gtest/gtest.h>

#include "cli/options.h"
#include "engine/decode_preset.h"

namespace llada::cli {
namespace {

TEST(DecodePreset, BuiltInOptionsAreValid) {
  for (const char* name : {"exact", "balanced", "fast", "llada2", "llada2.1", "llada2.2"}) {
    const auto preset = find_decode_preset(name);
    ASSERT_TRUE(preset) << name;
    EXPECT_EQ(preset->name, name);
    const auto options = parse_decode_options(preset->options);
    EXPECT_TRUE(options) << name << ": " << options.error().message;
  }
  // What a block-causal model can do.
  for (const char* name : {"exact", "balanced", "fast", "llada2", "llada2.1", "llada2.2"}) {
    const auto options = parse_decode_options(find_decode_preset(name, true, 32)->options);
    ASSERT_TRUE(options) << name << ": " << options.error().message;
    EXPECT_TRUE(decode::validate(*options, false, 32)) << name;
  }
  decode::ModelKind together(32);
  together.whole_blocks = true;
  for (const char* name : {"exact", "balanced", "fast", "llada2", "llada2.1", "llada2.2"}) {
    const auto options = parse_decode_options(find_decode_preset(name, true, together)->options);
    ASSERT_TRUE(options) << name;
    const Status status = decode::validate(*options, false, together);
    EXPECT_TRUE(status) << name << ": " << status.error().message;
  }
  EXPECT_NE(find_decode_preset("balanced", true, 32)->options, find_decode_preset("fast", true, 32)->options);
  EXPECT_EQ(decode::as_flags(*parse_decode_options(find_decode_preset("exact")->options)), "") << "nothing changes";
  EXPECT_NE(find_decode_preset("balanced")->options, find_decode_preset("fast")->options);
}

TEST(DecodePreset, UnknownNamesAreRefused) {
  const auto preset = find_decode_preset("brisk");
  ASSERT_FALSE(preset);
  EXPECT_EQ(preset.error().message,
            "found 'brisk', needed one of exact, balanced, fast, llada2, llada2.1, llada2.2, sdar, "
            "rnd1, fast-dllm-v2, wedlm, nemotron, nemotron-spec, or a preset file");
  EXPECT_FALSE(find_decode_preset(""));
  for (const char* removed : {"npu", "long"})
    EXPECT_TRUE(
        find_decode_preset(removed).error().message.starts_with(std::string("'") + removed + "' was removed: "));
}

TEST(DecodePreset, TextComesBack) {
  const DecodePreset preset{.name = "mine", .options = "--threshold 0.8"};
  const auto back =
      parse_decode_preset(decode_preset_text(preset, {"m", "d", "t", 100, 1, 0.5, -0.5, 0.9, 4, 500}), "f");
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->name, "mine");
  EXPECT_EQ(back->options, "--threshold 0.8");
  const auto bare =
      parse_decode_preset(R"({"format":"llada-preset","version":1,"name":"n","options":"--kv dual"})", "f");
  ASSERT_TRUE(bare) << bare.error().message;
  EXPECT_EQ(bare->options, "--kv dual");
}

TEST(DecodePreset, WrongFilesAreRefusedByField) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "f: not valid JSON"},
      {"[]", "f: the JSON is not an object"},
      {"{}", "f: format: is missing"},
      {R"({"format":"preset"})", "format: found \"preset\""},
      {R"({"format":"llada-preset","version":9})", "version: found 9"},
      {R"({"format":"llada-preset","version":1,"name":7})", "name: found 7"},
      {R"({"format":"llada-preset","version":1,"name":"n","options":["--kv"]})", "options: found [\"--kv\"], needed a string"},
      {R"({"format":"llada-preset","version":1,"name":"n","options":"","thresold":1})", "thresold: is not known"},
      {R"({"format":"llada-preset","version":1,"name":"n","options":"","tuned":{}})", "f: tuned.model: is missing"},
      {R"({"format":"llada-preset","version":1,"name":"n","name":"m","options":""})", "appears twice"},
  };
  for (const auto& [text, says] : cases) {
    const auto preset = parse_decode_preset(text, "f");
    ASSERT_FALSE(preset) << text;
    EXPECT_EQ(preset.error().kind, ErrorKind::invalid_input);
    EXPECT_NE(preset.error().message.find(says), std::string::npos) << preset.error().message;
  }
}

}  // namespace
}  // namespace llada::cli
