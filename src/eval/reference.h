// The reference that strategies are compared with: each example's answer by one token per step with full recomputation.
// It costs more than the strategies, so it runs once per example and can be kept in a file.
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "eval/score.h"

namespace llada::eval {

struct StrategyUnderTest {
  std::string name;
  std::string description;  // the options as they were written
  decode::DecodeOptions options;
};

// One example's answer by one strategy.
struct Answer {
  std::vector<int32_t> tokens = {};  // the answer and its end token, if one came
  int64_t likelihood_groups = -1;    // the groups that score.likelihood was computed with; -1: it was not
  // Cost and likelihood; values that depend on the example or on a reference are counted elsewhere
  Score score = {};
};

// One token per forward, every position recomputed, greedy; `like` gives the length, block_length, guidance
// and the options on end tokens.
decode::DecodeOptions reference_options(const decode::DecodeOptions& like);
// The same for the first strategy, but as long as the longest of all, so that no strategy's answer can be longer.
decode::DecodeOptions reference_options(std::span<const StrategyUnderTest> strategies);

// Answers by example, in memory and, with a path, in a file that is valid for one model (its file's
// fingerprint), one device and one set of options. JSON lines; the seconds in it are measured when it was
// written.
class ReferenceStore {
 public:
  struct Key {
    std::string model;    // model_fingerprint()
    std::string device;   // processor and instruction set, one thread
    std::string options;  // reference_text()
    bool operator==(const Key&) const = default;
  };

  // An absent file is an empty store. Invalid: a file that is no reference, or one of another key.
  static Result<ReferenceStore> open(const std::string& path, Key key);
  static ReferenceStore in_memory(Key key) { return ReferenceStore({}, std::move(key)); }

  const Answer* find(uint64_t prompt) const;
  void put(uint64_t prompt, Answer answer);
  Status save() const;  // writes the file when something was put; nothing without a path

  // The file's text; `source` names it in errors.
  static Result<ReferenceStore> parse(std::string_view text, const std::string& source, Key key);
  std::string text() const;

 private:
  ReferenceStore(std::string path, Key key) : path_(std::move(path)), key_(std::move(key)) {}
  std::string path_;
  Key key_;
  std::map<uint64_t, Answer> answers_;  // by prompt_hash()
  bool changed_ = false;
};

// FNV-1a over the prompt's token ids.
uint64_t prompt_hash(std::span<const int32_t> prompt);

// The options that shape a reference, one line.
std::string reference_text(const decode::DecodeOptions& options);

// FNV-1a over names, types, shapes and evenly spaced bytes of every tensor, so that gigabytes need not be read.
std::string model_fingerprint(const Model& model);

}  // namespace llada::eval
