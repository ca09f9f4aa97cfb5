#include "engine/decide.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "decode/uniform_canvas.h"
#include "engine/canvas_lanes.h"
#include "engine/decide_answer.h"
#include "engine/decide_canvases.h"
#include "engine/decide_prompt.h"
#include "engine/prompt.h"
#include "engine/request.h"
#include "engine/token_score.h"

namespace llada {
namespace {

// One question with its options in one order, over one noise.
struct Reading {
  size_t question;
  LabelTree tree;
  std::vector<std::vector<double>> log_probabilities = {};  // by node and token
  bool best_is_label = true;
};

Status check_question(const DecideRequest& request, size_t index) {
  const DecideQuestion& q = request.questions[index];
  const std::string where = place_of(request, index);
  const auto says_nothing = [](const DecideOption& option) { return option.description.empty(); };
  if (q.instructions.empty() && q.kind == QuestionKind::predicate && std::ranges::all_of(q.options, says_nothing))
    return invalid("{}.instructions: found none, needed a text", where);
  const size_t n = q.options.size(), least = request.system_one ? 1 : 2;
  const size_t most = q.kind == QuestionKind::choice ? kMostOptions : kMostLevels;
  if (q.kind == QuestionKind::predicate) return {};
  const char* const field = request.system_one ? "criteria" : q.kind == QuestionKind::choice ? "choices" : "levels";
  if (n < least || n > most) return invalid("{}.{}: found {}, needed {} to {}", where, field, n, least, most);
  std::set<std::pair<bool, std::string_view>> known;
  for (size_t i = 0; i < n; ++i) {
    if (is_blank(q.options[i].text)) return invalid("{}.{}[{}]: found no text, needed some", where, field, i);
    if (!known.emplace(q.options[i].boolean, q.options[i].text).second)
      return invalid("{}.{}[{}]: found '{}' again, needed each once", where, field, i, q.options[i].text);
  }
  return {};
}

class Decision final : public DecideJob {
 public:
  static Result<std::unique_ptr<DecideJob>> create(std::shared_ptr<const Model> model, const DecideRequest& request);

  Status allocate(Device& device, PrefixCache* prefixes) override { return lanes_->allocate(device, prefixes); }
  bool done() const override { return cancelled() || lanes_->done(); }
  std::vector<RequestStep> steps(int64_t rows) override { return lanes_->steps(rows); }
  Status take(RequestStep& step, double device_seconds, PrefixCache* prefixes) override;
  DecideResult finish() override;
  DecideSize size() const override { return size_; }

 private:
  Decision(std::shared_ptr<const Model> model, const DecideRequest& request)
      : model_(std::move(model)), request_(request) {}
  Result<std::vector<int32_t>> prompt_of(const std::string& text) const;
  Result<LabelTree> tree_of(size_t question, size_t first, bool behind_text) const;
  Status check_room(size_t question, int64_t positions) const;
  Status add_question(size_t question);
  Status add_joint();
  Status count_canvases(int64_t canvases, int64_t tokens);
  Status lay_out();
  std::string text_before(const std::string& question) const;
  // A mask is no noise: each sample would read the same.
  int64_t samples() const { return model_->special_ids().uniform.length > 0 ? request_.options.samples : 1; }
  bool plain() const { return model_->chat_style() == ChatStyle::plain; }

