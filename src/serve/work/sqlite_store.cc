// The store in an SQLite file: one table, whose rows change in transactions.
#include <sqlite3.h>

#include <optional>

#include "serve/work/kept_objects.h"

namespace llada::serve {
namespace {

constexpr int kVersion = 1;  // of the tables

class SqliteStore : public Store {
 public:
  explicit SqliteStore(std::string path) : path_(std::move(path)) {}
  ~SqliteStore() override { sqlite3_close(db_); }

  Status open() {
    if (sqlite3_open_v2(path_.c_str(), &db_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr) != SQLITE_OK)
      return error("open");
    sqlite3_extended_result_codes(db_, 1);
    sqlite3_busy_timeout(db_, 5000);
    LLADA_TRY_STATUS(run("PRAGMA synchronous=FULL"));
    LLADA_TRY_STATUS(run("CREATE TABLE IF NOT EXISTS objects(id TEXT PRIMARY KEY, json TEXT NOT NULL)"));
    LLADA_TRY(const int64_t version, number("PRAGMA user_version"));
    if (version == 0) return run(fmt::format("PRAGMA user_version={}", kVersion));
    if (version != kVersion) return invalid("{}: found tables of version {}, needed {}", path_, version, kVersion);
    return {};
  }

  Result<std::vector<StoredObject>> all() override {
    std::vector<StoredObject> objects;
    LLADA_TRY(const Statement rows, prepare("SELECT id, json FROM objects"));
    for (;;) {
      const int step = sqlite3_step(rows.get());
      if (step == SQLITE_DONE) return objects;
      if (step != SQLITE_ROW) return std::unexpected(error("read").error());
      auto id = text(rows, 0), json = text(rows, 1);
      if (!id || !json) return std::unexpected(error("read").error());
      objects.push_back({std::move(*id), std::move(*json)});
    }
  }

  Status change(std::span<const StoredObject> put, std::span<const std::string> removed) override {
    LLADA_TRY_STATUS(run("BEGIN IMMEDIATE"));
    const Status done = change_all(put, removed);
    if (const Status ended = done ? run("COMMIT") : done; !ended) {
      static_cast<void>(sqlite3_exec(db_, "ROLLBACK", nullptr, nullptr, nullptr));
      return ended;
    }
    return {};
  }

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  using Statement = std::unique_ptr<sqlite3_stmt, Finalize>;

  Status error(const char* what) const {
    return failed("{}: cannot {}: {}", path_, what, db_ != nullptr ? sqlite3_errmsg(db_) : "out of memory");
  }
  Status run(const std::string& sql) {
    return sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK ? Status() : error("write");
  }
  Result<Statement> prepare(const char* sql) {
    sqlite3_stmt* statement = nullptr;
    if (sqlite3_prepare_v2(db_, sql, -1, &statement, nullptr) != SQLITE_OK)
      return std::unexpected(error("read").error());
    return Statement(statement);
  }
  Result<int64_t> number(const char* sql) {
    LLADA_TRY(const Statement row, prepare(sql));
    if (sqlite3_step(row.get()) != SQLITE_ROW) return std::unexpected(error("read").error());
    return sqlite3_column_int64(row.get(), 0);
  }
  // Nothing: memory ran out.
  static std::optional<std::string> text(const Statement& row, int column) {
    const unsigned char* bytes = sqlite3_column_text(row.get(), column);
    if (bytes == nullptr) return std::nullopt;
    return reinterpret_cast<const char*>(bytes);
  }
  Status change_all(std::span<const StoredObject> put, std::span<const std::string> removed) {
    const auto bind = [&](const Statement& to, int place, const std::string& value) -> Status {
      const int bound = sqlite3_bind_text64(to.get(), place, value.data(), value.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
      return bound == SQLITE_OK ? Status() : error("write");
    };
    LLADA_TRY(const Statement insert, prepare("INSERT OR REPLACE INTO objects(id, json) VALUES(?, ?)"));
    for (const StoredObject& object : put) {
      LLADA_TRY_STATUS(bind(insert, 1, object.id));
      LLADA_TRY_STATUS(bind(insert, 2, object.json));
      if (sqlite3_step(insert.get()) != SQLITE_DONE) return error("write");
      sqlite3_reset(insert.get());
    }
    LLADA_TRY(const Statement erase, prepare("DELETE FROM objects WHERE id = ?"));
    for (const std::string& id : removed) {
      LLADA_TRY_STATUS(bind(erase, 1, id));
      if (sqlite3_step(erase.get()) != SQLITE_DONE) return error("write");
      sqlite3_reset(erase.get());
    }
    return {};
  }

  const std::string path_;
  sqlite3* db_ = nullptr;
};

}  // namespace

std::string_view Store::absence() { return ""; }

Result<std::unique_ptr<Store>> Store::open(const std::string& path) {
  auto store = std::make_unique<SqliteStore>(path);
  LLADA_TRY_STATUS(store->open());
  return store;
}

}  // namespace llada::serve
