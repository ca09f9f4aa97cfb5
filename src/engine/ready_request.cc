#include "engine/ready_request.h"

#include <algorithm>
#include <ranges>
#include <utility>

#include "decode/answer.h"
#include "decode/canvas.h"
#include "decode/form_keeper.h"
#include "decode/strategy.h"
#include "engine/request.h"
#include "engine/request_memory.h"

namespace llada {
namespace {

using About = Refusal::About;

Status check_stop(const Model& model, const Request& request) {
  if (request.stop.empty()) return {};
  if (request.gaps) return invalid("stop: the text goes on behind a gap; needed no stop string for infilling");
  if (!model.has_tokenizer()) return invalid("stop: the model has no tokenizer; needed no stop string");
  if (std::ranges::count(request.stop, "") > 0) return invalid("stop: found '', needed text");
  return {};
}

std::unexpected<Refusal> refused(About about, std::unexpected<Error> why) {
  return std::unexpected(Refusal(std::move(why.error()), about));
}

// Whether a prompt and what is generated behind it fit the model's context. The prompt is named where there is no room
// behind it, gen_length where there is too little.
std::expected<void, Refusal> check_context(const Model& model, int64_t prompt_tokens, int64_t gen_length) {
  const int64_t context = model.context();
  const auto needed = [&](int64_t length) { return canvas_positions(model, prompt_tokens, length); };
  if (context == 0 || needed(gen_length) <= context) return {};
  if (needed(std::min<int64_t>(gen_length, 1)) > context)
    return refused(About::prompt,
                   invalid("the prompt is too long: {} tokens; this model's maximum context length is {} tokens{}",
                           prompt_tokens, context, gen_length > 0 ? ", answer included" : ""));
  return refused(
      About::length,
      invalid("gen_length: {} and {} tokens of prompt need {} positions; {}; needed {} at most, or a "
              "shorter prompt",
              gen_length, prompt_tokens, needed(gen_length), model.context_bound(), room_behind(model, prompt_tokens)));
}

// gen_length, or with auto_length no more than the context has.
int64_t most_generated(const Model& model, int64_t prompt_tokens, const decode::DecodeOptions& options) {
  if (!options.auto_length) return options.gen_length;
  return std::clamp<int64_t>(options.gen_length, 1, std::max<int64_t>(room_behind(model, prompt_tokens), 1));
}

// The length that a prompt's answer may have at most.
std::expected<void, Refusal> fit_length(const Model& model, ReadyRequest& ready, const Preparation& how) {
  decode::DecodeOptions& options = ready.request.options;
  const auto size = std::ssize(ready.request.tokens);
  if (how.shortens && !options.auto_length) {
    const int64_t room = room_behind(model, size);
    if (room >= 1 && options.gen_length > room) ready.asked_length = std::exchange(options.gen_length, room);
  }
  return check_context(model, size, most_generated(model, size, options));
}

RequestBytes bytes_of(const Model& model, const ReadyRequest& ready) {
  const auto size = std::ssize(ready.request.tokens);
  const int64_t positions =
      ready.request.gaps ? size : canvas_positions(model, size, most_generated(model, size, ready.request.options));
  return request_bytes(model, ready.request, ready.form.get(), positions);
}

// A length that nobody chose is the longest for which the answer may hold what it needs, where it follows the answer.
void spread_memory(const Model& model, ReadyRequest& ready, const Preparation& how) {
  decode::DecodeOptions& options = ready.request.options;
  const int64_t most = options.gen_length, common = std::min(most, decode::DecodeOptions().gen_length);
  const auto fits = [&](int64_t length) {
    options.gen_length = length;
    return how.may_hold(bytes_of(model, ready));
  };
  const auto longer = std::views::iota(common + 1, most + 1);
  options.gen_length = common + (std::ranges::partition_point(longer, fits) - longer.begin());
}

}  // namespace

std::expected<Ready, Refusal> prepare(const Model& model, Request request, const Preparation& how) {
  const auto ready = std::make_shared<ReadyRequest>(std::move(request));
  const Request& asked = ready->request;
  const decode::SpecialIds& ids = model.special_ids();
  const auto size = std::ssize(asked.tokens), gaps = asked.gaps ? std::ssize(*asked.gaps) : 0;
  ready->prompt_tokens = size - gaps;
  LLADA_TRY_STATUS(check_stop(model, asked));
  LLADA_TRY_STATUS(decode::validate(asked.options, asked.gaps.has_value(), ids.kind()));
  if (!asked.gaps) {
    LLADA_TRY_STATUS(fit_length(model, *ready, how));
    LLADA_TRY_STATUS(check_tokens(model, asked.tokens));
  } else if (model.context() > 0 && size > model.context()) {
    return refused(About::prompt, invalid("the text has {} tokens, gaps included; this model's maximum context length "
                                          "is {} tokens",
                                          size, model.context()));
  } else {
    LLADA_TRY(ready->canvas, decode::lay_infill(asked.tokens, *asked.gaps, ids));
    ready->most_generated = gaps;
    LLADA_TRY_STATUS(check_tokens(model, ready->canvas.tokens));  // the gaps' own are ignored
  }
  LLADA_TRY(ready->form, model.form(asked.options));
  if (!asked.gaps) {
    if (how.may_hold && asked.options.auto_length) spread_memory(model, *ready, how);
    ready->most_generated = most_generated(model, size, asked.options);
    ready->canvas = decode::lay_generation(asked.tokens, ready->most_generated, ids, model.context());
  }
  if (ready->form) {
    if (Status begun = decode::begin_form(ready->form, asked.options, ids, ready->canvas); !begun)
      return refused(About::form, std::unexpected(std::move(begun.error())));
  }
  // Of whoever runs the request: a latency that was measured, and a strategy. This one says whether there is one.
  decode::DecodeOptions plain = asked.options;
  plain.device_latency = false;
  LLADA_TRY_STATUS(decode::make_strategy(plain, ids, ready->canvas, ready->form));
  if (model.has_device()) ready->bytes = bytes_of(model, *ready);
  return ready;
}

bool takes_gaps(const Model& model) {
  return model.special_ids().attention_block == 0 && model.special_ids().uniform.length == 0;
}

// A canvas whose length follows the answer is laid for the longest one. Few are that long, so the store begins with
// room for an answer of common length and doubles what is generated. Behind a long prompt it begins with all: to grow
// means to have two stores for a while, and would save little.
int64_t first_positions(const Model& model, const Request& request, int64_t all) {
  if (!request.options.auto_length || request.gaps) return all;
  const int64_t prompt = std::ssize(request.tokens);
  const int64_t common = canvas_positions(model, prompt, decode::DecodeOptions().gen_length);
  return all - common <= prompt / 8 ? all : common;
}

int64_t canvas_positions(const Model& model, int64_t prompt_tokens, int64_t gen_length) {
  return decode::generation_size(prompt_tokens, gen_length, model.special_ids(), model.context());
}

int64_t room_behind(const Model& model, int64_t prompt_tokens) {
  if (model.context() == 0) return decode::kMaxGenLength;
  const decode::SpecialIds& ids = model.special_ids();
  if (ids.uniform.length > 0) return ids.uniform.within(model.context() - prompt_tokens);
  const int64_t block = std::max<int64_t>(ids.attention_block, 1);
  if (ids.causal_text) return (model.context() - prompt_tokens) / block * block;
  if (ids.prompt_ends_block || ids.cuts_last_block || ids.decided_first) return model.context() - prompt_tokens;
  return model.context() / block * block - prompt_tokens;
}

std::string prompt_cost(const Model& model, int64_t prompt_tokens, const decode::DecodeOptions& options) {
  const decode::ModelKind kind = model.special_ids().kind();
  const bool full_attention = kind.attention_block == 0 && kind.uniform.length == 0;
  if (prompt_tokens <= kPromptPiece || !full_attention) return "";
  const auto cost = [&](std::string_view when, std::string_view less) {
    return fmt::format("attention is full: the {} tokens of the prompt are computed {}{}", prompt_tokens, when, less);
  };
  if (options.kv == decode::KvChoice::none)
    return cost("in every forward", " (kv dual, prefix or frozen: at the beginning of each block)");
  if (options.refresh_after > 0)
    return cost(fmt::format("whenever {} tokens of the answer have changed", options.refresh_after),
                " (refresh-after 0: at the beginning of each block)");
  return cost("at the beginning of each block", "");
}

Status check_tokens(const Model& model, std::span<const int32_t> tokens) {
  for (const int32_t token : tokens)
    if (token < 0 || token >= model.config().vocab)
      return invalid("token id {} is outside the vocabulary of {}", token, model.config().vocab);
  return {};
}

Status check_text(const Model& model, std::span<const int32_t> tokens) {
  const int64_t context = model.context();
  if (context > 0 && canvas_positions(model, std::ssize(tokens), 0) > context)
    return invalid("the prompt is too long: {} tokens; this model's maximum context length is {} tokens", tokens.size(),
                   context);
  return check_tokens(model, tokens);
}

}  // namespace llada
