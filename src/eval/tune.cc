#include "eval/tune.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/figures.h"

namespace llada::eval {
namespace {

using Genes = std::vector<size_t>;  // the choice of every axis

double loss_points(const Score& s) { return 100 * Score::ratio(s.lost - s.won, s.compared); }

// One standard error of loss_points, for the paired difference; one half is added so that it is never 0.
double error_points(const Score& s) {
  const double n = static_cast<double>(std::max<int64_t>(s.compared, 1));
  return 100 * std::sqrt(static_cast<double>(s.won + s.lost) + 0.5) / n;
}

constexpr size_t kKeepOneOf = 3;  // of a stage's candidates, for twice its examples
constexpr size_t kLeastKept = 4;
constexpr int64_t kLeastExamples = 24;  // of the first stage
constexpr size_t kSecondChances = 12;
constexpr size_t kUsuallyValidated = 6;  // only an estimate: as many as the frontier has

Genes start_of(const std::vector<Axis>& axes) {
  Genes start;
  for (const Axis& axis : axes) start.push_back(axis.start);
  return start;
}

std::string text_of(const std::vector<Axis>& axes, const Genes& genes) {
  std::string out;
  for (size_t a = 0; a < axes.size(); ++a) {
    const std::string& piece = axes[a].choices[genes[a]];
    if (!piece.empty()) out += (out.empty() ? "" : " ") + piece;
  }
  return out;
}

class Search {
 public:
  Search(const std::vector<Axis>& axes, const Accepts& accepts, const Measure& measure, const TuneRequest& request,
         Halves halves)
      : axes_(axes), accepts_(accepts), measure_(measure), request_(request), halves_(std::move(halves)) {}

  Result<TuneResult> run() {
    auto result = search();
    return result || !request_.stopped() ? result : so_far();
  }

 private:
  Result<TuneResult> search() {
    all_ = static_cast<int64_t>(halves_.search.size());
    const int64_t first = std::min(all_, std::max(kLeastExamples, all_ / 8));
    least_ = first;
    LLADA_TRY_STATUS(explore(first));
    size_t keep = tried_.size();
    for (int64_t stage = first; stage < all_;) {
      keep = std::max(keep / kKeepOneOf, kLeastKept);
      const auto best = promising(keep, stage);
      stage = std::min(all_, 2 * stage);
      later_ = rungs_after(best.size(), stage);
      LLADA_TRY_STATUS(try_all(fmt::format("{} candidates on {} examples", best.size(), stage), best, stage));
      least_ = stage;
    }
    return decide();
  }

  struct Tried {
    Score score;
    int64_t examples = 0;  // of the search half, from its begin
  };

  std::string text(const Genes& genes) const { return text_of(axes_, genes); }

  bool makes_sense(const Genes& genes) {
    const auto [entry, fresh] = sense_.try_emplace(genes, false);
    if (fresh) {
      entry->second = accepts_(text(genes));
      refused_ += !entry->second;
    }
    return entry->second;
  }

  // Tries every candidate of a stage on the first `examples` of the search half.
  Status try_all(const std::string& stage, const std::vector<Genes>& candidates, int64_t examples) {
    int64_t left = 0;
    for (const Genes& genes : candidates) left += std::max<int64_t>(0, examples - tried_[genes].examples);
    for (const Genes& genes : candidates) {
      left -= std::max<int64_t>(0, examples - tried_[genes].examples);
      LLADA_TRY_STATUS(try_on(genes, examples, stage, left));
    }
    say(stage, examples);
    return {};
  }

  // In two parts: most of the hopeless are known after the first.
  Status try_on(const Genes& genes, int64_t examples, const std::string& stage, int64_t left_of_others) {
    Tried& tried = tried_[genes];
    const int64_t part = tried.examples + (examples - tried.examples + 2) / 3;
    for (const int64_t end : {part, examples}) {
      if (tried.examples >= end || (end == examples && hopeless(tried.score))) continue;
      tell(stage, examples - tried.examples + left_of_others);
      const std::vector<size_t> more(halves_.search.begin() + tried.examples, halves_.search.begin() + end);
      LLADA_TRY(const Score score, measured(text(genes), more));
      tried.score += score;
      tried.examples = end;
    }
    return {};
  }

