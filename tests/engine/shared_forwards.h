// Different requests in shared forwards against each of them alone: same ids, same recording byte for byte, same stats
// of its own, whoever joins, leaves or is cancelled meanwhile. For any model on any device.
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/session.h"
#include "eval/recording.h"

namespace llada {

struct Wanted {
  std::string name;
  Request request;
  int64_t joins = 0;                            // before this forward
  std::optional<int64_t> cancelled_after = {};  // its steps; it is cancelled by its own callback
};

// What must not depend on company.
struct Ran {
  std::vector<int32_t> tokens;
  std::string text, recording;
  decode::RunStats stats;
  int64_t prompt_tokens = 0, content_tokens = 0;
  uint64_t canvas_hash = 0;
  bool operator==(const Ran&) const = default;
};

class Recorder {
 public:
  explicit Recorder(const Wanted& wanted) : wanted_(wanted), recorder_(wanted.name, "", "", 0) {}
  StepCallback on_step() {
    return [this](const decode::StepEvent& event) {
      recorder_.step(event);
      return event.step + 1 != wanted_.cancelled_after;
    };
  }
  Ran ran(const Generation& g) const {
    return {g.tokens,
            g.text,
            recording_lines(recorder_.run()),
            g.stats.decode,
            g.stats.prompt_tokens,
            g.stats.content_tokens,
            g.stats.canvas_hash};
  }

 private:
  const Wanted& wanted_;
  RunRecorder recorder_;
};

inline std::vector<Ran> run_alone(const std::shared_ptr<const Model>& model, std::span<const Wanted> wanted) {
  std::vector<Ran> all;
  for (const Wanted& w : wanted) {
    Recorder recorder(w);
    const auto session = Session::create(model, {.threads = 0});
    EXPECT_TRUE(session);
    const auto g = (*session)->run(prepare(*model, w.request).value(), recorder.on_step());
    EXPECT_TRUE(g) << w.name << ": " << (g ? "" : g.error().message);
    all.push_back(g ? recorder.ran(*g) : Ran{});
  }
  return all;
}

struct Together {
  std::vector<Ran> ran;
  SchedulerStats stats;
  std::vector<std::string> warnings;
  bool fell_back = false;
};

inline Together run_together(const std::shared_ptr<const Model>& model, std::span<const Wanted> wanted,
                             SchedulerOptions options) {
  Together out;
  options.warn = [&](const std::string& line) { out.warnings.push_back(line); };
  auto scheduler = Scheduler::create(model, options);
  EXPECT_TRUE(scheduler) << scheduler.error().message;
  std::vector<std::unique_ptr<Recorder>> recorders;
  std::vector<std::optional<Result<Generation>>> results(wanted.size());
  for (const Wanted& w : wanted) recorders.push_back(std::make_unique<Recorder>(w));
  size_t left = wanted.size();
  for (int64_t forward = 0; left > 0 || !(*scheduler)->idle(); ++forward) {
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i].joins != forward) continue;
      const auto id =
          (*scheduler)
              ->add(prepare(*model, wanted[i].request).value(), {recorders[i]->on_step()}, [&results, i](auto result) {
                EXPECT_FALSE(results[i]) << "ended twice";
                results[i] = std::move(result);
              });
      EXPECT_TRUE(id) << wanted[i].name << ": " << id.error().message;
      --left;
    }
    (*scheduler)->run_forward();
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    const bool good = results[i] && *results[i];
    EXPECT_TRUE(good) << wanted[i].name << ": " << (results[i] ? results[i]->error().message : "did not end");
    out.ran.push_back(good ? recorders[i]->ran(**results[i]) : Ran{});
  }
  out.stats = (*scheduler)->stats();
  out.fell_back = (*scheduler)->fell_back();
  return out;
}

inline void expect_same(std::span<const Wanted> wanted, std::span<const Ran> got, std::span<const Ran> expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].tokens, expected[i].tokens) << wanted[i].name;
    EXPECT_EQ(got[i].recording, expected[i].recording) << wanted[i].name;
    EXPECT_TRUE(got[i] == expected[i]) << wanted[i].name;
  }
}

