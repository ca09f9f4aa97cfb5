// The measurements of a search for options, kept in a file, so that a stopped search goes on, and one with another
// limit or cost reuses them.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/latency.h"
#include "eval/score.h"
#include "eval/tasks.h"

namespace llada::eval {

// Scores by options and examples, in memory and in a file that is valid for one key. JSON lines; the file is replaced
// as a whole after every measurement, so that a killed process leaves all but the one it was at.
class MeasurementStore {
 public:
  struct Key {
    std::string model;   // model_fingerprint()
    std::string device;  // processor and instruction set
    std::string common;  // decoding options of every candidate, and how prompts are fed
    std::string tasks;   // examples_fingerprint()
    bool operator==(const Key&) const = default;
  };

  // An absent file is an empty store with the table `latency`; a file has the table of its measurements. Invalid: a
  // file of another kind or key.
  static Result<MeasurementStore> open(const std::string& path, Key key, std::vector<LatencyPoint> latency);

  const std::vector<LatencyPoint>& latency() const { return latency_; }
  size_t size() const { return scores_.size(); }
  const Score* find(const std::string& options, const std::vector<size_t>& which) const;
  Status put(const std::string& options, const std::vector<size_t>& which, const Score& score);

  // The file's text; `source` names it in errors.
  static Result<MeasurementStore> parse(std::string_view text, const std::string& source, Key key);
  std::string text() const;

 private:
  MeasurementStore(std::string path, Key key) : path_(std::move(path)), key_(std::move(key)) {}
  std::string path_;
  Key key_;
  std::vector<LatencyPoint> latency_;
  std::map<std::pair<std::string, std::vector<size_t>>, Score> scores_;
};

// FNV-1a over all fields of all examples.
std::string examples_fingerprint(const std::vector<Example>& examples);

}  // namespace llada::eval