  // Beyond the loss by two standard errors, and there is another to go on with.
  bool hopeless(const Score& score) const {
    const auto beyond = [&](const Score& s) {
      return s.compared == 0 || loss_points(s) - 2 * error_points(s) > request_.max_loss;
    };
    const auto is_good = [&](const auto& entry) { return !beyond(entry.second.score); };
    return beyond(score) && std::ranges::any_of(tried_, is_good);
  }

  Result<Score> measured(const std::string& options, const std::vector<size_t>& which) {
    LLADA_TRY(const Score score, measure_(options, which));
    done_ += static_cast<int64_t>(which.size());
    return score;
  }

  // Candidates that were tried on at least so many examples: cheapest first where the loss is within the limit, the
  // others behind them by loss. `errors` standard errors are granted: 1 for candidates that may still be within it, -1
  // for those that surely are.
  std::vector<Genes> ranked(int64_t examples, double errors) const {
    std::vector<std::pair<std::pair<double, double>, Genes>> rows;
    for (const auto& [genes, tried] : tried_) {
      if (tried.examples < examples) continue;
      const double over = loss_points(tried.score) - errors * error_points(tried.score) - request_.max_loss;
      rows.push_back({{std::max(0.0, over), request_.cost(tried.score)}, genes});
    }
    std::ranges::sort(rows);
    std::vector<Genes> out;
    for (const auto& [rank, genes] : rows) out.push_back(genes);
    return out;
  }

  // In turns the best of two rankings: candidates that may be good enough, by cost, and those that surely are. With the
  // first alone the cheap and inaccurate crowd out the rest, and the search on the shipped model ended with nothing
  // that held.
  std::vector<Genes> promising(size_t keep, int64_t examples) const {
    const auto hoped = ranked(examples, 1), sure = ranked(examples, -1);
    std::vector<Genes> out;
    for (size_t i = 0; i < hoped.size(); ++i)
      for (const Genes& genes : {hoped[i], sure[i]})
        if (out.size() < keep && std::ranges::count(out, genes) == 0) out.push_back(genes);
    return out;
  }

  Status explore(int64_t examples) {
    const Genes start = start_of(axes_);
    // Once around the start, whatever the distance; after that one choice at a time.
    std::vector<Genes> around = {start};
    for (size_t a = 0; a < axes_.size(); ++a)
      for (size_t c = 0; c < axes_[a].choices.size(); ++c) {
        Genes genes = start;
        genes[a] = c;
        if (genes != start && makes_sense(genes)) around.push_back(genes);
      }
    // The cost of a generation is not known; the first neighbours overlap least, so this is on the high side.
    size_t usual = static_cast<size_t>(request_.breadth) * axes_.size();
    for (int64_t generation = 0;; ++generation) {
      const auto left = static_cast<size_t>(request_.generations - generation);
      later_ = static_cast<int64_t>(left * usual) * examples +
               rungs_after(tried_.size() + around.size() + left * usual, examples);
      const std::string stage = generation == 0
                                    ? "around the start"
                                    : fmt::format("generation {} of at most {}", generation, request_.generations);
      LLADA_TRY_STATUS(try_all(stage, around, examples));
      if (generation == request_.generations) return {};
      around.clear();
      for (const Genes& genes : promising(static_cast<size_t>(request_.breadth), examples))
        add_neighbours(genes, around);
      if (around.empty()) return {};
      usual = around.size();
    }
  }

  void add_neighbours(const Genes& genes, std::vector<Genes>& out) {
    for (size_t a = 0; a < axes_.size(); ++a)
      for (const size_t choice : {genes[a] - 1, genes[a] + 1}) {
        if (choice >= axes_[a].choices.size()) continue;  // below 0 wraps to a large number
        Genes next = genes;
        next[a] = choice;
        if (!tried_.contains(next) && std::ranges::count(out, next) == 0 && makes_sense(next)) out.push_back(next);
      }
  }

  // Example runs of the stages after one in which `candidates` were tried on `stage` examples, and of validation.
  int64_t rungs_after(size_t candidates, int64_t stage) const {
    int64_t sum = 0;
    while (stage < all_) {
      candidates = std::max(candidates / kKeepOneOf, kLeastKept);
      const int64_t next = std::min(all_, 2 * stage);
      sum += static_cast<int64_t>(candidates) * (next - stage);
      stage = next;
    }
    return sum + static_cast<int64_t>(std::min(candidates, kUsuallyValidated) * halves_.validation.size());
  }

