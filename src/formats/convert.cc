#include "formats/convert.h"

#include <sys/stat.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <vector>

#include "formats/convert_metadata.h"
#include "formats/diffusion_gemma_files.h"
#include "formats/expectations.h"
#include "formats/family.h"
#include "formats/gguf_writer.h"
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

// One tensor of the output: the same-shaped source tensors that follow each other in it (several for stacked
// experts).
struct Job {
  std::string name;
  DType type = DType::F32;
  Shape shape;
  std::vector<TensorView> sources;
  bool permute = false;
  std::vector<float> made = {};  // a vector that the source says in another way; then there are no sources
};

class Converter {
 public:
  Converter(const ModelFile& model, const std::string& out_path, const ConvertOptions& options)
      : model_(model), config_(model.config()), out_path_(out_path), options_(options) {}

  Status run(const TokenizerSpec* tokenizer) {
    if (!can_quantize(options_.type))
      return invalid("{}: converting to {} is not supported", out_path_, traits(options_.type).name);
    LLADA_TRY_STATUS(refuse_inputs());
    if (tokenizer == nullptr && model_.tokenizer()) tokenizer = &*model_.tokenizer();
    LLADA_TRY_STATUS(add_metadata(writer_, config_, tokenizer, options_.type));
    if (tokenizer == nullptr) report("no tokenizer: the file will take token ids only");
    LLADA_TRY_STATUS(plan());
    LLADA_TRY_STATUS(check_free_space(out_path_, static_cast<uint64_t>(writer_.data_bytes())));
    LLADA_TRY_STATUS(writer_.write(
        out_path_, [this](size_t index, AtomicFile& out) { return write(jobs_[index], out); }, options_.check,
        !jobs_.empty() && jobs_.front().name == kRopeFactors ? 1 : 0));
    report("done");
    return {};
  }

 private:
  void report(std::string_view what) const {
    if (!options_.progress) return;
    const auto all = static_cast<double>(writer_.data_bytes());
    options_.progress(all > 0 ? static_cast<double>(written_) / all : 0.0, what);
  }

  Status refuse_inputs() const {
    struct stat out{};
    if (::stat(out_path_.c_str(), &out) != 0) return {};
    for (const MappedFile& file : model_.files()) {
      struct stat in{};
      if (::stat(file.path().c_str(), &in) == 0 && in.st_dev == out.st_dev && in.st_ino == out.st_ino)
        return invalid("{}: is the input file; another output path needed", out_path_);
    }
    std::error_code ignored;
    if (!model_.folder().empty() && !out_path_.ends_with(".gguf") &&
        std::filesystem::equivalent(std::filesystem::absolute(out_path_, ignored).parent_path(), model_.folder(),
                                    ignored))
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
      job.type = type_for(job);
      job.permute = config_.family->permuted_in_gguf && !adjacent &&
                    (job.name.find(".attn_q.") != std::string::npos || job.name.find(".attn_k.") != std::string::npos);
      // The reader of the file takes numbers from this one, so the check has to see it.
      jobs_.insert(job.name == kRopeFactors ? jobs_.begin() : jobs_.end(), std::move(job));
      return status.has_value();
    });
    for (const Job& job : jobs_) writer_.add_tensor(job.name, job.type, job.shape);
    return status;
  }

  DType type_for(const Job& job) const {
    if (job.shape.rank == 1 || job.name.ends_with("ffn_gate_inp.weight")) return DType::F32;
    if (job.shape.columns() % traits(options_.type).elements == 0) return options_.type;
    report(fmt::format("{}: rows of {} values do not fit {}, stored as f16", job.name, job.shape.columns(),
                       traits(options_.type).name));
    return DType::F16;
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
    for (const TensorView& source : job.sources) {
      LLADA_TRY_STATUS(model_.make(source));
      if (job.shape.rank == 1) {
        LLADA_TRY_STATUS(write_vector(job, source, out));
      } else {
        for (int64_t row = 0; row < source.shape.rows(); ++row)
          LLADA_TRY_STATUS(write_row(job, source, source_row(job, row), out));
      }
      model_.drop_pages(source);
    }
    return {};
  }

  Status write_vector(const Job& job, const TensorView& source, AtomicFile& out) {
    const int64_t n = source.shape.columns();
    values_.resize(static_cast<size_t>(n));
    dequantize_row(source.type, source.data, values_.data(), n);
    if (job.permute) {
      const std::vector<float> in_order = values_;
      for (int64_t i = 0; i < n; ++i)
        values_[static_cast<size_t>(i)] = in_order[static_cast<size_t>(source_row(job, i))];
    }
    LLADA_TRY_STATUS(check_values(job, 0));
    return put(out, values_.data(), n * 4);
  }

  Status write_row(const Job& job, const TensorView& source, int64_t row, AtomicFile& out) {
    const std::byte* bytes = source.row(row);
    const int64_t n = source.shape.columns();
    values_.resize(static_cast<size_t>(n));
    dequantize_row(source.type, bytes, values_.data(), n);
    LLADA_TRY_STATUS(check_values(job, row));
    if (source.type == job.type) return put(out, bytes, source.row_stride());
    packed_.resize(static_cast<size_t>(row_bytes(job.type, n)));
    quantize_row(job.type, values_.data(), packed_.data(), n);
    return put(out, packed_.data(), static_cast<int64_t>(packed_.size()));
  }

  // One weight that is not finite spoils every token, and F16, also as a scale, turns numbers above its range into
  // infinity.
  Status check_values(const Job& job, int64_t row) const {
    const auto most = static_cast<float>(largest(job.type));
    for (size_t i = 0; i < values_.size(); ++i)
      if (!(std::fabs(values_[i]) <= most))
        return invalid("{}: tensor {}: value {} of row {} is {}, a finite number of at most {} needed for {}",
                       model_.path(), job.name, i, row, values_[i], most, traits(job.type).name);
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
  std::vector<float> values_;
  std::vector<std::byte> packed_;
  int64_t written_ = 0;
};

}  // namespace

Status convert_to_gguf(const ModelFile& model, const TokenizerSpec* tokenizer, const std::string& out_path,
                       const ConvertOptions& options) {
  return Converter(model, out_path, options).run(tokenizer);
}

}  // namespace llada
