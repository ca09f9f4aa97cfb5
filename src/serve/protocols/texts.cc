// /tokenize, /detokenize and /tokenizer_info: texts to token ids and back. Field names are those of
// lm-evaluation-harness (prompt) and of llama-server (content); both are read, and both are answered.
#include "serve/protocols/adapter.h"
#include "text/utf8.h"

namespace llada::serve {
namespace {

Answered<HttpReply> tokenize(Service& service, Fields body) {
  LLADA_TRY(const auto prompt, body.optional_text("prompt"));
  LLADA_TRY(const auto content, body.optional_text("content"));
  LLADA_TRY(const bool special, body.boolean("add_special_tokens", false));
  LLADA_TRY(const bool also_special, body.boolean("add_special", false));
  LLADA_TRY(const bool controls, body.boolean("parse_special", true));
  LLADA_TRY_STATUS(body.finish());
  if (!prompt && !content) return refuse("prompt: is missing; needed a text (or content)", "prompt");
  const std::string& text = prompt ? *prompt : *content;
  std::vector<int32_t> ids;
  if (special || also_special) {
    LLADA_TRY(ids, service.model().prompt_ids(""));
  }
  const auto body_ids = service.model().tokenizer().encode(text, controls ? ControlText::token : ControlText::letters);
  ids.insert(ids.end(), body_ids.begin(), body_ids.end());
  return json_reply({{"tokens", ids}, {"count", ids.size()}});
}

Answered<HttpReply> detokenize(Service& service, Fields body) {
  LLADA_TRY(const auto ids, body.integers("tokens", 0, INT32_MAX));
  LLADA_TRY_STATUS(body.finish());
  if (const Status status = check_tokens(service.model(), ids); !status)
    return refuse("tokens: " + status.error().message, "tokens");
  // A token of many bytes takes few in the request.
  constexpr size_t kMostBytes = size_t{4} << 20;
  size_t bytes = 0;
  for (const int32_t id : ids) bytes += service.model().tokenizer().piece(id).size();
  if (bytes > kMostBytes)
    return refuse(fmt::format("tokens: found {} bytes of text, needed {} at most", bytes, kMostBytes), "tokens");
  const std::string text = to_valid_utf8(service.model().tokenizer().decode(ids, true));
  return json_reply({{"prompt", text}, {"content", text}});
}

HttpReply tokenizer_info(Service& service, const HttpRequest&) {
  const Model& model = service.model();
  const auto piece = [&](int32_t id) {
    return id < 0 ? Json(nullptr) : Json(to_valid_utf8(model.tokenizer().piece(id)));
  };
  const TokenizerSpec& spec = model.tokenizer().spec();
  return json_reply({{"name_or_path", service.name()},
                     {"vocab_size", model.tokenizer().vocab_size()},
                     {"bos_token", piece(spec.bos)},
                     {"eos_token", piece(model.special_ids().eos)},
                     {"pad_token", piece(model.special_ids().eos)},
                     {"mask_token", piece(model.special_ids().mask)},
                     {"add_bos_token", spec.add_bos},
                     {"chat_template", spec.chat_template}});
}

}  // namespace

Protocol texts_protocol() {
  static constexpr Route kRoutes[] = {{"POST", "/tokenize", post<tokenize>},
                                      {"POST", "/detokenize", post<detokenize>},
                                      {"GET", "/tokenizer_info", get<tokenizer_info>}};
  return {kRoutes};
}

}  // namespace llada::serve
