// The repository's own order: who may include whom, no cycles, heads, sizes, and nothing that should not be
// committed. The rules are in source_rules.h and prose.h; here they meet the tree. To change what a layer may see, change
// the table below and ARCHITECTURE.md together.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "layering/prose.h"
#include "layering/source_rules.h"

namespace llada::layering {
namespace {

constexpr size_t kMaxSourceLines = 500, kMaxTestLines = 800, kMaxColumns = 120;

// Who may include whom. Each layer sees itself.
const std::vector<Layer> kTable = {
    {"base", {}},
    {"json", {"base"}},
    {"tensor", {"base"}},
    {"text", {"base", "json"}},
    {"kernels", {"tensor", "base"}},
    {"forms", {"base", "json", "tensor", "text"}},
    {"formats", {"base", "json", "tensor"}},
    {"hub", {"base", "json", "formats"}},
    {"graph", {"base", "tensor"}},
    {"decode", {"base", "tensor", "forms"}},
    {"memory", {"base", "tensor"}},
    {"models", {"base", "tensor", "formats", "graph"}},
    {"devices", {"base", "tensor", "graph", "memory"}},
    {"devices/cpu", {"base", "tensor", "graph", "memory", "devices", "kernels"}},
    {"devices/cuda", {"base", "tensor", "graph", "memory", "devices"}},
    {"devices/hexagon", {"base", "tensor", "graph", "memory", "devices", "devices/hexagon/host"}},
    {"devices/hexagon/dsp", {"devices/hexagon"}},
    {"devices/hexagon/host", {"base", "devices/hexagon", "devices/hexagon/dsp"}},
    {"sched", {"base", "tensor", "graph", "memory", "devices"}},
    {"engine",
     {"base", "json", "tensor", "text", "forms", "kernels", "formats", "graph", "decode", "memory", "models", "devices",
      "sched"}},
    {"wire", {"engine", "base", "json", "text"}},
    {"llada", {}},  // below include/
    {"api", {"llada", "wire", "engine", "base"}},
    {"study",
     {"study/sim", "eval", "engine", "base", "json", "tensor", "text", "formats", "graph", "memory", "models",
      "devices", "sched"}},
    {"study/sim", {"engine", "base", "json", "tensor", "graph", "memory", "formats", "devices", "sched"}},
    {"eval", {"wire", "engine", "decode", "base", "json", "text"}},
    {"bench", {"base", "tensor", "kernels", "graph", "devices"}},
    {"serve/http", {"base", "json", "text", "formats"}},
    {"serve/work", {"serve/http", "engine", "base", "json", "text", "formats", "decode", "memory"}},
    {"serve/protocols",
     {"serve/work", "serve/http", "wire", "engine", "base", "json", "text", "formats", "decode", "memory"}},
    {"cli", {"wire", "engine", "base", "json", "text", "eval", "bench", "hub", "serve"}},
    // Of the program llada-study, which nothing above includes.
    {"lab",
     {"cli", "study", "study/sim", "lab/bench", "lab/hexagon", "bench", "engine", "base", "json", "devices",
      "devices/hexagon"}},
    {"lab/bench",
     {"bench", "study", "eval", "engine", "base", "tensor", "kernels", "graph", "decode", "memory", "models", "devices",
      "sched"}},
    {"lab/hexagon", {"devices/hexagon", "tensor", "base"}},
    {"lab/hexagon/standin", {"devices/hexagon", "devices/hexagon/dsp"}},
};

std::vector<SourceFile> tree(std::initializer_list<std::string_view> places) {
  return read_tree(LLADA_SOURCE_DIR, places);
}

std::vector<SourceFile> cpp(std::vector<SourceFile> files) {
  std::erase_if(files, [](const SourceFile& file) { return !is_cpp(file.path); });
  return files;
}

// The failure message is the list to work through.
void expect_none(const Findings& findings) {
  std::string list;
  for (const std::string& finding : findings) list += "\n" + finding;
  EXPECT_TRUE(findings.empty()) << list;
}

// Against what the system's own tools count.
int64_t counted(const std::string& command) {
  FILE* pipe = ::popen(command.c_str(), "r");
  long long value = -1;
  if (pipe == nullptr || std::fscanf(pipe, "%lld", &value) != 1) value = -1;
  if (pipe != nullptr) ::pclose(pipe);
  return value;
}

TEST(Layering, TheTreeIsReallyRead) {
  const std::string find = "find '" LLADA_SOURCE_DIR "/src' -type f";
  const auto files = tree({"src"});
  int64_t bytes = 0;
  for (const SourceFile& file : files) bytes += static_cast<int64_t>(file.text.size());
  EXPECT_EQ(static_cast<int64_t>(files.size()), counted(find + " | wc -l"));
  EXPECT_EQ(bytes, counted(find + " -exec cat {} + | wc -c"));
  // Under a table that allows nothing, every include of another layer is found.
  std::vector<Layer> strict = kTable;
  for (Layer& layer : strict) layer.may_include.clear();
  const int64_t cross = counted("grep -rE '^ *# *include \"' '" LLADA_SOURCE_DIR "/src/cli' '" LLADA_SOURCE_DIR
                                "/src/text' | grep -vE 'src/cli/[^:]*:.*\"cli/|src/text/[^:]*:.*\"text/' | wc -l");
  int64_t found = 0;
  for (const std::string& finding : forbidden_includes(files, strict))
    found += finding.starts_with("src/cli/") || finding.starts_with("src/text/") ? 1 : 0;
  EXPECT_GT(cross, 40);
  EXPECT_EQ(found, cross);
}

TEST(Layering, IncludesFollowTheTable) { expect_none(forbidden_includes(tree({"src", "include"}), kTable)); }

// What the headers of engine show of the parts below to those above, who do not include it themselves: plain
// data that requests and results are made of, and the device and the file that a model names.
constexpr std::string_view kShown[] = {"decode/denoiser.h",      "decode/fields.h",      "decode/options.h",
                                       "decode/removed.h",       "decode/settings.h",    "devices/device.h",
                                       "formats/model_config.h", "formats/model_file.h", "memory/kv_store.h",
                                       "memory/prefix_cache.h",  "sched/executor.h",     "sched/expert_split.h"};

TEST(Layering, WhatIsSeenThroughHeadersIsMeantToBe) {
  constexpr std::string_view kAbove[] = {"cli", "eval"}, kThrough[] = {"engine", "eval", "cli"};
  expect_none(seen_through_headers(tree({"src"}), kTable, kAbove, kThrough, kShown));
}

TEST(Layering, NoIncludeCycles) { expect_none(include_cycles(tree({"src"}))); }

TEST(Layering, EveryFileSaysWhatItIs) {
  expect_none(missing_head_comments(tree({"include", "src", "tests", "fuzz", "examples"})));
}

TEST(Layering, FilesStayShort) {
  expect_none(too_many_lines(cpp(tree({"src", "include"})), kMaxSourceLines));
  expect_none(too_many_lines(cpp(tree({"tests", "fuzz"})), kMaxTestLines));
}

TEST(Layering, CommentsOfHeadersArePlainSentences) {
  auto headers = cpp(tree({"src"}));
  std::erase_if(headers,
                [](const SourceFile& file) { return !file.path.ends_with(".h") && !file.path.ends_with(".inc"); });
  expect_none(hard_comments(headers));
  EXPECT_EQ(objection_to("What it keeps is lost."), "\"what\" is a noun");
  EXPECT_EQ(objection_to("Says what it keeps."), "");
  EXPECT_EQ(objection_to("Of a step."), "begins with \"Of\"");
}

TEST(Layering, MessagesArePlainSentences) { expect_none(hard_messages(cpp(tree({"src"})))); }

// Tests compare the kind and the field of an error; its words are reviewed here. LLADA_UPDATE=1 writes the list anew.
TEST(Layering, MessagesAreThoseOfTheList) {
  const std::string path = LLADA_SOURCE_DIR "/tests/data/messages.txt";
  const std::string now = message_list(cpp(tree({"src"})));
  if (std::getenv("LLADA_UPDATE") != nullptr) std::ofstream(path) << now;
  std::ostringstream kept;
  kept << std::ifstream(path).rdbuf();
  EXPECT_TRUE(kept.str() == now)
      << "read the changed messages:\n"
         "  LLADA_UPDATE=1 build/release/bin/test_layering && git diff tests/data/messages.txt";
}

TEST(Layering, LinesStayReadable) {
  expect_none(too_long_lines(cpp(tree({"src", "include", "examples"})), kMaxColumns));
}

// Banned words are written in two parts, so that this file does not contain them.
std::string joined(std::string_view first, std::string_view second) { return std::string(first).append(second); }

TEST(Layering, NothingIsLeftForLater) {
  const std::vector<std::string> words = {joined("TO", "DO"), joined("FIX", "ME")};
  expect_none(banned_text(tree({"src", "tests", "fuzz", "tools", "cmake"}), words));
}

TEST(Layering, NoPathsOfOneMachine) {
  std::vector<std::string> words = {joined("/tmp/", "wt")};
  for (const char before : std::string_view(" \"'`(=:>,\n"))  // a path begins there: there is a folder serve/work
    words.push_back(before + joined("/wo", "rk/"));
  expect_none(
      banned_text(tree({"src", "docs", "tests", "fuzz", "tools", "cmake", "README.md", "ARCHITECTURE.md",
                        "CONTRIBUTING.md", "models/README.md", "Makefile", "CMakeLists.txt", "CMakePresets.json"}),
                  words));
}

// One thin layer asks the operating system: the files of base that are named after a system. Elsewhere there is C++ alone,
// with libraries, and nothing depends on the system that is compiled for. The stand-in for a phone's library and the
// DSP's own code are no part of the program.
TEST(Layering, OneThinLayerKnowsTheSystem) {
  constexpr std::string_view kSystems[] = {"_posix.cc", "_linux.cc", "_macos.cc", "_windows.cc", "_windows.h"};
  constexpr std::string_view kNotLooked[] = {"src/lab/hexagon/standin/", "src/devices/hexagon/dsp/"};
  constexpr std::string_view kLibraries[] = {"CLI/",       "boost/",     "curl/",       "fmt/",
                                             "nlohmann/",  "openssl/",   "histedit.h",  "pcre2.h",
                                             "sqlite3.h",  "utf8proc.h", "cuda",         // also of the CUDA emulator
                                             "arm_neon.h", "cpuid.h",    "immintrin.h",  // the compiler's
                                             "stddef.h",   "stdint.h",   "string.h"};    // C's, in headers that C reads
  std::vector<std::string> words = {"\"/proc/", "\"/sys/", "getenv("};
  for (const char* macro : {"_WIN32", "__linux__", "__APPLE__", "__ANDROID__", "__MINGW32__", "__GLIBC__", "__unix__"})
    words.emplace_back(macro);
  auto files = cpp(tree({"src", "include"}));
  const size_t all = files.size();
  const auto of_layer = [&](const SourceFile& file) {
    return file.path.starts_with("src/base/") &&
           std::ranges::any_of(kSystems, [&](std::string_view end) { return file.path.ends_with(end); });
  };
  std::vector<SourceFile> layer;
  std::ranges::copy_if(files, std::back_inserter(layer), of_layer);
  std::erase_if(files, [&](const SourceFile& file) {
    return of_layer(file) ||
           std::ranges::any_of(kNotLooked, [&](std::string_view folder) { return file.path.starts_with(folder); });
  });
  EXPECT_LE(layer.size(), 16u) << "a thin layer";
  EXPECT_GT(files.size(), all - 100);
  expect_none(foreign_headers(files, kLibraries));
  expect_none(banned_text(files, words));
  const std::vector<SourceFile> wrong = {
      {"src/a.cc", "#include <unistd.h>\n # include <sys/stat.h>\n#include <vector>\n"}};
  EXPECT_EQ(foreign_headers(wrong, kLibraries).size(), 2u);
}

// Instructions that no compiler checks stand in one file.
TEST(Layering, OneFileNamesTheMatrixUnitsWords) {
  const std::vector<std::string> words = {"9200C3FE", "A6E0C013", "920041E2", "9202E3EF", "A6E0DA10", "A6E0C118"};
  auto files = cpp(tree({"src", "tests/hexagon", "tests/hexagon_dsp"}));
  std::vector<SourceFile> named;
  std::erase_if(files, [&](SourceFile& file) {
    if (file.path != "src/devices/hexagon/dsp/hmx.h") return false;
    named.push_back(std::move(file));
    return true;
  });
  EXPECT_GE(banned_text(named, words).size(), words.size() - 1) << "two of them are one packet";
  for (SourceFile& file : files)
    std::ranges::transform(file.text, file.text.begin(), [](unsigned char c) { return std::toupper(c); });
  expect_none(banned_text(files, words));
}

// One tree, one parser with limits: elsewhere nobody names the library, or calls its parsers by the tree's name.
TEST(Layering, OneRoomParsesJson) {
  const std::vector<std::string> words = {"nlohmann", "Json::parse", "Json::accept", "sax_parse"};
  auto files = cpp(tree({"src"}));
  EXPECT_GT(std::erase_if(files, [](const SourceFile& file) { return file.path.starts_with("src/json/"); }), 0u);
  expect_none(banned_text(files, words));
  for (const char* line : {"auto v = nlohmann::json();", "auto v = Json::parse(text);", "Json::sax_parse(text, &r);"})
    EXPECT_EQ(banned_text(std::vector{SourceFile{"src/text/a.cc", line}}, words).size(), 1u) << line;
}

// A build without a compiler for the DSP has no module for the host, and in a unity build a file that is compiled is
// linked: so what needs the module is left out.
TEST(Layering, WithoutADspNothingNeedsTheHostsModule) {
  const auto lists = tree({"src/devices/hexagon/CMakeLists.txt"});
  ASSERT_EQ(lists.size(), 1u);
  const std::string absent = lists[0].text.substr(lists[0].text.find("elseif(NOT ANDROID)"));
  ASSERT_TRUE(absent.contains("EXCLUDE"));
  int needing = 0;
  for (const SourceFile& file : tree({"src/devices/hexagon"})) {
    const std::string name = file.path.substr(file.path.rfind('/') + 1);
    if (file.path != "src/devices/hexagon/" + name || !name.ends_with(".cc")) continue;
    if (!file.text.contains("#include \"devices/hexagon/host")) continue;
    EXPECT_TRUE(absent.contains(" " + name)) << name;
    ++needing;
  }
  EXPECT_GE(needing, 2);
}

// Names by which files say what they hold stand in the family's description alone.
TEST(Layering, AFamilyIsOneFile) {
  struct Case {
    std::string_view file;
    std::vector<std::string> words;
  };
  const std::vector<Case> cases = {
      {"llada", {"LLaDAModelLM"}},
      {"llada_moe", {"LLaDAMoEModel", "\"llada-moe\""}},
      {"llada2", {"LLaDA2MoeModelLM", "\"llada2_moe", ".name = \"llada2\""}},
      {"dream", {"DreamModel", "\"Dream\"", "\"dream\""}},
  };
  // llama.cpp's name of a pre-tokenizer is the same word.
  constexpr std::string_view kPreTokenizers[] = {"src/base/pretokenizer_regexes.cc", "src/study/presets.cc"};
  for (const Case& one : cases) {
    const std::string own = "src/formats/family_" + std::string(one.file) + ".cc";
    auto files = cpp(tree({"src"}));
    const auto found = std::ranges::find(files, own, &SourceFile::path);
    ASSERT_NE(found, files.end()) << own;
    for (const std::string& word : one.words)
      EXPECT_NE(found->text.find(word), std::string::npos) << own << ": " << word;
    std::erase_if(files, [&](const SourceFile& file) {
      return file.path == own || (one.file == "llada_moe" && std::ranges::count(kPreTokenizers, file.path) > 0);
    });
    expect_none(banned_text(files, one.words));
  }
}

// A program that is built for the builder's own processor stops on another one of a cluster. Kernels choose when they
// start.
TEST(Layering, NothingIsBuiltForOneProcessor) {
  std::vector<std::string> words;
  for (const char* flag : {"-march", "-mcpu", "-mtune"}) words.push_back(joined(flag, "=native"));
  expect_none(banned_text(tree({"src", "tests", "fuzz", "tools", "cmake", "python", "examples", "docs", "Makefile",
                                "CMakeLists.txt", "CMakePresets.json"}),
                          words));
}

}  // namespace
}  // namespace llada::layering
