#include "lab/bench_report.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "cli/report.h"
#include "json/parse.h"
#include "lab/sustained_report.h"

namespace llada::cli {
namespace {

using bench::BenchReport;

using Phases = std::array<double, kOpKindCount>;

Json phases_json(const Phases& ms) {
  Json json = Json::object();
  for (size_t i = 0; i < ms.size(); ++i)
    if (ms[i] > 0) json[std::string(name(static_cast<OpKind>(i)))] = ms[i];
  return json;
}

// "matmul 81 %, head 8 %, attention 5 %": largest first, down to a percent, as many as fit.
std::string phases_text(const Phases& ms, size_t columns) {
  const double sum = std::accumulate(ms.begin(), ms.end(), 0.0);
  std::vector<size_t> order(ms.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return ms[a] > ms[b]; });
  std::string out;
  for (const size_t i : order) {
    const double percent = sum > 0 ? 100 * ms[i] / sum : 0;
    if (percent < 1) break;
    const std::string one =
        fmt::format("{}{} {:.0f} %", out.empty() ? "" : ", ", name(static_cast<OpKind>(i)), percent);
    if (out.size() + one.size() > columns) break;
    out += one;
  }
  return out;
}

Json ceilings_json(const bench::Ceilings& c) {
  return {{"read_gb_per_s", c.read_gb_per_s},
          {"int8_gop_per_s", c.int8_gop_per_s},
          {"float_gflop_per_s", c.float_gflop_per_s}};
}

Json forward_json(const bench::ForwardResult& f) {
  Json json = {{"rows", f.rows},
               {"keys", f.keys},
               {"logits", f.logits},
               {"ms_median", f.ms},
               {"ms_min", f.ms_min},
               {"ms_max", f.ms_max},
               {"new_shape_ms", f.new_shape_ms},
               {"timings", f.timings},
               {"gop_per_s", f.gop_per_s},
               {"percent_of_int8_peak", f.percent_of_int8_peak},
               {"read_gb_per_s", f.read_gb_per_s},
               {"read_bytes", f.read_bytes},
               {"floor_ms", f.floor_ms},
               {"percent_of_floor", f.percent_of_floor},
               {"percent_of_floor_best", f.percent_of_floor_best},
               {"phases", phases_json(f.phase_ms)}};
  if (f.experts_touched > 0) json["experts_touched_mean"] = f.experts_touched;
  if (f.form_percent) json["form_percent"] = *f.form_percent;
  return json;
}

bool is_float(DType type) { return !traits(type).quantized; }

Json gemm_json(const bench::GemmResult& g, const bench::Machine& machine) {
  // Float types are held to the float peak; beside it stands their share of the int8 one, for comparison.
  const double int8 = machine.all.int8_gop_per_s > 0 ? 100 * g.gop_per_s / machine.all.int8_gop_per_s : 0;
  Json json = {{"k", g.k},
               {"n", g.n},
               {"rows", g.rows},
               {"type", traits(g.type).name},
               {"ms_median", g.ms},
               {"timings", g.timings},
               {"gop_per_s", g.gop_per_s},
               {"percent_of_int8_peak", is_float(g.type) ? int8 : g.percent_of_peak},
               {"read_gb_per_s", g.gb_per_s},
               {"quantize_ms", g.quantize_ms},
               {"relative_error", g.relative_error},
               {"relative_error_with_8_bit_activations", g.activation_error},
               {"relative_error_with_outliers", g.outlier_error},
               {"pack_gb_per_s", g.pack_gb_per_s},
               {"packed_ratio", g.packed_ratio}};
  if (is_float(g.type)) json["percent_of_float_peak"] = g.percent_of_peak;
  return json;
}

Json bound_json(const bench::AutoregressionBound& bound, int64_t tokens, double seconds) {
  const auto count = static_cast<double>(tokens);
  return {
      {"bytes_per_token", bound.bytes_per_token}, {"read_gb_per_s", bound.read_gb_per_s},
      {"tokens_per_s", bound.tokens_per_s()},     {"ratio", bound.ratio(count, seconds)},
      {"first_seconds", bound.first_seconds},     {"ratio_without_first", bound.ratio_without_first(count, seconds)}};
}

Json end_to_end_json(const bench::EndToEndResult& e) {
  return {{"prompt_tokens", e.prompt_tokens},
          {"gen_tokens", e.gen_tokens},
          {"block_length", e.script.block_length},
          {"tokens_per_step", e.script.tokens_per_step},
          {"refresh", bench::name(e.script.refresh)},
          {"rows_policy", bench::name(e.script.rows)},
          {"seconds", e.seconds},
          {"seconds_min", e.seconds_min},
          {"seconds_max", e.seconds_max},
          {"tokens_per_s", static_cast<double>(e.gen_tokens) / e.seconds},
          {"forwards", e.forwards},
          {"full_forwards", e.full_forwards},
          {"rows", e.rows},
          {"logit_rows", e.logit_rows},
          {"kv_bytes", e.kv_bytes},
          {"autoregression_bound", bound_json(e.bound, e.gen_tokens, e.seconds)},
          {"phases", phases_json(e.phase_ms)}};
}

Json replay_json(const bench::ReplayResult& r) {
  return {{"strategy", r.strategy},
          {"options", r.options},
          {"runs", r.runs},
          {"prompt_tokens", r.prompt_tokens},
          {"tokens", r.tokens},
          {"forwards", r.forwards},
          {"rows", r.rows},
          {"logit_rows", r.logit_rows},
          {"seconds", r.seconds},
          {"seconds_min", r.seconds_min},
          {"seconds_max", r.seconds_max},
          {"tokens_per_s", static_cast<double>(r.tokens) / r.seconds},
          {"autoregression_bound", bound_json(r.bound, r.tokens, r.seconds)}};
}

Json shared_json(const bench::SharedResult& s, const bench::SharedResult& first) {
  return {{"requests", s.requests},
          {"prompt_tokens", s.work.prompt_tokens},
          {"gen_tokens", s.work.gen_tokens},
          {"block_length", s.work.block_length},
          {"tokens_per_step", s.work.tokens_per_step},
          {"row_budget", s.row_budget},
          {"seconds", s.seconds},
          {"seconds_min", s.seconds_min},
          {"seconds_max", s.seconds_max},
          {"tokens_per_s", s.tokens_per_s()},
          {"tokens_per_s_ratio", s.tokens_per_s() / first.tokens_per_s()},
          {"forwards", s.forwards},
          {"rows", s.rows},
          {"rows_per_forward", s.rows_per_forward()},
          {"requests_per_forward", static_cast<double>(s.parts) / static_cast<double>(s.forwards)}};
}

constexpr size_t kColumns = 80;  // of a terminal: no line is longer

std::string ceiling_row(const std::string& what, const bench::Ceilings& c) {
  return fmt::format("{:<22} {:>11.1f} {:>11.0f} {:>14.0f}\n", what, c.read_gb_per_s, c.int8_gop_per_s,
                     c.float_gflop_per_s);
}

std::string threads_text(int threads) { return fmt::format("{} thread{}", threads, threads == 1 ? "" : "s"); }

std::string machine_text(const bench::Machine& m) {
  return fmt::format("{}\n{} kernels, {}; all measured\nint8 peak by {}, float peak by {}\n\n", m.cpu, m.isa,
                     threads_text(m.threads), m.int8_instruction, m.float_instruction) +
         fmt::format("{:<22} {:>11} {:>11} {:>14}\n", "ceilings", "read GB/s", "int8 GOP/s", "float GFLOP/s") +
         ceiling_row("1 thread", m.one) + ceiling_row(threads_text(m.threads), m.all) +
         fmt::format("a loop over the threads with nothing in it takes {:.2f} us\n", m.barrier_us);
}

// Each table says whose kernels it is of.
std::string title(const bench::Machine& m, std::string_view what, std::string_view peak) {
  return fmt::format("\n{}, {} kernels; peak: {}\n", what, m.isa, peak);
}

std::string gemm_head(const bench::Machine& m) {
  return title(m, "products", m.int8_instruction + " (f: " + m.float_instruction + ")") +
         fmt::format("{:<5} {:>5} {:>6} {:>4} {:>8} {:>6} {:>7} {:>6} {:>7} {:>7} {:>7}\n", "type", "k", "n", "rows",
                     "ms", "GOP/s", "% peak", "GB/s", "error", "8-bit x", "outlier");
}

std::string gemm_row(const bench::GemmResult& g) {
  return fmt::format("{:<5} {:>5} {:>6} {:>4} {:>8.3f} {:>6.0f} {:>6.1f}{} {:>6.1f} {:>7.0e} {:>7.0e} {:>7.0e}\n",
                     traits(g.type).name, g.k, g.n, g.rows, g.ms, g.gop_per_s, g.percent_of_peak,
                     is_float(g.type) ? 'f' : ' ', g.gb_per_s, g.relative_error, g.activation_error, g.outlier_error);
}

constexpr std::string_view kGemmNotes =
    "error: relative to dequantize-then-float; 8-bit x: the same with normal inputs\n"
    "rounded to 8 bits; outlier: with one channel in 256 32 times the rest\n";

std::string forward_head(const bench::Machine& m) {
  return title(m, "forwards", m.int8_instruction) + fmt::format("{:>5} {:>9} {:>6} {:>6} {:>6} {:>7}  {}\n", "rows",
                                                                "ms", "GOP/s", "% peak", "GB/s", "rows/s",
                                                                "share of each kind of operation");
}

std::string forward_row(const bench::ForwardResult& f) {
  const std::string numbers =
      fmt::format("{:>5} {:>9.1f} {:>6.0f} {:>6.1f} {:>6.1f} {:>7.1f}  ", f.rows, f.ms, f.gop_per_s,
                  f.percent_of_int8_peak, f.read_gb_per_s, 1e3 * static_cast<double>(f.rows) / f.ms);
  std::string out = numbers + phases_text(f.phase_ms, kColumns - std::min(kColumns, numbers.size())) + "\n";
  if (f.experts_touched > 0)
    out += fmt::format(
        "      {:.1f} experts touched per layer, {:.2f} GB read, {:.1f} ms to read them\n"
        "      alone, {:.1f} % of that floor ({:.1f} % at best, {:.1f} ms)\n",
        f.experts_touched, f.read_bytes / 1e9, f.floor_ms, f.percent_of_floor, f.percent_of_floor_best, f.ms_min);
  else if (f.rows == 1)
    out += fmt::format(
        "      {:.2f} GB read; {:.1f} ms to read as much just before, {}\n", f.read_bytes / 1e9, f.floor_ms,
        f.percent_of_floor > 100 ? "but a cache held them" : fmt::format("{:.1f} % of that floor", f.percent_of_floor));
  return out;
}

std::string shared_head(const bench::SharedResult& first) {
  return fmt::format(
      "\nrequests at a time in shared forwards: {} tokens each from a prompt of {},\n"
      "blocks of {}, {} per step; at most {} rows together\n"
      "{:>8} {:>8} {:>8} {:>8} {:>8} {:>6} {:>8} {:>9} {:>8}\n",
      first.work.gen_tokens, first.work.prompt_tokens, first.work.block_length, first.work.tokens_per_step,
      first.row_budget, "requests", "s", "min s", "max s", "tokens/s", "ratio", "forwards", "rows each", "sharing");
}

std::string shared_row(const bench::SharedResult& s, const bench::SharedResult& first) {
  return fmt::format("{:>8} {:>8.2f} {:>8.2f} {:>8.2f} {:>8.1f} {:>5.2f}x {:>8} {:>9.1f} {:>8.2f}\n", s.requests,
                     s.seconds, s.seconds_min, s.seconds_max, s.tokens_per_s(), s.tokens_per_s() / first.tokens_per_s(),
                     s.forwards, s.rows_per_forward(), static_cast<double>(s.parts) / static_cast<double>(s.forwards));
}

constexpr std::string_view kSharedNotes = "rows each: of a forward; sharing: requests that take part in one\n";

std::string new_shape_text(const std::vector<bench::ForwardResult>& results) {
  double dearest = 0, of_shape = 0;
  for (const bench::ForwardResult& f : results)
    if (const double share = 100 * f.new_shape_ms / f.ms; share >= dearest) dearest = share, of_shape = f.new_shape_ms;
  std::string text =
      fmt::format("\nthe first forward of a shape takes at most {:.2f} ms more, {:.2f} % of it\n", of_shape, dearest);
  for (const bench::ForwardResult& f : results)
    if (f.form_percent)
      text += fmt::format("a form that the answer must fit adds {:.1f} % to a forward of {} rows\n", *f.form_percent,
                          f.rows);
  return text;
}

constexpr std::string_view kForwardNotes = "logits for every row; peak: int8; GB/s: packed weights read per second\n";

// A token per forward reads the weights that one row passes.
std::string bound_text(const bench::AutoregressionBound& bound, int64_t tokens, double seconds) {
  const auto count = static_cast<double>(tokens);
  if (bound.tokens_per_s() <= 0) return "";
  return fmt::format(
      "  {:.2f} times the bound of autoregression ({:.2f} GB a token at {:.1f} GB/s);\n"
      "  {:.2f} times without the forward that computes the prompt\n",
      bound.ratio(count, seconds), bound.bytes_per_token / 1e9, bound.read_gb_per_s,
      bound.ratio_without_first(count, seconds));
}

std::string end_to_end_text(const bench::EndToEndResult& e) {
  return fmt::format(
      "\n{} tokens from a prompt of {}, blocks of {}, {} per step, refresh per {},\nrows: {}\n"
      "  {:.2f} s ({:.2f} to {:.2f}), {:.1f} tokens/s; {} forwards ({} full), {} rows\n  {}\n{}",
      e.gen_tokens, e.prompt_tokens, e.script.block_length, e.script.tokens_per_step,
      e.script.refresh == bench::Refresh::block ? "block" : "run", bench::name(e.script.rows), e.seconds, e.seconds_min,
      e.seconds_max, static_cast<double>(e.gen_tokens) / e.seconds, e.forwards, e.full_forwards, e.rows,
      phases_text(e.phase_ms, kColumns - 2), bound_text(e.bound, e.gen_tokens, e.seconds));
}

std::string replay_text(const bench::ReplayResult& r) {
  const auto runs = static_cast<double>(r.runs), tokens = static_cast<double>(r.tokens);
  return fmt::format(
      "\n{}: {} recorded runs, on average {:.0f} tokens from a prompt of {:.0f},\n{:.1f} forwards, {:.0f} rows{}\n"
      "  {:.2f} s ({:.2f} to {:.2f}) for 128 tokens, {:.1f} tokens/s\n{}",
      r.strategy, r.runs, tokens / runs, static_cast<double>(r.prompt_tokens) / runs,
      static_cast<double>(r.forwards) / runs, static_cast<double>(r.rows) / runs,
      r.options.empty() ? "" : fmt::format("\n  {}", r.options), 128 * r.seconds / tokens, 128 * r.seconds_min / tokens,
      128 * r.seconds_max / tokens, tokens / r.seconds, bound_text(r.bound, r.tokens, r.seconds));
}

// All lines but the last ones, in the order in which they are measured. The notes of a table stand behind it once
// something else follows, or at the end.
std::string text_so_far(const BenchReport& r, bool ended) {
  std::string out = machine_text(r.machine);
  std::string_view notes;
  const auto begin = [&](const std::string& text) { out += std::exchange(notes, ""), out += text; };
  const auto table = [&](const auto& list, const auto& head, const auto& row, std::string_view below) {
    if (list.empty()) return;
    begin(head());
    for (const auto& one : list) out += row(one);
    notes = below;
  };
  table(r.gemm, [&] { return gemm_head(r.machine); }, gemm_row, kGemmNotes);
  if (r.model.load_seconds > 0)
    begin(fmt::format("\n{}:\n{}, {} layers, {:.2f} billion parameters,\n{} stored, ready in {:.2f} s\n",
                      r.model.source, r.model.name, r.model.layers, static_cast<double>(r.model.parameters) / 1e9,
                      bytes_text(static_cast<double>(r.model.stored_bytes)), r.model.load_seconds));
  table(r.forward, [&] { return forward_head(r.machine); }, forward_row, kForwardNotes);
  for (const bench::AttentionResult& a : r.attention)
    begin(fmt::format("\nattention of {} rows over {} positions: {:.1f} ms, {:.1f} % of that forward\n({:.1f} ms)\n",
                      a.forward.rows, a.forward.keys, a.ms, a.percent_of_forward, a.forward.ms));
  for (const bench::EndToEndResult& e : r.end_to_end) begin(end_to_end_text(e));
  for (const bench::ReplayResult& replayed : r.replayed) begin(replay_text(replayed));
  table(
      r.shared, [&] { return shared_head(r.shared.front()); },
      [&](const bench::SharedResult& s) { return shared_row(s, r.shared.front()); }, kSharedNotes);
  if (!r.sustained.empty()) begin(sustained_rows(r.sustained));
  if (ended) begin("");
  return out;
}

}  // namespace

