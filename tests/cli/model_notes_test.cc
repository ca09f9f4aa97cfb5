// What a user is told where a file asks for something that the published code does not do, or where llama.cpp
// will not take a converted file as it is meant; and the command that other implementations are compared
// with.
#include <cstring>

#include "base/file.h"
#include "cli/process.h"

namespace llada::test {
namespace {

class ModelNotes : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_ / "foreign");
    const fs::path shipped = LLADA_SOURCE_DIR "/models/tiny-llada-moe";
    for (const char* name : {"model.safetensors", "tokenizer.json", "tokenizer_config.json"})
      fs::create_symlink(shipped / name, folder_ / "foreign" / name);
    // The shipped mixture as a file that is not ours would put it.
    Json config = Json::parse(*read_file(shipped / "config.json"));
    ASSERT_EQ(config.erase("llada_renormalise_gates"), 1u);
    config["model_type"] = "llada";
    std::ofstream(folder_ / "foreign" / "config.json") << config;
  }
  std::string path(const char* name) const { return (folder_ / name).string(); }
  const TempFolder temp_;
  const fs::path folder_ = temp_.path();
};

TEST_F(ModelNotes, GatesThatAFileWantsAndThePublishedCodeDoesNot) {
  const Json foreign = json_of({"inspect", path("foreign"), "--json"});
  const Json ours = json_of({"inspect", LLADA_SOURCE_DIR "/models/tiny-llada-moe", "--json"});
  EXPECT_EQ(foreign["config"]["gates_renormalised"], false);
  ASSERT_EQ(foreign["notes"].size(), 1u);
  EXPECT_THAT(foreign["notes"][0].get<std::string>(), HasSubstr("norm_topk_prob is true"));
  EXPECT_EQ(ours["config"]["gates_renormalised"], true);
  EXPECT_TRUE(ours["notes"].empty());
  EXPECT_THAT(run_llada({"inspect", path("foreign")}).out, HasSubstr("\nnote           norm_topk_prob is true"));
  const auto answer = [](const std::string& model) {
    return run_llada(with({"run", "-m", model}, split("-p 2+2 --gen-length 8 --block-length 8 --threshold 0.5")));
  };
  EXPECT_THAT(answer(path("foreign")).err, HasSubstr("llada: warning: norm_topk_prob is true"));
  EXPECT_THAT(answer(LLADA_SOURCE_DIR "/models/tiny-llada-moe").err, Not(HasSubstr("warning")));
}

// Nobody asked for llama.cpp when a model is converted; who inspects the file may want to know.
TEST_F(ModelNotes, InspectSaysWhereLlamaCppDiffers) {
  const auto converted =
      done({"convert", LLADA_SOURCE_DIR "/models/tiny-llada-moe", path("m.gguf"), "--type", "f16", "--json"});
  EXPECT_TRUE(Json::parse(converted.out)["notes"].empty());
  EXPECT_THAT(converted.err, Not(HasSubstr("warning")));
  const Json again = json_of({"inspect", path("m.gguf"), "--json"});
  EXPECT_EQ(again["config"]["gates_renormalised"], true) << "the converted file still knows";
  const Json& notes = again["notes"];
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_THAT(notes[0].get<std::string>(), HasSubstr("does not renormalise the gates"));
  EXPECT_THAT(notes[1].get<std::string>(), HasSubstr("tokenizer.ggml.pre is bailingmoe"));
  EXPECT_THAT(run_llada({"inspect", path("m.gguf")}).out,
              HasSubstr("\nnote           llama.cpp will give other tokens"));
}

// A GGUF file that does not say how its tokenizer cuts text: what is assumed is said, by a key that is there to be set.
TEST_F(ModelNotes, APreTokenizerThatTheFileDoesNotName) {
  done({"convert", tiny_model(), path("m.gguf"), "--type", "f16"});
  std::string bytes = *read_file(path("m.gguf"));
  for (std::string key : {"tokenizer.ggml.pre", "llada.tokenizer.regex"}) {
    const size_t at = bytes.find(key);
    ASSERT_NE(at, std::string::npos) << key;
    bytes[at + key.size() - 1] = 'y';
  }
  std::ofstream(path("m.gguf"), std::ios::binary) << bytes;
  const std::string says = "tokenizer.ggml.pre is missing: text is cut into words by the rules \"default\"";
  const Json inspected = json_of({"inspect", path("m.gguf"), "--json"});
  EXPECT_EQ(inspected["tokenizer"]["pre_tokenizer"], "default");
  EXPECT_THAT(inspected["notes"].get<std::vector<std::string>>(), testing::Contains(HasSubstr(says)));
  EXPECT_THAT(run_llada({"run", "-m", path("m.gguf"), "-p", "2+2", "--gen-length", "8"}).err,
              HasSubstr("llada: warning: " + says));
  done({"convert", path("m.gguf"), path("again.gguf"), "--type", "q8_0"});
  EXPECT_THAT(run_llada({"inspect", path("again.gguf")}).out, HasSubstr(says)) << "converting does not make it known";
}

