// A loaded model: file, tokenizer, weights on a device. Shared by any number of sessions; immutable after
// load().
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/pages.h"
#include "decode/options.h"
#include "devices/device.h"
#include "engine/expert_setup.h"
#include "engine/latency.h"
#include "engine/pack_cache.h"
#include "formats/model_file.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace llada {

class DevicePlugin;
class FormStore;
class ModelRunner;
struct MemoryOptions;
struct ModelGraph;
struct OpenedDevice;
namespace forms {
class TokenForm;
}

class Model;

struct LoadOptions {
  std::string device = "cpu";            // device_spec.h
  const DevicePlugin* plugin = nullptr;  // of devices that the engine does not bring along (device_plugin.h)
  std::string isa = {};      // kernel table by name; empty: LLADA_ISA from the environment of the caller, or the best
  std::string cdsprpc = {};  // the library of device hexagon where `device` names none; empty: as it finds one
  int threads = 0;           // 0: one per usable physical core
  // Most positions of a request; 0: the length that the model was trained for, which bounds it
  int64_t context = 0;
  Overrides overrides = {};
  bool exact_attention = false;  // on the host: no digests (devices/cpu/cpu_device.h)
  PackCache pack_cache = {};     // of this machine's packed weights; a library's caller decides
  ExpertRequest experts = {};    // experts split between the device's units
  // The folder of proc, sys and system, which say how much memory is free: a model that does not fit is refused before
  // its weights are read (fit_check.h). Empty: no check.
  std::string system_root = "/";
  // Called on the loading thread before each weight of a file is read: bytes read so far, of those that are read before
  // the first run. An exception that it throws leaves load(), which frees everything.
  std::function<void(int64_t done, int64_t total)> progress = {};
  // Deviations from the request that do not stop the work, a line each.
  std::function<void(const std::string& line)> warn = {};
  // Called once configuration and tokenizer are known and before any weight is read, so that a prompt can be read and
  // refused first. The model has no device yet. An error ends the loading.
  std::function<Status(const Model& model)> before_weights = {};
};

// Called for stored weights while a model is loaded. `wanted` comes before the first byte of one is read, `packed` when
// its stored bytes are no longer needed. `planned` names those that will be wanted next, in that order. `tensor` is the
// canonical name; of a stack of experts the view is one expert's part, and the experts come one by one. For a model
// without a file the first two are set.
using WeightHook = std::function<void(std::string_view tensor, const TensorView& view)>;
struct MemoryHooks {
  WeightHook wanted, packed;
  std::function<void(std::vector<TensorView>)> planned = {};
};

class Model {
 public:
  ~Model();

  static Result<std::shared_ptr<const Model>> load(const std::string& path, const LoadOptions& options);

  // A model whose tensors lie in `memory` (ModelFile::in_memory); it has no tokenizer.
  static Result<std::shared_ptr<const Model>> from_memory(ModelFile file, AlignedBytes memory,
                                                          const LoadOptions& options, const MemoryHooks& hooks);

  const ModelFile& file() const { return file_; }
  const ModelConfig& config() const { return file_.config(); }
  std::string_view architecture() const;  // the family's name
  // Most positions of a request: LoadOptions::context or the file's; 0: any.
  int64_t context() const { return context_; }
  std::string context_bound() const;  // its name in an error: "the model was trained for 4096"
  // Invalid: a prompt of so many bytes never fits the context. Cutting it into tokens to find out may take minutes.
  Status check_length(size_t bytes) const;
  const ModelGraph& graph() const { return *graph_; }
  bool has_tokenizer() const { return tokenizer_.has_value(); }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  ChatStyle chat_style() const { return chat_format_.style; }
  const ChatFormat& chat_format() const { return chat_format_; }
  // Settings of the file that are not followed: ModelConfig::notes, ChatFormat::note
  std::vector<std::string> notes() const;
  size_t longest_token() const { return longest_token_; }  // bytes of text
  const decode::SpecialIds& special_ids() const { return ids_; }
  bool has_device() const;  // not before its weights are read
  Device& device() const;
  Device* fallback() const;  // null: none
  const MemoryOptions& memory() const;
  // Absent where no experts are split between units.
  const std::optional<ExpertSplitOptions>& experts() const { return experts_; }

  // Prompt ids of a plain text, or of a conversation in the model's chat format. Both start with BOS where the model
  // wants one. A plain text is a program's: control tokens' texts in it are these tokens. In a message they are text.
  // For any text; a prompt has text_prompt() and chat_prompt() (engine/prompt.h).
  Result<std::vector<int32_t>> prompt_ids(std::string_view text) const;
  Result<std::vector<int32_t>> chat_ids(std::span<const ChatMessage> messages, bool think = false) const;

  // The form that the options ask for, over this model's tokens; null: none.
  Result<std::shared_ptr<const forms::TokenForm>> form(const decode::DecodeOptions& options) const;
  // Whether form() returns at once: the form is cached, or none is asked for. Making one may take seconds.
  bool has_form(const decode::DecodeOptions& options) const;

  // Rows to milliseconds on this device with that many threads (0: the model's own), default request.
  // Measured at the first call, which waits until no run is under way and holds back new ones, and kept as long as the
  // model is loaded. Not to be called from inside a run.
  Result<LatencyTable> latency(int threads) const;

  // Held by whoever computes with the model; latency() waits for it.
  std::shared_lock<std::shared_mutex> begin_run() const { return std::shared_lock(runs_); }
  // latency() also waits for the sparse passes of each runner, which outlive the run that began them.
  void add_runner(ModelRunner& runner) const;
  void remove_runner(ModelRunner& runner) const;

 private:
  explicit Model(ModelFile file);
  Status set_context(int64_t wanted);
  ModelFile file_;
  AlignedBytes memory_;  // the bytes behind the file's views where nothing is mapped
  std::unique_ptr<ModelGraph> graph_;
  std::optional<Tokenizer> tokenizer_;
  size_t longest_token_ = 1;  // bytes
  ChatFormat chat_format_;
  decode::SpecialIds ids_;
  int64_t context_ = 0;
  std::unique_ptr<OpenedDevice> device_;
  std::optional<ExpertSplitOptions> experts_;
  const std::unique_ptr<FormStore> forms_;
  mutable std::mutex latency_mutex_;             // guards latency_, which changes after load()
  mutable std::map<int, LatencyTable> latency_;  // by threads
  mutable std::shared_mutex runs_;               // shared by runs; a measurement has it alone
  mutable std::mutex runners_mutex_;             // guards the members below
  mutable std::vector<ModelRunner*> runners_;
};

// The tokenizer description of a model file or folder, before it is run; convert and inspect need no more.
Result<std::optional<TokenizerSpec>> load_tokenizer_spec(const ModelFile& file);

// Ids from the file's own fields first, then from the tokenizer (may be null) and its control tokens.
decode::SpecialIds resolve_special_ids(const ModelConfig& config, const Tokenizer* tokenizer, ChatStyle style);

}  // namespace llada
