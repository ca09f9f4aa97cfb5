#include "eval/tune.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace llada::eval {
namespace {

using Genes = std::vector<size_t>;  // the choice of every axis

double loss_points(const Score& s) { return -100 * Score::ratio(s.won - s.lost, s.compared); }

// One standard error of loss_points, for the paired difference; one half is added so that it is never 0.
double error_points(const Score& s) {
  const double n = static_cast<double>(std::max<int64_t>(s.compared, 1));
  return 100 * std::sqrt(static_cast<double>(s.won + s.lost) + 0.5) / n;
}

class Search {
 public:
  Search(const std::vector<Axis>& axes, const std::function<bool(const std::string&)>& accepts,
         const Measure& measure, const TuneRequest& request, Halves halves)
      : axes_(axes), accepts_(accepts), measure_(measure), request_(request), halves_(std::move(halves)) {}

  Result<TuneResult> run() {
    const auto all = static_cast<int64_t>(halves_.search.size());
    int64_t stage = std::min(all, std::max(request_.least_examples, all / 8));
    LLADA_TRY_STATUS(explore(stage));
    for (size_t keep = tried_.size(); stage < all;) {
      keep = std::max<size_t>(keep / 2, 4);
      stage = std::min(all, 2 * stage);
      const auto best = promising(keep);
      say(fmt::format("{} candidates on {} examples", best.size(), stage));
      for (const Genes& genes : best) LLADA_TRY_STATUS(try_on(genes, stage));
    }
    return decide(all);
  }

 private:
  struct Tried {
    Score score;
    int64_t examples = 0;  // of the search half, from its begin
  };

  std::string text(const Genes& genes) const {
    std::string out;
    for (size_t a = 0; a < axes_.size(); ++a) {
      const std::string& piece = axes_[a].choices[genes[a]];
      if (!piece.empty()) out += (out.empty() ? "" : " ") + piece;
    }
    return out;
  }

  bool makes_sense(const Genes& genes) {
    const auto [entry, fresh] = sense_.try_emplace(genes, false);
    if (fresh) {
      entry->second = accepts_(text(genes));
      refused_ += !entry->second;
    }
    return entry->second;
  }

  Status try_on(const Genes& genes, int64_t examples) {
    Tried& tried = tried_[genes];
    if (tried.examples >= examples) return {};
    const std::vector<size_t> more(halves_.search.begin() + tried.examples,
                                   halves_.search.begin() + examples);
    LLADA_TRY(const Score score, measure_(text(genes), more));
    tried.score += score;
    tried.examples = examples;
    return {};
  }

  // The cheapest candidates that may still be within the loss, `keep` of them; those beyond it follow by
  // loss, so that a search that starts too fast finds its way back.
  std::vector<Genes> promising(size_t keep) const {
    std::vector<std::pair<std::pair<double, double>, Genes>> ranked;
    for (const auto& [genes, tried] : tried_) {
      const double over = loss_points(tried.score) - error_points(tried.score) - request_.max_loss;
      ranked.push_back({{std::max(0.0, over), request_.cost(tried.score)}, genes});
    }
    std::ranges::sort(ranked);
    std::vector<Genes> out;
    for (const auto& [rank, genes] : ranked)
      if (out.size() < keep) out.push_back(genes);
    return out;
  }

  Status explore(int64_t examples) {
    Genes start;
    for (const Axis& axis : axes_) start.push_back(axis.start);
    if (!makes_sense(start)) return invalid("tune: the search cannot start from '{}'", text(start));
    LLADA_TRY_STATUS(try_on(start, examples));
    // Once around the start, whatever the distance; after that one choice at a time.
    for (size_t a = 0; a < axes_.size(); ++a)
      for (size_t c = 0; c < axes_[a].choices.size(); ++c) {
        Genes genes = start;
        genes[a] = c;
        if (makes_sense(genes)) LLADA_TRY_STATUS(try_on(genes, examples));
      }
    for (int64_t generation = 0; generation < request_.generations; ++generation) {
      const auto best = promising(static_cast<size_t>(request_.breadth));
      const size_t before = tried_.size();
      for (const Genes& genes : best) LLADA_TRY_STATUS(try_neighbours(genes, examples));
      say(fmt::format("generation {}: {} candidates tried, best so far: {}", generation + 1, tried_.size(),
                      text(promising(1).front())));
      if (tried_.size() == before) break;
    }
    return {};
  }

