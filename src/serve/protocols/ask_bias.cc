// logit_bias: numbers that are added to the logits of some tokens, as OpenAI's protocol and llama-server's write them;
// and whether log-probabilities are wanted.
#include <cmath>
#include <map>

#include "base/numbers.h"
#include "decode/form_options.h"
#include "serve/protocols/reading.h"

namespace llada::serve {

Done read_logit_bias(Service& service, Fields& body, Ask& ask) {
  const std::string name = "logit_bias";
  constexpr size_t kMost = 1024;
  constexpr double kLargest = 100;
  const Json* value = body.find(name);
  if (value == nullptr || value->empty()) return {};
  const int64_t vocabulary = service.model().config().vocab;
  const std::string needed =
      fmt::format("an object of token ids below {} with numbers from -{} to {}", vocabulary, kLargest, kLargest);
  if (!value->is_structured() || value->size() > kMost) return wrong(name, *value, needed);
  std::map<int32_t, double> bias;  // ids ascending; of one that is named twice the last counts
  const auto add = [&](std::optional<int64_t> id, const Json& number) {
    // llama-server's false: never.
    const double by = number.is_number() ? number.get<double>() : number == false ? -kLargest : NAN;
    if (!id || *id < 0 || *id >= vocabulary || !(std::abs(by) <= kLargest)) return false;
    bias[static_cast<int32_t>(*id)] = by;
    return true;
  };
  for (const auto& [key, item] : value->items()) {
    bool read = false;
    if (value->is_object()) {
      read = add(parse_number<int64_t>(key), item);
    } else if (item.is_array() && item.size() == 2) {
      read = add(whole_number(item[0]), item[1]);
    }
    if (!read) return wrong(name, value->is_object() ? Json{{key, item}} : item, needed);
  }
  ask.logit_bias.assign(bias.begin(), bias.end());
  return {};
}

Done apply_logit_bias(const Service& service, const Ask& ask, decode::DecodeOptions& options) {
  if (ask.logit_bias.empty()) return {};
  if (service.model().special_ids().uniform.length > 0)
    return refuse("logit_bias: this model's canvases of random tokens have no place for it; needed it left out",
                  "logit_bias");
  if (decode::form_of(options))
    return refuse("logit_bias: the form of the answer decides what may be sampled; needed one of the two",
                  "logit_bias");
  options.logit_bias = ask.logit_bias;
  return {};
}

Done read_logprobs(Fields& body, Ask& ask) {
  LLADA_TRY(const auto logprobs, body.optional_integer("logprobs", 0, kMostAlternatives));
  ask.logprobs = logprobs.has_value();
  ask.alternatives = logprobs.value_or(0);
  return {};
}

Done read_chat_logprobs(Fields& body, Ask& ask) {
  LLADA_TRY(ask.logprobs, body.boolean("logprobs", false));
  LLADA_TRY(const auto top, body.optional_integer("top_logprobs", 0, kMostAlternatives));
  if (top && *top > 0 && !ask.logprobs)
    return refuse("top_logprobs: found it without logprobs, needed logprobs true", "top_logprobs");
  ask.alternatives = top.value_or(0);
  return {};
}

}  // namespace llada::serve
