#include "lab/simulate_moe.h"

#include <cmath>

#include "base/numbers.h"
#include "base/trace.h"
#include "cli/help.h"
#include "cli/options.h"
#include "cli/report.h"
#include "cli/terminal.h"
#include "json/parse.h"
#include "study/moe_simulate.h"

namespace llada::cli {
namespace {

// "25%" or "25%,50%,75%".
Result<std::vector<double>> parse_shares(std::string_view text) {
  std::vector<double> shares;
  const std::string whole(text);
  while (!text.empty()) {
    std::string_view one = text.substr(0, text.find(','));
    text.remove_prefix(std::min(one.size() + 1, text.size()));
    const double value = one.ends_with('%') ? parse_number<double>(one.substr(0, one.size() - 1)).value_or(0) : 0;
    if (!(value > 0 && value <= 100))
      return invalid("--experts-on-device: found '{}', needed shares such as 25% or 25%,50%,75%", whole);
    shares.push_back(value / 100);
  }
  return shares;
}

Json line_json(const MoeLine& l) {
  if (l.seconds <= 0) return {{"name", l.name}, {"hit_rate", l.hit_rate}};
  Json json = {{"name", l.name},
               {"seconds_per_step", l.seconds},
               {"hit_rate", l.hit_rate},
               {"moved_bytes_per_step", l.moved_bytes},
               {"host_share", l.host_share},
               {"utilisation", {{"host", l.host}, {"accelerator", l.device}, {"link", l.link}}},
               {"bound_seconds_per_step", l.bound_s},
               {"makespan_error_mean", l.predicted_off},
               {"makespan_error_worst", l.predicted_worst},
               {"guessed_right_share", l.guessed_right}};
  if (l.refresh > 0) json["refresh_steps"] = l.refresh;
  return json;
}

Json phase_json(const MoePhase& p) {
  Json json = {{"phase", p.phase},
               {"experts_on_device", p.share},
               {"slots_per_layer", p.slots},
               {"slices", p.slices},
               {"resident_bytes", p.resident_bytes},
               {"bound_seconds_per_step", p.bound_s},
               {"speed_up_over_static", p.speed_up("hybrid", "static")},
               {"best_simple", p.best_simple().name},
               {"speed_up_over_best_simple", p.speed_up("hybrid", p.best_simple().name)}};
  if (p.known_bound_s > 0) json["known_bound_seconds_per_step"] = p.known_bound_s;
  if (p.find("TIDE") != nullptr) json["speed_up_over_tide"] = p.speed_up("hybrid", "TIDE");
  json["routing"] = {{"rows_per_step", p.statistics.rows},
                     {"experts_touched", p.statistics.touched},
                     {"static_quarter_covers", p.statistics.static_quarter},
                     {"similarity_next_step", p.statistics.similarity_1},
                     {"similarity_five_steps", p.statistics.similarity_5},
                     {"guess_recall", p.statistics.guessed}};
  json["lines"] = Json::array();
  for (const MoeLine& line : p.lines) json["lines"].push_back(line_json(line));
  return json;
}

// Whether anything is gained by moving experts, in words.
std::string verdict(const MoePhase& p) {
  const double moving = p.speed_up("hybrid", "static");
  const MoeLine* hybrid = p.find("hybrid");
  if (hybrid == nullptr) return {};
  if (moving < 1.05)
    return fmt::format("  moving experts does not pay here: {:.2f}x of a mapping that never moves any\n", moving);
  return {};
}

// The part of the accelerator's memory that a share needs beside all other weights.
std::string memory_text(const MoeSimulation& s, const MoePhase& p) {
  const double bytes = s.dense_bytes + p.resident_bytes;
  std::string text =
      fmt::format("  they take {:.2f} GB, all other weights {:.2f} GB", p.resident_bytes / 1e9, s.dense_bytes / 1e9);
  if (s.window_bytes > 0)
    text += fmt::format(": {:.0f} windows of {:.2f} GB, of which the chip opens {:.0f}",
                        std::ceil(bytes / s.window_bytes), s.window_bytes / 1e9, s.sessions);
  return paragraph(text, 4);
}

std::string phase_text(const MoeSimulation& s, const MoePhase& p) {
  const TraceStatistics& t = p.statistics;
  std::string routing = fmt::format(
      "  routing: {:.0f} rows a step touch {:.0f} % of the experts; the most popular quarter of other texts has "
      "{:.0f} % of the rows",
      t.rows, 100 * t.touched, 100 * t.static_quarter);
  if (t.similarity_1 > 0)
    routing += fmt::format("; cosine to the next step {:.2f}, to the fifth {:.2f}", t.similarity_1, t.similarity_5);
  if (t.guessed[0] > 0)
    routing += fmt::format("; guesses name {:.0f}, {:.0f}, {:.0f} % of the next three layers' experts",
                           100 * t.guessed[0], 100 * t.guessed[1], 100 * t.guessed[2]);
  std::string out =
      fmt::format("\n{}, {:.0f} % of the experts on the accelerator ({} per layer), {}\n", p.phase, 100 * p.share,
                  p.slots, p.slices > 1 ? fmt::format("{} slices each", p.slices) : "taken whole") +
      memory_text(s, p) + paragraph(routing, 4);
  out += fmt::format("  {:<14}{:>8}{:>8}{:>6}{:>5}{:>8}{:>5}{:>6}{:>5}{:>6}{:>7}\n", "", "ms/step", "faster", "bound",
                     "hits", "MB", "cpu", "accel", "link", "off", "decide");
  const double fixed = p.lines.front().seconds;
  for (const MoeLine& l : p.lines) {
    if (l.seconds <= 0) continue;
    std::string name = l.name;
    if (l.refresh > 0) name += fmt::format(", every {}", l.refresh);
    out +=
        fmt::format("  {:<14}{:>8.2f}{:>7.2f}x{:>5.0f}%{:>4.0f}%{:>8.1f}{:>4.0f}%{:>5.0f}%{:>4.0f}%{:>5.1f}%{:>7.0f}\n",
                    name, l.seconds * 1e3, fixed / l.seconds, 100 * l.bound_s / l.seconds, 100 * l.hit_rate,
                    l.moved_bytes / 1e6, 100 * l.host, 100 * l.device, 100 * l.link, 100 * l.predicted_off, l.plan_us);
  }
  std::string hits = "  hits if every miss came in:";
  for (const MoeLine& l : p.lines)
    if (l.seconds <= 0) hits += fmt::format(" {} {:.1f} %,", l.name.substr(l.name.find(' ') + 1), 100 * l.hit_rate);
  hits.pop_back();
  out += paragraph(hits, 4);
  if (p.find("hybrid") != nullptr)
    out += fmt::format("  hybrid over the best simple line ({}): {:.2f}x\n", p.best_simple().name,
                       p.speed_up("hybrid", p.best_simple().name));
  if (p.find("TIDE") != nullptr) out += fmt::format("  hybrid over TIDE: {:.2f}x\n", p.speed_up("hybrid", "TIDE"));
  const double best = p.find("hybrid") != nullptr ? p.find("hybrid")->seconds : fixed;
  out += paragraph(
      fmt::format("  nobody with so many slots can take less than {:.2f} ms ({:.0f} % of hybrid, {:.2f}x over static)",
                  p.bound_s * 1e3, 100 * p.bound_s / best, fixed / p.bound_s),
      4);
  if (p.known_bound_s > 0)
    out += paragraph(fmt::format("  nor who knows all routing to come and moves each missing expert less than {:.2f} "
                                 "ms ({:.2f}x over the best simple line)",
                                 p.known_bound_s * 1e3, p.best_simple().seconds / p.known_bound_s),
                     4);
  return out + verdict(p);
}

std::string text_of(const MoeSimulation& s) {
  std::string out =
      paragraph(fmt::format("{} on {}. All times are modelled; those to decide are measured on this machine.",
                            s.geometry, s.profile)) +
      paragraph(fmt::format("an expert: {:.2f} MB, {:.0f} us on the CPU for one row, {:.0f} us on the accelerator{}, "
                            "{:.0f} us to move",
                            s.expert_bytes / 1e6, s.host_s * 1e6, s.device_s * 1e6,
                            s.grouped ? " (one start for those that are there)" : "", s.move_s * 1e6),
                2) +
      paragraph(fmt::format("routing: {}", s.routing_source), 2) +
      paragraph(
          "columns: ms/step: time of a step; faster: static's time over it; bound: least time of any plan that has the "
          "same residents, as a share of it; hits: wanted experts that were resident; MB: moved in a step; cpu, accel, "
          "link: share of the time at work; off: error of the predicted time; decide: microseconds of planning. Simple "
          "lines: static as kTransformers, layer split as llama.cpp, all-cpu, on-demand, and that with guesses as "
          "AdapMoE",
          2);
  for (const MoePhase& p : s.phases) out += phase_text(s, p);
  return out;
}

}  // namespace

std::string paragraph(std::string_view text, size_t indent) {
  return wrapped(text, 0, indent, static_cast<size_t>(output_width())) + '\n';
}

Status write_spans(const std::vector<SimulatedSpan>& spans, const std::string& path) {
  Trace trace;
  for (const SimulatedSpan& span : spans)
    trace.add({span.lane, span.name, span.start_s * 1e6, (span.end_s - span.start_s) * 1e6, {}});
  return trace.write(path);
}

void add_moe_options(CLI::App& app, MoeRequest& r) {
  const std::string kGroup = further("Mixtures of experts");
  MoeSimulateOptions& o = r.simulate;
  app.add_option("--moe", o.geometry,
                 "experts that do not fit the accelerator, in the geometry of mixtral, qwen2-57b, deepseek-v2-lite, "
                 "llada-moe-7b, llada2-mini or diffusion-gemma-26b")
      ->type_name("GEOMETRY")
      ->group("Mixtures of experts");
  app.add_option("--experts-on-device", r.shares, "shares of the experts that fit (25%,50%,75%)")
      ->type_name("P%,...")
      ->group("Mixtures of experts");
  app.add_option("--routing", o.routing, "routing from llada run --record-routing, instead of a synthetic router")
      ->type_name("FILE")
      ->group(kGroup);
  const auto count = [&](const char* name, auto& value, int64_t most, const char* help) {
    add_integer_option(app, name, value, 1, most, help)->group(kGroup);
  };
  count("--moe-slices", o.slices, 64, "slices of an expert in the hybrid line (as many as are worthwhile)");
  add_either_option(
      app, "--moe-grouped", "on", "off", [&o](bool on) { o.grouped = on; },
      "whether one start of the accelerator's kernels serves a list of experts (as the profile says)")
      ->type_name("on|off")
      ->group(kGroup);
  count("--moe-tokens", o.tokens, 4096, "tokens decoded (96)");
  count("--moe-prompt", o.prompt, 2048, "rows of a prefill (128)");
}

Result<int> run_moe(MoeRequest r, const std::string& trace, bool json) {
  if (!r.shares.empty()) {
    LLADA_TRY(r.simulate.shares, parse_shares(r.shares));
  }
  LLADA_TRY(const MoeSimulation simulation, simulate_moe(r.simulate));
  if (!trace.empty()) {
    LLADA_TRY(const auto spans, simulate_moe_spans(r.simulate));
    LLADA_TRY_STATUS(write_spans(spans, trace));
  }
  Json out = {{"profile", simulation.profile},
              {"geometry", simulation.geometry},
              {"label", "modelled"},
              {"routing", simulation.routing_source},
              {"expert_bytes", simulation.expert_bytes},
              {"dense_bytes", simulation.dense_bytes},
              {"grouped", simulation.grouped},
              {"expert_seconds",
               {{"host", simulation.host_s}, {"accelerator", simulation.device_s}, {"move", simulation.move_s}}},
              {"phases", Json::array()}};
  for (const MoePhase& phase : simulation.phases) out["phases"].push_back(phase_json(phase));
  LLADA_TRY_STATUS(print(json ? json_line(out) : text_of(simulation)));
  return 0;
}

}  // namespace llada::cli