  // Validates, cheapest first, the candidates that are more accurate in the search than all cheaper ones. If none of
  // them holds, others until one does: those that were seen whole, then those that were left behind, the likeliest
  // first.
  Result<TuneResult> decide() {
    TuneResult result;
    auto [first, others] = by_rank(all_);
    std::vector<Attempt> validated;
    LLADA_TRY_STATUS(validate(first, false, validated));
    const auto found = [&] { return std::ranges::any_of(validated, [&](const Attempt& t) { return holds(t); }); };
    if (!found()) LLADA_TRY_STATUS(validate(others, true, validated));
    std::vector<Genes> left = ranked(1, -1);  // the surest, so not the lucky on few examples
    std::erase_if(left, [&](const Genes& genes) { return tried_.at(genes).examples == all_; });
    if (left.size() > kSecondChances) left.resize(kSecondChances);
    for (size_t i = 0; i < left.size() && !found(); ++i) {
      later_ = static_cast<int64_t>((left.size() - i) * halves_.validation.size());
      LLADA_TRY_STATUS(try_all("second chances", {left[i]}, all_));
      const Tried& tried = tried_.at(left[i]);
      if (tried.examples < all_ || loss_points(tried.score) > request_.max_loss) continue;
      std::vector<Attempt> one = {{text(left[i]), tried.score, {}, request_.cost(tried.score)}};
      LLADA_TRY_STATUS(validate(one, true, validated));
    }
    std::ranges::sort(validated, {}, by_cost);
    double least = 0;  // loss of the frontier's last
    for (Attempt& attempt : validated) {
      const bool chosen = result.chosen < 0 && holds(attempt);
      const bool better = result.frontier.empty() || attempt.loss() < least;
      if (chosen) result.chosen = static_cast<int64_t>(result.frontier.size());
      if (better) least = attempt.loss();
      if (better || chosen) result.frontier.push_back(std::move(attempt));
    }
    return counted_in(std::move(result));
  }

  TuneResult so_far() const {
    TuneResult result;
    result.interrupted = true;
    result.frontier = by_rank(std::max<int64_t>(least_, 1)).first;
    return counted_in(std::move(result));
  }

  TuneResult counted_in(TuneResult result) const {
    result.tried = std::ranges::count_if(tried_, [](const auto& entry) { return entry.second.examples > 0; });
    result.refused = refused_, result.examples = done_;
    return result;
  }

  // Candidates that were tried on so many examples, by cost: those that are more accurate than all cheaper ones, and
  // the others.
  std::pair<std::vector<Attempt>, std::vector<Attempt>> by_rank(int64_t examples) const {
    std::vector<Attempt> candidates, first, others;
    for (const auto& [genes, tried] : tried_)
      if (tried.examples >= examples) candidates.push_back({text(genes), tried.score, {}, request_.cost(tried.score)});
    std::ranges::sort(candidates, {}, by_cost);
    for (Attempt& attempt : candidates)
      (first.empty() || attempt.loss() < first.back().loss() ? first : others).push_back(std::move(attempt));
    return {std::move(first), std::move(others)};
  }

  Status validate(std::vector<Attempt>& attempts, bool stop_at_first, std::vector<Attempt>& out) {
    const auto each = static_cast<int64_t>(halves_.validation.size());
    later_ = 0;
    for (size_t i = 0; i < attempts.size(); ++i) {
      tell("validation", static_cast<int64_t>(attempts.size() - i) * each);
      LLADA_TRY(attempts[i].validation, measured(attempts[i].options, halves_.validation));
      attempts[i].cost = request_.cost(attempts[i].total());
      out.push_back(attempts[i]);
      if (stop_at_first && holds(attempts[i])) break;
    }
    return {};
  }

  bool holds(const Attempt& t) const {
    return t.loss() <= request_.max_loss && t.validation_loss() <= request_.max_loss;
  }

  static std::tuple<double, double, std::string> by_cost(const Attempt& t) { return {t.cost, t.loss(), t.options}; }

