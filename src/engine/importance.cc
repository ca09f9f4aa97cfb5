#include "engine/importance.h"

#include <algorithm>

#include "engine/importance_sums.h"
#include "engine/model.h"

namespace llada {
namespace {

constexpr int64_t kLongestCanvas = int64_t{1} << 16;

}  // namespace

Result<ImportanceReport> measure_importance(const std::shared_ptr<const Model>& model, const ImportanceRequest& request,
                                            const ImportanceProgress& progress) {
  const int64_t most = model->context() > 0 ? std::min(model->context(), kLongestCanvas) : kLongestCanvas;
  if (request.length < 1 || request.length > most)
    return invalid("length: found {}, needed 1 to {}", request.length, most);
  LLADA_TRY(auto importance, Importance::create(model));
  LLADA_TRY(const auto ids, model->prompt_ids(request.text));
  if (ids.empty()) return invalid("{}: the text has no tokens, at least one needed", request.text_name);
  const int64_t in_text = (std::ssize(ids) + request.length - 1) / request.length;
  const int64_t total = request.canvases > 0 ? std::min(request.canvases, in_text) : in_text;
  const int32_t mask = model->special_ids().mask;
  ImportanceReport report;
  for (; report.canvases < total; ++report.canvases) {
    if (!progress(report.canvases, total)) return report;
    const auto begin = static_cast<size_t>(report.canvases * request.length);
    const auto tokens =
        std::span(ids).subspan(begin, std::min(static_cast<size_t>(request.length), ids.size() - begin));
    const auto canvas = masked_at_random(tokens, mask, request.seed, static_cast<uint64_t>(report.canvases));
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
                                  .chunk_rows = static_cast<uint32_t>(request.length)}));
  return report;
}

}  // namespace llada
