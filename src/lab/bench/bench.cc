#include "lab/bench/bench.h"

#include <algorithm>
#include <optional>

#include "base/memory_usage.h"
#include "bench/ceiling.h"
#include "devices/cpu/cpu_device.h"
#include "kernels/kernels.h"
#include "lab/bench/estimate.h"
#include "models/model_graph.h"
#include "study/presets.h"
#include "study/synth.h"

namespace llada::bench {
namespace {

class Bench {
 public:
  explicit Bench(const BenchOptions& options) : o_(options), pool_(options.load.threads) {}

  Result<BenchReport> run() {
    report_.repeats = o_.repeats;
    LLADA_TRY_STATUS(check());
    LLADA_TRY_STATUS(choose_runs());
    LLADA_TRY(const auto info,
              describe_cpu({.threads = o_.load.threads, .isa = o_.load.isa, .exact_attention = false}));
    LLADA_TRY(table_, kernels::select(o_.load.isa));
    watch_.emplace(pool_, std::string(table_->isa));
    report_.machine = {.cpu = info.processor,
                       .isa = std::string(table_->isa),
                       .threads = pool_.size(),
                       .int8_instruction = std::string(int8_instruction(table_->isa)),
                       .float_instruction = std::string(float_instruction(table_->isa))};
    LLADA_TRY_STATUS(say("machine"));
    {
      ThreadPool single(1);
      LLADA_TRY(report_.machine.one, measure_ceilings(single, table_->isa, 4 * o_.stream_bytes, o_.repeats));
    }
    LLADA_TRY(report_.machine.all, measure_ceilings(pool_, table_->isa, 4 * o_.stream_bytes, o_.repeats));
    watch_->saw(report_.machine.all);
    report_.machine.barrier_us = barrier_us(pool_, o_.repeats);
    LLADA_TRY_STATUS(plan());
    add();
    const Status measured = measure();
    report_.interrupted = stopped();
    if (!measured && !report_.interrupted) return std::unexpected(measured.error());
    report_.peak_memory_bytes = peak_memory_bytes();
    if (report_.interrupted) return std::move(report_);
    LLADA_TRY(report_.machine.all_after, measure_ceilings(pool_, table_->isa, 4 * o_.stream_bytes, o_.repeats));
    return std::move(report_);
  }

 private:
  bool stopped() const { return o_.stopped && o_.stopped(); }

  Status measure() {
    if (o_.parts.gemm) LLADA_TRY_STATUS(gemm());
    if (needs_loaded_model()) LLADA_TRY_STATUS(model());
    return {};
  }

  // What comes next; where it was stopped, an error that ends the measuring.
  Status say(std::string_view what) {
    if (stopped()) return failed("stopped");
    if (o_.progress) o_.progress(what, estimate_.done_s(), estimate_.all_s());
    return {};
  }

  // A line of the report is whole.
  void add() {
    if (o_.result && !stopped()) o_.result(report_);
  }

  Status plan() {
    if (!needs_model()) return {};
    LLADA_TRY(const auto graph, build_model(config_));
    estimate_ = Estimate(o_, report_.machine.all, config_, graph.weights, preset_.has_value());
    return {};
  }

  bool needs_loaded_model() const {
    return o_.parts.forward || o_.parts.attention || o_.parts.end_to_end || o_.parts.shared || o_.parts.sustained;
  }
  bool needs_model() const { return o_.parts.gemm || needs_loaded_model(); }

  Status check() {
    if (!o_.replay.empty() && !o_.parts.end_to_end) return invalid("--replay: only with --only e2e");
    if (!needs_model()) return {};
    if (o_.model.empty() == o_.preset.empty())
      return invalid("{} of a model and a preset were given, needed one", o_.model.empty() ? "none" : "both");
    if (o_.preset.empty() && o_.layers != 0) return invalid("layers: found a number for a file, needed a preset");
    if (o_.attention_rows > o_.attention_keys)
      return invalid("attention: found {} rows over {} keys", o_.attention_rows, o_.attention_keys);
    if (!o_.preset.empty()) {
      LLADA_TRY(preset_, parse_preset(o_.preset));
      if (!o_.preset.contains(':'))
        return invalid(
            "--preset: found '{}', needed NAME:TYPE such as {}:q4_0 (types: f16, bf16, q8_0, q4_0, q4_1, q5_0, "
            "q5_1, q4_k, q6_k)",
            o_.preset, o_.preset);
      int64_t layers = o_.layers;
      if (layers == 0 && o_.most_layers > 0) layers = std::min(o_.most_layers, preset_->preset.config.layers);
      if (layers != 0) {
        LLADA_TRY(preset_->preset, with_layers(std::move(preset_->preset), layers));
      }
    }
    LLADA_TRY(config_, config());
    const Parts& p = o_.parts;
    if (o_.router_bias && (o_.preset.empty() || !config_.sigmoid_router))
      return invalid("--router-bias: needed a preset whose routers have selection biases (llada2-mini)");
    const int64_t block = config_.attention_block;
    const bool scripted = p.shared || p.sustained || (p.end_to_end && o_.replay.empty());
    if (scripted && block > 0 && (o_.block_length > block || block % o_.block_length != 0))
      return invalid("block length: found {}, needed {}, the model's attention block, or a divisor of it",
                     o_.block_length, block);
    return {};
  }

