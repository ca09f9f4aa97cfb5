// The files that a user names: texts of any encoding, pipes in the place of files, disks that are full.
#include <sys/resource.h>
#include <sys/stat.h>

#include <thread>

#include "cli/message_history.h"
#include "cli/process.h"
#include "engine/convert.h"

namespace llada::test {
namespace {

constexpr const char* kSortPrompt = "Sort the numbers from smallest to largest: 38 41 6";
constexpr const char* kUtf8Mark = "\xEF\xBB\xBF";

class UserFiles : public ::testing::Test {
 protected:
  ProcessResult run(Words words, std::string stdin_text = {}) const {
    return run_llada(words, {.stdin_text = std::move(stdin_text), .environment = {"XDG_CACHE_HOME=" + folder.path()}});
  }
  ProcessResult answer(const Words& more, std::string stdin_text = {}) const {
    return run(with({"run", "-q", "-m", tiny_model(), "-n", "16"}, more), std::move(stdin_text));
  }

  TempFolder folder;
};

TEST_F(UserFiles, AByteOrderMarkIsNoPartOfAText) {
  const std::string text = kSortPrompt, marked = kUtf8Mark + text;
  const auto plain = answer({text});
  ASSERT_EQ(plain.status, 0) << plain.err;
  EXPECT_EQ(answer({"-f", folder.write("marked", marked)}).out, plain.out);
  EXPECT_EQ(answer({}, marked).out, plain.out);
  const auto infill = [&](const Words& more) { return run(with({"infill", "-q", "-m", tiny_model()}, more)); };
  EXPECT_EQ(infill({"-f", folder.write("gaps", kUtf8Mark + std::string("2+2=<mask:1>."))}).out,
            infill({"--text", "2+2=<mask:1>."}).out);
  done({"logits", "-m", tiny_model(), "--ids", folder.write("ids", kUtf8Mark + std::string("1 2 3")), "-o",
        folder / "rows"});
  const std::string talk = run({"chat", "-q", "-m", tiny_model(), "-n", "16"}, text + "\n").out;
  EXPECT_EQ(run({"chat", "-q", "-m", tiny_model(), "-n", "16"}, marked + "\n").out, talk);
}

// As Windows' editors write it: UTF-16 with its mark, lines that end with \r\n.
TEST_F(UserFiles, ATextIsTheSameWhicheverSystemWroteIt) {
  const auto wide = [](std::string_view text) {
    std::string bytes = "\xFF\xFE";
    for (const char c : text) bytes += {c, '\0'};
    return bytes;
  };
  const std::string lines = "Write as JSON:\nEric is 31 years old,\nlives in Oslo.";
  std::string windows;
  for (const char c : lines) windows += c == '\n' ? "\r\n" : std::string(1, c);
  const auto plain = answer({"-f", folder.write("plain", lines)});
  ASSERT_EQ(plain.status, 0) << plain.err;
  EXPECT_EQ(answer({"-f", folder.write("windows", windows)}).out, plain.out);
  EXPECT_EQ(answer({"-f", folder.write("wide", wide(windows))}).out, plain.out);
  EXPECT_EQ(answer({}, wide(windows)).out, plain.out);
  const auto scored = [&](const std::string& name, const std::string& text) {
    return run({"score", "-m", tiny_model(), "--method", "chain", "--tasks", folder.write(name, text), "--json"});
  };
  const std::string tasks = R"({"prompt":"a","choices":[" b"," c"],"answer":0})";
  const auto total = [](const ProcessResult& result) { return result.out.substr(0, result.out.find("\"seconds\"")); };
  const std::string all = total(scored("unix", tasks + "\n" + tasks + "\n"));
  ASSERT_TRUE(all.contains("\"n\":2")) << all;
  EXPECT_EQ(total(scored("other", wide(tasks + "\r\n" + tasks))), all);
}

TEST_F(UserFiles, WhatIsNotUtf8IsRefusedWithItsPlace) {
  const std::string latin = folder.write("latin1.txt", "one\ncaf\xE9"),
                    wide = folder.write("wide", std::string("\xFF\xFE\0\0h\0\0\0", 8));
  const std::string message = "byte 8 (line 2): found 0xe9, which is not UTF-8 there";
  expect_one_line(answer({}, "one\ncaf\xE9"), 2, "stdin: " + message);
  expect_one_line(answer({"-f", wide}), 2, wide + ": found UTF-32, needed UTF-8");
  expect_one_line(run({"chat", "-q", "-m", tiny_model()}, "caf\xE9\n"), 2, "the message: byte 4 (line 1)");
  const std::string text = "one\ncaf\xE9", m = tiny_model();
  for (const auto& [words, where] : {std::pair<Words, std::string>{{"run", "-m", m, "-f", latin}, latin},
                                     {{"run", "-m", m, "-p", text}, "prompt"},
                                     {{"run", "-m", m, "--system", text, kSortPrompt}, "--system"},
                                     {{"infill", "-m", m, "-f", latin}, latin},
                                     {{"infill", "-m", m, "--text", text}, "--text"},
                                     {{"score", "-m", m, "-p", text, "--continuation", "a"}, "-p"},
                                     {{"score", "-m", m, "-p", "a", "--continuation", text}, "--continuation"},
                                     {{"score", "-m", m, "--tasks", latin}, latin},
                                     {{"eval", "-m", m, "--tasks", latin}, latin},
                                     {{"logits", "-m", m, "--ids", latin, "-o", folder / "rows"}, latin},
                                     {{"serve", "-m", m, "--port", "0", "--api-key-file", latin}, latin}})
    expect_one_line(run(words), 2, where + ": " + message);
}

TEST_F(UserFiles, ATextMayComeOutOfAPipeAndAModelMayNot) {
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const Words& words : {Words{"inspect", pipe}, Words{"run", "-m", pipe, "x"}, Words{"pack", pipe},
                             Words{"convert", pipe, folder / "out.gguf", "--type", "f16"}})
    expect_one_line(run(words), 2, pipe + ": not a regular file");
  const auto plain = answer({kSortPrompt});
  std::thread writer([&] { std::ofstream(pipe) << kSortPrompt; });
  EXPECT_EQ(answer({"-f", pipe}).out, plain.out);
  writer.join();
}

TEST_F(UserFiles, AFullDiskIsOneLineAndNothingIsLeft) {
  const std::string tasks = folder.write("t", R"({"task":"a","prompt":"3 1","response":"1 3","answer":"1 3"})");
  const std::string choices = folder.write("c", R"({"prompt":"a","choices":[" b"," c"],"answer":0})");
  const std::string ids = folder.write("ids", "1 2 3"), out = folder / "out", m = tiny_model();
  const Words runs[] = {{"convert", m, out, "--type", "q8_0"},
                        {"synth", out, "--preset", "tiny", "--type", "q8_0"},
                        {"logits", "-m", m, "--ids", ids, "-o", out},
                        {"run", "-q", "-m", m, "-n", "8", "--trace", out, "x"},
                        {"score", "-m", m, "--tasks", choices, "-o", out},
                        {"eval", "-m", m, "--tasks", tasks, "--gen-length", "8", "--record", out},
                        {"eval", "-m", m, "--tasks", tasks, "--gen-length", "8", "--reference", out},
                        {"chat", "-q", "-m", m}};
  std::optional<FileLimit> limit(10);
  const size_t files = folder.files();
  for (const Words& words : runs) {
    auto result = run(words, words[0] == "chat" ? "/save " + out + "\n" : "");
    result.out.clear();
    expect_one_line(result, 1, out + ": write failed: File too large\n");
    EXPECT_EQ(folder.files(), files) << words[0];
  }
  // A message that has no room leaves the history as it was.
  const auto history = cli::MessageHistory::open(folder / "history");
  ASSERT_TRUE(history) << history.error().message;
  EXPECT_TRUE(history->add("short"));
  EXPECT_FALSE(history->add("too long"));
  limit.reset();
  EXPECT_EQ(folder.read("history"), "short\n");
}

// Lines go there alone: what the command says besides is on stderr.
// As a cache whose blobs were removed has them: nothing may be answered without the file.
TEST_F(UserFiles, ALinkToNowhereIsNamed) {
  for (const auto& entry : fs::directory_iterator(tiny_model()))
    fs::create_symlink(entry.path(), folder / entry.path().filename().string());
  ASSERT_EQ(run({"run", "-q", folder.path(), kSortPrompt}).status, 0);
  for (const char* name : {"tokenizer_config.json", "generation_config.json", "chat_template.jinja", "merges.txt"}) {
    fs::remove(folder / name);
    fs::create_symlink("../../blobs/gone", folder / name);
    for (const Words& words : {Words{"run", "-q", folder.path(), kSortPrompt}, Words{"inspect", folder.path()}})
      expect_one_line(run(words), 2, std::string(name) + ": a link to ../../blobs/gone, which is not there");
    fs::remove(folder / name);
  }
}

TEST_F(UserFiles, ADashIsStdout) {
  const std::string tasks = folder.write("t", R"({"task":"a","prompt":"3 1","response":"1 3","answer":"1 3"})");
  const std::string choices = folder.write("c", R"({"prompt":"a","choices":[" b"," c"],"answer":0})");
  const std::string m = tiny_model(), file = folder / "out";
  for (const Words& words : {Words{"score", "-m", m, "--tasks", choices, "--out"},
                             Words{"eval", "-m", m, "--tasks", tasks, "--gen-length", "8", "--record"}}) {
    const auto to = [&](const Words& more) { return run(with(words, more)); };
    const auto kept = to({file}), shown = to({"-"}), json = to({"-", "--json"});
    ASSERT_EQ(kept.status + shown.status + json.status, 0) << kept.err << shown.err << json.err;
    EXPECT_EQ(shown.out, folder.read("out")) << words[0];
    EXPECT_EQ(json.out, shown.out) << words[0];
    EXPECT_THAT(shown.err, HasSubstr(kept.out.substr(0, kept.out.find('\n'))));
    EXPECT_EQ(json.err.back(), '\n');
    EXPECT_THAT(json.err, HasSubstr("\"model\":"));
  }
  EXPECT_FALSE(fs::exists("-"));
}

TEST_F(UserFiles, ATildeInTheEnvironmentIsTheHome) {
  const std::string model = folder / "m.gguf";
  ASSERT_TRUE(convert_model({.path = tiny_model(), .out_path = model, .type = "q8_0", .imatrix = {}}, {}));
  const auto made = run_llada({"pack", model}, {.environment = {"XDG_CACHE_HOME=~/c", "HOME=" + folder.path()}});
  EXPECT_EQ(made.status, 0) << made.err;
  EXPECT_EQ(made.out.find(folder / "c/llada/packed/"), 0u) << made.out;
  EXPECT_FALSE(fs::exists("~"));
}

// A file that is opened gets the lowest free number, which a closed stream's is.
TEST_F(UserFiles, AModelIsNeverReadAsAClosedStdin) {
  const std::string model = folder / "m.gguf";
  ASSERT_TRUE(convert_model({.path = tiny_model(), .out_path = model, .type = "q8_0", .imatrix = {}}, {}));
  for (const std::string& path : {model, tiny_model()}) {
    const auto talk = run_llada({"chat", "-q", path}, {.closed = {0}});
    EXPECT_EQ(talk.status, 0) << talk.err;
    EXPECT_EQ(talk.out + talk.err, "");
    expect_one_line(run_llada({"run", path}, {.closed = {0}}), 1, "stdin: read failed: Bad file descriptor");
    EXPECT_EQ(run_llada({"run", "-q", path, kSortPrompt}, {.closed = {0, 2}}).out,
              run_llada({"run", "-q", path, kSortPrompt}).out);
  }
}

// A read that finds nothing yet is no failure.
TEST_F(UserFiles, AStdinThatDoesNotWaitIsWaitedFor) {
  const auto said = run_llada({"run", "-q", tiny_model(), "-n", "16", kSortPrompt},
                              {.stdin_stays_open = true, .stdin_never_waits = true});
  EXPECT_EQ(said.status, 0);
  EXPECT_EQ(said.out, answer({kSortPrompt}).out);
  EXPECT_THAT(said.err, testing::EndsWith("waiting for the end of stdin, whose text goes below the prompt "
                                          "(< /dev/null: no text)\n"));
}

// Limits so small that threads, maps or buffers are refused, each at another place.
TEST_F(UserFiles, LittleMemoryIsOneLine) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need the address space";
#endif
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
  for (int mib = 50; mib <= 80; mib += 5)
    for (const Words& words : {Words{"--version"}, Words{"run", "-q", "-t", "8", "-m", tiny_model(), "-n", "8", "x"}}) {
      const rlimit small{rlim_t(mib) << 20, before.rlim_max};
      ASSERT_EQ(::setrlimit(RLIMIT_AS, &small), 0);
      const auto result = run(words);
      ASSERT_EQ(::setrlimit(RLIMIT_AS, &before), 0);
      EXPECT_TRUE(result.status == 0 || result.status == 1 || result.status == 127) << result.status << result.err;
      EXPECT_EQ(std::ranges::count(result.err, '\n'), result.status != 0) << mib << words[0] << result.err;
    }
}

}  // namespace
}  // namespace llada::test
