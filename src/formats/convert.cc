#include "formats/convert.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <utility>
#include <vector>

#include "base/os.h"
#include "base/threads.h"
#include "formats/convert_metadata.h"
#include "formats/diffusion_gemma_files.h"
#include "formats/expectations.h"
#include "formats/family.h"
#include "formats/gguf_writer.h"
#include "formats/imatrix.h"
#include "formats/printable.h"
#include "formats/type_mix.h"
#include "tensor/quantize.h"

namespace llada {
namespace {

// The largest value that a type can hold; of the group types, that their F16 scale can.
constexpr double largest(DType type) {
  if (type == DType::F32) return std::numeric_limits<float>::max();
  if (type == DType::BF16) return 0x1.FEFFFEp127;  // the float above it rounds to infinity
  return 65504;
}

constexpr int64_t kProgressBytes = int64_t{64} << 20;
constexpr int64_t kPieceBytes = int64_t{8} << 20;  // of converted rows, which are in memory together
constexpr int64_t kTaskValues = int64_t{1} << 15;  // that a thread converts at a time, about

// One tensor of the output: the same-shaped source tensors that follow each other in it (several for stacked
// experts).
struct Job {
  std::string name;
  DType type = DType::F32;
  Shape shape;
  std::vector<TensorView> sources;
  bool permute = false;
  std::vector<float> made = {};       // a vector that the source says in another way; then there are no sources
  const float* importance = nullptr;  // columns for each expert; null: none
};

TypeMix mix_of(const ConvertOptions& options) {
  if (options.mix != nullptr) return *options.mix;
  return {traits(options.type).name, options.type, file_type(options.type), MixRule::none};
}

class Converter {
 public:
  Converter(const ModelFile& model, const std::string& out_path, const ConvertOptions& options)
      : model_(model),
        config_(model.config()),
        out_path_(out_path),
        options_(options),
        mix_(mix_of(options)),
        pool_(options.threads),
        values_(static_cast<size_t>(pool_.size())) {}

  Result<std::vector<std::string>> run(const TokenizerSpec* tokenizer) {
    LLADA_TRY_STATUS(refuse_inputs());
    if (tokenizer == nullptr && model_.tokenizer()) tokenizer = &*model_.tokenizer();
    LLADA_TRY_STATUS(add_metadata(writer_, config_, tokenizer, mix_.file_type));
    if (tokenizer == nullptr) report("no tokenizer: the file will take token ids only");
    LLADA_TRY_STATUS(plan());
    LLADA_TRY_STATUS(check_free_space(out_path_, static_cast<uint64_t>(writer_.data_bytes())));
    LLADA_TRY_STATUS(writer_.write(
        out_path_, [this](size_t index, AtomicFile& out) { return write(jobs_[index], out); }, options_.check,
        !jobs_.empty() && jobs_.front().name == kRopeFactors ? 1 : 0));
    report("done");
    return std::move(notes_);
  }

 private:
  void report(std::string_view what) const {
    if (!options_.progress) return;
    const auto all = static_cast<double>(writer_.data_bytes());
    options_.progress(all > 0 ? static_cast<double>(written_) / all : 0.0, what);
  }

  Status refuse_inputs() const {
    if (!os::exists(out_path_)) return {};
    for (const MappedFile& file : model_.files())
      if (os::same_file(file.path(), out_path_))
        return invalid("{}: is the input file; another output path needed", out_path_);
    std::error_code ignored;
    if (!model_.folder().empty() && !out_path_.ends_with(".gguf") &&
        os::same_file(std::filesystem::absolute(out_path_, ignored).parent_path().string(), model_.folder()))
      return invalid("{}: is a file of the input folder; another output path needed", out_path_);
    return {};
  }

  Status plan() {
    const bool adjacent = config_.rope_pairing == RopePairing::adjacent;
    Status status;
    for_each_expected(config_, false, [&](const ExpectedTensor& expected) {
      Job job{.name = std::string(expected.name), .shape = expected.shape, .sources = {}};
      if (const TensorView* view = model_.find(expected.name)) {
        if (!expected.required) return true;  // a head that is tied to the embedding
        job.sources.push_back(*view);
      } else if (expected.shape.rank == 3) {
        const std::string stem = job.name.substr(0, job.name.rfind('.'));
        for (int64_t e = 0; e < expected.shape.dims[2]; ++e)
          if (const TensorView* part = model_.find(fmt::format("{}.{}.weight", stem, e))) job.sources.push_back(*part);
        if (static_cast<int64_t>(job.sources.size()) != expected.shape.dims[2])
          status = invalid("{}: {}: {} experts found, {} needed", model_.path(), stem, job.sources.size(),
                           expected.shape.dims[2]);
      } else if (config_.gemma && expected.name == kRopeFactors) {
        for (int64_t i = 0; i < expected.shape.columns(); ++i)
          job.made.push_back(rope_factor(i, config_.gemma->rotary_dims));
      } else {
        return true;  // optional and absent; ModelFile has checked the required ones
      }
      job.permute = config_.family->permuted_in_gguf && !adjacent &&
                    (job.name.find(".attn_q.") != std::string::npos || job.name.find(".attn_k.") != std::string::npos);
      // The reader of the file takes numbers from this one, so the check has to see it.
      jobs_.insert(job.name == kRopeFactors ? jobs_.begin() : jobs_.end(), std::move(job));
      return status.has_value();
    });
    LLADA_TRY_STATUS(status);
    choose_types();
    LLADA_TRY_STATUS(find_importance());
    for (const Job& job : jobs_) writer_.add_tensor(job.name, job.type, job.shape);
    return {};
  }

