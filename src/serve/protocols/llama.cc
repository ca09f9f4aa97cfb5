// /completion: text that follows a prompt, in llama-server's own protocol.
#include "serve/protocols/adapter.h"

namespace llada::serve {
namespace {

class LlamaForm final : public AnswerWriter {
 public:
  LlamaForm(AnswerHead head, const Ask&) : AnswerWriter(std::move(head)) {}

  // To a list of prompts a list of answers.
  std::string body(const EndedAnswers& answers, const Json& beside) override {
    if (answers.count == 1) return AnswerWriter::body(answers, beside);
    std::string list;
    for (size_t i = 0; i < answers.count; ++i) {
      Json more = {{"index", i}};
      more.update(beside);
      Json one = whole_json(answers.take(i), answers.usage_of(i));
      one.update(more);
      list += (list.empty() ? "[" : ",") + dump(one);
    }
    return list + "]";
  }

  std::string whole(const FinishedAnswer& answer, const Json& usage) const override {
    return dump(whole_json(answer, usage));
  }
  Json whole_json(const FinishedAnswer& answer, const Json& usage) const {
    const double seconds = usage.at("seconds");
    const int64_t tokens = usage.at("completion_tokens");
    Json json = piece(answer.text, true);
    json.update({{"model", head_.model},
                 {"tokens_predicted", tokens},
                 {"tokens_evaluated", usage.at("prompt_tokens")},
                 {"tokens_cached", usage.at("prompt_tokens_details").at("cached_tokens")},
                 {"truncated", false},
                 {"stop_type", !answer.stopped_by.empty()  ? "word"
                               : answer.reason == "length" ? "limit"
                                                           : "eos"},
                 {"stopping_word", answer.stopped_by},
                 {"timings",
                  {{"predicted_n", tokens},
                   {"predicted_ms", seconds * 1e3},
                   {"predicted_per_second", seconds > 0 ? static_cast<double>(tokens) / seconds : 0}}}});
    return json;
  }
  std::string text(int64_t, const std::string& text, int64_t, Json) override {
    return text.empty() ? "" : event_text(piece(text, false));
  }
  Json empty_event(int64_t) const override { return piece("", false); }
  std::string end(int64_t, const AnswerEnd& last) override {
    FinishedAnswer answer = last.answer;
    answer.text.clear();
    return event_text(whole_json(answer, last.all_usage));
  }
  std::string failed(const ApiError& error) override { return event_text(error_json(error)); }

 private:
  static Json piece(const std::string& text, bool stop) {
    return {{"index", 0}, {"content", text}, {"tokens", Json::array()}, {"id_slot", 0}, {"stop", stop}};
  }
};

constexpr Dialect kLlama{
    .writer = write_as<LlamaForm>, .biased = true, .form = read_any_format, .lengths = {"n_predict", "max_tokens"}};

Answered<Ask> read_llama_completion(Service& service, Fields body) {
  LLADA_TRY(Ask ask, read_ask(service, body, kLlama));
  LLADA_TRY(auto prompts, read_prompts(service, body));
  if (prompts.size() > 1 && ask.stream)
    return refuse(fmt::format("stream: found it beside {} prompts, needed one", prompts.size()), "stream");
  LLADA_TRY(const auto stop, read_stop(body));
  if (const Json* most = body.find("n_predict"); most != nullptr && *most == 0) {
    ask.drops_answer = true;  // the prompt alone is computed
    body.put("n_predict", 1);
  }
  LLADA_TRY(Decoding decoding, read_decoding(body, ask, kLlama, kind_of(service)));
  ignore_llama_settings(body);
  LLADA_TRY_STATUS(body.finish());
  LLADA_TRY_STATUS(make_requests(service, ask, "prompt", std::move(prompts), std::move(decoding), 1, stop));
  return ask;
}

}  // namespace

void ignore_llama_settings(Fields& body) {
  body.ignore({"n_indent", "t_max_prompt_ms", "t_max_predict_ms", "response_fields"});
}

Protocol llama_protocol() {
  static constexpr Route kRoutes[] = {answers("/completion", generate<read_llama_completion>)};
  return {kRoutes};
}

}  // namespace llada::serve
