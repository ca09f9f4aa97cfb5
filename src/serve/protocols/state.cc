// /health, /ready, /metrics, /v1/models, /v1/models/{id}, /props, /slots, /v1/llada/options and the page: the server
// and its state.
#include <cmath>

#include "engine/decode_choice.h"
#include "engine/decode_preset.h"
#include "engine/options.h"
#include "serve/protocols/adapter.h"
#include "serve/protocols/page.h"
#include "text/utf8.h"

namespace llada::serve {
namespace {

HttpReply health(Service& service, const HttpRequest&) {
  // Alive, also while the model is loaded, which may take longer than a supervisor waits before it starts anew.
  return json_reply({{"status", service.loading() ? "loading" : service.ready() ? "ok" : "draining"}});
}

HttpReply readiness(Service& service, const HttpRequest&) {
  if (service.ready()) {
    // Every request would end with that error.
    const Status sound = service.engine().stats().device_broken ? failed("the device has failed")
                                                                : service.model().file().check_unchanged();
    if (sound) return json_reply({{"status", "ready"}});
    return error_reply(ApiError(503, without_folders(sound.error().message), "", "not_ready"));
  }
  return error_reply(
      ApiError(503, service.loading() ? "the model is being loaded" : "the server is shutting down", "", "not_ready"));
}

HttpReply metrics(Service& service, const HttpRequest&) {
  return {.type = "text/plain; version=0.0.4", .body = service.metrics().text(service.now())};
}

// Beside OpenAI's fields those of llama-server (meta), vLLM (max_model_len) and Mistral (from type on), whose clients
// look for them.
Json model_json(const Service& service) {
  const Model& model = service.model();
  return {{"id", service.name()},
          {"object", "model"},
          {"created", service.created()},
          {"owned_by", "llada"},
          {"meta", {{"n_vocab", model.config().vocab}, {"n_ctx_train", model.config().context}}},
          {"max_model_len", model.context()},
          {"type", "base"},
          {"max_context_length", model.context()},
          {"capabilities",
           {{"completion_chat", true},
            {"completion_fim", takes_gaps(model)},
            {"function_calling", true},
            {"vision", false}}}};
}

HttpReply models(Service& service, const HttpRequest&) {
  return json_reply({{"object", "list"}, {"data", Json::array({model_json(service)})}});
}

HttpReply one_model(Service& service, const HttpRequest& request) {
  const std::string asked = path_id("/v1/models/{id}", request.path);
  if (asked == service.name()) return json_reply(model_json(service));
  return error_reply(ApiError(404,
                              fmt::format("the model {} does not exist; there is {}", in_quotes(asked.substr(0, 100)),
                                          in_quotes(service.name())),
                              "model", "model_not_found"));
}

HttpReply properties(Service& service, const HttpRequest&) {
  const Model& model = service.model();
  return json_reply({{"model", service.name()},
                     {"architecture", "diffusion"},
                     {"device", model.device().info().description},
                     {"context", model.config().context},
                     {"n_ctx", model.config().context},
                     {"attention_block", model.special_ids().attention_block},
                     {"default_preset", kDefaultPreset},
                     {"single_turn", model.chat_format().single_turn},
                     {"model_path", service.name()},
                     {"chat_template", model.tokenizer().spec().chat_template},
                     {"modalities", {{"vision", false}, {"audio", false}}},
                     {"default_generation_settings", {{"n_ctx", model.context()}}},
                     {"total_slots", service.room().limits().running},
                     {"waiting", service.room().limits().waiting},
                     {"row_budget", service.engine().row_budget()}});
}

// As llama-server has them, whose monitors look for them: a slot is a place for an answer that runs.
HttpReply slots(Service& service, const HttpRequest&) {
  Json list = Json::array();
  const int64_t running = service.room().counts().running;
  for (int64_t i = 0; i < service.room().limits().running; ++i)
    list.push_back({{"id", i}, {"n_ctx", service.model().context()}, {"is_processing", i < running}});
  return json_reply(list);
}

// kind: of the model, which has presets of its own form.
Json options_json(const decode::ModelKind& kind) {
  const DecodeChoice defaults = DecodeChoice::request_defaults(kind);
  Json list = Json::array();
  for (const decode::Field& field : decode::fields()) {
    const auto bound = [](double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); };
    Json entry = {{"key", field.key},
                  {"unit", field.unit},
                  {"help", field.help},
                  {"group", decode::title(field.group)},
                  {"basic", field.basic},
                  {"switch", field.is_switch()},
                  {"default", nullptr},
                  {"choices", field.words},
                  {"needed", decode::needed(field)}};
    if (field.key != "seed") entry["default"] = field.show(field, defaults.options);
    if (!field.is_switch() && field.words.empty() && field.key != "latency_table" && !field.text)
      entry["range"] = {{"least", bound(field.range.least)},
                        {"most", bound(field.range.most)},
                        {"above_least", field.range.above_least},
                        {"below_most", field.range.below_most},
                        {"whole", field.unit == "N"},
                        {"word", field.word}};
    list.push_back(std::move(entry));
  }
  return list;
}

HttpReply decoding_options(Service& service, const HttpRequest&) {
  Json presets = Json::array();
  const decode::ModelKind kind = service.model().special_ids().kind();
  for (const std::string_view name : decode_presets())
    presets.push_back({{"name", name}, {"options", find_decode_preset(std::string(name), false, kind)->options}});
  return json_reply({{"options", options_json(kind)}, {"presets", std::move(presets)}});
}

HttpReply front_page(Service&, const HttpRequest& request) {
  const Page& shown = page();
  HttpReply reply{.type = "text/html; charset=utf-8"};
  reply.headers = {{"ETag", std::string(shown.tag)},
                   {"Cache-Control", "no-cache"},
                   {"Content-Security-Policy", std::string(shown.policy)},
                   {"Referrer-Policy", "no-referrer"}};
  if (request.if_none_match == shown.tag) {
    reply.status = 304;
  } else {
    reply.body = shown.html;
  }
  return reply;
}

}  // namespace

Protocol state_protocol() {
  static constexpr Route kRoutes[] = {{"GET", "/", get<front_page>, true, true},
                                      {"GET", "/health", get<health>, true, true, true},
                                      {"GET", "/v1/health", get<health>, true, true, true},
                                      {"GET", "/ready", get<readiness>, true, true, true},
                                      {"GET", "/v1/llada/options", get<decoding_options>},
                                      {"GET", "/v1/models", get<models>},
                                      {"GET", "/v1/models/{id}", get<one_model>},
                                      {"GET", "/props", get<properties>},
                                      {"GET", "/slots", get<slots>},
                                      {"GET", "/metrics", get<metrics>, false, true, true}};
  return {kRoutes};
}

}  // namespace llada::serve