  Status choose_runs() {
    if (o_.replay.empty()) return {};
    LLADA_TRY(const Recording recording, read_recording(o_.replay));
    runs_ = nearest_runs(recording, o_.prompt_tokens, o_.gen_length, o_.replay_runs);
    if (runs_.empty()) return invalid("--replay: {}: found no run", o_.replay);
    for (const auto& runs : runs_) LLADA_TRY_STATUS(check_attention(runs, config_.attention_block));
    return {};
  }

  // No weight of the model is touched.
  Result<ModelConfig> config() const {
    if (preset_) return preset_->preset.config;
    LLADA_TRY(const auto file, ModelFile::open(o_.model, o_.load.overrides));
    return file.config();
  }

  // Shapes come from the list of weights.
  Status gemm() {
    LLADA_TRY(const auto graph, build_model(config_));
    for (const DType type : o_.types)
      for (const auto& [k, n] : layer_shapes(graph.weights)) {
        if (k % traits(type).elements != 0) continue;  // such rows are stored as F16
        for (const int64_t rows : o_.rows) {
          LLADA_TRY_STATUS(say(fmt::format("product {} {}x{} {} rows", traits(type).name, k, n, rows)));
          const double begin = now_s();
          LLADA_TRY(const auto result,
                    measure_gemm(*table_, pool_, *watch_, type, k, n, rows, o_.stream_bytes, o_.repeats));
          estimate_.measured(estimate_.product_s(k, n, rows, type), now_s() - begin);
          report_.gemm.push_back(result);
          add();
        }
      }
    return {};
  }

  Status load() {
    const double begin = now_s();
    if (preset_) {
      const auto made = [this](double, std::string_view what) {
        if (!say(fmt::format("making {}", what)) && o_.leave) o_.leave();
      };
      SynthRequest request = {.preset = preset_->preset, .type = preset_->type};
      request.router_bias = o_.router_bias.value_or(request.router_bias);
      LLADA_TRY(model_, synthesize_model(request, {.progress = made}, o_.load));
    } else {
      LLADA_TRY_STATUS(say("loading"));
      LoadOptions options = o_.load;
      options.progress = [this](int64_t, int64_t) {
        if (stopped() && o_.leave) o_.leave();
      };
      LLADA_TRY(model_, Model::load(o_.model, options));
    }
    ModelFacts& facts = report_.model;
    facts.load_seconds = now_s() - begin;
    estimate_.measured(estimate_.load_s(), facts.load_seconds);
    facts.name = model_->config().name;
    facts.source = model_->file().path();
    facts.layers = model_->config().layers;
    for (const auto& tensor : model_->file().tensors()) {
      facts.parameters += tensor.view.shape.elements();
      facts.stored_bytes += tensor.view.bytes();
    }
    facts.forward_bytes = work_of(*model_, table_->isa).weight_bytes;  // of a mixture: with every expert
    add();
    return {};
  }

  Status model() {
    LLADA_TRY_STATUS(load());
    if (o_.parts.end_to_end) {
      LLADA_TRY(reading_, ReadTest::create(pool_, o_.stream_bytes));
    }
    if (o_.parts.forward) LLADA_TRY_STATUS(forward());
    if (o_.parts.attention) LLADA_TRY_STATUS(attention());
    if (o_.parts.end_to_end) LLADA_TRY_STATUS(o_.replay.empty() ? end_to_end() : replayed());
    if (o_.parts.shared) LLADA_TRY_STATUS(shared());
    if (o_.parts.sustained) LLADA_TRY_STATUS(sustained());
    return {};
  }

  Status forward() {
    const int64_t most = *std::ranges::max_element(o_.rows);
    LLADA_TRY(auto test, ForwardTest::create(*model_, pool_, table_->isa, most, o_.stream_bytes));
    for (const int64_t rows : o_.rows) {
      LLADA_TRY_STATUS(say(fmt::format("forward {} rows", rows)));
      const double begin = now_s();
      LLADA_TRY(const auto result, test.measure(*watch_, rows, rows, o_.repeats, o_.stopped));
      estimate_.measured(estimate_.forwards_s(rows), now_s() - begin);
      report_.forward.push_back(result);
      add();
    }
    return {};
  }