// Eight requests of a model with full attention, of about `length` tokens each, that share neither strategy nor length:
// acceptance rules, K/V policies, guidance, sampling, drafts, revision fused and beside, an infilling. They join at
// different times; the fourth and the seventh are cancelled on the way.
inline std::vector<Wanted> eight_requests(std::span<const int32_t> text, int64_t length) {
  using enum decode::Acceptance;
  using decode::KvChoice;
  std::vector<Wanted> list;
  const auto add = [&](std::string name, int64_t joins, int64_t prompt, int64_t gen) -> decode::DecodeOptions& {
    list.push_back({std::move(name), {}, joins});
    Request& r = list.back().request;
    r.tokens.assign(text.begin(), text.begin() + std::min<int64_t>(prompt, static_cast<int64_t>(text.size())));
    r.options.gen_length = gen;
    r.options.block_length = std::max<int64_t>(length / 2, 2);
    r.options.acceptance = threshold;
    return r.options;
  };
  const auto n = static_cast<int64_t>(text.size());
  add("threshold", 0, n, length).slide = true;
  decode::DecodeOptions* o = &add("guided and sampled", 0, n - 1, length);
  o->temperature = 0.7, o->seed = 3, o->cfg_scale = 0.5, o->kv = KvChoice::dual;
  o = &add("sampled by schedule", 0, n, length + 1);
  o->acceptance = schedule, o->temperature = 1.5, o->seed = 9, o->kv = KvChoice::prefix, o->refresh_after = 3;
  o = &add("revised beside, drafts", 1, n, 2 * length);
  o->revision = decode::Revision::dual_path, o->revise_lateness = 1;
  o->threshold = 0.5, o->stable_threshold = 1, o->kv = KvChoice::dual, o->mbsd = true, o->mbsd_trigger = 32;
  list.back().cancelled_after = 3;
  o = &add("frozen", 1, n - 2, length + 3);
  o->kv = KvChoice::frozen, o->refresh_after = 5, o->acceptance = factor;
  o = &add("guided and revised", 2, n, length);
  o->revision = decode::Revision::dual_path, o->stable_threshold = 1, o->cfg_scale = 1.5, o->kv = KvChoice::prefix;
  o->revise_lateness = 2;
  o->threshold = 0.6;
  o = &add("cancelled", 3, n, length);
  o->acceptance = schedule;
  list.back().cancelled_after = 2;
  list.push_back({"infilling", {.tokens = {text.begin(), text.end()}}, 4});
  Request& infill = list.back().request;
  infill.gaps.emplace();
  for (int32_t p = 1; p < n; p += 1 + static_cast<int32_t>(n / length)) infill.gaps->push_back(p);
  infill.options = {decode::LengthOptions{.block_length = 4}, decode::AcceptanceOptions{.acceptance = entropy},
                    decode::CacheOptions{.kv = KvChoice::dual}};
  return list;
}

// The same of a block-causal model whose blocks have `block` positions.
inline std::vector<Wanted> eight_block_causal(std::span<const int32_t> text, int64_t length, int64_t block,
                                              double threshold) {
  using decode::KvChoice;
  using decode::Revision;
  std::vector<Wanted> list;
  const auto add = [&](std::string name, int64_t joins, int64_t prompt, int64_t gen) -> decode::DecodeOptions& {
    list.push_back({std::move(name), {}, joins});
    Request& r = list.back().request;
    r.tokens.assign(text.begin(), text.begin() + prompt);
    r.options.gen_length = gen;
    r.options.block_length = block;
    r.options.acceptance = decode::Acceptance::threshold;
    r.options.threshold = threshold;
    r.options.kv = KvChoice::block;
    r.options.early_stop = decode::EarlyStop::none;
    return r.options;
  };
  const auto n = static_cast<int64_t>(text.size());
  add("threshold", 0, n, length);
  add("everything computed", 0, n - 1, length).kv = KvChoice::none;
  decode::DecodeOptions* o = &add("guided and sampled", 0, n - 3, length);
  o->temperature = 0.7, o->seed = 3, o->cfg_scale = 0.5;
  o = &add("llada2, frozen", 1, n, 2 * length);
  o->acceptance = decode::Acceptance::llada2;
  o->kv = KvChoice::frozen;
  o = &add("edited", 1, n / 2, length);
  o->revision = Revision::edit, o->edit_threshold = threshold;
  o = &add("revised", 2, n - 1, length + 5);
  o->revision = Revision::dual_path, o->stable_threshold = 2 * threshold;
  o->revise_lateness = 1;
  list.back().cancelled_after = 2;
  o = &add("edited, everything computed", 3, 1, length);
  o->revision = Revision::edit, o->edit_threshold = threshold * 1.1, o->kv = KvChoice::none;
  o = &add("cancelled", 4, n, length);
  o->acceptance = decode::Acceptance::schedule;
  list.back().cancelled_after = 2;
  return list;
}

}  // namespace llada
