#include "engine/synth.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/file.h"
#include "base/random.h"
#include "base/threads.h"
#include "engine/inspect.h"
#include "engine/synth_vocabulary.h"
#include "formats/convert_metadata.h"
#include "formats/gguf_writer.h"
#include "models/presets.h"
#include "tensor/synthesize.h"

namespace llada {
namespace {

constexpr int64_t kPieceBytes = int64_t{32} << 20;  // made in parallel, then written in one go
constexpr int64_t kTaskBytes = int64_t{1} << 20;    // one thread's share at a time

// The contents of a preset's tensors. A tensor's bytes depend on seed, name, type and shape only.
class WeightMaker {
 public:
  WeightMaker(uint64_t seed, int threads) : seed_(seed), pool_(threads) {}

  static int64_t groups(const PresetTensor& t, DType type) {
    return t.shape.elements() / traits(type).elements;
  }

  // Groups [first, last) to dst; first is a multiple of kSynthesisUnit.
  void make(const PresetTensor& t, DType type, int64_t first, int64_t last, std::byte* dst) {
    const int64_t bytes = traits(type).bytes;
    const int64_t step = std::max<int64_t>(1, kTaskBytes / bytes / kSynthesisUnit) * kSynthesisUnit;
    pool_.run((last - first + step - 1) / step, [&](int64_t i, int) {
      const int64_t begin = first + i * step;
      synthesize_groups(type, key(t.name), spread(t), begin, std::min(last, begin + step),
                        dst + i * step * bytes);
    });
    if (!t.name.ends_with("norm.weight")) return;
    auto* values = reinterpret_cast<float*>(dst);  // the gains of a trained model lie around 1
    for (int64_t i = 0; i < last - first; ++i) values[i] += 1;
  }

 private:
  uint64_t key(std::string_view name) const {
    uint64_t hash = mix64(seed_ + kRandomStep);
    for (const char c : name) hash = mix64(hash ^ static_cast<uint8_t>(c));
    return hash;
  }

  // Matrices keep the size of what they multiply; the residual stream then grows like the square root of the
  // depth, as in a trained model.
  static double spread(const PresetTensor& t) {
    return t.shape.rank == 1 ? 0.05 : 1 / std::sqrt(static_cast<double>(t.shape.columns()));
  }