  Status attention() {
    LLADA_TRY(auto test, ForwardTest::create(*model_, pool_, table_->isa, o_.attention_keys, o_.stream_bytes));
    LLADA_TRY_STATUS(say(fmt::format("attention {} rows over {} keys", o_.attention_rows, o_.attention_keys)));
    const double begin = now_s();
    AttentionResult result;
    LLADA_TRY(result.forward, test.measure(*watch_, o_.attention_rows, o_.attention_keys, o_.repeats, o_.stopped));
    estimate_.measured(estimate_.forwards_s(o_.attention_rows), now_s() - begin);
    result.ms = result.forward.phase_ms[static_cast<size_t>(OpKind::attention)];
    result.percent_of_forward = 100 * result.ms / result.forward.ms;
    report_.attention.push_back(result);
    add();
    return {};
  }

  RunSettings run_settings() {
    return {.bytes_per_token = work_of(*model_, table_->isa).bytes_read(1),
            .read_gb_per_s = [this] { return reading_->gb_per_s(pool_, 5); },
            .stopped = o_.stopped};
  }

  Status end_to_end() {
    Script script{.block_length = o_.block_length, .tokens_per_step = o_.tokens_per_step};
    script.attention_block = model_->config().attention_block;
    std::vector<std::pair<Refresh, RowsPolicy>> ways = {
        {Refresh::block, RowsPolicy::block}, {Refresh::block, RowsPolicy::masked}, {Refresh::once, RowsPolicy::masked}};
    if (script.attention_block > 0) ways = {{Refresh::once, RowsPolicy::block}};
    if (o_.one_run) ways.resize(1);
    for (const auto& [refresh, rows] : ways) {
      script.refresh = refresh;
      script.rows = rows;
      LLADA_TRY_STATUS(say(fmt::format("{} tokens, refresh {}, rows {}", o_.gen_length, name(refresh), name(rows))));
      const double begin = now_s();
      LLADA_TRY(const auto result,
                measure_end_to_end(*model_, script, o_.prompt_tokens, o_.gen_length, o_.repeats, run_settings()));
      estimate_.measured(estimate_.run_s(), now_s() - begin);
      report_.end_to_end.push_back(result);
      add();
    }
    return {};
  }

  Status replayed() {
    for (const auto& runs : runs_) {
      LLADA_TRY_STATUS(say(fmt::format("{} runs of {}", runs.size(), runs.front().strategy)));
      const double begin = now_s();
      LLADA_TRY(const auto result, measure_replay(*model_, runs, o_.repeats, run_settings()));
      estimate_.measured(estimate_.run_s(), now_s() - begin);
      report_.replayed.push_back(result);
      add();
    }
    return {};
  }

  Status shared() {
    const SharedWork work{o_.prompt_tokens, o_.gen_length, o_.block_length, o_.tokens_per_step};
    for (const int64_t requests : o_.requests) {
      LLADA_TRY_STATUS(say(fmt::format("{} requests in shared forwards", requests)));
      const double begin = now_s();
      LLADA_TRY(const auto result, measure_shared(model_, work, requests, o_.repeats));
      estimate_.measured(static_cast<double>(requests) * estimate_.run_s(), now_s() - begin);
      report_.shared.push_back(result);
      add();
    }
    return {};
  }

  Status sustained() {
    // The way of `balanced` and `fast`: a block's masked rows, and what lies outside computed with each block.
    SustainedWork work{.script = {.block_length = o_.block_length, .tokens_per_step = o_.tokens_per_step},
                       .prompt_tokens = o_.prompt_tokens,
                       .gen_tokens = o_.gen_length,
                       .minutes = o_.minutes};
    work.script.attention_block = model_->config().attention_block;
    work.script.refresh = work.script.attention_block > 0 ? Refresh::once : Refresh::block;
    work.script.rows = work.script.attention_block > 0 ? RowsPolicy::block : RowsPolicy::masked;
    LLADA_TRY_STATUS(say(fmt::format("minute 1 of {}", o_.minutes)));
    const auto minute = [this](const SustainedMinute& m) {
      report_.sustained.push_back(m);
      estimate_.measured(60, m.seconds);
      add();
      static_cast<void>(say(fmt::format("minute {} of {}: {:.0f} tokens a minute", report_.sustained.size() + 1,
                                        o_.minutes, m.tokens_per_minute())));
    };
    const auto measured = measure_sustained(
        *model_, work,
        {.now_s = now_s, .heat = [] { return read_heat("/"); }, .stopped = o_.stopped, .minute = minute});
    return measured ? Status() : std::unexpected(measured.error());
  }

  const BenchOptions& o_;
  ThreadPool pool_;
  std::optional<PeakWatch> watch_;  // once the table is known
  const kernels::KernelTable* table_ = nullptr;
  std::optional<PresetSpec> preset_;
  ModelConfig config_;
  std::vector<std::vector<RecordedRun>> runs_;  // to be followed, by strategy
  Estimate estimate_;
  std::shared_ptr<const Model> model_;
  std::optional<ReadTest> reading_;  // beside the whole runs
  BenchReport report_;
};

}  // namespace

Result<BenchReport> run_bench(const BenchOptions& options) { return Bench(options).run(); }

}  // namespace llada::bench