// Rows behind the tokenizer's, large ones: nobody writes or tells their ids.
TEST_F(ModelNotes, RowsWithoutATokenAreNeverWritten) {
  constexpr int kTokens = 1012, kRows = 1024, kWidth = 256;
  done({"convert", tiny_model(), path("m.gguf"), "--type", "f16"});
  {
    std::fstream file(path("m.gguf"), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-(kRows - kTokens) * kWidth * 2, std::ios::end);  // the head's last rows
    for (int row = kTokens; row < kRows; ++row)
      for (int i = 0; i < kWidth; ++i) file << '\0' << (row % 2 == 0 ? '\x54' : '\xd4');  // 64, and -64
  }
  const auto text_of = [&](Words words) {
    words.insert(words.begin() + 1, {"-m", path("m.gguf")});
    return done(words).out;
  };
  for (const char* more : {"", "--temperature 1", "--temperature 1 --top-p 0.9", "--cfg-scale 1",
                           "--repeat-penalty 1.2", "--json-object 2", "--regex [^a]+"}) {
    const Json json =
        Json::parse(text_of(with({"run", "-p", "sort: 3 1 2", "--gen-length", "16", "--json"}, split(more))));
    for (const Json& id : json["tokens"]) EXPECT_LT(id.get<int>(), kTokens) << json;
    EXPECT_GT(json["tokens"].size(), 0u);
  }
  EXPECT_NE(text_of({"infill", "--text", "3+4=<mask:2>"}), "3+4=\n");
  // A likelihood is a share of all rows; what is best is a token, which greedy decoding would write.
  for (const std::string method : {"chain", "duel"}) {
    const Json scored = Json::parse(
        text_of(split("score -p 3+4= --continuation 7 --top 5 --json --method " + method)))["continuations"][0];
    const Json& token = scored["tokens"][0];
    EXPECT_LT(token["log_probability"].get<double>(), -100);
    ASSERT_EQ(token["top"].size(), 5u) << scored;
    for (const Json& one : token["top"]) EXPECT_LT(one["id"].get<int>(), kTokens) << scored;
    EXPECT_EQ(scored["greedy"].get<bool>(), token["top"][0]["id"] == token["id"]) << scored;
  }
  const Json asked =
      Json::parse(text_of(split("decide -p 3+4= --question 3+4=? --choice 1|2|3 --labels values --json")));
  const Json told = asked["answers"][0]["diagnostics"];
  EXPECT_LT(told["label_mass"].get<double>(), 0.1) << "of all rows: " << asked;
  EXPECT_EQ(told["argmax_is_label"], true) << asked;
}

// A template that is not followed is mentioned by all who lay out a chat, wherever the template stands.
TEST_F(ModelNotes, AnUnknownChatTemplate) {
  const fs::path shipped = LLADA_SOURCE_DIR "/models/tiny-llada", own = folder_ / "template";
  fs::create_directories(own);
  for (const char* name : {"model.safetensors", "tokenizer.json", "tokenizer_config.json", "config.json"})
    fs::create_symlink(shipped / name, own / name);
  const std::string says = "the chat template of the file is not one of those that are known";
  const auto warnings = [](const Words& words) {
    return run_llada(with(words, split("-p 2+2 --gen-length 8 --threshold 0.5"))).err;
  };
  EXPECT_THAT(warnings({"run", "-m", own.string()}), Not(HasSubstr("warning")));
  std::ofstream(own / "chat_template.jinja") << "[INST] {{ messages[-1].content }} [/INST]";
  EXPECT_THAT(warnings({"run", "-m", own.string()}), HasSubstr("llada: warning: " + says));
  EXPECT_THAT(run_llada({"inspect", own.string()}).out, HasSubstr("\nnote           " + says));
  const auto converted = run_llada({"convert", own.string(), path("t.gguf"), "--type", "f16"});
  EXPECT_THAT(converted.err, HasSubstr("llada: warning: " + says));
  EXPECT_THAT(warnings({"run", "-m", path("t.gguf")}), HasSubstr(says)) << "the converted file has the template";
}

TEST_F(ModelNotes, LogitsAreTheRecordedOnes) {
  const Json golden = Json::parse(*read_file(LLADA_SOURCE_DIR "/models/tiny-llada/golden.json"));
  const Json& item = golden["items"][0];
  std::string ids;
  for (const Json& id : item["canvas"]) ids += std::to_string(id.get<int>()) + "\n";
  const Json json =
      json_of({"logits", "-m", tiny_model(), "--ids", "-", "-o", path("rows"), "--json"}, {.stdin_text = ids});
  EXPECT_EQ(json["rows"], item["canvas"].size());
  const std::string bytes = *read_file(path("rows"));
  const auto vocab = json["vocab"].get<size_t>();
  ASSERT_EQ(bytes.size(), item["canvas"].size() * vocab * sizeof(float));
  std::vector<float> rows(bytes.size() / sizeof(float));
  std::memcpy(rows.data(), bytes.data(), bytes.size());
  size_t compared = 0;
  for (const Json& row : item["logits"])
    for (size_t t = 0; t < vocab; ++t, ++compared)
      ASSERT_NEAR(rows[row["pos"].get<size_t>() * vocab + t], row["values"][t].get<float>(), 2e-3f) << row["pos"];
  EXPECT_GT(compared, 4 * vocab);
}

}  // namespace
}  // namespace llada::test