  uint64_t seed_;
  ThreadPool pool_;
};

struct Request {
  Preset preset;
  DType type;
};

Result<Request> read_request(const SynthOptions& options) {
  LLADA_TRY(Preset preset, find_preset(options.preset));
  if (options.layers != 0) {
    LLADA_TRY(preset, with_layers(std::move(preset), options.layers));
  }
  const auto type = dtype_from_name(options.type);
  if (!type) return invalid("type: found '{}', needed one such as q4_0, q8_0, q4_k or f16", options.type);
  return Request{std::move(preset), *type};
}

// What LLaDA2's routing needs beside the keys of a plain mixture.
void add_llada2_metadata(GgufWriter& out, const Preset& p) {
  constexpr uint32_t kSigmoid = 2;
  const auto u32 = [&](std::string_view key, int64_t value) {
    out.add_u32(fmt::format("llada2.{}", key), static_cast<uint32_t>(value));
  };
  u32("expert_shared_count", p.shared_experts);
  u32("expert_shared_feed_forward_length", p.shared_experts * p.config.expert_ffn_width);
  u32("leading_dense_block_count", p.dense_layers);
  u32("expert_group_count", p.expert_groups);
  u32("expert_group_used_count", p.expert_groups_used);
  u32("expert_gating_func", kSigmoid);
  out.add_f32("llada2.expert_weights_scale", p.expert_scale);
}

void report(const SynthOptions& options, double fraction, std::string_view what) {
  if (options.progress) options.progress(fraction, what);
}

}  // namespace

Result<SynthReport> synthesize_file(const std::string& out_path, const SynthOptions& options) {
  LLADA_TRY(const Request request, read_request(options));
  const Preset& preset = request.preset;
  GgufWriter writer;
  const TokenizerSpec vocabulary = synthesize_vocabulary(preset);
  LLADA_TRY_STATUS(add_metadata(writer, preset.config, &vocabulary, request.type));
  if (preset.config.architecture == Architecture::llada2) add_llada2_metadata(writer, preset);
  const auto tensors = tensors_of(preset);
  for (const PresetTensor& t : tensors) writer.add_tensor(t.name, stored_type(t, request.type), t.shape);
  const uint64_t bytes = writer.header().size() + writer.data_bytes();
  LLADA_TRY_STATUS(check_free_space(out_path, bytes));

  WeightMaker maker(options.seed, options.threads);
  const AlignedBytes piece = allocate_aligned(kPieceBytes);
  if (piece == nullptr) return failed("{}: {} bytes of memory could not be allocated", out_path, kPieceBytes);
  LLADA_TRY_STATUS(writer.write(out_path, [&](size_t index, AtomicFile& out) -> Status {
    const PresetTensor& t = tensors[index];
    const DType type = stored_type(t, request.type);
    const int64_t all = WeightMaker::groups(t, type), group_bytes = traits(type).bytes;
    const int64_t step = kPieceBytes / group_bytes / kSynthesisUnit * kSynthesisUnit;
    for (int64_t first = 0; first < all; first += step) {
      const int64_t last = std::min(all, first + step);
      maker.make(t, type, first, last, piece.get());
      LLADA_TRY_STATUS(out.write(piece.get(), static_cast<size_t>((last - first) * group_bytes)));
      report(options, static_cast<double>(out.position()) / static_cast<double>(bytes), t.name);
    }
    return {};
  }));

  SynthReport result{
      .bytes = bytes, .parameters = parameters_of(preset), .model = preset.config.name, .no_run = {}};
  if (const auto read_back = inspect_model(out_path); !read_back) {
    if (preset.config.architecture != Architecture::llada2)
      return failed("the written file does not open: {}", read_back.error().message);
    result.no_run = read_back.error().message;
  } else if (const auto graph = build_model(read_back->config); !graph) {
    result.no_run = graph.error().message;
  }
  return result;
}

Result<std::shared_ptr<const Model>> synthesize_model(const SynthOptions& options, const LoadOptions& load) {
  LLADA_TRY(const Request request, read_request(options));
  LLADA_TRY_STATUS(build_model(request.preset.config));  // refuses before any memory is asked for
  struct Place {
    PresetTensor tensor;
    TensorView view;
    int64_t offset;
  };
  std::vector<Place> places;
  int64_t bytes = 0;
  for (PresetTensor& t : tensors_of(request.preset)) {
    const TensorView view{nullptr, stored_type(t, request.type), t.shape};
    places.push_back({std::move(t), view, bytes});
    // Huge pages do not straddle tensors: letting go of one gives back all of its memory.
    bytes += (view.bytes() + (int64_t{2} << 20) - 1) >> 21 << 21;
  }
  AlignedBytes memory = allocate_aligned(bytes);
  if (memory == nullptr) return failed("{}: {} bytes of memory could not be reserved", options.preset, bytes);

  ModelRecord record;
  record.format = "synthesised";
  record.config = request.preset.config;
  std::map<std::string, Place*, std::less<>> by_name;
  for (Place& place : places) {
    place.view.data = memory.get() + place.offset;
    by_name[place.tensor.name] = &place;
    record.tensors.push_back({place.tensor.name, place.tensor.name, place.view, 0});
  }
  const std::string name = fmt::format("{}:{}", options.preset, options.type);
  LLADA_TRY_STATUS(index_tensors(record, name));

  WeightMaker maker(options.seed, load.threads);
  size_t done = 0;
  const TensorHooks hooks{
      .wanted =
          [&](std::string_view wanted) {
            const Place& p = *by_name.find(wanted)->second;
            maker.make(p.tensor, p.view.type, 0, WeightMaker::groups(p.tensor, p.view.type),
                       const_cast<std::byte*>(p.view.data));
            report(options, static_cast<double>(++done) / static_cast<double>(places.size()), wanted);
          },
      .packed =
          [&](std::string_view packed) {
            const Place& p = *by_name.find(packed)->second;
            release_pages(const_cast<std::byte*>(p.view.data), p.view.bytes());
          }};
  return Model::from_memory(ModelFile::in_memory(name, std::move(record)), std::move(memory), load, hooks);
}

}  // namespace llada
