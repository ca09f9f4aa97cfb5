#include "devices/cpu/cpu_attention.h"

#include <algorithm>
#include <cstring>

#include "devices/cpu/row_tasks.h"

namespace llada {
namespace {

constexpr int64_t kAttentionRows = 32;  // of one head in a task: two row tiles of the widest kernels

int64_t element_bytes(const KvStore& kv) { return kv.shape().type == DType::F16 ? 2 : 4; }

// A trial's row keeps the keys of all heads, each with its value behind it; room for F32, since the stores of a step
// may differ in their types.
int64_t trial_bytes(const Attention& a) { return int64_t{a.kv_heads} * a.head_dim * 2 * 4; }

}  // namespace

KvStore& CpuAttention::store_of(const RowSpan& span) const {
  return *job_->inputs->streams[static_cast<size_t>(span.stream)].kv;
}

Status CpuAttention::store(const Job& job, int64_t rows) {
  job_ = &job;
  const Op& op = *job.op;
  const Attention& a = *job.attention;
  const int64_t d = a.head_dim, n = a.kv_heads * d;
  std::vector<const RowSpan*> span_of(static_cast<size_t>(rows));
  for (const RowSpan& span : job_->inputs->spans) {
    std::fill_n(span_of.begin() + span.begin, span.count, &span);
    if (span.trial) LLADA_TRY_STATUS(trial_kv_.reserve(rows * trial_bytes(a)));
  }
  for_rows(*job_->pool, rows, [&](int64_t r) {
    const RowSpan& span = *span_of[static_cast<size_t>(r)];
    KvStore& kv = store_of(span);
    const bool half = kv.shape().type == DType::F16;
    const int64_t position = job_->inputs->kept_at()[static_cast<size_t>(r)], bytes = d * element_bytes(kv);
    const auto put = [&](const float* from, std::byte* to) {
      if (half)
        job_->kernels->store_half(from, d, reinterpret_cast<uint16_t*>(to));
      else
        std::memcpy(to, from, static_cast<size_t>(bytes));
    };
    for (int h = 0; h < a.kv_heads; ++h) {
      std::byte* pair = span.trial ? trial_kv(r, h) : nullptr;
      put(job_->in[0] + r * n + h * d, span.trial ? pair : kv.keys(op.layer, span.sequence, h) + position * bytes);
      put(job_->in[1] + r * n + h * d,
          span.trial ? pair + bytes : kv.values(op.layer, span.sequence, h) + position * bytes);
    }
    if (!span.trial) kv.wrote(KvViewer::memory, op.layer, span.sequence, position);
  });
  return {};
}

std::byte* CpuAttention::trial_kv(int64_t row, int head) const {
  return trial_kv_.data() + row * trial_bytes(*job_->attention) + int64_t{head} * job_->attention->head_dim * 2 * 4;
}

int64_t CpuAttention::digest_bytes(const KvStore& kv) const {
  if (!kv.shape().by_layer.empty()) return 0;
  return job_->kernels->digest_bytes(kv.shape().type, kv.shape().positions, kv.shape().head_dim);
}
bool CpuAttention::by_digest(const KvStore& kv, const KeyRange& reach) const {
  return !job_->exact && job_->attention->cap == 0 && reach.count() >= kernels::kDigestKeys && digest_bytes(kv) > 0;
}

void CpuAttention::digest(const Op& op, const RowSpan& span, int head, int64_t p0, int64_t p1) const {
  KvStore& kv = store_of(span);
  job_->kernels->digest({.k = kv.keys(op.layer, span.sequence, head),
                         .v = kv.values(op.layer, span.sequence, head),
                         .kv_type = kv.shape().type,
                         .positions = kv.shape().positions,
                         .head_dim = job_->attention->head_dim,
                         .p0 = p0,
                         .p1 = p1,
                         .digest = kv.digest(op.layer, span.sequence, head)});
}

Status CpuAttention::renew_digests(const Op& op, const RowSpan& span, const KeyRange& reach) {
  KvStore& kv = store_of(span);
  LLADA_TRY_STATUS(kv.reserve_digests(job_->kernels, digest_bytes(kv)));
  std::vector<std::pair<int64_t, int64_t>> stale;
  for (int64_t p = reach.first; p < reach.last; ++p) {
    if (kv.fresh(KvViewer::digests, op.layer, span.sequence, p)) continue;
    if (stale.empty() || stale.back().second != p) stale.emplace_back(p, p);
    stale.back().second = p + 1;
    kv.renewed(KvViewer::digests, op.layer, span.sequence, p);
  }
  if (stale.empty()) return {};
  job_->pool->run(job_->attention->kv_heads, [&](int64_t head, int) {
    for (const auto& [p0, p1] : stale) digest(op, span, static_cast<int>(head), p0, p1);
  });
  return {};
}

Status CpuAttention::attend(const Job& job) {
  job_ = &job;
  const Op& op = *job.op;
  const Attention& a = *job.attention;
  struct Task {
    size_t span;
    int head;
    int64_t r0, r1;
  };
  const auto& spans = job_->sets->spans[static_cast<size_t>(op.rows)];
  const RowSets::Reads& reads = job_->sets->of(a);
  const auto& reach = reads.reach[static_cast<size_t>(op.rows)];
  std::vector<Task> tasks;
  int64_t most_keys = 0;
  for (size_t s = 0; s < spans.size(); ++s) {
    const RowSpan& span = spans[s];
    if (span.count == 0) continue;
    most_keys = std::max<int64_t>(most_keys, reach[s].last);
    if (by_digest(store_of(span), reach[s])) LLADA_TRY_STATUS(renew_digests(op, span, reach[s]));
    if (span.trial) continue;
    for (int h = 0; h < a.heads; ++h)
      for (int64_t r = span.begin; r < span.begin + span.count; r += kAttentionRows)
        tasks.push_back({s, h, r, std::min<int64_t>(span.begin + span.count, r + kAttentionRows)});
  }
  const int64_t scratch = kernels::attention_scratch(most_keys) * 4;
  LLADA_TRY_STATUS(thread_scratch_.reserve(scratch * job_->pool->size()));
  const int64_t stride = int64_t{a.heads} * a.head_dim, group = a.heads / a.kv_heads;
  const auto attend = [&](const Task& t, int thread) {
    const RowSpan& span = spans[t.span];
    KvStore& kv = store_of(span);
    const int kv_head = static_cast<int>(t.head / group);
    job_->kernels->attention(
        {.q = job_->in[0] + t.head * a.head_dim,
         .q_stride = stride,
         .k = kv.keys(op.layer, span.sequence, kv_head),
         .v = kv.values(op.layer, span.sequence, kv_head),
         .kv_type = kv.shape().type,
         .keys = reach[t.span].last,
         .head_dim = a.head_dim,
         .scale = a.scale,
         .r0 = t.r0,
         .r1 = t.r1,
         .ranges = reads.ranges[static_cast<size_t>(op.rows)].data(),
         .scratch = reinterpret_cast<float*>(thread_scratch_.data() + thread * scratch),
         .out = job_->out + t.head * a.head_dim,
         .out_stride = stride,
         .digest = by_digest(kv, reach[t.span]) ? kv.digest(op.layer, span.sequence, kv_head) : nullptr,
         .digest_positions = kv.shape().positions,
         .cap = a.cap});
  };
  job_->pool->run(static_cast<int64_t>(tasks.size()),
                  [&](int64_t i, int thread) { attend(tasks[static_cast<size_t>(i)], thread); });
  if (std::ranges::none_of(spans, &RowSpan::trial)) return {};
  // A trial's rows stand in the store while its attention runs, and are taken out again; one task owns a
  // head of all stores, so nobody else looks.
  job_->pool->run(a.kv_heads, [&](int64_t head, int thread) {
    for (size_t s = 0; s < spans.size(); ++s) {
      if (!spans[s].trial || spans[s].count == 0) continue;
      const auto swap = [&] {
        const RowSpan& all = job_->inputs->spans[s];
        swap_trial(op, all, static_cast<int>(head));
        if (!by_digest(store_of(all), reach[s])) return;
        for (int64_t r = all.begin; r < all.begin + all.count; ++r) {
          const int64_t p = job_->inputs->kept_at()[static_cast<size_t>(r)];
          digest(op, all, static_cast<int>(head), p, p + 1);
        }
      };
      swap();
      for (int64_t h = head * group; h < (head + 1) * group; ++h)
        attend({s, static_cast<int>(h), spans[s].begin, spans[s].begin + spans[s].count}, thread);
      swap();
    }
  });
  return {};
}

void CpuAttention::swap_trial(const Op& op, const RowSpan& span, int head) const {
  KvStore& kv = store_of(span);
  const int64_t bytes = job_->attention->head_dim * element_bytes(kv);
  for (int64_t r = span.begin; r < span.begin + span.count; ++r) {
    const int64_t at = job_->inputs->kept_at()[static_cast<size_t>(r)] * bytes;
    std::byte* pair = trial_kv(r, head);
    std::swap_ranges(pair, pair + bytes, kv.keys(op.layer, span.sequence, head) + at);
    std::swap_ranges(pair + bytes, pair + 2 * bytes, kv.values(op.layer, span.sequence, head) + at);
  }
}

}  // namespace llada
