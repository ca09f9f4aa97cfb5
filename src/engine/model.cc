#include "engine/model.h"

#include <algorithm>

#include "devices/cuda/cuda_device.h"
#include "engine/device_spec.h"
#include "engine/folder_check.h"
#include "engine/form_store.h"
#include "engine/model_runner.h"
#include "engine/open_device.h"
#include "engine/text_rows.h"
#include "engine/weight_reading.h"
#include "formats/family.h"
#include "models/model_graph.h"

namespace llada {
namespace {

// The run's settings for shared-out experts; the device gets its own by its spec.
Result<std::optional<ExpertSplitOptions>> share_out(DeviceSpec& spec, const ExpertRequest& request,
                                                    const MoeOptions& moe, const ModelFile& file,
                                                    const ModelGraph& graph, int threads) {
  if (request.share == 0) return std::nullopt;
  return set_up_experts(request, moe, spec, file, graph, threads);
}

}  // namespace

decode::SpecialIds resolve_special_ids(const ModelConfig& config, const Tokenizer* tokenizer, ChatStyle style) {
  decode::SpecialIds ids{.mask = config.mask_id,
                         .eos = config.eos_id,
                         .eot = config.eot_id,
                         .end_ids = {},
                         .shift_logits = config.shift_logits,
                         .attention_block = config.attention_block,
                         .causal_text = config.causal_text && config.attention_block > 0,
                         .decided_first = config.decided_first && config.attention_block > 0,
                         .prompt_ends_block = config.prompt_ends_block && config.attention_block > 0,
                         .cuts_last_block = config.cuts_last_block,
                         .uniform = config.canvas,
                         .vocab = config.vocab,
                         .delete_id = config.delete_id,
                         .split_id = config.split_id,
                         .whole_blocks = config.expert_capacity > 0};
  if (tokenizer != nullptr) {
    const TokenizerSpec& spec = tokenizer->spec();
    if (ids.mask < 0) ids.mask = spec.mask;
    if (ids.eos < 0) ids.eos = spec.eos;
    if (ids.eot < 0) ids.eot = spec.eot;
    ids.end_ids = stop_ids(*tokenizer, style);
    for (const int32_t id : ids.end_ids)
      if (ids.eot < 0 && id != ids.eos) ids.eot = id;
  }
  if (ids.uniform.length > 0) ids.mask = -1;
  std::vector<int32_t> ends = config.end_ids;
  ends.insert(ends.end(), {ids.eos, ids.eot});
  for (const int32_t id : ends)
    if (id >= 0 && std::ranges::count(ids.end_ids, id) == 0) ids.end_ids.push_back(id);
  return ids;
}

Result<std::optional<TokenizerSpec>> load_tokenizer_spec(const ModelFile& file) {
  if (file.tokenizer()) return file.tokenizer();
  if (file.folder().empty()) return std::nullopt;
  return read_folder_tokenizer(file.folder(), file.config());
}

Model::Model(ModelFile file)
    : file_(std::move(file)),
      graph_(std::make_unique<ModelGraph>()),
      device_(std::make_unique<OpenedDevice>()),
      forms_(std::make_unique<FormStore>()) {}
Model::~Model() = default;

bool Model::has_device() const { return device_->device != nullptr; }
Device& Model::device() const { return *device_->device; }
Device* Model::fallback() const { return device_->fallback.get(); }
const MemoryOptions& Model::memory() const { return device_->memory; }
std::string_view Model::architecture() const { return config().family->name; }

Result<std::shared_ptr<const Model>> Model::load(const std::string& path, const LoadOptions& options) {
  LLADA_TRY(DeviceSpec where, parse_device_spec(options.device, options.plugin));
  if (where.dsp.library.empty()) where.dsp.library = options.cdsprpc;
  LLADA_TRY(const MoeOptions moe, check_experts(options.experts, where, options.device));
  if (where.cuda)  // before anything large is read
    if (const auto gpu = describe_cuda(); !gpu) return invalid("cuda: {}", gpu.error().message);
  LLADA_TRY(auto file, ModelFile::open(path, options.overrides));
  std::shared_ptr<Model> model(new Model(std::move(file)));
  LLADA_TRY_STATUS(model->set_context(options.context));
  LLADA_TRY(auto spec, load_tokenizer_spec(model->file_));
  if (spec) {
    LLADA_TRY(auto tokenizer, Tokenizer::create(std::move(*spec), path));
    model->tokenizer_.emplace(std::move(tokenizer));
    model->chat_format_ = detect_chat_format(*model->tokenizer_);
    for (int32_t id = 0; id < model->tokenizer_->vocab_size(); ++id)
      model->longest_token_ = std::max(model->longest_token_, model->tokenizer_->piece(id).size());
  }
  const Tokenizer* tokenizer = model->has_tokenizer() ? &*model->tokenizer_ : nullptr;
  model->ids_ = resolve_special_ids(model->config(), tokenizer, model->chat_style());
  LLADA_TRY_STATUS(check_tokens_fit(model->config(), tokenizer, model->ids_, path));
  LLADA_TRY(*model->graph_, build_model(model->config()));
  if (options.before_weights) LLADA_TRY_STATUS(options.before_weights(*model));
  LLADA_TRY(model->experts_, share_out(where, options.experts, moe, model->file_, *model->graph_, options.threads));
  // A device that packs when it needs to does so without company later.
  const auto reading = std::make_shared<WeightReading>(model->file_, options.progress, options.threads);
  LLADA_TRY(*model->device_,
            open_device(where, options, model->file_, *model->graph_, reading_hooks(model->file_, reading)));
  LLADA_TRY_STATUS(reading->made());
  if (model->device_->expert_costs) model->experts_->costs = model->device_->expert_costs;
  return model;
}

Result<std::shared_ptr<const Model>> Model::from_memory(ModelFile file, AlignedBytes memory, const LoadOptions& options,
                                                        const MemoryHooks& hooks) {
  LLADA_TRY(DeviceSpec where, parse_device_spec(options.device, options.plugin));
  if (where.cuda) return invalid("device 'cuda': needs a model file, whose weights it copies when they are wanted");
  if (where.hexagon)
    return invalid("device 'hexagon': needs a model file, whose weights it packs when they are mapped");
  LLADA_TRY(const MoeOptions moe, check_experts(options.experts, where, options.device));
  std::shared_ptr<Model> model(new Model(std::move(file)));
  model->memory_ = std::move(memory);
  LLADA_TRY_STATUS(model->set_context(options.context));
  model->ids_ = resolve_special_ids(model->config(), nullptr, ChatStyle::plain);
  LLADA_TRY(*model->graph_, build_model(model->config()));
  LLADA_TRY(model->experts_, share_out(where, options.experts, moe, model->file_, *model->graph_, options.threads));
  LLADA_TRY(*model->device_, open_device(where, options, model->file_, *model->graph_, hooks));
  return model;
}

std::vector<std::string> Model::notes() const {
  std::vector<std::string> notes = config().notes;
  if (tokenizer_ && !cut_note(tokenizer_->spec()).empty()) notes.emplace_back(cut_note(tokenizer_->spec()));
  if (!chat_format_.note.empty()) notes.push_back(chat_format_.note);
  return notes;
}

Status Model::set_context(int64_t wanted) {
  const int64_t trained = config().context;
  if (wanted < 0 || (trained > 0 && wanted > trained))
    return invalid("ctx_size: found {}, needed 0 to {}, the positions that {} was trained for", wanted, trained,
                   file_.path());
  context_ = wanted > 0 ? wanted : trained;
  return {};
}

std::string Model::context_bound() const {
  return context_ != config().context ? fmt::format("the context was set to {}", context_)
                                      : fmt::format("the model was trained for {}", context_);
}

// No token stands for more bytes than the longest has, and normalising takes at most two thirds of a text.
Status Model::check_length(size_t bytes) const {
  if (context_ <= 0) return {};
  const auto most = 3 * static_cast<uint64_t>(context_) * longest_token_;
  if (bytes <= most) return {};
  return too_large("a prompt of {} bytes is too long; {} positions", bytes, context_bound());
}

Result<std::vector<int32_t>> Model::prompt_ids(std::string_view text) const {
  if (!tokenizer_) return invalid("{}: the file has no tokenizer, so it takes token ids only", file_.path());
  LLADA_TRY_STATUS(check_length(text.size()));
  std::vector<int32_t> ids;
  const int32_t bos = config().bos_id >= 0 ? config().bos_id : tokenizer_->spec().bos;
  if (tokenizer_->spec().add_bos && bos >= 0) ids.push_back(bos);
  const auto body = tokenizer_->encode(text, ControlText::token);
  ids.insert(ids.end(), body.begin(), body.end());
  return ids;
}

Result<std::vector<int32_t>> Model::chat_ids(std::span<const ChatMessage> messages, bool think) const {
  if (!tokenizer_) return invalid("{}: the file has no tokenizer, so it takes token ids only", file_.path());
  size_t bytes = 0;
  for (const ChatMessage& message : messages) bytes += message.bytes();
  LLADA_TRY_STATUS(check_length(bytes));
  return render_chat(*tokenizer_, chat_format_, messages, true, think);
}

Result<std::shared_ptr<const forms::TokenForm>> Model::form(const decode::DecodeOptions& options) const {
  const std::optional<forms::Form> form = decode::form_of(options);
  if (!form) return nullptr;
  if (!has_tokenizer())
    return invalid("{}: the model has no tokenizer; needed a model with one", forms::key_of(form->kind));
  return forms_->get(*form, tokenizer(), ids_);
}

bool Model::has_form(const decode::DecodeOptions& options) const {
  const std::optional<forms::Form> form = decode::form_of(options);
  return !form || forms_->has(*form);
}

void Model::add_runner(ModelRunner& runner) const {
  const std::lock_guard lock(runners_mutex_);
  runners_.push_back(&runner);
}

void Model::remove_runner(ModelRunner& runner) const {
  const std::lock_guard lock(runners_mutex_);
  std::erase(runners_, &runner);
}

Result<LatencyTable> Model::latency(int threads) const {
  const std::lock_guard lock(latency_mutex_);
  if (const auto found = latency_.find(threads); found != latency_.end()) return found->second;
  const std::lock_guard alone(runs_);
  {
    const std::lock_guard runners(runners_mutex_);
    for (ModelRunner* const runner : runners_) runner->drain();
  }
  LLADA_TRY(auto table, measure_latency(*this, {.threads = threads}));
  return latency_.emplace(threads, std::move(table)).first->second;
}

}  // namespace llada