  Status try_neighbours(const Genes& genes, int64_t examples) {
    for (size_t a = 0; a < axes_.size(); ++a)
      for (const size_t choice : {genes[a] - 1, genes[a] + 1}) {
        if (choice >= axes_[a].choices.size()) continue;  // below 0 wraps to a large number
        Genes next = genes;
        next[a] = choice;
        if (makes_sense(next)) LLADA_TRY_STATUS(try_on(next, examples));
      }
    return {};
  }

  Result<TuneResult> decide(int64_t all) {
    TuneResult result;
    result.tried = static_cast<int64_t>(tried_.size());
    result.refused = refused_;
    std::vector<Trial> trials;
    for (const auto& [genes, tried] : tried_) {
      if (tried.examples < all) continue;
      Trial trial{.options = text(genes), .search = tried.score, .validation = {}};
      LLADA_TRY(trial.validation, measure_(trial.options, halves_.validation));
      trial.cost = request_.cost(trial.total());
      trials.push_back(std::move(trial));
    }
    std::ranges::sort(trials, {}, [](const Trial& t) { return std::tuple(t.cost, t.loss(), t.options); });
    for (Trial& trial : trials)
      if (result.frontier.empty() || trial.loss() < result.frontier.back().loss())
        result.frontier.push_back(std::move(trial));
    for (size_t i = 0; i < result.frontier.size() && result.chosen < 0; ++i)
      if (result.frontier[i].loss() <= request_.max_loss &&
          result.frontier[i].validation_loss() <= request_.max_loss)
        result.chosen = static_cast<int64_t>(i);
    return result;
  }

  void say(const std::string& what) const {
    if (request_.progress) request_.progress(what);
  }

  const std::vector<Axis>& axes_;
  const std::function<bool(const std::string&)>& accepts_;
  const Measure& measure_;
  const TuneRequest& request_;
  const Halves halves_;
  std::map<Genes, Tried> tried_;
  std::map<Genes, bool> sense_;
  int64_t refused_ = 0;
};

}  // namespace

double Trial::loss() const { return loss_points(total()); }
double Trial::validation_loss() const { return loss_points(validation); }
Score Trial::total() const {
  Score sum = search;
  sum += validation;
  return sum;
}

Halves split(const std::vector<Example>& examples) {
  std::map<std::string, std::vector<size_t>> tasks;
  for (size_t i = 0; i < examples.size(); ++i) tasks[examples[i].task].push_back(i);
  Halves halves;
  for (size_t k = 0, left = examples.size(); left > 0; ++k)
    for (const auto& [task, indices] : tasks)
      if (k < indices.size()) {
        (k % 2 == 0 ? halves.search : halves.validation).push_back(indices[k]);
        --left;
      }
  return halves;
}

Result<TuneResult> tune(const std::vector<Example>& examples, const std::vector<Axis>& axes,
                        const std::function<bool(const std::string& options)>& accepts,
                        const Measure& measure, const TuneRequest& request) {
  std::map<std::string, int64_t> counts;
  for (const Example& example : examples) ++counts[example.task];
  for (const auto& [task, count] : counts)
    if (count < 2)
      return invalid("tune: found {} example of task '{}', needed at least 2 (half of them validate)", count,
                     task);
  for (const Axis& axis : axes)
    if (axis.start >= axis.choices.size())
      return invalid("tune: axis '{}' starts at choice {} of {}", axis.name, axis.start, axis.choices.size());
  return Search(axes, accepts, measure, request, split(examples)).run();
}

std::string tune_table(const TuneResult& result) {
  std::string out = fmt::format("{:>8} {:>7} {:>10} {:>7} {:>7} {:>8} {:>9}  {}\n", "cost", "loss",
                                "held out", "same", "NFE", "rows", "examples", "options");
  for (size_t i = 0; i < result.frontier.size(); ++i) {
    const Trial& t = result.frontier[i];
    const Score s = t.total();
    out += fmt::format("{:>8.3f} {:>+7.2f} {:>+10.2f} {:>6.1f}% {:>7.2f} {:>8.0f} {:>9}  {}{}\n", t.cost,
                       t.loss(), t.validation_loss(), 100 * Score::ratio(s.agreed, s.compared), s.mean(s.nfe),
                       s.mean(s.rows), s.n, t.options,
                       static_cast<int64_t>(i) == result.chosen ? "   <- chosen" : "");
  }
  return out;
}

}  // namespace llada::eval
