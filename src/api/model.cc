// llada_model: loading, description, texts and tokens, scores.
#include <fmt/ranges.h>

#include "api/objects.h"
#include "wire/decide_json.h"

using namespace llada::api;
using llada::Model;

namespace {

// Ends a load from inside its progress callback.
struct Aborted {
  llada_status status;
};

Outcome check_tokenizer(const Model& model) {
  if (model.has_tokenizer()) return LLADA_OK;
  return refuse(LLADA_ERROR_UNSUPPORTED, "{}: the file has no tokenizer, needed one", model.file().path());
}

std::expected<llada::ScoreOptions, ApiError> score_options(const Model& model, const llada_options* options) {
  LLADA_TRY(const auto chosen, read_options(options, LLADA_FOR_SCORE));
  llada::ScoreOptions found = chosen.score;
  if (const int64_t block = model.special_ids().attention_block; block > 0 && !chosen.order_names_block)
    found.order.block_length = block;
  for (const llada::decode::Setting& s : chosen.settings) {
    llada::decode::DecodeOptions scratch;
    LLADA_TRY_STATUS(set_field(scratch, s.field->key, s.text));
    if (s.field->key == "seed") found.seed = scratch.seed;
    if (s.field->key == "cfg_scale") found.cfg_scale = scratch.cfg_scale;
  }
  return found;
}

// Structs lie behind each other as far apart as the caller's first one is long, which an older header may have made
// shorter than ours.
Outcome score_all(ModelObject& object, std::span<const int32_t> prompt, std::vector<std::vector<int32_t>> continuations,
                  const llada_options* options, llada_score_result* scores) {
  llada::ScoreRequest request{
      .prompt = {prompt.begin(), prompt.end()}, .continuations = std::move(continuations), .options = {}};
  LLADA_TRY(request.options, score_options(*object.model, options));
  LLADA_TRY(const size_t size, size_of("score", scores));
  LLADA_TRY_STATUS(check_score(*object.model, request));
  LLADA_TRY_STATUS(check_file(*object.model));
  const std::lock_guard alone(object.computing);
  LLADA_TRY(const auto session, llada::Session::create(object.model, {}));
  LLADA_TRY(const auto result, session->score(request));
  auto* place = reinterpret_cast<char*>(scores);
  for (const llada::ContinuationScore& found : result.continuations) {
    auto* score = reinterpret_cast<llada_score_result*>(place);
    score->size = size;
    LLADA_TRY_STATUS(fill("score", score,
                          {0, found.log_probability, static_cast<int64_t>(found.tokens.size()), result.forwards,
                           found.greedy ? *found.greedy : -1}));
    place += size;
  }
  return LLADA_OK;
}

}  // namespace

llada_status llada_model_load(int32_t api_version, const char* path, const llada_options* options,
                              llada_progress progress, void* user, llada_model** model) {
  return guarded(nullptr, [&]() -> Outcome {
    LLADA_TRY_STATUS(check_version(api_version));
    LLADA_TRY_STATUS(check_out("model", model));
    LLADA_TRY(const auto place, read_text("path", path, LLADA_TEXT));
    LLADA_TRY(OptionValues chosen, read_options(options, LLADA_FOR_MODEL));
    if (progress != nullptr)
      chosen.load.progress = [&](int64_t done, int64_t total) {
        if (progress(user, done, total) != 0) throw Aborted{LLADA_ERROR_ABORTED};
      };
    auto object = std::make_shared<ModelObject>();
    try {
      LLADA_TRY(object->model, Model::load(std::string(place), chosen.load));
    } catch (const Aborted& aborted) {
      return refuse(aborted.status, "{}: the caller's progress function ended the loading", place);
    }
    object->architecture = object->model->architecture();
    object->device = object->model->device().info().description;
    object->notes = fmt::format("{}", fmt::join(object->model->notes(), "\n"));
    hand_out(std::move(object), model);
    return LLADA_OK;
  });
}

void llada_model_free(llada_model* model) { release(Kind::model, model); }

