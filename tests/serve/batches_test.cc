// Files and batches that a server keeps: forms, limits, answers equal to those of the routes, and what is left after a
// restart, a cancellation and an expiry.
#include <gmock/gmock.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "serve/fixture.h"
#include "serve/http/body.h"
#include "serve/work/kept_objects.h"
#include "serve/work/route.h"

namespace llada::serve {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

constexpr const char* kType = "multipart/form-data; boundary=\"x y\"";

std::string part(const std::string& head, const std::string& bytes) {
  return "--x y\r\nContent-Disposition: form-data; " + head + "\r\n\r\n" + bytes + "\r\n";
}

TEST(Form, ItsPartsAreTheirBytes) {
  const std::string bytes("a\r\n--x\0\r\n\r\n--x", 14);
  const std::string body = part("name=purpose", "batch") +
                           part("NAME=\"file\"; filename=\"a \\\"b\\\".jsonl\"", bytes) +
                           part("filename=\"\" ; name = empty", "") + "--x y--\r\nignored";
  const auto parts = must(parse_form(kType, body));
  ASSERT_EQ(parts->size(), 3u);
  EXPECT_EQ(parts->at(0).name, "purpose");
  EXPECT_EQ(parts->at(0).file, "");
  EXPECT_EQ(parts->at(0).bytes, "batch");
  EXPECT_EQ(parts->at(1).name, "file");
  EXPECT_EQ(parts->at(1).file, "a \"b\".jsonl");
  EXPECT_EQ(parts->at(1).bytes, bytes);
  EXPECT_EQ(parts->at(2).name, "empty");
  EXPECT_EQ(parts->at(2).file, "file");
  EXPECT_EQ(parts->at(2).bytes, "");
}

TEST(Form, WhatIsNoneIsRefused) {
  const std::string good = part("name=a", "b") + "--x y--";
  for (const char* type : {"", "application/json", "multipart/form-data",
                           "multipart/form-data; boundary=", "multipart/form-data; boundary"})
    EXPECT_EQ(parse_form(type, good).error().status, 415) << type;
  const std::vector<std::string> bodies = {"",
                                           "--x y",
                                           good.substr(1),
                                           part("name=a", "b"),
                                           part("name=a", "b") + "--x y-",
                                           part("filename=a", "b") + "--x y--",
                                           "--x y\r\nname: a\r\n--x y--",
                                           part("name=a", std::string(9000, 'b'))};
  for (const std::string& body : bodies) EXPECT_EQ(parse_form(kType, body).error().status, 400) << body;
  std::string many;
  for (int i = 0; i < 33; ++i) many += part("name=a", "b");
  EXPECT_FALSE(parse_form(kType, many + "--x y--"));
  // Any cut, and any changed byte, is a result.
  std::mt19937 random(3);
  for (size_t i = 0; i < good.size(); ++i) {
    static_cast<void>(parse_form(kType, std::string_view(good).substr(0, i)));
    std::string changed = good;
    changed[i] = static_cast<char>(random());
    static_cast<void>(parse_form(changed, changed));
    static_cast<void>(parse_form(kType, changed));
  }
}

TEST(Paths, AnIdStandsBetweenOrAtTheEnd) {
  const Route content{.method = "GET", .path = "/v1/files/{id}/content", .answer = nullptr};
  EXPECT_TRUE(has_path(content, "/v1/files/a/content"));
  EXPECT_FALSE(has_path(content, "/v1/files//content"));
  EXPECT_FALSE(has_path(content, "/v1/files/content"));
  EXPECT_FALSE(has_path(content, "/v1/files/a"));
  EXPECT_EQ(path_id(content.path, "/v1/files/a%2Fb/content"), "a/b");
  EXPECT_EQ(path_id("/v1/models/{id}", "/v1/models/a/b"), "a/b");
}

std::string line(const std::string& id, const json& body, const std::string& url = "/v1/chat/completions") {
  return json{{"custom_id", id}, {"method", "POST"}, {"url", url}, {"body", body}}.dump() + "\n";
}

std::string requests(int count, int64_t length = 6) {
  std::string text;
  for (int i = 0; i < count; ++i)
    text +=
        line(std::to_string(i), chat_body("Count to " + std::to_string(i), {{"max_tokens", i % 5 == 4 ? -2 : length}}));
  return text;
}

class BatchRoutes : public ServeTest {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "llada_store_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override {
    end();
    fs::remove_all(folder_);
  }
  void start_keeping(const BatchLimits& limits = {}) {
    if (!Store::absence().empty()) GTEST_SKIP() << Store::absence();
    start(false);
    const Status kept = service->keep_batches(folder_.string(), limits);
    ASSERT_TRUE(kept) << kept.error().message;
    ASSERT_TRUE(service->set_model(tiny_model()));
  }
  void end() {
    ServeTest::TearDown();
    service.reset();
  }
  Received upload(const std::string& bytes, const std::string& more = "") {
    Client client(server->port());
    client.send(
        http_request("POST", "/v1/files",
                     part("name=purpose", "batch") + more + part("name=file; filename=a.jsonl", bytes) + "--x y--",
                     "Content-Type: " + std::string(kType) + "\r\n"));
    return client.receive();
  }
  json create(const std::string& bytes, json more = json::object()) {
    more.update({{"input_file_id", upload(bytes).json()["id"]}, {"completion_window", "24h"}});
    if (!more.contains("endpoint")) more["endpoint"] = "/v1/chat/completions";
    return post("/v1/batches", more).json();
  }
  json batch(const std::string& id) { return get("/v1/batches/" + id).json(); }
  json ended(const std::string& id) {
    for (int i = 0; i < 3000; ++i) {
      const json now = batch(id);
      if (!now["status"].is_string() || now["status"] == "completed" || now["status"] == "failed" ||
          now["status"] == "expired" || now["status"] == "cancelled")
        return now;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return batch(id);
  }
  void wait_for_answers(const std::string& id, int64_t count) {
    for (int i = 0; i < 3000 && batch(id)["request_counts"]["completed"] < count; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  // By custom_id.
  std::map<std::string, json> lines_of(const json& file) {
    std::map<std::string, json> lines;
    if (file.is_null()) return lines;
    std::istringstream text(get("/v1/files/" + file.get<std::string>() + "/content").body);
    for (std::string one; std::getline(text, one);) {
      const json answer = json::parse(one);
      EXPECT_TRUE(lines.emplace(answer["custom_id"].get<std::string>(), answer).second) << one;
    }
    return lines;
  }

  fs::path folder_;
};

TEST_F(BatchRoutes, NothingIsKeptWithoutAFolder) {
  start();
  int found = 0;
  for (const Route& route : routes()) {
    if (!route.path.starts_with("/v1/files") && !route.path.starts_with("/v1/batches")) continue;
    std::string path(route.path);
    if (const size_t at = path.find(kPathId); at != std::string::npos) path.replace(at, kPathId.size(), "a");
    const json reply = error_of(ask(server->port(), std::string(route.method), path, json::object()), 404);
    EXPECT_EQ(reply["code"], "nothing_kept") << path;
    ++found;
  }
  EXPECT_EQ(found, 9);
}

TEST_F(BatchRoutes, AnswersAreThoseOfTheRoutes) {
  start_keeping();
  const std::string text = requests(10) + line("other", {{"prompt", "a"}}, "/v1/completions");
  const json file = upload(text).json();
  EXPECT_EQ(file["bytes"], text.size());
  EXPECT_EQ(file["filename"], "a.jsonl");
  EXPECT_EQ(get("/v1/files/" + file["id"].get<std::string>() + "/content").body, text);
  const json made = create(text, {{"metadata", {{"for", "test"}}}});
  EXPECT_EQ(made["object"], "batch");
  const json over = ended(made["id"]);
  ASSERT_EQ(over["status"], "completed") << over;
  EXPECT_EQ(over["request_counts"], (json{{"total", 11}, {"completed", 8}, {"failed", 3}}));
  EXPECT_EQ(over["metadata"], (json{{"for", "test"}}));
  const auto answers = lines_of(over["output_file_id"]), errors = lines_of(over["error_file_id"]);
  ASSERT_EQ(answers.size(), 8u);
  ASSERT_EQ(errors.size(), 3u);
  EXPECT_THAT(errors.at("other")["error"]["message"].get<std::string>(), HasSubstr("needed the batch's endpoint"));
  for (int i = 0; i < 10; ++i) {
    const auto asked = post_chat("Count to " + std::to_string(i), {{"max_tokens", i % 5 == 4 ? -2 : 6}});
    const auto& answer = (i % 5 == 4 ? errors : answers).at(std::to_string(i));
    EXPECT_EQ(answer["response"]["status_code"], asked.status);
    if (asked.status == 200)
      EXPECT_EQ(answer["response"]["body"]["choices"], asked.json()["choices"]);
    else
      EXPECT_EQ(answer["response"]["body"], asked.json());
  }
  // Lists, the newest first where times differ.
  EXPECT_EQ(get("/v1/batches").json()["data"], json::array({over}));
  const json all = get("/v1/files").json();
  ASSERT_EQ(all["data"].size(), 4u);
  EXPECT_EQ(get("/v1/files?purpose=batch").json()["data"].size(), 2u);
  const std::string second = all["data"][1]["id"];
  const json page = get("/v1/files?limit=2&after=" + second).json();
  EXPECT_EQ(page["data"], json::array({all["data"][2], all["data"][3]}));
  EXPECT_EQ(page["has_more"], false);
  EXPECT_EQ(get("/v1/files?limit=1").json()["has_more"], true);
  // A file goes, a batch that has ended stays as it is.
  const std::string input = file["id"];
  Client client(server->port());
  client.send(http_request("HEAD", "/v1/files/" + input + "/content") + http_request("GET", "/health"));
  EXPECT_TRUE(client.wait_for("\"status\":\"ok\"")) << "no body between the two";
  EXPECT_FALSE(client.wait_for("custom_id", 0));
  EXPECT_EQ(ask(server->port(), "DELETE", "/v1/files/" + input).json()["deleted"], true);
  EXPECT_EQ(get("/v1/files/" + input).status, 404);
  EXPECT_EQ(get("/v1/files/" + input + "/content").status, 404);
  EXPECT_FALSE(fs::exists(folder_ / input));
}

TEST_F(BatchRoutes, ARestartGoesOn) {
  start_keeping();
  const json made = create(requests(40, 8));
  const std::string id = made["id"];
  wait_for_answers(id, 3);
  end();
  start_keeping();
  const json over = ended(id);
  ASSERT_EQ(over["status"], "completed") << over;
  EXPECT_EQ(over["request_counts"], (json{{"total", 40}, {"completed", 32}, {"failed", 8}}));
  EXPECT_EQ(lines_of(over["output_file_id"]).size(), 32u);
  EXPECT_EQ(lines_of(over["error_file_id"]).size(), 8u);
}

TEST_F(BatchRoutes, CancelledAndExpiredOnesKeepTheirAnswers) {
  start_keeping();
  const std::string id = create(requests(400, 40))["id"];
  const std::string waiting = create(requests(3))["id"];
  const std::string input = batch(id)["input_file_id"];
  EXPECT_EQ(ask(server->port(), "DELETE", "/v1/files/" + input).json()["error"]["code"], "file_in_use");
  wait_for_answers(id, 2);
  // One that waits for others ends at once.
  EXPECT_EQ(ask(server->port(), "POST", "/v1/batches/" + waiting + "/cancel").json()["status"], "cancelling");
  EXPECT_EQ(batch(waiting)["status"], "cancelled");
  EXPECT_EQ(batch(id)["status"], "in_progress");
  EXPECT_EQ(ask(server->port(), "POST", "/v1/batches/" + id + "/cancel").json()["status"], "cancelling");
  const json over = ended(id);
  EXPECT_EQ(over["status"], "cancelled");
  const size_t answers = lines_of(over["output_file_id"]).size();
  EXPECT_EQ(answers, over["request_counts"]["completed"]);
  EXPECT_GE(answers, 2u);
  EXPECT_LT(answers, 320u);
  const json never = ended(waiting);
  EXPECT_EQ(never["status"], "cancelled");
  EXPECT_EQ(never["output_file_id"], nullptr);
  EXPECT_EQ(ask(server->port(), "POST", "/v1/batches/" + id + "/cancel").status, 400);

  const std::string late = create(requests(400, 40), {{"completion_window", "1m"}})["id"];
  wait_for_answers(late, 2);
  end();
  {
    const auto store = must(Store::open((folder_ / "objects.sqlite").string()));
    const auto stored = must((*store)->all());
    for (StoredObject object : *stored) {
      if (object.id != late) continue;
      json changed = json::parse(object.json);
      changed["expires_at"] = changed["created_at"];
      object.json = changed.dump();
      ASSERT_TRUE((*store)->change({&object, 1}, {}));
    }
  }
  start_keeping();
  const json expired = ended(late);
  EXPECT_EQ(expired["status"], "expired");
  const auto done = lines_of(expired["output_file_id"]), rest = lines_of(expired["error_file_id"]);
  EXPECT_EQ(done.size() + rest.size(), 400u);
  EXPECT_GE(done.size(), 2u);
  EXPECT_EQ(rest.at("399")["error"]["code"], "batch_expired");
}

TEST_F(BatchRoutes, FilesThatTakeAllTheirRoomEndABatchWithItsAnswers) {
  start_keeping({.disk_bytes = 8000});
  const json over = ended(create(requests(20))["id"]);
  EXPECT_EQ(over["status"], "failed");
  ASSERT_EQ(over["errors"]["data"].size(), 1u) << over;
  EXPECT_THAT(over["errors"]["data"][0]["message"].get<std::string>(), HasSubstr("8000 bytes, all that they may"));
  const size_t answers = lines_of(over["output_file_id"]).size();
  EXPECT_GT(answers, 0u);
  EXPECT_EQ(over["request_counts"]["completed"], answers);
  // There is room again.
  const json files = get("/v1/files").json();
  for (const json& file : files["data"]) ask(server->port(), "DELETE", "/v1/files/" + file["id"].get<std::string>());
  EXPECT_EQ(ended(create(requests(4))["id"])["status"], "completed");
}

// A file system of 1 MB, which root alone may make.
class SmallDisk {
 public:
  explicit SmallDisk(std::string path)
      : path_(std::move(path)), there_(::mount("tmpfs", path_.c_str(), "tmpfs", 0, "size=1m") == 0) {}
  ~SmallDisk() {
    if (there_) ::umount2(path_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  bool there() const { return there_; }

 private:
  const std::string path_;
  const bool there_;
};

TEST_F(BatchRoutes, AFullDiskIsToldAsOne) {
  const SmallDisk disk(folder_.string());
  if (!disk.there()) GTEST_SKIP() << "no file system may be mounted here";
  start_keeping();
  const json error = error_of(upload(std::string(2 << 20, 'a')), 507);
  EXPECT_EQ(error["code"], "disk_full");
  EXPECT_FALSE(error["message"].get<std::string>().contains(folder_.string())) << "the log has the path";
  EXPECT_EQ(upload(requests(2)).status, 200) << "a small one has its room";
  end();
}

TEST_F(BatchRoutes, BytesOfABatchThatHasNotEndedCount) {
  start_keeping();
  const std::string text = requests(400, 40), id = create(text)["id"];
  wait_for_answers(id, 3);
  end();
  int64_t held = 0;
  for (const auto& entry : fs::directory_iterator(folder_))
    if (entry.path().filename().string().starts_with("file-")) held += static_cast<int64_t>(entry.file_size());
  EXPECT_GT(held, static_cast<int64_t>(text.size()));
  // Without a model nobody works on it.
  start(false);
  ASSERT_TRUE(service->keep_batches(folder_.string(), {.disk_bytes = held + 10}));
  const auto add = [&](size_t bytes) {
    return service->batches()->add_file("", "a", "batch", std::string(bytes, 'a'), 0);
  };
  EXPECT_EQ(add(11).error().code, "disk_limit");
  EXPECT_TRUE(add(10));
  EXPECT_EQ(add(1).error().code, "disk_limit");
}

TEST_F(BatchRoutes, NobodyElseMayReadAFile) {
  std::ofstream(folder_ / "objects.sqlite").close();
  fs::permissions(folder_ / "objects.sqlite", fs::perms(0644));
  start_keeping();
  ASSERT_EQ(ended(create(requests(5))["id"])["status"], "completed");
  int found = 0;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    EXPECT_EQ(entry.status().permissions() & fs::perms(0777), fs::perms(0600)) << entry.path();
    ++found;
  }
  EXPECT_EQ(found, 5);  // lock, objects, requests, answers, errors
}

// Files of batches that nobody knows of go; a user's own in the folder stay, however they begin.
TEST_F(BatchRoutes, OnlyFilesOfTheServersOwnNamesAreRemoved) {
  const std::string digits = "0123456789abcdef01234567";
  const std::vector<std::string> own = {"file-" + digits, "file-batch_" + digits + "-output",
                                        "file-batch_" + digits + "-error"},
                                 others = {"file-2024.pdf", "file-" + digits + ".bak", "file-batch_" + digits, "file-",
                                           "file-batch_notes-output"};
  for (const auto* names : {&own, &others})
    for (const std::string& name : *names) std::ofstream(folder_ / name) << "text";
  start_keeping();
  for (const std::string& name : own) EXPECT_FALSE(fs::exists(folder_ / name)) << name;
  for (const std::string& name : others) EXPECT_TRUE(fs::exists(folder_ / name)) << name;
}

// The limit of a file's size stands for a disk that is full.
TEST_F(BatchRoutes, AFullDiskLosesNothing) {
  start_keeping();
  const std::string id = create(requests(200, 4))["id"];
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  struct rlimit little = before;
  little.rlim_cur = 40'000;
  ::setrlimit(RLIMIT_FSIZE, &little);
  const json over = ended(id);
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  ASSERT_EQ(over["status"], "failed") << over;
  EXPECT_THAT(over["errors"]["data"][0]["message"].get<std::string>(), HasSubstr("cannot write"));
  const auto answers = lines_of(over["output_file_id"]), errors = lines_of(over["error_file_id"]);
  EXPECT_EQ(over["request_counts"]["completed"], answers.size());
  EXPECT_EQ(over["request_counts"]["failed"], errors.size());
  EXPECT_GT(answers.size(), 20u);
  EXPECT_LT(answers.size(), 160u);
  // Before and after it the server keeps what it is given.
  EXPECT_EQ(ended(create(requests(4))["id"])["status"], "completed");
}

// Each key sees what was made with it; what was made without one is everybody's.
TEST_F(BatchRoutes, AKeySeesItsOwn) {
  start_keeping();
  const std::string common = create(requests(1))["id"];
  EXPECT_EQ(ended(common)["status"], "completed");
  service->set_keys({"a-key", "b-key"});
  const auto by = [&](const std::string& key, const std::string& method, const std::string& path,
                      const json& body = nullptr) {
    return ask(server->port(), method, path, body, "Authorization: Bearer " + key + "\r\n");
  };
  Client client(server->port());
  client.send(http_request("POST", "/v1/files",
                           part("name=purpose", "batch") + part("name=file; filename=a.jsonl", requests(2)) + "--x y--",
                           "X-Api-Key: a-key\r\nContent-Type: " + std::string(kType) + "\r\n"));
  const std::string file = client.receive().json()["id"];
  const json asked = {{"input_file_id", file}, {"endpoint", "/v1/chat/completions"}};
  EXPECT_EQ(by("b-key", "POST", "/v1/batches", asked).status, 404);
  const std::string batch = by("a-key", "POST", "/v1/batches", asked).json()["id"];
  for (const auto& [method, path] : {std::pair<std::string, std::string>{"GET", "/v1/files/" + file},
                                     {"GET", "/v1/files/" + file + "/content"},
                                     {"GET", "/v1/batches/" + batch},
                                     {"POST", "/v1/batches/" + batch + "/cancel"},
                                     {"DELETE", "/v1/files/" + file}})
    EXPECT_EQ(by("b-key", method, path).status, 404) << path;
  json over;
  for (int i = 0; i < 3000 && over["status"] != "completed"; ++i) {
    over = by("a-key", "GET", "/v1/batches/" + batch).json();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ASSERT_EQ(over["status"], "completed") << over;
  EXPECT_FALSE(over.contains("owner"));
  const std::string output = "/v1/files/" + over["output_file_id"].get<std::string>() + "/content";
  EXPECT_EQ(by("b-key", "GET", output).status, 404);
  const auto seen = [&](const std::string& key, const char* list) {
    return by(key, "GET", list).json()["data"].size();
  };
  EXPECT_EQ(seen("a-key", "/v1/files"), 4u);
  EXPECT_EQ(seen("b-key", "/v1/files"), 2u);
  EXPECT_EQ(seen("a-key", "/v1/batches"), 2u);
  EXPECT_EQ(seen("b-key", "/v1/batches"), 1u);
  end();
  start_keeping();
  EXPECT_EQ(get("/v1/files").json()["data"].size(), 2u) << "without keys";
  service->set_keys({"a-key"});
  EXPECT_EQ(by("a-key", "GET", output).status, 200) << "after a restart, too";
}

// Of a store that another version wrote, or a hand: what cannot be read is named, and stays.
TEST_F(BatchRoutes, AnOddStoreIsNamedAndKept) {
  start_keeping();
  const std::string id = create(requests(1))["id"], file = upload("a").json()["id"];
  const json batch = ended(id), object = get("/v1/files/" + file).json();
  end();
  const auto without = [](json from, const std::string& to, const char* field) {
    from["id"] = to;
    from.erase(field);
    return from.dump();
  };
  std::vector<StoredObject> odd;
  const auto add = [&](const std::string& name, const std::string& text) { odd.push_back({name, text}); };
  int n = 0;
  const auto name = [&](const char* begin) { return fmt::format("{}{:024x}", begin, ++n); };
  for (const char* field : {"object", "bytes", "created_at", "filename", "purpose", "status"}) {
    const std::string to = name("file-");
    add(to, without(object, to, field));
    std::ofstream(folder_ / to) << "text";
  }
  for (const char* field : {"object", "status", "input_file_id", "endpoint", "created_at", "expires_at",
                            "request_counts", "in_progress_at"}) {
    const std::string to = name("batch_");
    json open = batch;
    open["status"] = "in_progress";
    add(to, without(std::move(open), to, field));
  }
  json later = batch;
  later["id"] = name("batch_"), later["status"] = "paused";
  add(later["id"], later.dump());
  add("file-7", R"({"id":7,"object":"file"})");
  add("batch_x", "[]");
  add("batch_y", "{");
  add("../x", without(object, "../x", "none"));
  {
    const auto store = Store::open((folder_ / "objects.sqlite").string());
    ASSERT_TRUE((*store)->change(odd, {}));
  }
  keep_log();
  start_keeping();
  EXPECT_EQ(get("/v1/files").json()["data"].size(), 3u);
  EXPECT_EQ(get("/v1/batches").json()["data"], json::array({batch}));
  EXPECT_EQ(ended(create(requests(1))["id"])["status"], "completed") << "nothing stands in its way";
  end();
  size_t named = 0;
  for (const json& one : log_lines_)
    if (one["event"] == "store") {
      ++named;
      EXPECT_THAT(one["error"].get<std::string>(), HasSubstr("objects.sqlite")) << one;
    }
  EXPECT_EQ(named, odd.size());
  const auto store = Store::open((folder_ / "objects.sqlite").string());
  EXPECT_EQ((*store)->all()->size(), odd.size() + 7);
  for (const StoredObject& one : odd) {
    if (!one.id.starts_with("file-0")) continue;
    EXPECT_TRUE(fs::exists(folder_ / one.id)) << one.id;
  }
}

TEST_F(BatchRoutes, RefuseWhatCannotBe) {
  start_keeping({.disk_bytes = 4000, .files = 3, .batches = 2, .unfinished = 1});
  EXPECT_EQ(upload(std::string(4001, 'a')).json()["error"]["code"], "disk_limit");
  EXPECT_EQ(upload("a", part("name=size", "1")).json()["error"]["param"], "size");
  EXPECT_EQ(upload("a", part("name=purpose", "vision")).json()["error"]["param"], "purpose");
  EXPECT_EQ(upload("a", part("name=expires_after[seconds]", "5")).json()["error"]["param"], "expires_after[seconds]");
  const json file =
      upload("a", part("name=expires_after[anchor]", "created_at") + part("name=expires_after[seconds]", "3600"))
          .json();
  EXPECT_EQ(file["expires_at"].get<int64_t>() - file["created_at"].get<int64_t>(), 3600);
  EXPECT_EQ(ask(server->port(), "POST", "/v1/files", json::object()).status, 415);
  const json good = {{"input_file_id", file["id"]}, {"endpoint", "/infill"}, {"completion_window", "24h"}};
  for (const auto& [field, value] : {std::pair<const char*, json>{"input_file_id", nullptr},
                                     {"input_file_id", "file-1"},
                                     {"endpoint", nullptr},
                                     {"endpoint", "/v1/embeddings"},
                                     {"completion_window", "1w"},
                                     {"completion_window", "h"},
                                     {"completion_window", "-1h"},
                                     {"metadata", 1},
                                     {"tempo", 1}}) {
    json body = good;
    body[field] = value;
    const auto refused = post("/v1/batches", body);
    EXPECT_EQ(refused.status, value == "file-1" ? 404 : 400) << body;
    EXPECT_FALSE(refused.json()["error"]["message"].get<std::string>().contains('\n'));
  }
  // What is no request of the endpoint is a line of the error file.
  const json over = ended(post("/v1/batches", good).json()["id"]);
  EXPECT_EQ(over["status"], "completed");
  EXPECT_EQ(over["request_counts"], (json{{"total", 1}, {"completed", 0}, {"failed", 1}}));
  EXPECT_EQ(upload("b").status, 200);
  EXPECT_EQ(upload("c").json()["error"]["code"], "too_many_files");
  EXPECT_THAT(why_not(Batches::open(*service, folder_.string(), {})), HasSubstr("another server uses it"));
}

KeptObject kept(const std::string& id, int64_t time) {
  Json json = {{"id", id}, {"object", "file"}, {"created_at", time}, {"bytes", 3}, {"expires_at", time}};
  if (id.starts_with(kBatchId))
    json.update({{"object", "batch"}, {"status", time % 2 ? "failed" : "in_progress"}, {"input_file_id", "file-1"}});
  return {json};
}

// A list goes through all objects; a hundred looks at every count take less than one list.
TEST(KeptObjects, CountsGoThroughNoList) {
  constexpr int64_t kFiles = 10'000, kBatches = 5'001;
  KeptObjects objects;
  for (int64_t i = 0; i < kFiles; ++i) objects.put(kept(fmt::format("file-{}", i), i + 5));
  for (int64_t i = 0; i < kBatches; ++i) objects.put(kept(fmt::format("batch_{}", i), i));
  objects.put(kept("file-7", 1));  // in its place
  objects.remove("file-9");
  const auto seconds = [](auto&& work) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  const double list = seconds([&] { EXPECT_EQ(std::ssize(objects.all("file", "")), kFiles - 1); });
  EXPECT_LT(seconds([&] {
              for (int i = 0; i < 100; ++i) {
                EXPECT_EQ(objects.files(), kFiles - 1);
                EXPECT_EQ(objects.batches(), kBatches);
                EXPECT_EQ(objects.bytes(), 3 * (kFiles - 1));
                EXPECT_EQ(objects.open().size(), kBatches / 2 + 1);
                EXPECT_EQ(objects.ended().size(), kBatches / 2);
                EXPECT_EQ(objects.expired(7), (std::vector<std::string>{"file-7", "file-0"}));
                EXPECT_EQ(objects.reader_of("file-1"), "batch_0");
              }
            }),
            list);
}

}  // namespace
}  // namespace llada::serve