std::string BenchPrinter::update(const BenchReport& r) {
  std::string text = text_so_far(r, false);
  return text.substr(std::exchange(given_, text.size()));
}

std::string BenchPrinter::finish(const BenchReport& r, const bench::Parts& parts) {
  std::string out = text_so_far(r, true).substr(given_);
  if (!r.forward.empty()) out += new_shape_text(r.forward);
  if (!r.sustained.empty()) out += sustained_text(r.sustained);
  int64_t again = 0;
  for (const auto& g : r.gemm) again += g.timings > 1;
  for (const auto& f : r.forward) again += f.timings > 1;
  for (const auto& a : r.attention) again += a.forward.timings > 1;
  if (again > 0)
    out += fmt::format(
        "\n{} of the products and forwards timed again: the peak beside them had fallen\nby more than {:.0f} %\n",
        again, 100 * (1 - bench::PeakWatch::kDisturbed));
  if (r.interrupted) return out + "\ninterrupted: the rest was not measured\n";
  out += "\n" + ceiling_row("ceilings at the end", r.machine.all_after);
  if (parts.forward || parts.attention || parts.end_to_end || parts.shared || parts.sustained)
    out += fmt::format("peak memory {} (the reading for the ceilings alone takes {})\n",
                       bytes_text(static_cast<double>(r.peak_memory_bytes)),
                       bytes_text(static_cast<double>(4 * stream_bytes_)));
  return out;
}

