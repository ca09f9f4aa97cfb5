#include "study/synth.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/file.h"
#include "base/random.h"
#include "base/threads.h"
#include "engine/inspect.h"
#include "formats/convert_metadata.h"
#include "formats/gguf_writer.h"
#include "models/model_graph.h"
#include "study/presets.h"
#include "study/synth_vocabulary.h"
#include "tensor/synthesize.h"

namespace llada {
namespace {

constexpr int64_t kWritten = int64_t{32} << 20;   // made in parallel, then written in one go
constexpr int64_t kTaskBytes = int64_t{1} << 20;  // one thread's share at a time

// The contents of a preset's tensors. A tensor's bytes depend on seed, name, type, shape and, where it is a router's
// bias, on the spread asked for only.
class WeightMaker {
 public:
  WeightMaker(uint64_t seed, double router_bias, int threads)
      : seed_(seed), router_bias_(router_bias), pool_(threads) {}

  static int64_t groups(const PresetTensor& t, DType type) { return t.shape.elements() / traits(type).elements; }

  // Groups [first, last) to dst; first is a multiple of kSynthesisUnit.
  void make(const PresetTensor& t, DType type, int64_t first, int64_t last, std::byte* dst) {
    const int64_t bytes = traits(type).bytes;
    const int64_t step = std::max<int64_t>(1, kTaskBytes / bytes / kSynthesisUnit) * kSynthesisUnit;
    pool_.run((last - first + step - 1) / step, [&](int64_t i, int) {
      const int64_t begin = first + i * step;
      synthesize_groups(type, key(t.name), spread(t), begin, std::min(last, begin + step), dst + i * step * bytes);
    });
    if (!is_gain(t) && t.name != kRopeFactors) return;
    auto* values = reinterpret_cast<float*>(dst);
    for (int64_t i = 0; i < last - first; ++i) {
      if (is_gain(t))
        values[i] += 1;  // those of a trained model lie around it
      else
        values[i] = 4 * (first + i) < t.shape.columns() ? 1 : 1e30f;  // a quarter of a head turns
    }
  }

 private:
  // A gain of a norm, of a layer, of an expert.
  static bool is_gain(const PresetTensor& t) {
    return t.shape.rank == 1 && (t.name.contains("norm") || t.name.contains("scale"));
  }
  uint64_t key(std::string_view name) const {
    uint64_t hash = mix64(seed_ + kRandomStep);
    for (const char c : name) hash = mix64(hash ^ static_cast<uint8_t>(c));
    return hash;
  }

  // Matrices keep the size of their inputs; the residual stream then grows like the square root of the depth, as in a
  // trained model.
  double spread(const PresetTensor& t) const {
    if (t.name.ends_with("exp_probs_b.bias")) return router_bias_;
    return t.shape.rank == 1 ? 0.05 : 1 / std::sqrt(static_cast<double>(t.shape.columns()));
  }