  const std::shared_ptr<const Model> model_;
  const DecideRequest request_;
  std::vector<Reading> readings_;  // in the order of the questions and their rotations
  std::vector<std::vector<int32_t>> prompts_;
  std::vector<DecideCanvas> canvases_;
  std::optional<CanvasLanes> lanes_;
  DecideSize size_ = {};
  int64_t prompt_tokens_ = 0, canvas_tokens_ = 0;  // so far
};

std::string Decision::text_before(const std::string& question) const {
  return request_.state.empty() ? question : request_.state + "\n\n" + question;
}

// A base model goes on with the text, so that it is told where the answer stands.
Result<std::vector<int32_t>> Decision::prompt_of(const std::string& text) const {
  const ChatMessage message{"user", !plain() ? text : text + (request_.options.joint ? "\n" : "\nAnswer:")};
  auto ids = chat_prompt(*model_, {&message, 1});
  if (!ids) ids.error().message = fmt::format("{}: {}", state_field(request_), ids.error().message);
  return ids;
}

Result<LabelTree> Decision::tree_of(size_t question, size_t first, bool behind_text) const {
  std::vector<std::vector<int32_t>> labels;
  for (const std::string& label : question_labels(request_.questions[question], request_.options.labels, first))
    labels.push_back(model_->tokenizer().encode(behind_text ? " " + label : label));
  int64_t beginnings = 0;
  for (const std::vector<int32_t>& label : labels) beginnings += std::ssize(label) * (std::ssize(label) + 1) / 2;
  if (beginnings > kMostCanvasTokens)
    return invalid("{}: found labels that are too long: one of n tokens counts n x n / 2, needed {} together",
                   place_of(request_, question), kMostCanvasTokens);
  auto tree = label_tree(labels, end_token(model_->special_ids()));
  if (!tree) return invalid("{}: {}", place_of(request_, question), tree.error().message);
  return tree;
}

Status Decision::check_room(size_t question, int64_t positions) const {
  if (model_->context() == 0 || positions <= model_->context()) return {};
  return too_large("{}: with {} it needs {} positions; {}", state_field(request_), place_of(request_, question),
                   positions, model_->context_bound());
}

// Before they are made.
Status Decision::count_canvases(int64_t canvases, int64_t tokens) {
  const decode::SpecialIds& ids = model_->special_ids();
  canvas_tokens_ += canvases * (tokens + std::max(ids.attention_block, ids.uniform.length));
  if (canvas_tokens_ <= kMostCanvasTokens) return {};
  return invalid("questions: their labels need more than {} tokens of canvases; ask fewer at a time, or shorter labels",
                 kMostCanvasTokens);
}

Status Decision::add_question(size_t question) {
  const DecideQuestion& q = request_.questions[question];
  for (const size_t first : rotations_of(q, request_.options.rotations)) {
    LLADA_TRY(auto prompt, prompt_of(text_before(question_text(q, request_.options.labels, first))));
    // Before the next one is cut to tokens, which takes time and memory.
    LLADA_TRY_STATUS(check_room(question, std::ssize(prompt)));
    if ((prompt_tokens_ += std::ssize(prompt)) > kMostPromptTokens)
      return invalid("questions: their prompts have more than {} tokens together; ask fewer at a time",
                     kMostPromptTokens);
    LLADA_TRY(auto tree, tree_of(question, first, plain()));
    LLADA_TRY_STATUS(check_room(question, std::ssize(prompt) + tree.width + 1));
    LLADA_TRY_STATUS(count_canvases(samples() * std::ssize(tree.nodes), tree.width + 1));
    for (int64_t sample = 0; sample < samples(); ++sample) {
      for (DecideCanvas& canvas :
           question_canvases(readings_.size(), tree, std::ssize(prompt), model_->special_ids())) {
        canvas.prompt = prompts_.size(), canvas.noise = sample;
        canvases_.push_back(std::move(canvas));
      }
      readings_.push_back({.question = question, .tree = tree});
    }
    prompts_.push_back(std::move(prompt));
  }
  return {};
}

Status Decision::add_joint() {
  LLADA_TRY(auto prompt, prompt_of(joint_text(request_)));
  std::vector<LabelTree> trees;
  for (const size_t question : asked_questions(request_)) {
    LLADA_TRY(auto tree, tree_of(question, 0, true));
    trees.push_back(std::move(tree));
  }
  std::vector<JointLine> lines;
  int64_t nodes = 0, tail = 0;
  for (const LabelTree& tree : trees) {
    lines.push_back({model_->tokenizer().encode(fmt::format("{}:", lines.size() + 1)), &tree});
    nodes += std::ssize(tree.nodes);
    tail += std::ssize(lines.back().text) + tree.width + 1;
  }
  LLADA_TRY_STATUS(count_canvases(samples() * nodes, tail));
  const auto canvases =
      joint_canvases(lines, model_->tokenizer().encode("\n"), std::ssize(prompt), model_->special_ids());
  for (int64_t sample = 0; sample < samples(); ++sample) {
    for (DecideCanvas canvas : canvases) {
      for (DecideSlot& slot : canvas.slots) slot.reading += readings_.size();
      canvas.noise = sample;
      canvases_.push_back(std::move(canvas));
    }
    for (size_t i = 0; const size_t question : asked_questions(request_))
      readings_.push_back({.question = question, .tree = trees[i++]});
  }
  prompts_.push_back(std::move(prompt));
  return {};
}

Status Decision::lay_out() {
  CanvasLanes::Setup setup{.canvases = canvases_.size()};
  for (const DecideCanvas& canvas : canvases_) {
    const int64_t size = std::ssize(prompts_[canvas.prompt]) + std::ssize(canvas.tail);
    LLADA_TRY_STATUS(check_room(readings_[canvas.slots.front().reading].question, size));
    setup.positions = std::max(setup.positions, size);
    size_.slots = std::max<int64_t>(size_.slots, std::ssize(canvas.slots));
    size_.tokens += std::ssize(canvas.tail);
  }
  for (const std::vector<int32_t>& prompt : prompts_) size_.tokens += std::ssize(prompt);
  for (Reading& reading : readings_) {
    size_.labels += std::ssize(reading.tree.labels);
    for (const LabelTree::Node& node : reading.tree.nodes)
      reading.log_probabilities.emplace_back(node.tokens.size(), 0.0);
  }
  setup.size = [this](size_t index) {
    const DecideCanvas& canvas = canvases_[index];
    return std::ssize(prompts_[canvas.prompt]) + std::ssize(canvas.tail);
  };
  setup.canvas = [this, &ids = model_->special_ids()](size_t index) {
    const DecideCanvas& canvas = canvases_[index];
    const std::vector<int32_t>& prompt = prompts_[canvas.prompt];
    const bool first = index == 0 || canvases_[index - 1].prompt != canvas.prompt;
    FixedCanvas fixed{prompt, {}, std::ssize(prompt), first, std::vector(prompt.size(), true)};
    for (const int32_t token : canvas.tail) fixed.decided.push_back(token >= 0 && token != ids.mask);
    fixed.tokens.insert(fixed.tokens.end(), canvas.tail.begin(), canvas.tail.end());
    // Without a mask, an undecided position holds a random token: always the same one.
    for (size_t p = prompt.size(); p < fixed.tokens.size(); ++p)
      if (fixed.tokens[p] < 0)
        fixed.tokens[p] =
            decode::random_token(static_cast<uint64_t>(canvas.noise), 0, static_cast<int64_t>(p), ids.vocab);
    for (const DecideSlot& slot : canvas.slots) fixed.positions.push_back(static_cast<int32_t>(slot.position));
    return fixed;
  };
  const int64_t shared = shared_prefix(prompts_, canvases_, model_->special_ids());
  size_.positions = setup.positions, size_.shared = shared;
  if (shared > 0) setup.shared.assign(prompts_.front().begin(), prompts_.front().begin() + shared);
  lanes_.emplace(model_, std::move(setup));
  return {};
}

Result<std::unique_ptr<DecideJob>> Decision::create(std::shared_ptr<const Model> model, const DecideRequest& request) {
  std::unique_ptr<Decision> job(new Decision(std::move(model), request));
  const std::vector<size_t> asked = asked_questions(request);
  if (!request.options.joint) {
    for (const size_t question : asked) LLADA_TRY_STATUS(job->add_question(question));
  } else if (!asked.empty()) {
    LLADA_TRY_STATUS(job->add_joint());
  }
  LLADA_TRY_STATUS(job->lay_out());
  return job;
}

Status Decision::take(RequestStep& step, double /*device_seconds*/, PrefixCache* prefixes) {
  return lanes_->take(step, prefixes, [&](size_t index, const CanvasReading& canvas) {
    for (const DecideSlot& slot : canvases_[index].slots) {
      Reading& reading = readings_[slot.reading];
      const std::vector<int32_t>& tokens = reading.tree.nodes[slot.node].tokens;
      const LogSoftmax log_softmax(canvas.logits(slot.position));
      for (size_t t = 0; t < tokens.size(); ++t) reading.log_probabilities[slot.node][t] = log_softmax[tokens[t]];
      if (slot.node == 0) reading.best_is_label = std::ranges::count(tokens, canvas.best(slot.position)) > 0;
    }
  });
}

DecideResult Decision::finish() {
  DecideResult result{.answers = {}, .reused_tokens = lanes_->reused(), .rows = lanes_->rows()};
  result.forwards = lanes_->forwards();
  if (request_.options.joint)
    result.canvases = std::ranges::count_if(
        canvases_, [](const DecideCanvas& canvas) { return canvas.noise == 0 && canvas.slots.front().node == 0; });
  for (const std::vector<int32_t>& prompt : prompts_) result.prompt_tokens += std::ssize(prompt);
  std::vector<std::vector<std::vector<double>>> labels(request_.questions.size());  // by question and reading
  std::vector<bool> best_is_label(request_.questions.size(), true);
  for (const Reading& reading : readings_) {
    std::vector<double>& logs = labels[reading.question].emplace_back();
    for (const std::vector<LabelTree::Place>& places : reading.tree.labels) {
      double sum = 0;
      for (const auto& [node, token] : places) sum += reading.log_probabilities[node][token];
      logs.push_back(sum);
    }
    if (!reading.best_is_label) best_is_label[reading.question] = false;
  }
  for (size_t q = 0; q < labels.size(); ++q) {
    const QuestionKind kind = request_.questions[q].kind;
    if (labels[q].empty()) labels[q] = {{0.0}};  // the one option
    result.answers.push_back(
        answer_of(kind, std::move(labels[q]), request_.options.temperatures[static_cast<size_t>(kind)]));
    result.answers.back().best_is_label = best_is_label[q];
  }
  return result;
}

}  // namespace

std::string_view name(QuestionKind kind) {
  constexpr std::array<std::string_view, kQuestionKinds> kNames = {"predicate", "choice", "score"};
  return kNames[static_cast<size_t>(kind)];
}

std::string place_of(const DecideRequest& request, size_t question) {
  return request.system_one ? "questions." + request.questions[question].name : fmt::format("questions[{}]", question);
}

std::string_view state_field(const DecideRequest& request) { return request.system_one ? "state" : "input"; }

Status check_decide(const DecideRequest& request) {
  const DecideOptions& o = request.options;
  if (request.questions.empty() || request.questions.size() > kMostQuestions)
    return invalid("questions: found {}, needed 1 to {}", request.questions.size(), kMostQuestions);
  if (o.rotations < 1 || o.rotations > kMostRotations)
    return invalid("rotations: found {}, needed 1 to {}", o.rotations, kMostRotations);
  if (o.samples < 1 || o.samples > kMostSamples)
    return invalid("samples: found {}, needed 1 to {}", o.samples, kMostSamples);
  if (o.joint && o.rotations > 1) return invalid("rotations: found {}, needed 1 with joint", o.rotations);
  for (size_t kind = 0; kind < kQuestionKinds; ++kind)
    if (!(o.temperatures[kind] > 0) || !std::isfinite(o.temperatures[kind]))
      return invalid("temperature of {}: found {}, needed more than 0", name(static_cast<QuestionKind>(kind)),
                     o.temperatures[kind]);
  for (size_t i = 0; i < request.questions.size(); ++i) LLADA_TRY_STATUS(check_question(request, i));
  return {};
}

Result<std::unique_ptr<DecideJob>> start_decide(std::shared_ptr<const Model> model, const DecideRequest& request) {
  if (model->special_ids().uniform.length == 0) LLADA_TRY_STATUS(check_readable(*model));  // which have no mask
  if (!model->has_tokenizer()) return invalid("{}: the file has no tokenizer", model->file().path());
  LLADA_TRY_STATUS(check_decide(request));
  return Decision::create(std::move(model), request);
}

}  // namespace llada