Json bench_json(const BenchReport& r) {
  const bench::Machine& m = r.machine;
  Json machine = {{"cpu", m.cpu}, {"isa", m.isa}, {"threads", m.threads}};
  machine.update(ceilings_json(m.all));
  machine["int8_instruction"] = m.int8_instruction;
  machine["float_instruction"] = m.float_instruction;
  machine["barrier_us"] = m.barrier_us;
  machine["one_thread"] = ceilings_json(m.one);
  machine["after"] = ceilings_json(m.all_after);

  Json json = {{"label", "measured"}, {"repeats", r.repeats}, {"machine", std::move(machine)}};
  json["model"] = nullptr;
  if (r.model.load_seconds > 0)
    json["model"] = {{"name", r.model.name},
                     {"source", r.model.source},
                     {"layers", r.model.layers},
                     {"parameters", r.model.parameters},
                     {"stored_bytes", r.model.stored_bytes},
                     {"forward_bytes", r.model.forward_bytes},
                     {"load_seconds", r.model.load_seconds}};
  json["gemm"] = Json::array();
  for (const auto& g : r.gemm) json["gemm"].push_back(gemm_json(g, m));
  json["forward"] = Json::array();
  for (const auto& f : r.forward) json["forward"].push_back(forward_json(f));
  json["attention"] = Json::array();
  for (const auto& a : r.attention) {
    Json one = forward_json(a.forward);
    one["attention_ms_median"] = a.ms;
    one["percent_of_forward"] = a.percent_of_forward;
    json["attention"].push_back(std::move(one));
  }
  json["end_to_end"] = Json::array();
  for (const auto& e : r.end_to_end) json["end_to_end"].push_back(end_to_end_json(e));
  json["replayed"] = Json::array();
  for (const auto& e : r.replayed) json["replayed"].push_back(replay_json(e));
  json["shared"] = Json::array();
  for (const auto& s : r.shared) json["shared"].push_back(shared_json(s, r.shared.front()));
  json["sustained"] = Json::array();
  for (const auto& minute : r.sustained) json["sustained"].push_back(sustained_json(minute));
  json["peak_memory_bytes"] = r.peak_memory_bytes;
  json["interrupted"] = r.interrupted;
  return json;
}

}  // namespace llada::cli