  uint64_t seed_;
  double router_bias_;
  ThreadPool pool_;
};

void report(const SynthOptions& options, double fraction, std::string_view what) {
  if (options.progress) options.progress(fraction, what);
}

}  // namespace

std::vector<std::string_view> synth_presets() { return preset_names(); }

Result<SynthRequest> synth_request(std::string_view preset, std::string_view type, int64_t layers) {
  LLADA_TRY(Preset found, find_preset(preset));
  if (layers != 0) {
    LLADA_TRY(found, with_layers(std::move(found), layers));
  }
  const auto dtype = dtype_from_name(type);
  if (!dtype) return invalid("type: found '{}', needed one such as q4_0, q8_0, q4_k or f16", type);
  return SynthRequest{.preset = std::move(found), .type = *dtype};
}

Result<SynthReport> synthesize_file(const std::string& out_path, const SynthRequest& request,
                                    const SynthOptions& options) {
  const Preset& preset = request.preset;
  GgufWriter writer;
  const TokenizerSpec vocabulary = synthesize_vocabulary(preset);
  LLADA_TRY_STATUS(add_metadata(writer, preset.config, &vocabulary, file_type(request.type)));
  const auto tensors = tensors_of(preset);
  for (const PresetTensor& t : tensors) writer.add_tensor(t.name, stored_type(t, request.type), t.shape);
  const uint64_t bytes = writer.header().size() + writer.data_bytes();
  LLADA_TRY_STATUS(check_free_space(out_path, bytes));

  WeightMaker maker(options.seed, request.router_bias, options.threads);
  const AlignedBytes piece = allocate_aligned(kWritten);
  if (piece == nullptr) return failed("{}: {} bytes of memory could not be allocated", out_path, kWritten);
  LLADA_TRY_STATUS(writer.write(out_path, [&](size_t index, AtomicFile& out) -> Status {
    const PresetTensor& t = tensors[index];
    const DType type = stored_type(t, request.type);
    const int64_t all = WeightMaker::groups(t, type), group_bytes = traits(type).bytes;
    const int64_t step = kWritten / group_bytes / kSynthesisUnit * kSynthesisUnit;
    for (int64_t first = 0; first < all; first += step) {
      const int64_t last = std::min(all, first + step);
      maker.make(t, type, first, last, piece.get());
      LLADA_TRY_STATUS(out.write(piece.get(), static_cast<size_t>((last - first) * group_bytes)));
      report(options, static_cast<double>(out.position()) / static_cast<double>(bytes), t.name);
    }
    return {};
  }));

  SynthReport result{.bytes = bytes, .parameters = parameters_of(preset), .model = preset.config.name, .no_run = {}};
  const auto written = inspect_model(out_path);
  if (!written) return failed("the written file does not open: {}", written.error().message);
  if (const auto graph = build_model(written->config); !graph) result.no_run = graph.error().message;
  return result;
}

Result<std::shared_ptr<const Model>> synthesize_model(const SynthRequest& request, const SynthOptions& options,
                                                      const LoadOptions& load) {
  const std::string name = fmt::format("{}:{}", request.preset.name, traits(request.type).name);
  LLADA_TRY_STATUS(build_model(request.preset.config));  // refuses before any memory is asked for
  constexpr int64_t kHugePage = int64_t{2} << 20;        // tensors start on one: letting go gives all of it back
  const auto tensors = tensors_of(request.preset);
  int64_t bytes = 0;
  std::vector<int64_t> offsets;
  ModelRecord record{
      .format = "synthesised", .config = request.preset.config, .tensors = {}, .by_name = {}, .tokenizer = {}};
  for (const PresetTensor& t : tensors) {
    const TensorView view{nullptr, stored_type(t, request.type), t.shape};
    record.tensors.push_back({t.name, t.name, view, 0});
    offsets.push_back(bytes);
    bytes += (view.bytes() + kHugePage - 1) / kHugePage * kHugePage;
  }
  AlignedBytes memory = allocate_aligned(bytes);
  if (memory == nullptr) return failed("{}: {} bytes of memory could not be reserved", name, bytes);
  std::map<std::string_view, std::pair<const PresetTensor*, const std::byte*>> places;
  for (size_t i = 0; i < tensors.size(); ++i) {
    record.tensors[i].view.data = memory.get() + offsets[i];
    places[tensors[i].name] = {&tensors[i], memory.get() + offsets[i]};
  }
  LLADA_TRY_STATUS(index_tensors(record, name));

  WeightMaker maker(options.seed, request.router_bias, load.threads);
  int64_t made = 0;
  const auto make = [&](std::string_view tensor, const TensorView& view) {
    report(options, static_cast<double>(made) / static_cast<double>(bytes), tensor);
    const auto& [source, begin] = places.find(tensor)->second;
    const int64_t group_bytes = traits(view.type).bytes, first = (view.data - begin) / group_bytes;
    maker.make(*source, view.type, first, first + view.bytes() / group_bytes, const_cast<std::byte*>(view.data));
    made += view.bytes();
    report(options, static_cast<double>(made) / static_cast<double>(bytes), tensor);
  };
  const auto let_go = [](std::string_view, const TensorView& view) {
    release_pages(const_cast<std::byte*>(view.data), view.bytes());
  };
  return Model::from_memory(ModelFile::in_memory(name, std::move(record)), std::move(memory), load,
                            {.wanted = make, .packed = let_go});
}

}  // namespace llada
