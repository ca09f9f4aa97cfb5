// /tokenize, /detokenize, /apply-template and /tokenizer_info: texts to token ids and back. Field names are those of
// lm-evaluation-harness (prompt) and of llama-server (content); both are read, and both are answered.
#include <algorithm>

#include "serve/ask.h"
#include "serve/routes.h"
#include "text/utf8.h"

namespace llada::serve {
namespace {

using Replied = Answered<HttpReply>;

void reply(const std::shared_ptr<Exchange>& exchange, Replied answer) {
  exchange->respond(answer ? std::move(*answer) : error_reply(answer.error()));
}

// With control tokens taken whole, as llama-server and the Python tokenizers do where a program sends a template's
// text. What a user types never comes here: prompts and messages have no control tokens.
std::vector<int32_t> encode_with_controls(const Tokenizer& tokenizer, std::string_view text) {
  constexpr size_t kLongest = 64;  // bytes of a control token; bounds the work on a text of many '<'
  std::vector<int32_t> ids;
  const auto plain = [&](std::string_view part) {
    const auto more = tokenizer.encode(part);
    ids.insert(ids.end(), more.begin(), more.end());
  };
  size_t begin = 0;
  for (size_t at = text.find('<'); at != std::string_view::npos; at = text.find('<', at + 1)) {
    if (at < begin) continue;
    const std::string_view rest = text.substr(at, kLongest);
    const auto control = tokenizer.find_control(rest.substr(0, rest.find('>') + 1));
    if (!control) continue;
    plain(text.substr(begin, at - begin));
    ids.push_back(*control);
    begin = at + rest.find('>') + 1;
  }
  plain(text.substr(begin));
  return ids;
}

Replied tokenize(Service& service, const Exchange& exchange) {
  LLADA_TRY(Body body, Body::parse(exchange));
  LLADA_TRY(const auto prompt, body.text("prompt"));
  LLADA_TRY(const auto content, body.text("content"));
  LLADA_TRY(const bool special, body.boolean("add_special_tokens", false));
  LLADA_TRY(const bool also_special, body.boolean("add_special", false));
  LLADA_TRY(const bool controls, body.boolean("parse_special", true));
  body.ignore({"model"});
  LLADA_TRY_STATUS(body.finish());
  if (!prompt && !content) return refuse("prompt: needed, a text (or content)", "prompt");
  const std::string& text = prompt ? *prompt : *content;
  std::vector<int32_t> ids;
  if (special || also_special) {
    LLADA_TRY(ids, service.model().prompt_ids(text));
  } else if (controls) {
    ids = encode_with_controls(service.model().tokenizer(), text);
  } else {
    ids = service.model().tokenizer().encode(text);
  }
  return json_reply({{"tokens", ids}, {"count", ids.size()}});
}

Replied detokenize(Service& service, const Exchange& exchange) {
  LLADA_TRY(Body body, Body::parse(exchange));
  LLADA_TRY(const auto ids, body.tokens("tokens"));
  body.ignore({"model"});
  LLADA_TRY_STATUS(body.finish());
  if (const Status status = check_tokens(service.model(), ids); !status)
    return refuse("tokens: " + status.error().message, "tokens");
  const std::string text = to_valid_utf8(service.model().tokenizer().decode(ids, true));
  return json_reply({{"prompt", text}, {"content", text}});
}

Replied apply_template(Service& service, const Exchange& exchange) {
  LLADA_TRY(Body body, Body::parse(exchange));
  LLADA_TRY(const auto messages, read_messages(body));
  body.ignore({"model"});
  LLADA_TRY_STATUS(body.finish());
  LLADA_TRY(const auto ids, service.model().chat_ids(messages));
  return json_reply({{"prompt", to_valid_utf8(service.model().tokenizer().decode(ids, true))}, {"tokens", ids}});
}

}  // namespace

void answer_tokenize(Service& service, const std::shared_ptr<Exchange>& exchange) {
  reply(exchange, tokenize(service, *exchange));
}

void answer_detokenize(Service& service, const std::shared_ptr<Exchange>& exchange) {
  reply(exchange, detokenize(service, *exchange));
}

void answer_apply_template(Service& service, const std::shared_ptr<Exchange>& exchange) {
  reply(exchange, apply_template(service, *exchange));
}

void answer_tokenizer_info(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const Model& model = service.model();
  const auto piece = [&](int32_t id) {
    return id < 0 ? Json(nullptr) : Json(to_valid_utf8(model.tokenizer().piece(id)));
  };
  const TokenizerSpec& spec = model.tokenizer().spec();
  exchange->respond(json_reply({{"name_or_path", service.name()},
                                {"vocab_size", model.tokenizer().vocab_size()},
                                {"bos_token", piece(spec.bos)},
                                {"eos_token", piece(model.special_ids().eos)},
                                {"pad_token", piece(model.special_ids().eos)},
                                {"mask_token", piece(model.special_ids().mask)},
                                {"add_bos_token", spec.add_bos},
                                {"chat_template", spec.chat_template}}));
}

}  // namespace llada::serve
