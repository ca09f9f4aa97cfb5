#include "engine/importance.h"

#include <algorithm>

#include "engine/importance_sums.h"
#include "engine/model.h"

namespace llada {
namespace {

constexpr int64_t kLongestCanvas = int64_t{1} << 16, kUsualCanvas = 512;

}  // namespace

Result<ImportanceReport> measure_importance(const std::shared_ptr<const Model>& model, const ImportanceRequest& request,
                                            const ImportanceProgress& progress) {
  const int64_t most = model->context() > 0 ? std::min(model->context(), kLongestCanvas) : kLongestCanvas;
  const int64_t length = request.length == 0 ? std::min(most, kUsualCanvas) : request.length;
  if (length < 2 || length > most) return invalid("length: found {}, needed 2 to {}", length, most);
  if (const double rate = request.mask_rate.value_or(0); !(rate >= 0 && rate <= 1))
    return invalid("mask_rate: found {}, needed 0 to 1", rate);
  LLADA_TRY(auto importance, Importance::create(model));
  if (!model->has_tokenizer())
    return invalid("{}: the file has no tokenizer, one needed to read a text", model->file().path());
  LLADA_TRY(const std::vector<int32_t> start, model->prompt_ids(""));  // before each canvas's text
  const std::vector<int32_t> ids = model->tokenizer().encode(request.text, ControlText::token);
  if (ids.empty()) return invalid("{}: the text has no tokens, at least one needed", request.text_name);
  const int64_t each = length - std::ssize(start);  // of the text
  const int64_t in_text = (std::ssize(ids) + each - 1) / each;
  const int64_t total = request.canvases > 0 ? std::min(request.canvases, in_text) : in_text;
  const int32_t mask = model->special_ids().mask;
  ImportanceReport report;
  for (; report.canvases < total; ++report.canvases) {
    if (!progress(report.canvases, total)) return report;
    const auto begin = ids.begin() + report.canvases * each;
    std::vector<int32_t> tokens = start;
    tokens.insert(tokens.end(), begin, begin + std::min<int64_t>(each, ids.end() - begin));
    const auto number = static_cast<uint64_t>(report.canvases);
    const double rate = request.mask_rate.value_or(mask_rate(request.seed, number));
    const auto canvas = masked_at_random(tokens, mask, rate, request.seed, number);
    report.rows += std::ssize(canvas);
    report.masked += std::ranges::count(canvas, mask);
    LLADA_TRY_STATUS(importance.add(canvas));
  }
  const std::vector<ImatrixSums> sums = importance.sums();
  report.matrices = std::ssize(sums);
  for (const ImatrixSums& one : sums)
    if (std::ranges::count(one.counts, 0) > 0) report.unseen.push_back(one.name);
  LLADA_TRY_STATUS(write_imatrix(request.out_path, sums,
                                 {.texts = request.text_name,
                                  .chunks = static_cast<uint32_t>(report.canvases),
                                  .chunk_rows = static_cast<uint32_t>(length)}));
  return report;
}

}  // namespace llada