llada_status llada_model_describe(const llada_model* model, llada_model_info* info) {
  return with<ModelObject>(model, [&](ModelObject& object) -> Outcome {
    const Model& m = *object.model;
    const llada::ModelConfig& config = m.config();
    llada_model_info out = LLADA_MODEL_INFO_INIT;
    out.vocabulary = config.vocab;
    out.context = m.context();
    out.layers = config.layers;
    out.width = config.width;
    out.attention_block = m.special_ids().attention_block;
    out.file_bytes = static_cast<int64_t>(m.file().file_bytes());
    out.mask_token = m.special_ids().mask;
    out.bos_token = config.bos_id >= 0 || !m.has_tokenizer() ? config.bos_id : m.tokenizer().spec().bos;
    out.eos_token = m.special_ids().eos;
    out.eot_token = m.special_ids().eot;
    out.has_tokenizer = m.has_tokenizer();
    out.threads = m.device().info().threads;
    out.architecture = object.architecture.c_str();
    out.device = object.device.c_str();
    out.chat_style = llada::name(m.chat_style()).data();
    out.path = m.file().path().c_str();
    out.notes = object.notes.c_str();
    return fill("info", info, out);
  });
}

llada_status llada_tokenize(const llada_model* model, const char* text, size_t size, int32_t flags, int32_t* tokens,
                            size_t capacity, size_t* count) {
  return with<ModelObject>(model, [&](ModelObject& object) -> Outcome {
    LLADA_TRY_STATUS(check_tokenizer(*object.model));
    LLADA_TRY(const auto bytes, read_text("text", text, size));
    std::vector<int32_t> ids;
    if ((flags & LLADA_WITH_BOS) != 0) {
      LLADA_TRY(ids, object.model->prompt_ids(""));
    }
    const auto controls = (flags & LLADA_WITH_CONTROL) != 0 ? llada::ControlText::token : llada::ControlText::letters;
    const auto body = object.model->tokenizer().encode(bytes, controls);
    ids.insert(ids.end(), body.begin(), body.end());
    return fill_buffer<int32_t>("tokens", ids, tokens, capacity, count);
  });
}

llada_status llada_detokenize(const llada_model* model, const int32_t* tokens, size_t count, int32_t flags, char* text,
                              size_t capacity, size_t* needed) {
  return with<ModelObject>(model, [&](ModelObject& object) -> Outcome {
    LLADA_TRY_STATUS(check_tokenizer(*object.model));
    LLADA_TRY(const auto ids, read_array("tokens", tokens, count));
    const std::string bytes = object.model->tokenizer().decode(ids, (flags & LLADA_SHOW_CONTROL) != 0);
    LLADA_TRY_STATUS(fill_buffer<char>("text", bytes, text, capacity, needed, 1));
    if (capacity > 0) text[bytes.size()] = '\0';
    return LLADA_OK;
  });
}

llada_status llada_token_text(const llada_model* model, int32_t token, const char** text, size_t* size) {
  return with<ModelObject>(model, [&](ModelObject& object) -> Outcome {
    LLADA_TRY_STATUS(check_tokenizer(*object.model));
    LLADA_TRY_STATUS(check_out("text", text));
    LLADA_TRY_STATUS(check_out("size", size));
    LLADA_TRY_STATUS(llada::check_tokens(*object.model, {&token, 1}));
    const std::string_view piece = object.model->tokenizer().piece(token);
    *text = piece.empty() ? "" : piece.data();
    *size = piece.size();
    return LLADA_OK;
  });
}

llada_status llada_chat_tokens(const llada_model* model, const char* const* roles, const char* const* contents,
                               size_t messages, int32_t* tokens, size_t capacity, size_t* count) {
  return with<ModelObject>(model, [&](ModelObject& object) -> Outcome {
    LLADA_TRY_STATUS(check_tokenizer(*object.model));
    LLADA_TRY(const auto talk, read_messages(roles, contents, messages));
    LLADA_TRY(const auto ids, object.model->chat_ids(talk));
    return fill_buffer<int32_t>("tokens", ids, tokens, capacity, count);
  });
}

