// /v1/llada/score: how probable texts are behind a prompt, as `llada score` has it by the methods chain and exact.
#include <algorithm>
#include <utility>

#include "engine/prompt.h"
#include "engine/request_memory.h"
#include "serve/protocols/adapter.h"
#include "text/utf8.h"

namespace llada::serve {
namespace {

struct ScoreAsk {
  std::string prompt;
  std::vector<std::string> texts;
  ScoreRequest request;  // its tokens by encode()
};

Answered<ScoreAsk> read_score(Service& service, Fields body) {
  LLADA_TRY_STATUS(check_model(service, body));
  LLADA_TRY(const auto prompt, body.optional_text("prompt"));
  ScoreAsk ask{.prompt = prompt.value_or(""), .texts = {}, .request = {}};
  LLADA_TRY(ask.texts, body.texts("continuations"));
  LLADA_TRY(const auto method, body.optional_text("method"));
  LLADA_TRY(const auto top, body.optional_integer("top", 0, kMostAlternatives));
  body.ignore({"seed"});  // nothing is drawn
  LLADA_TRY_STATUS(body.finish());
  if (method && method != "chain" && method != "exact") return wrong("method", *method, "chain or exact");
  ask.request.options.method = method == "exact" ? ScoreMethod::exact : ScoreMethod::chain;
  ask.request.options.top = top.value_or(0);
  if (ask.texts.empty()) return refuse("continuations: found none, needed a text or a list of them", "continuations");
  LLADA_TRY_STATUS(check_count(service, std::ssize(ask.texts), 1));
  size_t bytes = 0;
  for (const std::string& text : ask.texts) bytes = std::max(bytes, text.size());
  LLADA_TRY_STATUS(check_bytes(service, ask.prompt.size() + bytes, "prompt"));
  return ask;
}

// Bytes that encode() cuts into tokens: each text is behind a prompt of its own.
size_t encoded_bytes(const ScoreAsk& ask) {
  size_t bytes = 0;
  for (const std::string& text : ask.texts) bytes += ask.prompt.size() + text.size();
  return bytes;
}

Done encode(const Service& service, ScoreAsk& ask) {
  const Model& model = service.model();
  for (const std::string& text : ask.texts) {
    auto pair = encode_pair(model, ask.prompt, text);
    if (!pair) return refuse("prompt: " + pair.error().message, "prompt");
    if (pair->continuation.empty())
      return refuse(
          fmt::format("continuations: found {} without a token of its own behind the prompt, needed 1 or more",
                      in_quotes(text)),
          "continuations");
    ask.request.prompt = std::move(pair->context);
    ask.request.continuations.push_back(std::move(pair->continuation));
  }
  if (const Status status = check_score(model, ask.request); !status)
    return status.error().kind == ErrorKind::too_large
               ? too_long("prompt", status.error().message)
               : refuse("continuations: " + status.error().message, "continuations");
  return {};
}

Json score_json(const Service& service, const ScoreAsk& ask, const ScoreResult& result) {
  const Model& model = service.model();
  const auto token_json = [&](int32_t token, double log_probability) -> Json {
    return {{"id", token}, {"text", token_text(model, token)}, {"log_probability", log_probability + 0.0}};  // not -0
  };
  Json list = Json::array();
  int64_t scored = 0;
  for (size_t i = 0; i < result.continuations.size(); ++i) {
    const ContinuationScore& score = result.continuations[i];
    Json tokens = Json::array();
    for (const TokenScore& t : score.tokens) {
      Json token = token_json(t.token, t.log_probability);
      for (const auto& other : t.top) token["top"].push_back(token_json(other.token, other.log_probability));
      tokens.push_back(std::move(token));
    }
    scored += std::ssize(score.tokens);
    list.push_back({{"text", ask.texts[i]},
                    {"log_probability", score.log_probability + 0.0},
                    {"greedy", score.greedy ? Json(*score.greedy) : Json(nullptr)},
                    {"tokens", std::move(tokens)}});
  }
  return {{"object", "score"},
          {"model", service.name()},
          {"method", method_name(ask.request.options.method)},
          {"continuations", std::move(list)},
          {"usage",
           {{"prompt_tokens", ask.request.prompt.size()},
            {"scored_tokens", scored},
            {"forwards", result.forwards},
            {"rows", result.rows}}}};
}

Answered<QueuedWork<ScoreResult>> score_work(Service& service, const std::string&,
                                             const std::shared_ptr<ScoreAsk>& ask) {
  LLADA_TRY_STATUS(encode(service, *ask));
  int64_t tokens = 0;  // with their log-probabilities
  for (const auto& text : ask->request.continuations) tokens += std::ssize(text);
  const auto waiting = static_cast<double>(tokens) * sizeof(int32_t) + static_cast<double>(encoded_bytes(*ask));
  tokens *= 1 + ask->request.options.top;
  constexpr double kJsonOfToken = 1024;
  const int64_t rows = std::max(service.engine().row_budget(), RowBudget::kMostOfMixture);
  const double bytes = score_bytes(service.model(), ask->request, rows) + kJsonOfToken * static_cast<double>(tokens);
  return QueuedWork<ScoreResult>{
      .needs = "the score needs",
      .bytes = {bytes, bytes},
      .waiting_bytes = waiting,
      .size = tokens > 1000 ? WorkSize::large : WorkSize::small,
      .submit = [&service, ask](auto on_done) -> std::shared_ptr<Submitted> {
        return service.engine().submit_score(ask->request, std::move(on_done));
      },
      .json = [&service, ask](const ScoreResult& result) { return score_json(service, *ask, result); }};
}

}  // namespace

Protocol score_protocol() {
  static constexpr Route kRoutes[] = {{.method = "POST",
                                       .path = "/v1/llada/score",
                                       .answer = compute<read_score, encoded_bytes, score_work>,
                                       .in_batch = true}};
  return {kRoutes};
}

}  // namespace llada::serve