  std::string leader() const {
    const auto best = ranked(std::max<int64_t>(least_, 1), 0);
    if (best.empty()) return {};
    const Score& s = tried_.at(best.front()).score;
    return fmt::format("cost {:.3g}, {:+.1f} points on {}: {}", request_.cost(s), rounded(-loss_points(s), 1),
                       s.compared, text(best.front()));
  }

  void tell(const std::string& stage, int64_t left) const {
    if (request_.progress) request_.progress({stage, done_, done_ + left + later_, leader()});
  }

  void say(const std::string& stage, int64_t examples) const {
    if (!request_.news) return;
    request_.news(fmt::format("{}: {} tried on up to {}; best {}", stage, counted(std::ssize(tried_), "candidate"),
                              counted(examples, "example"), leader()));
  }

  const std::vector<Axis>& axes_;
  const Accepts& accepts_;
  const Measure& measure_;
  const TuneRequest& request_;
  const Halves halves_;
  std::map<Genes, Tried> tried_;
  std::map<Genes, bool> sense_;
  int64_t refused_ = 0;
  int64_t all_ = 0;    // examples of the search half
  int64_t least_ = 0;  // examples that a candidate must have seen to be called the best
  int64_t done_ = 0;   // example runs
  int64_t later_ = 0;  // example runs expected after this stage
};

}  // namespace

double Attempt::loss() const { return loss_points(total()); }
double Attempt::validation_loss() const { return loss_points(validation); }
Score Attempt::total() const {
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

Status check_tune(const std::vector<Example>& examples, const std::vector<Axis>& axes, const Accepts& accepts) {
  std::map<std::string, int64_t> counts;
  for (const Example& example : examples) ++counts[example.task];
  for (const auto& [task, count] : counts)
    if (count < 2)
      return invalid("tune: found {} example of task '{}', needed at least 2 (half of them validate)", count, task);
  for (const Axis& axis : axes)
    if (axis.start >= axis.choices.size())
      return invalid("tune: axis '{}' starts at choice {} of {}", axis.name, axis.start, axis.choices.size());
  const std::string start = text_of(axes, start_of(axes));
  return accepts(start) ? Status() : invalid("tune: the search cannot start from '{}'", start);
}

Status check_reference(const Score& total, const decode::DecodeOptions& options) {
  if (total.right > 0) return {};
  const std::string length = decode::get_field(options, "gen_length").value_or("");
  const std::string why =
      total.cut > 0
          ? fmt::format(
                "{} of {} were cut at --gen-length {}, where a longer one may help (--options '--gen-length "
                "auto:{}')",
                total.cut, total.n, length, 3 * options.gen_length)
          : fmt::format("none was cut at --gen-length {}, so the model may not have learned these tasks", length);
  return invalid(
      "reference, one token per forward: found 0 of {} answers right, needed 1 or more, or no candidate could lose "
      "any; {}",
      total.n, why);
}

Result<TuneResult> tune(const std::vector<Example>& examples, const std::vector<Axis>& axes, const Accepts& accepts,
                        const Measure& measure, const TuneRequest& request) {
  LLADA_TRY_STATUS(check_tune(examples, axes, accepts));
  return Search(axes, accepts, measure, request, split(examples)).run();
}

std::string tune_table(const TuneResult& result) {
  std::string out = fmt::format("{:>8} {:>7} {:>10} {:>7} {:>7} {:>8} {:>9}\n", "cost", "loss", "held out", "same",
                                "NFE", "rows", "examples");
  for (size_t i = 0; i < result.frontier.size(); ++i) {
    const Attempt& t = result.frontier[i];
    const Score s = t.total();
    out += fmt::format("{:>8.3f} {:>+7.2f} {:>+10.2f} {:>6.1f}% {:>7.2f} {:>8.0f} {:>9}{}\n         {}\n", t.cost,
                       rounded(t.loss(), 2), rounded(t.validation_loss(), 2), 100 * Score::ratio(s.agreed, s.compared),
                       s.mean(s.nfe), s.mean(s.rows), s.n,
                       static_cast<int64_t>(i) == result.chosen ? "  <- chosen" : "", t.options);
    if (s.cut > 0)
      out += fmt::format("         WARNING: cut by the length before their end: {} of {}\n", s.cut,
                         counted(s.n, "answer"));
  }
  return out;
}

}  // namespace llada::eval
