#include "eval/measurements.h"

#include "base/file.h"
#include "base/fnv.h"
#include "base/os.h"
#include "json/fields.h"
#include "json/lines.h"
#include "json/parse.h"
#include "text/text_file.h"

namespace llada::eval {
namespace {

constexpr const char* kMeasurements = "llada-measurements";
constexpr int64_t kMeasurementsVersion = 2;
constexpr int64_t kMostCounted = int64_t{1} << 50;

struct Count {
  const char* name;
  int64_t Score::* field;
};
// The counts that a search reads.
constexpr Count kCounts[] = {{"n", &Score::n},
                             {"right", &Score::right},
                             {"whole_right", &Score::whole_right},
                             {"cut", &Score::cut},
                             {"nfe", &Score::nfe},
                             {"rows", &Score::rows},
                             {"committed", &Score::committed},
                             {"content_tokens", &Score::content_tokens},
                             {"compared", &Score::compared},
                             {"agreed", &Score::agreed},
                             {"edit_distance", &Score::edit_distance},
                             {"won", &Score::won},
                             {"lost", &Score::lost}};
struct Time {
  const char* name;
  double Score::* field;
};
constexpr Time kTimes[] = {
    {"seconds", &Score::seconds}, {"cpu_seconds", &Score::cpu_seconds}, {"table_seconds", &Score::table_seconds}};

Result<std::vector<LatencyPoint>> read_latency(Fields& fields) {
  std::vector<LatencyPoint> points;
  LLADA_TRY_STATUS(fields.tuples("latency", 2, [&](const Json& pair) -> Status {
    if (!pair[0].is_number_integer() || !pair[1].is_number() || pair[0] < 1 || !(pair[1] > 0) ||
        (!points.empty() && pair[0] <= points.back().rows))
      return fields.fault("latency", "needed rising numbers of rows, each with its milliseconds");
    points.push_back({pair[0], pair[1]});
    return {};
  }));
  if (points.empty()) return fields.fault("latency", "empty");
  return points;
}

}  // namespace

const Score* MeasurementStore::find(const std::string& options, const std::vector<size_t>& which) const {
  const auto found = scores_.find({options, which});
  return found == scores_.end() ? nullptr : &found->second;
}

Status MeasurementStore::put(const std::string& options, const std::vector<size_t>& which, const Score& score) {
  scores_[{options, which}] = score;
  return path_.empty() ? Status() : write_file(path_, text());
}

Result<MeasurementStore> MeasurementStore::parse(std::string_view text, const std::string& source, Key key) {
  MeasurementStore store({}, std::move(key));
  bool headed = false;
  const auto visit = [&](std::string_view row, std::string where) -> Status {
    LLADA_TRY(auto fields, Fields::parse(row, where));
    if (!headed) {
      headed = true;
      LLADA_TRY_STATUS(fields.head(kMeasurements, kMeasurementsVersion));
      for (const auto& [name, needed] : {std::pair{"model", &store.key_.model},
                                         {"device", &store.key_.device},
                                         {"common", &store.key_.common},
                                         {"tasks", &store.key_.tasks}}) {
        LLADA_TRY_STATUS(fields.same(name, *needed, "measured", "this search"));
      }
      LLADA_TRY(store.latency_, read_latency(fields));
      return fields.finish();
    }
    LLADA_TRY(const std::string options, fields.text("options"));
    LLADA_TRY(const auto examples, fields.integers("examples", 0, int64_t{1} << 30));
    Score score;
    for (const Count& count : kCounts) {
      LLADA_TRY(score.*count.field, fields.integer(count.name, 0, kMostCounted));
    }
    for (const Time& time : kTimes) {
      LLADA_TRY(score.*time.field, fields.real(time.name, 0, 1e15));
    }
    if (score.n != static_cast<int64_t>(examples.size()))
      return fields.wrong("n", score.n, fmt::format("{} as there are examples", examples.size()));
    store.scores_[{options, {examples.begin(), examples.end()}}] = score;
    return fields.finish();
  };
  LLADA_TRY_STATUS(for_each_json_line(text, source, visit));
  if (!headed) return invalid("{}: empty, needed a file of measurements", source);
  return store;
}

std::string MeasurementStore::text() const {
  Json points = Json::array();
  for (const LatencyPoint& point : latency_) points.push_back({point.rows, point.ms});
  std::string out = json_line({{"format", kMeasurements},
                               {"version", kMeasurementsVersion},
                               {"model", key_.model},
                               {"device", key_.device},
                               {"common", key_.common},
                               {"tasks", key_.tasks},
                               {"latency", points}});
  for (const auto& [what, score] : scores_) {
    Json row = {{"options", what.first}, {"examples", what.second}};
    for (const Count& count : kCounts) row[count.name] = score.*count.field;
    for (const Time& time : kTimes) row[time.name] = score.*time.field;
    out += json_line(row);
  }
  return out;
}

Result<MeasurementStore> MeasurementStore::open(const std::string& path, Key key, std::vector<LatencyPoint> latency) {
  if (path.empty() || !os::exists(path)) {
    MeasurementStore store(path, std::move(key));
    store.latency_ = std::move(latency);
    return store;
  }
  LLADA_TRY(const std::string text, read_text_file(path));
  LLADA_TRY(auto store, parse(text, path, std::move(key)));
  store.path_ = path;
  return store;
}

std::string examples_fingerprint(const std::vector<Example>& examples) {
  Fnv fnv;
  for (const Example& e : examples)
    for (const std::string* field : {&e.task, &e.prompt, &e.response, &e.answer}) {
      fnv.add(*field);
      fnv.add(static_cast<int64_t>(field->size()));
    }
  return fmt::format("{:016x}", fnv.hash());
}

}  // namespace llada::eval
