// Downloads from a stand-in hub: what comes is right, shared with Hugging Face's layout, resumed, checked, and never lands
// outside the cache.
#include "hub/hub.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "formats/temp_folder.h"
#include "hub/cache.h"
#include "hub/http.h"
#include "hub/stand_in.h"
#include "must.h"

namespace llada::test {
namespace {

namespace fs = std::filesystem;

std::string noise(size_t bytes, uint32_t seed) {
  std::string out(bytes, '\0');
  for (char& c : out) c = static_cast<char>((seed = seed * 1664525u + 1013904223u) >> 24);
  return out;
}

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

class Pull : public ::testing::Test {
 protected:
  void SetUp() override {
    LLADA_NEEDS_DOWNLOADS();
    ::setenv("no_proxy", "*", 1);  // a proxy of this machine does not know 127.0.0.1
    hub.emplace(std::map<std::string, StandInHub::File>{{"config.json", {R"({"a":1})"}},
                                                        {"tokenizer.json", {noise(3'000, 3)}},
                                                        {"empty.txt", {""}},
                                                        {"pytorch_model.bin", {"pickle", true}},
                                                        {"sub dir/x+y.txt", {"odd name"}},
                                                        {"model.safetensors", {noise(700'001, 7), true}}});
    settings.endpoint = hub->endpoint();
    settings.cache = (root / "cache").string();
    settings.stall_seconds = 2;
    settings.backoff_ms = 1;
    events.say = [this](std::string_view line) { said += std::string(line) + "\n"; };
    events.progress = [this](int64_t done, int64_t total, std::string_view) {
      EXPECT_TRUE(total < 0 || done <= total);
      last_done = done;
      if (stop_at >= 0 && done >= stop_at) stop = true;
    };
    events.stopped = [this] { return stop.load(); };
  }
  void TearDown() override { hub.reset(); }

  Result<hub::Pulled> pull(const std::string& what = "owner/name", bool prefer_cache = false) {
    const auto request = hub::parse_request(what);
    if (!request) return std::unexpected(request.error());
    return hub::pull(settings, *request, prefer_cache, events);
  }
  fs::path repository() const { return root / "cache" / "models--owner--name"; }
  fs::path blob(const std::string& path) const { return repository() / "blobs" / hub->etag(path); }
  fs::path snapshot() const { return repository() / "snapshots" / hub->commit; }
  void leave(const std::string& path, std::string_view content) {  // an earlier attempt's
    fs::create_directories(repository() / "blobs");
    std::ofstream(blob(path).string() + ".incomplete", std::ios::binary) << content;
  }
  int downloads() const {
    int count = 0;
    for (const WebRequest& request : hub->asked_elsewhere()) count += request.method == "GET";
    return count;
  }
  // Fails with this, and leaves nothing under a name that would be believed.
  void expect_failure(const Result<hub::Pulled>& result, std::string_view says, ErrorKind kind) {
    ASSERT_FALSE(result);
    EXPECT_NE(result.error().message.find(says), std::string::npos) << result.error().message;
    EXPECT_EQ(result.error().kind, kind) << result.error().message;
    EXPECT_EQ(result.error().message.find('\n'), std::string::npos);
    EXPECT_FALSE(fs::exists(repository() / "refs" / "main"));
    EXPECT_FALSE(fs::exists(snapshot() / "model.safetensors"));
  }

  const TempFolder temp_;
  const fs::path root = temp_.path();
  std::optional<StandInHub> hub;
  hub::HubSettings settings;
  hub::PullEvents events;
  std::string said;
  int64_t last_done = -1, stop_at = -1;
  std::atomic<bool> stop = false;
};

// labels: threads
TEST_F(Pull, AFolderComesWholeInTheSharedLayout) {
  const auto pulled = must(pull());
  EXPECT_EQ(fs::path(pulled->path), snapshot());
  EXPECT_EQ(pulled->commit, hub->commit);
  EXPECT_EQ(pulled->bytes, 7 + 3'000 + 700'001);
  EXPECT_EQ(pulled->downloaded_bytes, pulled->bytes);
  EXPECT_EQ(last_done, pulled->bytes);
  for (const char* path : {"config.json", "tokenizer.json", "model.safetensors"}) {
    EXPECT_EQ(read(snapshot() / path), hub->files.at(path).content) << path;
    EXPECT_EQ(fs::read_symlink(snapshot() / path), fs::path("../../blobs") / hub->etag(path));
  }
  EXPECT_FALSE(fs::exists(snapshot() / "pytorch_model.bin"));
  EXPECT_EQ(read(repository() / "refs" / "main"), hub->commit);
  EXPECT_TRUE(fs::exists(root / "cache/.locks/models--owner--name" / (hub->etag("config.json") + ".lock")));
  for (const auto& entry : fs::directory_iterator(repository() / "blobs"))
    EXPECT_FALSE(entry.path().string().ends_with(".incomplete"));

  const auto again = must(pull());
  EXPECT_EQ(again->downloaded_bytes, 0);
  EXPECT_EQ(again->bytes, pulled->bytes);
  EXPECT_EQ(downloads(), 1);
  const auto listed = hub::list_cache(settings.cache);
  ASSERT_EQ(listed.size(), 1u);
  EXPECT_EQ(listed[0].repository, "owner/name");
  EXPECT_EQ(listed[0].revisions, std::vector<std::string>{"main"});
  EXPECT_EQ(listed[0].bytes, static_cast<uint64_t>(pulled->bytes));
  EXPECT_EQ(listed[0].files, 3u);
}

// Both sizes: what is missing, against the disk; what the whole has, to whoever weighs it.
TEST_F(Pull, AModelIsWeighedBeforeItsWeights) {
  std::vector<int64_t> weighed;
  events.weigh = [&](const hub::Announced& announced) -> Status {
    weighed.push_back(announced.bytes);
    EXPECT_EQ(announced.architecture, "");
    EXPECT_EQ(downloads(), 0);
    return invalid("too heavy");
  };
  expect_failure(pull(), "too heavy; its weights were not downloaded", ErrorKind::invalid_input);
  EXPECT_EQ(downloads(), 0);
  expect_failure(pull(), "too heavy", ErrorKind::invalid_input);  // its small files are in the cache now
  EXPECT_EQ(weighed, (std::vector<int64_t>{7 + 3'000 + 700'001, 7 + 3'000 + 700'001}));
  events.weigh = {};
  ASSERT_TRUE(pull());
  events.weigh = [&](const hub::Announced&) -> Status { return invalid("too late"); };
  EXPECT_TRUE(pull()) << "nothing is left to download";
}

TEST_F(Pull, AFolderIsJudgedBeforeItsWeights) {
  std::vector<std::string> judged;
  events.judge = [&](const std::string& folder) -> Status {
    judged.push_back(folder);
    EXPECT_TRUE(fs::exists(folder + "/config.json"));
    EXPECT_TRUE(fs::exists(folder + "/tokenizer.json"));
    if (judged.size() == 1) {
      EXPECT_FALSE(fs::exists(folder + "/model.safetensors"));
      return invalid("{}: of another kind", folder);
    }
    return {};
  };
  expect_failure(pull(), "of another kind", ErrorKind::invalid_input);
  EXPECT_EQ(downloads(), 0) << "the large files lie on the other host";
  const auto pulled = must(pull());
  EXPECT_EQ(downloads(), 1);
  EXPECT_EQ(judged, (std::vector<std::string>{snapshot().string(), snapshot().string()}));
  ASSERT_TRUE(pull("owner/name:model.safetensors"));
  EXPECT_EQ(judged.size(), 2u) << "a single file is no folder";
}

// The name is one that no resolver is asked for.
TEST_F(Pull, ANameWithoutAnAddressIsTriedTwice) {
  settings.endpoint = "http://no..such..host:1";
  expect_failure(pull(), "2 attempts", ErrorKind::failed);
  EXPECT_EQ(std::ranges::count(said, '\n'), 1) << said;
}

TEST_F(Pull, ACommitIsTheOneThatWasAskedFor) {
  hub->instead = [&](const WebRequest& request) -> std::optional<WebReply> {
    const std::string api = "/api/models/owner/name/revision/";
    if (!request.path.starts_with(api)) return std::nullopt;
    return WebReply{.status = 200,
                    .headers = {},
                    .body = R"({"sha":")" + hub->commit + R"(","siblings":[{"rfilename":"empty.txt"}]})"};
  };
  for (const bool right : {false, true}) {
    const auto request = hub::parse_request("owner/name:empty.txt", right ? hub->commit : std::string(40, 'b'));
    const auto pulled = hub::pull(settings, *request, false, events);
    EXPECT_EQ(pulled.has_value(), right);
    EXPECT_FALSE(fs::exists(repository() / "refs" / "main")) << "a commit is its own reference";
  }
}

TEST_F(Pull, AFileOfOddNameAndAnEmptyOne) {
  const auto odd = must(pull("owner/name:sub dir/x+y.txt"));
  EXPECT_EQ(read(odd->path), "odd name");
  EXPECT_EQ(fs::read_symlink(odd->path), fs::path("../../../blobs") / hub->etag("sub dir/x+y.txt"));
  const auto empty = must(pull("owner/name:empty.txt"));
  EXPECT_EQ(fs::file_size(empty->path), 0u);
}

TEST_F(Pull, WhatAnotherToolHasCachedIsUsedOffline) {
  // As Hugging Face's tools leave it: a blob, a link, a reference.
  fs::create_directories(repository() / "blobs");
  fs::create_directories(repository() / "refs");
  fs::create_directories(snapshot());
  std::ofstream(blob("model.safetensors")) << "weights";
  fs::create_symlink(fs::path("../../blobs") / hub->etag("model.safetensors"), snapshot() / "m-Q8_0.gguf");
  std::ofstream(repository() / "refs" / "main") << hub->commit << "\n";
  settings.offline = true;
  const auto pulled = must(pull("owner/name:Q8_0"));
  EXPECT_EQ(read(pulled->path), "weights");
  EXPECT_TRUE(hub->asked().empty());
  EXPECT_NE(pull("owner/other").error().message.find("not in the cache (offline"), std::string::npos);
  // A link whose blob is gone is no file.
  fs::remove(blob("model.safetensors"));
  EXPECT_FALSE(pull("owner/name:Q8_0"));
}

TEST_F(Pull, AServerThatIsGoneIsNoMatterWhereTheModelIsThere) {
  ASSERT_TRUE(pull());
  hub->instead = [](const WebRequest&) { return WebReply{.status = 503, .headers = {}, .body = ""}; };
  const auto cached = must(pull("owner/name", true));
  EXPECT_TRUE(cached->from_cache);
  EXPECT_NE(said.find("using the copy in the cache"), std::string::npos);
  EXPECT_FALSE(pull("owner/name", false));
}

TEST_F(Pull, GoesOnWhereAnEarlierAttemptStopped) {
  const std::string& whole = hub->files.at("model.safetensors").content;
  leave("model.safetensors", whole.substr(0, 300'000));
  const auto pulled = must(pull());
  EXPECT_EQ(pulled->downloaded_bytes, pulled->bytes - 300'000);
  EXPECT_EQ(hub->asked_elsewhere().back().header("range"), "bytes=300000-");
  EXPECT_EQ(read(snapshot() / "model.safetensors"), whole);
}

TEST_F(Pull, AWholeFileThatWasNotNamedYetIsCheckedAndNamed) {
  leave("model.safetensors", hub->files.at("model.safetensors").content);
  ASSERT_TRUE(pull());
  EXPECT_EQ(downloads(), 0);
  EXPECT_EQ(read(blob("model.safetensors")), hub->files.at("model.safetensors").content);
}

// A GGUF file that a repository has in raw pieces alone.
class PullInPieces : public Pull {
 protected:
  void SetUp() override {
    Pull::SetUp();
    if (!hub) return;
    const std::string all = gguf();
    offer({{"m.gguf.part1of3", {all.substr(0, 300'000), true}},
           {"m.gguf.part2of3", {all.substr(300'000, 300'000), true}},
           {"m.gguf.part3of3", {all.substr(600'000), true}}});
  }
  void offer(const std::map<std::string, StandInHub::File>& files) {
    hub.emplace(files);
    settings.endpoint = hub->endpoint();
  }
  // 605,001 bytes with one tensor, which the last of them but one belongs to.
  static std::string gguf() {
    constexpr size_t kData = 64, kSize = 605'001, kTensor = (kSize - kData) / 4;
    std::string all = "GGUF";
    const auto put = [&](uint64_t value, size_t bytes) {
      for (size_t i = 0; i < bytes; ++i) all += static_cast<char>(value >> (8 * i));
    };
    put(3, 4), put(1, 8), put(0, 8);                                          // version, tensors, values
    put(1, 8), all += 'w', put(1, 4), put(kTensor, 8), put(0, 4), put(0, 8);  // name, shape, F32, offset
    all.resize(kData);
    return all + noise(kSize - kData, 1);
  }
  std::string whole() const {
    std::string all;
    for (const auto& [name, file] : hub->files) all += file.content;
    return all;
  }
};

TEST_F(PullInPieces, TheyArePutTogetherOnce) {
  const auto pulled = must(pull());
  EXPECT_EQ(fs::path(pulled->path), snapshot() / "m.gguf");
  EXPECT_EQ(read(pulled->path), whole());
  EXPECT_EQ(pulled->downloaded_bytes, 605'001);
  for (const char* piece : {"m.gguf.part1of3", "m.gguf.part3of3"}) EXPECT_TRUE(fs::exists(snapshot() / piece));
  const auto again = must(pull("owner/name:m.gguf"));
  EXPECT_EQ(again->path, pulled->path);
  EXPECT_EQ(again->downloaded_bytes, 0);
  EXPECT_EQ(downloads(), 3);
  fs::remove(pulled->path);
  settings.offline = true;
  EXPECT_EQ(read(pull()->path), whole()) << "from the pieces, which another tool may have cached";
  fs::remove(snapshot() / "m.gguf.part2of3");
  fs::remove(pulled->path);
  EXPECT_NE(pull().error().message.find("found 2 of 3 pieces of m.gguf"), std::string::npos);
}

// Where no name says how many there are, the file itself does.
TEST_F(PullInPieces, WhatIsNoWholeFileGetsNoName) {
  offer({{"m.gguf-split-a", {gguf().substr(0, 300'000), true}}, {"m.gguf-split-b", {gguf().substr(300'000, 5), true}}});
  for (const bool offline : {false, true}) {
    settings.offline = offline;
    const auto pulled = pull(offline ? "owner/name" : "owner/name:m.gguf");
    ASSERT_FALSE(pulled);
    EXPECT_NE(pulled.error().message.find("owner/name: 2 pieces put together are no whole file: m.gguf: tensor w"),
              std::string::npos)
        << pulled.error().message;
    for (const auto& entry : fs::directory_iterator(snapshot()))
      EXPECT_TRUE(entry.path().filename().string().starts_with("m.gguf-split-")) << entry.path();
    if (!offline) fs::create_directories(repository() / "refs");
    if (!offline) std::ofstream(repository() / "refs" / "main") << hub->commit;
  }
}

TEST_F(PullInPieces, ALookIntoTheCachePutsNothingTogether) {
  ASSERT_TRUE(pull());
  fs::remove(snapshot() / "m.gguf");
  hub->instead = [](const WebRequest&) { return WebReply{.status = 404, .headers = {}, .body = ""}; };
  EXPECT_FALSE(pull("owner/name", true)) << "the hub says that it is gone";
  EXPECT_FALSE(fs::exists(snapshot() / "m.gguf"));
}

TEST_F(PullInPieces, PuttingThemTogetherHasProgressAndALine) {
  ASSERT_TRUE(pull());
  EXPECT_EQ(said, "m.gguf: put together; its 3 pieces stay in the cache, which takes the room twice\n");
  fs::remove(snapshot() / "m.gguf");
  settings.offline = true, last_done = -1;
  ASSERT_TRUE(pull());
  EXPECT_EQ(last_done, 605'001);
}

TEST_F(PullInPieces, AStopLosesNoByteAndLeavesNoFile) {
  stop_at = 400'000;
  const auto stopped = pull();
  ASSERT_FALSE(stopped);
  EXPECT_FALSE(fs::exists(snapshot() / "m.gguf"));
  stop = false, stop_at = -1;
  const auto pulled = must(pull());
  EXPECT_LE(pulled->downloaded_bytes, 605'001 - 300'000);
  EXPECT_EQ(read(pulled->path), whole());
}

TEST_F(PullInPieces, TheDiskIsAskedForBothCopies) {
  hub->change = [](const WebRequest& request, WebReply& reply) {
    if (request.method != "HEAD") return;
    for (auto& [name, value] : reply.headers)
      if (name == "X-Linked-Size") value = "3000000000000";
  };
  expect_failure(pull(), "owner/name: 18000.00 GB are to be downloaded and put together, and ", ErrorKind::failed);
}

TEST_F(Pull, AnotherBeginningThanTheFilesIsFetchedAgain) {
  for (const size_t bytes : {1'000u, 700'001u, 900'000u}) {  // a part, all of it, more than it
    fs::remove_all(root / "cache");
    said.clear();
    leave("model.safetensors", noise(bytes, 99));
    const auto pulled = must(pull());
    EXPECT_EQ(read(snapshot() / "model.safetensors"), hub->files.at("model.safetensors").content) << bytes;
    EXPECT_EQ(said.find("downloaded anew") != std::string::npos, bytes < 900'000u) << said;
  }
}

// labels: threads
TEST_F(Pull, BreaksInTheMiddleAreTriedAgainFromThere) {
  std::atomic<int> times = 0;
  hub->change = [&](const WebRequest& request, WebReply& reply) {
    if (request.path == "/bytes/model.safetensors" && times++ < 5) reply.cut = 100'000;
  };
  const auto pulled = must(pull());
  EXPECT_EQ(downloads(), 6);
  EXPECT_EQ(pulled->downloaded_bytes, pulled->bytes) << "no byte twice";
  EXPECT_EQ(read(snapshot() / "model.safetensors"), hub->files.at("model.safetensors").content);
  EXPECT_NE(said.find("after 100000 of 700001 bytes; trying again"), std::string::npos) << said;
}

TEST_F(Pull, AServerWithoutRangesStartsOver) {
  const std::string& whole = hub->files.at("model.safetensors").content;
  leave("model.safetensors", whole.substr(0, 400'000));
  hub->change = [&](const WebRequest& request, WebReply& reply) {
    if (reply.status == 206 && request.path.starts_with("/bytes/"))
      reply = {.status = 200, .headers = {}, .body = whole};
  };
  const auto pulled = must(pull());
  EXPECT_EQ(pulled->downloaded_bytes, pulled->bytes);
  EXPECT_EQ(read(snapshot() / "model.safetensors"), whole);
}

TEST_F(Pull, APartThatWasNotAskedForIsNotTaken) {
  leave("model.safetensors", hub->files.at("model.safetensors").content.substr(0, 400'000));
  hub->change = [&](const WebRequest&, WebReply& reply) {
    for (auto& [name, value] : reply.headers)
      if (name == "Content-Range") value = "bytes 399999-700000/700001";
  };
  const auto pulled = must(pull());
  EXPECT_EQ(read(snapshot() / "model.safetensors"), hub->files.at("model.safetensors").content);
  EXPECT_NE(said.find("another part than was asked for"), std::string::npos) << said;
}

TEST_F(Pull, EndsWhereNothingComesAnyMoreAndSaysHowToGoOn) {
  const auto cut = [&](const WebRequest& request, WebReply& reply) {
    if (request.path != "/bytes/model.safetensors") return;
    reply.cut = request.header("range").empty() ? 100'000 : 0;
  };
  hub->change = cut;
  const auto pulled = pull();
  expect_failure(pulled, "after 100000 of 700001 bytes, 5 times without progress; the same command goes on",
                 ErrorKind::failed);
  EXPECT_EQ(fs::file_size(blob("model.safetensors").string() + ".incomplete"), 100'000u);
  hub->change = nullptr;
  EXPECT_TRUE(pull());
}

TEST_F(Pull, LiesAboutTheSizeEnd) {
  for (const int64_t told : {700'000, 700'002, 90, 5'000'000}) {
    fs::remove_all(root / "cache");
    hub->change = [told](const WebRequest&, WebReply& reply) {
      for (auto& [name, value] : reply.headers)
        if (name == "X-Linked-Size") value = std::to_string(told);
    };
    expect_failure(pull(), told < 700'001 ? "more than the" : "times without progress", ErrorKind::failed);
  }
  hub->change = [](const WebRequest&, WebReply& reply) {
    for (auto& [name, value] : reply.headers)
      if (name == "X-Linked-Size") value = "9000000000000";
  };
  expect_failure(pull(), "owner/name: 9000.00 GB are to be downloaded, and ", ErrorKind::failed);
}

TEST_F(Pull, AWrongChecksumIsAnErrorAndLeavesNothing) {
  hub->change = [](const WebRequest& request, WebReply& reply) {
    if (request.path == "/bytes/model.safetensors") reply.body[350'000] ^= 1;
  };
  expect_failure(pull(), "checksum", ErrorKind::failed);
  EXPECT_FALSE(fs::exists(blob("model.safetensors")));
  EXPECT_FALSE(fs::exists(blob("model.safetensors").string() + ".incomplete"));
  // A file outside Git LFS has Git's sum.
  hub->change = [](const WebRequest& request, WebReply& reply) {
    if (request.path.ends_with("/config.json")) reply.body = R"({"a":2})";
  };
  fs::remove_all(root / "cache");
  expect_failure(pull(), "config.json: its checksum", ErrorKind::failed);
}

TEST_F(Pull, AnEtagThatIsNoChecksumIsRefused) {
  for (const char* etag :
       {"\"../../../evil\"", "\"\"", "", "W/\"xyz\"", "\"0123456789ABCDEF0123456789ABCDEF01234567\""}) {
    hub->change = [etag](const WebRequest&, WebReply& reply) {
      for (auto& [name, value] : reply.headers)
        if (name == "X-Linked-Etag" || name == "ETag") value = etag;
    };
    expect_failure(pull(), "could not be checked", ErrorKind::failed);
  }
}

TEST_F(Pull, RefusalsSayWhatToDo) {
  const auto answer = [&](int status, std::string code) {
    hub->instead = [=](const WebRequest&) {
      return WebReply{.status = status, .headers = {{"X-Error-Code", code}}, .body = "<html>no</html>"};
    };
  };
  answer(401, "");
  expect_failure(pull(), "HF_TOKEN is not set", ErrorKind::invalid_input);
  settings.token = "hf_secret";
  for (const int status : {401, 403}) {
    answer(status, "");
    const auto refused = pull();
    expect_failure(refused, "the token does not open it", ErrorKind::invalid_input);
    EXPECT_EQ(refused.error().message.find("hf_secret"), std::string::npos);
  }
  answer(403, "GatedRepo");
  expect_failure(pull(), "accept its terms at " + hub->endpoint() + "/owner/name", ErrorKind::invalid_input);
  answer(404, "RepoNotFound");
  expect_failure(pull(), "not found", ErrorKind::invalid_input);
  answer(404, "RevisionNotFound");
  expect_failure(pull(), "no revision 'main'", ErrorKind::invalid_input);
  EXPECT_TRUE(said.empty()) << "none of these is tried again: " << said;
  for (const int status : {429, 500}) {
    const size_t before = hub->asked().size();
    answer(status, "");
    expect_failure(pull(), "5 attempts", ErrorKind::failed);
    EXPECT_EQ(hub->asked().size() - before, 5u);
  }
}

TEST_F(Pull, BusyServersAreWaitedFor) {
  std::atomic<int> times = 0;
  hub->instead = [&](const WebRequest&) -> std::optional<WebReply> {
    if (times++ % 3 == 0) return WebReply{.status = 429, .headers = {}, .body = ""};
    return std::nullopt;
  };
  const auto pulled = must(pull());
  EXPECT_EQ(read(snapshot() / "model.safetensors"), hub->files.at("model.safetensors").content);
}

// labels: long
TEST_F(Pull, AStalledTransferIsGivenUp) {
  settings.stall_seconds = 1;
  settings.attempts = 1;
  hub->change = [](const WebRequest& request, WebReply& reply) {
    if (request.path == "/bytes/model.safetensors") reply.pause_ms = 4'000;
  };
  const auto begin = std::chrono::steady_clock::now();
  expect_failure(pull(), "goes on from there", ErrorKind::failed);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(8));
}

TEST_F(Pull, TheTokenGoesToTheHubAlone) {
  settings.token = "hf_secret";
  ASSERT_TRUE(pull());
  for (const WebRequest& request : hub->asked()) EXPECT_EQ(request.header("authorization"), "Bearer hf_secret");
  ASSERT_FALSE(hub->asked_elsewhere().empty());
  for (const WebRequest& request : hub->asked_elsewhere()) EXPECT_EQ(request.header("authorization"), "");
  // Another port of the same host is another server.
  fs::remove_all(root / "cache");
  hub->change = [](const WebRequest&, WebReply& reply) {
    for (auto& [name, value] : reply.headers)
      if (name == "Location") value.replace(value.find("localhost"), 9, "127.0.0.1");
  };
  ASSERT_TRUE(pull());
  for (const WebRequest& request : hub->asked_elsewhere()) EXPECT_EQ(request.header("authorization"), "");
}

TEST_F(Pull, ARedirectIsNotFollowedToAFile) {
  const fs::path secret = root / "secret";
  std::ofstream(secret) << hub->files.at("model.safetensors").content;
  settings.attempts = 1;
  hub->change = [&](const WebRequest&, WebReply& reply) {
    for (auto& [name, value] : reply.headers)
      if (name == "Location") value = "file://" + secret.string();
  };
  expect_failure(pull(), "model.safetensors", ErrorKind::failed);
}

TEST_F(Pull, ARenamedRepositoryIsFollowedWithinTheHub) {
  hub->change = [](const WebRequest& request, WebReply& reply) {
    if (request.method == "HEAD" && request.path.ends_with("/config.json") && !request.path.contains("?moved"))
      reply = {.status = 307, .headers = {{"Location", request.path + "?moved"}}, .body = ""};
  };
  hub->instead = [&](const WebRequest& request) -> std::optional<WebReply> {
    if (!request.path.ends_with("?moved")) return std::nullopt;
    return WebReply{.status = 200, .headers = {{"ETag", "\"" + hub->etag("config.json") + "\""}}, .body = R"({"a":1})"};
  };
  const auto pulled = must(pull());
  EXPECT_EQ(read(snapshot() / "config.json"), R"({"a":1})");
}

TEST_F(Pull, HostileNamesOfFilesWriteNothing) {
  for (const std::string path : {"../../../../escaped", "/tmp/llada_escaped", "a/../../../../escaped"}) {
    hub->files[path] = {"x"};
    expect_failure(pull(), "needed a file inside the folder", ErrorKind::invalid_input);
    hub->files.erase(path);
  }
  EXPECT_FALSE(fs::exists(root / "cache"));
  hub->instead = [](const WebRequest&) {
    return WebReply{.status = 200, .headers = {}, .body = std::string(size_t{17} << 20, '[')};
  };
  settings.attempts = 1;
  expect_failure(pull(), "longer than expected", ErrorKind::failed);
}

// labels: threads
TEST_F(Pull, AStopLeavesWhatTheNextCallGoesOnWith) {
  hub->change = [](const WebRequest& request, WebReply& reply) {
    if (request.path == "/bytes/model.safetensors") reply.pause_ms = 20;
  };
  stop_at = 200'000;
  const auto stopped = pull();
  expect_failure(stopped, "stopped; the same command goes on", ErrorKind::failed);
  const auto left = fs::file_size(blob("model.safetensors").string() + ".incomplete");
  EXPECT_GT(left, 0u);
  EXPECT_LT(left, 700'001u);
  stop_at = -1;
  stop = false;
  const auto pulled = must(pull());
  EXPECT_EQ(pulled->downloaded_bytes, 700'001 - static_cast<int64_t>(left)) << "the small files were there";
}

// labels: threads
TEST_F(Pull, TwoAtOnceDownloadOnce) {
  hub->change = [](const WebRequest& request, WebReply& reply) {
    if (request.path == "/bytes/model.safetensors") reply.pause_ms = 20;
  };
  Result<hub::Pulled> other = std::unexpected(Error{});
  std::thread second([&] {
    other = hub::pull(settings, *hub::parse_request("owner/name"), false, {.progress = {}, .say = {}, .stopped = {}});
  });
  const auto first = pull();
  second.join();
  ASSERT_TRUE(first && other);
  EXPECT_EQ(downloads(), 1);
  EXPECT_EQ(first->downloaded_bytes + other->downloaded_bytes, first->bytes);
  EXPECT_EQ(read(snapshot() / "model.safetensors"), hub->files.at("model.safetensors").content);
}

TEST_F(Pull, ALockThatSomebodyHoldsIsWaitedFor) {
  fs::create_directories(root / "cache/.locks/models--owner--name");
  const std::string lock = (root / "cache/.locks/models--owner--name" / (hub->etag("config.json") + ".lock")).string();
  const int fd = ::open(lock.c_str(), O_RDWR | O_CREAT, 0644);
  ASSERT_EQ(::flock(fd, LOCK_EX), 0);
  events.say = [&](std::string_view line) {
    said += line;
    stop = true;
  };
  EXPECT_FALSE(pull());
  EXPECT_NE(said.find("another process is downloading config.json"), std::string::npos) << said;
  EXPECT_FALSE(fs::exists(blob("config.json")));
  ::close(fd);
  stop = false;
  EXPECT_TRUE(pull());
}

TEST(HttpAnswer, HeadersWithoutTheirBlanks) {
  hub::HttpAnswer answer;
  for (const char* line : {"HTTP/1.1 200 OK\r\n", "ETag: \t\"a:b\" \r\n", "X-Empty:  \r\n", "X-Linked-Size:7", "\r\n"})
    answer.add_header(line);
  EXPECT_EQ(answer.headers.size(), 3u);
  EXPECT_EQ(answer.header("etag"), "\"a:b\"");
  EXPECT_EQ(answer.header("x-linked-size"), "7");
  answer.add_header("etag: b");
  EXPECT_EQ(answer.header("etag"), "b");
  for (int i = 0; i < 300; ++i) answer.add_header("x-" + std::to_string(i) + ": 1");
  EXPECT_EQ(answer.headers.size(), 200u);
}

TEST(Checksum, IsThePublishedOne) {
  LLADA_NEEDS_DOWNLOADS();
  const auto bytes = [](std::string_view text) { return std::as_bytes(std::span(text)); };
  auto sha = hub::Checksum::sha256();  // FIPS 180-2, appendix B.1
  (*sha)->update(bytes("a"));
  (*sha)->update(bytes("bc"));
  EXPECT_EQ((*sha)->hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  auto blob = hub::Checksum::git_blob(12);  // git hash-object of "hello world\n"
  (*blob)->update(bytes("hello world\n"));
  EXPECT_EQ((*blob)->hex(), "3b18e512dba79e4c8300dd08aeb37f8e728b8dad");
}

}  // namespace
}  // namespace llada::test
