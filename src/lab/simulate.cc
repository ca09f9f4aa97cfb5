// llada-study simulate: the time that a phone would take, from a profile. Everything it prints is modelled.
#include "study/simulate.h"

#include <array>
#include <cmath>

#include "base/numbers.h"
#include "cli/help.h"
#include "cli/options.h"
#include "cli/output_file.h"
#include "cli/report.h"
#include "cli/terminal.h"
#include "json/parse.h"
#include "lab/commands.h"
#include "lab/simulate_moe.h"

namespace llada::cli {
namespace {

struct Request {
  SimulateOptions simulate;
  std::string sweep, replay, trace;
  std::vector<int32_t> latency;
  std::optional<int32_t> latency_logits;
  int64_t replay_run = 0;
  std::string replayed;  // the recording's run; empty without one
  bool compare = false, json = false, speed_ups = false;
  MoeRequest moe;
  CLI::App* app = nullptr;
};

std::string gib(double bytes) { return fmt::format("{:.2f}", bytes / 0x1p30); }

Json line_json(const SimulatedLine& l) {
  return {{"name", l.name},
          {"seconds", l.seconds},
          {"seconds_low", l.seconds_low},
          {"seconds_high", l.seconds_high},
          {"passes", l.passes},
          {"tokens", l.tokens},
          {"tokens_per_pass", l.tokens_per_pass()},
          {"rows_per_pass", l.rows_per_pass},
          {"joules", l.joules},
          {"joules_low", l.joules_low},
          {"joules_high", l.joules_high},
          {"joules_per_token", l.joules_per_token()},
          {"bytes_mapped_per_pass", l.bytes_mapped_per_pass},
          {"exposed_map_seconds", l.exposed_map_seconds},
          {"lower_bound_bytes_per_pass", l.lower_bound_bytes},
          {"maps_per_pass", l.maps_per_pass},
          {"map_seconds", l.map_seconds},
          {"npu_seconds", l.npu_seconds},
          {"cpu_seconds", l.cpu_seconds},
          {"sparse_passes", l.sparse_passes},
          {"lateness", l.lateness}};
}

Json simulation_json(const Simulation& s) {
  Json json = {{"profile", s.profile}, {"preset", s.preset}, {"label", "modelled"}, {"ladder", Json::array()}};
  for (const SimulatedLine& line : s.ladder) json["ladder"].push_back(line_json(line));
  json["beside"] = Json::array();
  for (const SimulatedLine& line : s.beside) json["beside"].push_back(line_json(line));
  json["step_128_rows"] = {{"cpu_seconds", s.step128_cpu_s}, {"npu_seconds", s.step128_npu_s}};
  if (s.divided) {
    json["step_128_rows"]["divided_seconds"] = s.divided->step128_s;
    json["divided"] = {{"host_share", s.divided->host_share}, {"weight_bytes", s.divided->weight_bytes}};
  }
  json["weight_bytes"] = s.weight_bytes;
  json["reserve_bytes"] = s.reserve_bytes;
  json["window_bytes"] = s.window_bytes < 0 ? Json(nullptr) : Json(s.window_bytes);
  if (s.somr_saving_low) json["somr_saving"] = {{"low", *s.somr_saving_low}, {"high", *s.somr_saving_high}};
  if (s.rival_seconds > 0) json["autoregressive_rival"] = {{"name", s.rival}, {"seconds", s.rival_seconds}};
  json["sensitivity"] = Json::array();
  for (const SensitivityRow& row : s.sensitivity)
    json["sensitivity"].push_back({{"number", row.path},
                                   {"unit", row.unit},
                                   {"trust", std::string(1, row.trust)},
                                   {"value", row.value},
                                   {"low", row.low},
                                   {"high", row.high},
                                   {"seconds_at_low", row.seconds_low},
                                   {"seconds_at_high", row.seconds_high},
                                   {"source", row.source}});
  return json;
}

std::string window_text(const Simulation& s) {
  if (s.window_bytes < 0) return paragraph("no window: nothing is mapped, and SOMR contributes nothing on this chip");
  const SimulatedLine &without = s.ladder[s.somr - 1], &with = s.ladder[s.somr];
  std::string text = fmt::format(
      "weights {} GiB through a window of {} GiB (activations and K/V beside it: {}), lower bound {} GiB per pass; "
      "SOMR "
      "saves {:.0f} %",
      gib(s.weight_bytes), gib(s.window_bytes), gib(s.reserve_bytes), gib(with.lower_bound_bytes),
      100 * (1 - with.seconds / without.seconds));
  if (s.somr_saving_low)
    text += fmt::format(" ({:.0f} to {:.0f} % over the range of the price of mapping)", 100 * *s.somr_saving_low,
                        100 * *s.somr_saving_high);
  return paragraph(text);
}

// Numbers whose ends change nothing that is shown are left out.
std::string uncertain_text(const std::vector<SensitivityRow>& rows) {
  std::string out;
  for (const SensitivityRow& row : rows) {
    const std::string low = fmt::format("{:.1f} s", row.seconds_low), high = fmt::format("{:.1f} s", row.seconds_high);
    if (low == high) continue;
    const auto columns = static_cast<size_t>(output_width());
    const std::string effect = fmt::format("{} = {:g} {} [{}]: {:g} gives {}, {:g} gives {}", row.path, row.value,
                                           row.unit, row.trust, row.low, low, row.high, high);
    out += fmt::format("  {}\n    {}\n", wrapped(effect, 2, 4, columns), wrapped(row.source, 4, 4, columns));
  }
  if (out.empty()) return "\nwithin their ranges the least certain numbers change nothing\n";
  return "\nleast certain numbers, and the last line at their ends ([H] read in a primary\n"
         "source, [M] measured once by somebody, [L] from a summary, [I] inferred):\n" +
         out;
}

// In twelve columns.
std::string range_text(double low, double high) {
  return fmt::format("{:.{}f} to {:.{}f}", low, low < 100 ? 1 : 0, high, high < 100 ? 1 : 0);
}

std::string simulation_text(const Simulation& s, const SimulateOptions& o, const std::string& replayed) {
  std::string out =
      paragraph(fmt::format("{} on {}: {} prompt tokens, {} generated", s.preset, s.profile, o.prompt, s.gen)) +
      paragraph("All numbers are modelled. " + s.description) + '\n';
  constexpr const char* kHead = "{:<13} {:>6} {:>13} {:>6} {:>6} {:>6} {:>6} {:>8} {:>7}\n";
  out += fmt::format(kHead, "", "", "", "", "rows", "tokens", "J a", "mapped", "exposed");
  out += fmt::format(kHead, "", "seconds", "low to high", "passes", "a pass", "a pass", "token", "GiB/pass", "map s");
  const auto row = [](const SimulatedLine& l) {
    return fmt::format("{:<13} {:>6.1f} {:>13} {:>6} {:>6.0f} {:>6.2f} {:>6.2f} {:>8} {:>7.1f}\n", l.name, l.seconds,
                       range_text(l.seconds_low, l.seconds_high), l.passes, l.rows_per_pass, l.tokens_per_pass(),
                       l.joules_per_token(), gib(l.bytes_mapped_per_pass), l.exposed_map_seconds);
  };
  for (const SimulatedLine& l : s.ladder) out += row(l);
  if (!s.beside.empty()) {
    out += '\n' + paragraph(
                      "beside the last line: the CPU with its decoding, one token after the other on each, "
                      "the last line without one of its parts, or with products divided between both");
    for (const SimulatedLine& l : s.beside) out += row(l);
  }
  if (const SimulatedLine& last = s.ladder.back(); last.sparse_passes > 0)
    out +=
        '\n' + paragraph(fmt::format("beside the last line's passes the CPU computes {} of its own, whose results come "
                                     "{:.1f} passes later",
                                     last.sparse_passes, last.lateness));
  if (!replayed.empty())
    out += '\n' + paragraph(fmt::format("recording: {}; its seconds are of these, the other lines' of {} tokens",
                                        replayed, s.gen));
  out += fmt::format("\none pass of 128 rows: {:.2f} s on the CPU, {:.2f} s on the accelerator\n", s.step128_cpu_s,
                     s.step128_npu_s);
  if (const auto& d = s.divided; d && d->host_share > 0)
    out += paragraph(
        fmt::format("with the CPU's share, {:.0f} % of the products' columns, it takes {:.2f} s, and the accelerator "
                    "reads {} GiB of weights",
                    100 * d->host_share, d->step128_s, gib(d->weight_bytes)));
  else if (d)
    out += paragraph("a share of the products for the CPU would cost more than it saves, so it has none");
  out += window_text(s);
  if (s.rival_seconds > 0)
    out += paragraph(fmt::format("for comparison: {:.1f} s for {} tokens by {}", s.rival_seconds, s.gen, s.rival));
  return out + uncertain_text(s.sensitivity);
}

constexpr std::array<int64_t, 4> kPrompts = {32, 78, 256, 512};
constexpr std::array<int64_t, 5> kAnswers = {32, 64, 128, 256, 512};

std::string speed_ups_text(const std::vector<SpeedUp>& rows) {
  std::string out = paragraph(
      "how many times faster the last line is than the CPU with prefix K/V, by the tokens of the prompt (rows) and of "
      "the answer (columns); modelled");
  out += fmt::format("{:>6}", "");
  for (const int64_t gen : kAnswers) out += fmt::format(" {:>7}", gen);
  for (size_t i = 0; i < rows.size(); ++i)
    out += fmt::format("{} {:>7.1f}", i % kAnswers.size() == 0 ? fmt::format("\n{:>6}", rows[i].prompt) : "",
                       rows[i].factor);
  return out + '\n';
}

std::string sweep_text(const std::vector<SweepRow>& rows) {
  std::string out = "window GiB  lower bound";
  if (!rows.empty())
    for (const auto& [name, bytes] : rows.back().policy_bytes) out += fmt::format("  {:>8}", name);
  out += "   seconds  exposed map s  of any plan   (GiB mapped per pass; modelled)\n";
  for (const SweepRow& row : rows) {
    if (!row.error.empty()) {
      out += fmt::format("{:>10.2f}  {}\n", row.window_gib, row.error);
      continue;
    }
    out += fmt::format("{:>10.2f}  {:>11}", row.window_gib, gib(row.lower_bound_bytes));
    for (const auto& [name, bytes] : row.policy_bytes) out += fmt::format("  {:>8}", gib(bytes));
    out += fmt::format("  {:>8.1f}  {:>13.2f}  {:>11.2f}\n", row.line.seconds, row.line.exposed_map_seconds,
                       row.least_exposed_s);
  }
  return out;
}

Json sweep_json(const std::vector<SweepRow>& rows) {
  Json list = Json::array();
  for (const SweepRow& row : rows) {
    Json entry = {{"window_gib", row.window_gib}};
    if (!row.error.empty()) {
      entry["error"] = row.error;
    } else {
      entry["lower_bound_bytes_per_pass"] = row.lower_bound_bytes;
      entry["policy_bytes_mapped_per_pass"] = Json::object();
      for (const auto& [name, bytes] : row.policy_bytes) entry["policy_bytes_mapped_per_pass"][name] = bytes;
      entry["seconds"] = row.line.seconds;
      entry["exposed_map_seconds"] = row.line.exposed_map_seconds;
      entry["least_exposed_map_seconds"] = row.least_exposed_s;
    }
    list.push_back(std::move(entry));
  }
  return list;
}

struct Range {
  double from = 0, to = 0, step = 0;
};

// "window=1.0:4.0:0.25"
Result<Range> parse_range(std::string_view text) {
  constexpr std::string_view kKey = "window=";
  Range range;
  if (text.starts_with(kKey)) {
    const char* at = text.data() + kKey.size();
    const char* const end = text.data() + text.size();
    int read = 0;
    for (double* value : {&range.from, &range.to, &range.step}) {
      const auto [next, error] = llada::from_chars(at, end, *value);
      if (error != std::errc() || !std::isfinite(*value)) break;
      ++read;
      if (read == 3 ? next != end : (next == end || *next != ':')) break;
      if (read == 3) return range;
      at = next + 1;
    }
  }
  return invalid("--sweep: found '{}', needed window=FROM:TO:STEP in GiB", text);
}

// Options of the other of the two simulations are refused, not ignored.
Status check_moe(const Request& r) {
  constexpr std::array kOnlyMoe = {"--experts-on-device", "--routing",    "--moe-tokens",
                                   "--moe-prompt",        "--moe-slices", "--moe-grouped"};
  constexpr std::array kBoth = {"--moe", "--profile", "--trace", "--json", "--map", "--help"};
  const bool moe = !r.moe.simulate.geometry.empty();
  for (const CLI::Option* option : r.app->get_options()) {
    const std::string name = option->get_name();
    if (option->count() == 0 || std::ranges::count(kBoth, name) > 0) continue;
    const bool own = std::ranges::count(kOnlyMoe, name) > 0;
    if (own && !moe) return invalid("{}: only with --moe", name);
    if (!own && moe) return invalid("--moe: not with {}", name);
  }
  return {};
}

Result<int> run(Request r) {
  LLADA_TRY_STATUS(check_moe(r));
  if (!r.moe.simulate.geometry.empty()) {
    if (r.simulate.profile.empty()) return invalid("--moe: needed --profile");
    r.moe.simulate.profile = r.simulate.profile;
    r.moe.simulate.map_variant = r.simulate.map_variant;
    return run_moe(r.moe, r.trace, r.json);
  }
  if (!r.replay.empty()) {
    if (r.simulate.tokens_per_pass)
      return invalid("--replay: the trace says how many tokens a pass commits, so not with --tokens-per-pass");
    LLADA_TRY(auto trace, read_replay(r.replay, r.replay_run));
    r.replayed = fmt::format("run {} of {}, {} of task {}: {} tokens decided behind {} of the prompt", r.replay_run,
                             one_line(r.replay), one_line(trace.strategy), one_line(trace.task), trace.tokens,
                             trace.prompt_tokens);
    r.simulate.replay = std::move(trace.passes);
    r.simulate.replay_tokens = trace.tokens;
  }
  std::vector<std::string> profiles = {r.simulate.profile};
  if (r.compare) {
    if (!r.simulate.profile.empty())
      return invalid("--compare-profiles: runs every built-in profile, so not with --profile");
    if (!r.trace.empty() || !r.sweep.empty() || !r.simulate.map_variant.empty())
      return invalid("--compare-profiles: not with --sweep, --trace or --map");
    profiles = profile_names();
  } else if (r.simulate.profile.empty()) {
    return invalid("--profile: needed one of {}, or a .json file", fmt::join(profile_names(), ", "));
  }
  if (!r.latency.empty()) {
    if (r.compare || !r.sweep.empty()) return invalid("--latency: not with --compare-profiles or --sweep");
    LLADA_TRY(const auto seconds, simulate_latency(r.simulate, r.latency, r.latency_logits));
    std::vector<std::string> points;
    Json list = Json::array();
    for (size_t i = 0; i < seconds.size(); ++i) {
      points.push_back(fmt::format("{}:{:.4g}", r.latency[i], seconds[i] * 1e3));
      list.push_back({{"rows", r.latency[i]}, {"ms", seconds[i] * 1e3}});
    }
    LLADA_TRY_STATUS(print(r.json ? json_line({{"profile", r.simulate.profile},
                                               {"preset", r.simulate.preset},
                                               {"label", "modelled"},
                                               {"latency", std::move(list)}})
                                  : fmt::format("{}\n", fmt::join(points, ","))));
    return 0;
  }
  if (r.latency_logits) return invalid("--latency-logits: needs --latency");
  if (r.speed_ups) {
    if (r.compare || !r.sweep.empty() || !r.replay.empty() || !r.trace.empty())
      return invalid("--speed-ups: not with --compare-profiles, --sweep, --replay or --trace");
    LLADA_TRY(const auto rows, simulate_speed_ups(r.simulate, kPrompts, kAnswers));
    Json list = Json::array();
    for (const SpeedUp& row : rows) list.push_back({{"prompt", row.prompt}, {"gen", row.gen}, {"factor", row.factor}});
    LLADA_TRY_STATUS(print(r.json ? json_line({{"profile", r.simulate.profile},
                                               {"preset", r.simulate.preset},
                                               {"label", "modelled"},
                                               {"speed_ups", std::move(list)}})
                                  : speed_ups_text(rows)));
    return 0;
  }
  std::string text;
  Json json = Json::array();
  for (const std::string& profile : profiles) {
    SimulateOptions options = r.simulate;
    options.profile = profile;
    if (!r.sweep.empty()) {
      LLADA_TRY(const Range range, parse_range(r.sweep));
      LLADA_TRY(const auto rows, sweep_window(options, range.from, range.to, range.step));
      json = {{"profile", profile}, {"preset", options.preset}, {"label", "modelled"}, {"sweep", sweep_json(rows)}};
      text = sweep_text(rows);
    } else {
      LLADA_TRY(const Simulation simulation, simulate_ladder(options));
      text += (text.empty() ? "" : "\n") + simulation_text(simulation, options, r.replayed);
      if (r.compare) {
        json.push_back(simulation_json(simulation));
      } else {
        json = simulation_json(simulation);
      }
    }
  }
  if (!r.trace.empty()) {
    LLADA_TRY(const auto spans, simulate_spans(r.simulate));
    LLADA_TRY_STATUS(write_spans(spans, r.trace));
  }
  if (r.compare) json = {{"label", "modelled"}, {"profiles", std::move(json)}};
  LLADA_TRY_STATUS(print(r.json ? json_line(json) : text));
  return 0;
}

}  // namespace

Work setup_simulate(CLI::App& app) {
  auto r = std::make_shared<Request>();
  SimulateOptions& o = r->simulate;
  r->app = &app;
  offer(app.add_option("--profile", o.profile, "a built-in profile (llada-study devices lists them) or a .json file")
            ->type_name("NAME|FILE"),
        fmt::format("{}", fmt::join(profile_names(), " ")));
  offer(app.add_option("--preset", o.preset, "the model's geometry and type (llada-8b:q4_0)")->type_name("NAME:TYPE"),
        "llada-8b llada-1.5 dream-7b llada2-mini sdar-8b diffusion-gemma-26b");
  add_integer_option(app, "--prompt", o.prompt, 0, 1 << 20, "prompt tokens (78)");
  add_integer_option(app, "--gen", o.gen, 0, 1 << 20, "tokens to generate (128)");
  app.add_option_function<std::string>(
         "--tokens-per-pass",
         [&o](const std::string& text) {
           const auto parsed = parse_number<double>(text);
           if (!parsed || !std::isfinite(*parsed))
             throw CLI::ValidationError("--tokens-per-pass", fmt::format("found '{}', needed a number", text));
           o.tokens_per_pass = *parsed;
         },
         "tokens that a pass of the last line commits (as the paper's table implies)")
      ->type_name("X");
  app.add_option("--replay", r->replay, "take the last line's passes from a recording of llada eval --record")
      ->type_name("FILE");
  add_integer_option(app, "--replay-run", r->replay_run, 0, 1 << 30, "which run of the recording, from 0 (0)");
  app.add_option("--sweep", r->sweep, "simulate the SOMR line with several windows in GiB: window=1.0:4.0:0.25")
      ->type_name("RANGE");
  app.add_option("--latency", r->latency, "print the milliseconds of a pass of each number of rows, as ROWS:MS,...")
      ->delimiter(',')
      ->type_name("ROWS,...");
  app.add_option("--latency-logits", r->latency_logits,
                 "with --latency: rows of a pass whose logits are computed, at most (all)")
      ->type_name("N");
  app.add_flag("--compare-profiles", r->compare, "simulate every built-in profile");
  app.add_flag("--speed-ups", r->speed_ups,
               "the last line over the CPU with prefix K/V, for prompts and answers of 32 to 512 tokens");
  app.add_option("--map", o.map_variant, "the variant of the profile's prices of mapping")->type_name("NAME");
  app.add_option("--memory", o.memory,
                 "plan, copy, lru, drop-all, belady or sessions for the lines from SOMR on (plan)")
      ->type_name("POLICY");
  only_file(app.add_option("--trace", r->trace,
                           "write the lanes of three passes of the SOMR line as a Chrome/Perfetto trace"))
      ->type_name("FILE");
  app.add_flag("--json", r->json, "one JSON object on stdout");
  for (const char* name : {"--replay-run", "--latency", "--latency-logits", "--map"})
    app.get_option(name)->group(further("Details"));
  add_moe_options(app, r->moe);
  app.footer(
      "Examples:\n"
      "  llada-study simulate --profile sm8750-paper\n"
      "  llada-study simulate --profile v79-8elite --tokens-per-pass 5 --json\n"
      "  llada-study simulate --profile sm8750-paper --sweep window=2.0:4.0:0.25\n"
      "  llada-study simulate --compare-profiles\n"
      "  llada-study simulate --profile sm8750-paper --speed-ups\n"
      "  llada-study simulate --moe llada2-mini --profile a6000-pcie4 --experts-on-device 25%");
  return [r] { return run(*r); };
}

}  // namespace llada::cli