  static bool is_matrix(const Job& job) { return job.shape.rank != 1 && !job.name.ends_with("ffn_gate_inp.weight"); }

  void choose_types() {
    const auto values =
        std::ranges::count_if(jobs_, [](const Job& job) { return job.name.ends_with("attn_v.weight"); });
    TypeChooser chooser(mix_, config_, values, options_.imatrix != nullptr);
    int64_t matrices = 0;
    for (Job& job : jobs_) {
      if (!is_matrix(job)) continue;
      ++matrices;
      job.type = chooser.choose(job.name, job.shape);
      if (mix_.rule == MixRule::none && job.type != mix_.type)
        report(fmt::format("{}: rows of {} values do not fit {}, stored as f16", job.name, job.shape.columns(),
                           traits(mix_.type).name));
    }
    if (chooser.fallbacks() > 0)
      notes_.push_back(
          fmt::format("{} of {} matrices have rows that {}'s groups of {} do not divide; they are in types "
                      "with groups of 32, or f16",
                      chooser.fallbacks(), matrices, mix_.name, traits(mix_.type).elements));
  }

  Status find_importance() {
    if (options_.imatrix == nullptr) return {};
    const Imatrix& given = *options_.imatrix;
    int64_t found = 0, without = 0;
    std::string_view first;  // without
    for (Job& job : jobs_) {
      if (!is_matrix(job) || !uses_weights(job.type)) continue;
      const Imatrix::Entry* entry = given.find(job.name);
      if (entry == nullptr && job.name == "token_embd.weight" && !config_.tied_head) continue;  // looked up only
      const int64_t needed = job.shape.columns() * job.shape.dims[2];
      if (entry == nullptr) {
        if (++without == 1) first = job.name;
        continue;
      }
      if (std::ssize(entry->weights) != needed)
        return invalid("{}: {} has {} values, {} needed for {}: another model's", given.path(), job.name,
                       entry->weights.size(), needed, model_.path());
      ++found;
      job.importance = entry->weights.data();
    }
    if (found == 0 && without == 0)
      notes_.push_back(
          fmt::format("{} changes nothing: type {} has no use for an importance matrix", given.path(), mix_.name));
    if (found == 0 && without > 0)
      return invalid("{}: has {} entries (first: {}), none of which is a matrix of {}: another model's", given.path(),
                     given.entries().size(), printable(given.entries().empty() ? "" : given.entries()[0].name),
                     model_.path());
    if (without > 0)
      notes_.push_back(fmt::format("{} has no entry for {} of {} matrices (first: {}); they are quantized without",
                                   given.path(), without, found + without, first));
    return {};
  }

  // Within each head, llama.cpp stores row j of the first half at 2j and row j of the second half at 2j + 1.
  int64_t source_row(const Job& job, int64_t row) const {
    if (!job.permute) return row;
    const int64_t head = row / config_.head_dim, within = row % config_.head_dim;
    return head * config_.head_dim + within / 2 + within % 2 * (config_.head_dim / 2);
  }

  Status write(const Job& job, AtomicFile& out) {
    report(job.name);
    if (!job.made.empty()) return put(out, job.made.data(), std::ssize(job.made) * 4);
    int64_t first = 0;  // row of the tensor
    for (const TensorView& source : job.sources) {
      LLADA_TRY_STATUS(model_.make(source, &pool_));
      LLADA_TRY_STATUS(job.shape.rank == 1 ? write_vector(job, source, out) : write_rows(job, source, first, out));
      first += source.shape.rows();
      model_.drop_pages(source);
    }
    return {};
  }