llada_status llada_logits(llada_model* model, const int32_t* tokens, size_t count, const int32_t* positions,
                          size_t position_count, float* logits, size_t capacity) {
  return with<ModelObject>(model, [&](ModelObject& object) -> Outcome {
    LLADA_TRY(const auto ids, read_array("tokens", tokens, count));
    LLADA_TRY(const auto rows, read_array("positions", positions, position_count));
    if (ids.empty() || rows.empty())
      return refuse(LLADA_ERROR_INVALID, "logits: found {} tokens and {} positions, needed one of each at least", count,
                    position_count);
    for (size_t i = 0; i < rows.size(); ++i)
      if (rows[i] < 0 || static_cast<size_t>(rows[i]) >= count || (i > 0 && rows[i] <= rows[i - 1]))
        return refuse(LLADA_ERROR_INVALID, "positions: found {} as number {}, needed ascending ones below {}", rows[i],
                      i, count);
    const size_t needed = position_count * static_cast<size_t>(object.model->config().vocab);
    if (logits == nullptr || capacity < needed)
      return refuse(LLADA_ERROR_SPACE, "logits: found room for {}, needed {}", logits == nullptr ? 0 : capacity,
                    needed);
    LLADA_TRY_STATUS(check_file(*object.model));
    const std::lock_guard alone(object.computing);
    LLADA_TRY(const auto session, llada::Session::create(object.model, {}));
    LLADA_TRY(const auto values, session->logits(ids, rows));
    std::copy(values.begin(), values.end(), logits);
    return LLADA_OK;
  });
}

llada_status llada_score(llada_model* model, const int32_t* prompt, size_t prompt_count, const int32_t* continuation,
                         size_t continuation_count, const llada_options* options, llada_score_result* score) {
  return with<ModelObject>(model, [&](ModelObject& object) -> Outcome {
    LLADA_TRY(const auto before, read_array("prompt", prompt, prompt_count));
    LLADA_TRY(const auto behind, read_array("continuation", continuation, continuation_count));
    return score_all(object, before, {{behind.begin(), behind.end()}}, options, score);
  });
}

llada_status llada_score_many(llada_model* model, const int32_t* prompt, size_t prompt_count,
                              const int32_t* const* continuations, const size_t* counts, size_t continuation_count,
                              const llada_options* options, llada_score_result* scores) {
  return with<ModelObject>(model, [&](ModelObject& object) -> Outcome {
    LLADA_TRY(const auto before, read_array("prompt", prompt, prompt_count));
    LLADA_TRY(const auto texts, read_array("continuations", continuations, continuation_count));
    LLADA_TRY(const auto lengths, read_array("counts", counts, continuation_count));
    std::vector<std::vector<int32_t>> all;
    for (size_t i = 0; i < texts.size(); ++i) {
      LLADA_TRY(const auto one, read_array("continuation", texts[i], lengths[i]));
      all.emplace_back(one.begin(), one.end());
    }
    return score_all(object, before, std::move(all), options, scores);
  });
}

llada_status llada_decide(llada_model* model, const char* request, size_t size, const char** answer,
                          size_t* answer_size) {
  return with<ModelObject>(model, [&](ModelObject& object) -> Outcome {
    thread_local std::string said;
    LLADA_TRY_STATUS(check_out("answer", answer));
    LLADA_TRY_STATUS(check_out("answer_size", answer_size));
    LLADA_TRY(const auto text, read_text("request", request, size));
    LLADA_TRY(const auto asked, llada::read_decide(text, "request"));
    LLADA_TRY_STATUS(check_file(*object.model));
    const std::lock_guard alone(object.computing);
    LLADA_TRY(const auto session, llada::Session::create(object.model, {}));
    LLADA_TRY(const auto result, session->decide(asked));
    said = llada::decide_text(asked, result, llada::model_name(object.model->file().path()));
    *answer = said.c_str();
    *answer_size = said.size();
    return LLADA_OK;
  });
}
