// Names and lists that come from outside, and which files are taken.
#include "hub/listing.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "hub/repository.h"
#include "must.h"

namespace llada::test {
namespace {

const std::string kCommit(40, 'a');

std::string listing_of(const std::string& siblings) {
  return fmt::format(R"({{"sha":"{}","siblings":[{}]}})", kCommit, siblings);
}

TEST(Repository, IsReadAsTyped) {
  const auto request = must(hub::parse_request("GSAI-ML/LLaDA-8B_1.5:sub/x-Q8_0.gguf", "refs/pr/1"));
  EXPECT_EQ(request->repository, (hub::Repository{"GSAI-ML", "LLaDA-8B_1.5"}));
  EXPECT_EQ(request->what, "sub/x-Q8_0.gguf");
  EXPECT_EQ(request->revision, "refs/pr/1");
  for (const char* address :
       {"https://huggingface.co/a/b", "https://huggingface.co/a/b/", "http://h.org/a/b/tree/main"})
    EXPECT_EQ(hub::parse_request(address)->repository.full_name(), "a/b") << address;
}

TEST(Repository, WhatIsNoneIsRefused) {
  for (const char* text : {"", "a", "a/", "/b", "a/b/c", "../b", "a/..", ".a/b", "a/-b", "a b/c", "a/b:", "a/b:../c",
                           "a/b:/c", "a/b?x", "https://huggingface.co/a", "a/\xc3\xa4"}) {
    const auto request = hub::parse_request(text);
    if (std::string(text) == "a/b:") {
      EXPECT_TRUE(request && request->what.empty()) << "nothing is asked for";
      continue;
    }
    ASSERT_FALSE(request) << text;
    EXPECT_EQ(request.error().kind, ErrorKind::invalid_input);
  }
  EXPECT_FALSE(hub::parse_request("a/b", "../main"));
  EXPECT_FALSE(hub::parse_request("a/b", ""));
  EXPECT_TRUE(hub::looks_like_repository("a/b:Q8_0"));
  EXPECT_FALSE(hub::looks_like_repository("./b"));
}

TEST(Repository, PathsStayBelowTheirFolder) {
  for (const std::string path : {"a", "a/b.c", "..a/b..", "a/.gitattributes", "...", "\xe4\xb8\xad/x"})
    EXPECT_TRUE(hub::is_safe_relative_path(path)) << path;
  for (const std::string& path :
       {std::string(), std::string("/a"), std::string("a//b"), std::string("a/"), std::string("../a"),
        std::string("a/.."), std::string("a/../../b"), std::string("./a"), std::string("a\\..\\b"),
        std::string("a\0b", 3), std::string("a\nb"), std::string(256, 'a'), std::string("a/") + std::string(1100, 'b'),
        std::string("a\x7f")})
    EXPECT_FALSE(hub::is_safe_relative_path(path)) << path;
}

TEST(Listing, IsReadWithAndWithoutSizes) {
  const auto listing = must(hub::parse_listing(
      listing_of(
          R"({"rfilename":"a"},{"rfilename":"d/b","size":7,"x":[]},{"rfilename":"c","size":130,"lfs":{"size":9000000000}})"),
      "x"));
  ASSERT_EQ(listing->files.size(), 3u);
  EXPECT_EQ(listing->commit, kCommit);
  EXPECT_EQ(listing->files[0].bytes, -1);
  EXPECT_EQ(listing->files[1].path, "d/b");
  EXPECT_EQ(listing->files[1].bytes, 7);
  EXPECT_EQ(listing->files[2].bytes, 9'000'000'000) << "of the file, not of its pointer";
}

TEST(Listing, HostileOnesAreErrorsOfOneLine) {
  std::string deep = R"({"sha":")" + kCommit + R"(","siblings":)";
  for (int i = 0; i < 100'000; ++i) deep += '[';
  std::string many = R"({"rfilename":"a"})";
  for (int i = 0; i < 20'000; ++i) many += R"(,{"rfilename":"a"})";
  const std::pair<std::string, std::string> cases[] = {
      {"", "not valid JSON"},
      {"[]", "not an object"},
      {"{}", "sha: is missing"},
      {R"({"sha":"../../x","siblings":[]})", "sha: found"},
      {R"({"sha":")" + std::string(40, 'A') + R"(","siblings":[]})", "sha: found"},
      {R"({"sha":")" + kCommit + R"("})", "siblings: is missing"},
      {R"({"sha":")" + kCommit + R"(","siblings":{}})", "siblings: found {}, needed a list"},
      {listing_of("3"), "siblings[0]: found 3, needed an object"},
      {listing_of(R"({"rfilename":7})"), "siblings[0].rfilename: found 7"},
      {listing_of(R"({"rfilename":"../../../etc/passwd"})"), "needed a file inside the folder"},
      {listing_of(R"({"rfilename":"/etc/passwd"})"), "needed a file inside the folder"},
      {listing_of(R"({"rfilename":"a\u0000b"})"), "needed a file inside the folder"},
      {listing_of(R"({"rfilename":"a\n[31mb"})"), "needed a file inside the folder"},
      {listing_of(R"({"rfilename":""})"), "needed a file inside the folder"},
      {deep, "deep"},
      {listing_of(many), "files"},
      {listing_of(R"({"rfilename":")" + std::string(size_t{2} << 20, 'a') + R"("})"), "runs on"},
      {std::string(hub::kMaxListingBytes + 1, ' '), "bytes"}};
  for (const auto& [text, says] : cases) {
    const auto listing = hub::parse_listing(text, "the list");
    ASSERT_FALSE(listing) << text.substr(0, 100);
    EXPECT_NE(listing.error().message.find(says), std::string::npos) << listing.error().message;
    EXPECT_EQ(listing.error().message.find('\n'), std::string::npos);
    EXPECT_LT(listing.error().message.size(), 300u);
  }
  const auto huge = hub::parse_listing(listing_of(R"({"rfilename":"a","size":18446744073709551615})"), "x");
  EXPECT_EQ(huge->files[0].bytes, -1);
}

using Files = std::vector<std::string>;

Files chosen(const Files& files, const std::string& what = "") {
  const auto choice = hub::choose_files(files, what, "o/n");
  return choice ? choice->files : Files{"error: " + choice.error().message};
}

TEST(Choice, OfGgufFilesFollowsThePreference) {
  const Files all = {"README.md", "m-Q2_K.gguf", "m-Q8_0.gguf", "m-Q4_K_M.gguf", "m-q4_0.gguf", "m-f16.gguf"};
  EXPECT_EQ(chosen(all), Files{"m-q4_0.gguf"});
  EXPECT_EQ(chosen({"m-Q2_K.gguf", "m-Q8_0.gguf", "m.Q4_K_M.gguf"}), Files{"m.Q4_K_M.gguf"});
  EXPECT_EQ(chosen({"m-IQ4_0X.gguf", "m-F16.gguf"}), Files{"m-F16.gguf"}) << "a word, not a part of one";
  EXPECT_EQ(chosen({"only.gguf", "mmproj-only.gguf", "imatrix.gguf"}), Files{"only.gguf"});
  EXPECT_EQ(chosen(all, "q8_0"), Files{"m-Q8_0.gguf"});
  EXPECT_EQ(chosen(all, "m-Q2_K.gguf"), Files{"m-Q2_K.gguf"}) << "a name is taken at its word";
  EXPECT_NE(chosen(all, "Q4_K").front().find("there are m-Q2_K.gguf"), std::string::npos);
  EXPECT_NE(chosen({"a.gguf", "b.gguf"}).front().find("name one"), std::string::npos);
  EXPECT_NE(chosen({"a-Q4_0.gguf", "b-Q4_0.gguf"}).front().find("a-Q4_0.gguf, b-Q4_0.gguf"), std::string::npos);
}

TEST(Choice, AModelInPartsIsAllOfThem) {
  const Files parts = {"m-Q4_0-00001-of-00003.gguf", "m-Q4_0-00002-of-00003.gguf", "m-Q4_0-00003-of-00003.gguf"};
  const Files all = {
      "b/" + parts[0], parts[2], "m-F16.gguf", parts[0], "README.md", parts[1], "m-Q4_0-00001-of-00002.gguf.txt"};
  EXPECT_EQ(chosen({parts[1], parts[2], parts[0]}), parts);
  EXPECT_EQ(chosen({parts[1], "m-F16.gguf", parts[2], parts[0]}, "q4_0"), parts);
  EXPECT_EQ(chosen(all, parts[0]), parts);
  EXPECT_EQ(chosen(all, parts[2]), parts) << "whichever is named";
  EXPECT_EQ(chosen(all, "f16"), Files{"m-F16.gguf"});
  EXPECT_NE(chosen({parts[0], parts[2]}).front().find("2 of 3 parts of m-Q4_0.gguf are there"), std::string::npos);
  EXPECT_NE(chosen(all, "b/" + parts[0]).front().find("1 of 3 parts of b/m-Q4_0.gguf"), std::string::npos);
}

TEST(Choice, AFileInRawPiecesIsAllOfThemInTheirOrder) {
  Files pieces;
  for (int i = 1; i <= 11; ++i) pieces.push_back(fmt::format("m-Q8_0.gguf.part{}of11", i));
  Files all = {"README.md", "config.json", "m-Q8_0.gguf.txt"};
  all.insert(all.end(), pieces.rbegin(), pieces.rend());
  EXPECT_EQ(chosen(all), pieces) << "part10 behind part9";
  for (const std::string& what : {std::string("q8_0"), std::string("m-Q8_0.gguf"), pieces[4]})
    EXPECT_EQ(chosen(all, what), pieces) << what;
  EXPECT_EQ(hub::choose_files(all, "", "a/b")->joined, "m-Q8_0.gguf");
  EXPECT_EQ(chosen({"m-Q4_0.gguf.part-00002-of-00002", "m-Q8_0.gguf", "m-Q4_0.gguf.part-00001-of-00002"}),
            (Files{"m-Q4_0.gguf.part-00001-of-00002", "m-Q4_0.gguf.part-00002-of-00002"}))
      << "by the same preference";
  all.push_back("m-Q8_0.gguf");
  EXPECT_EQ(chosen(all), Files{"m-Q8_0.gguf"}) << "it is there in one piece";
  EXPECT_EQ(chosen(all, pieces[4]), Files{pieces[4]}) << "a name is taken at its word";
  EXPECT_NE(chosen({pieces[0], pieces[2]}).front().find("o/n: found 2 of 11 pieces of m-Q8_0.gguf"), std::string::npos);
  EXPECT_NE(chosen({"m.gguf.1"}).front().find("no GGUF"), std::string::npos) << "a copy of what is not there";
}

TEST(Choice, OfTwoCutsSideBySideIsTheNamedOne) {
  const Files all = {"m.gguf-split-a", "m.gguf-split-b", "m.gguf.part1of2", "m.gguf.part2of2",
                     "m.gguf.part1of2.sha256"};
  EXPECT_NE(chosen(all).front().find("pieces of two cuts; needed one"), std::string::npos);
  EXPECT_EQ(chosen(all, all[0]), (Files{all[0], all[1]}));
  EXPECT_EQ(chosen(all, all[3]), (Files{all[2], all[3]}));
  EXPECT_NE(chosen({"m.gguf.part1", "m.gguf.part3"}).front().find("no piece number 2"), std::string::npos);
}

TEST(Choice, OfTwentyThousandCutFilesIsALine) {
  Files many;
  for (int i = 0; i < 20'000; ++i) many.push_back(fmt::format("m{}.gguf.part1of1", i));
  EXPECT_NE(chosen(many).front().find("name one of its files"), std::string::npos);
  EXPECT_EQ(chosen(many, many[9]), Files{many[9]});
}

TEST(Choice, OfAFolderLeavesOutWhatNobodyReads) {
  EXPECT_EQ(chosen({"README.md", "config.json", "logo.png", "model-00001-of-00002.safetensors",
                    "model-00002-of-00002.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
                    "tokenizer.json", "modeling_llada.py", "onnx/model.safetensors", "tokenizer_config.json"}),
            (Files{"config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors.index.json",
                   "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}));
  EXPECT_EQ(chosen({"config.json", "model.safetensors", "model-00001-of-00001.safetensors"}),
            (Files{"config.json", "model.safetensors"}));
  EXPECT_NE(chosen({"config.json", "model-00001-of-00003.safetensors", "model-00003-of-00003.safetensors"})
                .front()
                .find("2 of 3 weight files"),
            std::string::npos);
  EXPECT_EQ(chosen({"added_tokens.json", "config.json", "merges.txt", "model.safetensors", "special_tokens_map.json",
                    "tokenization_dream.py", "tokenizer_config.json", "vocab.json"}),
            (Files{"config.json", "vocab.json", "merges.txt", "tokenizer_config.json", "special_tokens_map.json",
                   "added_tokens.json", "model.safetensors"}));
  EXPECT_EQ(hub::choose_files({"config.json", "model.safetensors", "vocab.json"}, "", "o/n")->small, 2u);
  EXPECT_NE(chosen({"model.safetensors"}).front().find("no config.json"), std::string::npos);
  EXPECT_NE(chosen({"config.json", "pytorch_model.bin"}).front().find("pickles"), std::string::npos);
  EXPECT_NE(chosen({"README.md"}).front().find("no GGUF and no safetensors"), std::string::npos);
  EXPECT_NE(chosen({}).front().find("error"), std::string::npos);
}

}  // namespace
}  // namespace llada::test