  Status write_vector(const Job& job, const TensorView& source, AtomicFile& out) {
    const int64_t n = source.shape.columns();
    std::vector<float> values(static_cast<size_t>(n));
    dequantize_row(source.type, source.data, values.data(), n);
    if (job.permute) {
      const std::vector<float> in_order = values;
      for (int64_t i = 0; i < n; ++i)
        values[static_cast<size_t>(i)] = in_order[static_cast<size_t>(source_row(job, i))];
    }
    LLADA_TRY_STATUS(check_values(job, values, 0));
    return put(out, values.data(), n * 4);
  }

  Status write_rows(const Job& job, const TensorView& source, int64_t first, AtomicFile& out) {
    const int64_t rows = source.shape.rows(), stride = row_bytes(job.type, source.shape.columns());
    const int64_t piece = std::clamp<int64_t>(kPieceBytes / stride, 1, rows);
    const int64_t step = std::max<int64_t>(1, kTaskValues / source.shape.columns());
    for (int64_t begin = 0; begin < rows; begin += piece) {
      const int64_t end = std::min(rows, begin + piece);
      packed_.resize(static_cast<size_t>((end - begin) * stride));
      std::vector<Status> tasks(static_cast<size_t>((end - begin + step - 1) / step));
      pool_.run(std::ssize(tasks), [&](int64_t task, int thread) {
        Status& status = tasks[static_cast<size_t>(task)];
        for (int64_t row = begin + task * step; row < std::min(end, begin + (task + 1) * step) && status; ++row)
          status = convert_row(job, source, row, first, values_[static_cast<size_t>(thread)],
                               packed_.data() + (row - begin) * stride);
      });
      for (const Status& status : tasks) LLADA_TRY_STATUS(status);
      LLADA_TRY_STATUS(put(out, packed_.data(), std::ssize(packed_)));
    }
    return {};
  }

  // first: of the source's rows, in the tensor.
  Status convert_row(const Job& job, const TensorView& source, int64_t row, int64_t first, std::vector<float>& values,
                     std::byte* to) const {
    const int64_t n = source.shape.columns(), from = source_row(job, row);
    const std::byte* bytes = source.row(from);
    values.resize(static_cast<size_t>(n));
    dequantize_row(source.type, bytes, values.data(), n);
    LLADA_TRY_STATUS(check_values(job, values, from));
    if (source.type == job.type) {
      std::copy_n(bytes, source.row_stride(), to);
      return {};
    }
    const float* importance = job.importance;
    if (importance != nullptr) importance += (first + row) / job.shape.dims[1] * n;
    quantize_row(job.type, values.data(), to, n, importance);
    if (importance == nullptr) return {};
    // Searched with weights a scale may leave F16's range, or a sum a float's.
    dequantize_row(job.type, to, values.data(), n);
    if (std::ranges::all_of(values, [](float v) { return std::isfinite(v); })) return {};
    return invalid(
        "{}: with the importance of {} row {} of {} rounds to numbers that {} cannot hold, finite ones needed",
        model_.path(), options_.imatrix->path(), first + row, job.name, traits(job.type).name);
  }

  // One weight that is not finite spoils every token, and F16, also as a scale, turns numbers above its range into
  // infinity.
  Status check_values(const Job& job, const std::vector<float>& values, int64_t row) const {
    const auto most = static_cast<float>(largest(job.type));
    for (size_t i = 0; i < values.size(); ++i)
      if (!(std::fabs(values[i]) <= most))
        return invalid("{}: tensor {}: value {} of row {} is {}, a finite number of at most {} needed for {}",
                       model_.path(), job.name, i, row, values[i], most, traits(job.type).name);
    return {};
  }

  Status put(AtomicFile& out, const void* data, int64_t size) {
    LLADA_TRY_STATUS(out.write(data, static_cast<size_t>(size)));
    const int64_t before = written_;
    written_ += size;
    if (before / kProgressBytes != written_ / kProgressBytes) report("writing");
    return {};
  }

  const ModelFile& model_;
  const ModelConfig& config_;
  const std::string& out_path_;
  const ConvertOptions& options_;
  GgufWriter writer_;
  std::vector<Job> jobs_;
  TypeMix mix_;
  ThreadPool pool_;
  std::vector<std::vector<float>> values_;  // a row, of each thread
  std::vector<std::byte> packed_;           // a piece of a tensor
  std::vector<std::string> notes_;
  int64_t written_ = 0;
};

}  // namespace

Result<std::vector<std::string>> convert_to_gguf(const ModelFile& model, const TokenizerSpec* tokenizer,
                                                 const std::string& out_path, const ConvertOptions& options) {
  if (options.mix == nullptr && !can_quantize(options.type))
    return invalid("{}: converting to {} is not supported", out_path, traits(options.type).name);
  return Converter(model, out_path, options).run(tokenizer);
}

}  // namespace llada
