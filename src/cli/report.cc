#include "cli/report.h"

#include <array>

#include "base/figures.h"
#include "base/memory_usage.h"
#include "cli/terminal.h"
#include "json/parse.h"

namespace llada::cli {

std::string bytes_text(double bytes) {
  constexpr std::array kUnits = {"B", "kB", "MB", "GB", "TB"};
  size_t unit = 0;
  while (bytes >= 999.5 && unit + 1 < kUnits.size()) bytes /= 1000, ++unit;
  return fmt::format("{:.{}f} {}", bytes, unit > 0 && bytes < 9.95 ? 1 : 0, kUnits[unit]);
}

std::string rate_text(double per_second) {
  const int digits = per_second == 0 ? 0 : per_second < 0.995 ? 2 : per_second < 9.95 ? 1 : 0;
  return fmt::format("{:.{}f}", per_second, digits);
}

namespace {

// The additions of -v. Content does not count padding behind the answer; committed tokens do, and cost forwards.
std::string details(const GenerationStats& s) {
  std::string line = s.decode.committed != s.content_tokens ? fmt::format("{} with padding, ", s.decode.committed) : "";
  line += fmt::format("{:.1f} tokens per forward, {:.1f} ms per step", s.tokens_per_forward(), s.ms_per_step());
  if (const int64_t peak = peak_memory_bytes(); peak > 0)  // 0: the system does not tell
    line += fmt::format(", peak memory {}", bytes_text(static_cast<double>(peak)));
  if (s.experts && s.experts->used > 0)
    line += fmt::format("; of the experts wanted {:.0f} % were resident, {:.0f} % computed by the CPU, {} moved",
                        100.0 * static_cast<double>(s.experts->hits) / static_cast<double>(s.experts->used),
                        100.0 * static_cast<double>(s.experts->on_host) / static_cast<double>(s.experts->used),
                        s.emulated ? bytes_text(static_cast<double>(s.emulated->moved_expert_bytes)) + " (emulated)"
                                   : fmt::format("{}", s.experts->moved + s.experts->guessed + s.experts->promoted));
  return line + '\n';
}

}  // namespace

std::string stats_lines(const GenerationStats& s, std::string_view preset, bool verbose) {
  preset.remove_prefix(preset.rfind('/') + 1);  // of a file its name; npos + 1 is 0
  std::string text =
      fmt::format("{} in {}{}, {} tokens/s (measured){}\n", counted(s.content_tokens, "token"),
                  counted(s.decode.nfe, "forward"), preset.empty() ? "" : fmt::format(" ({})", one_line(preset)),
                  rate_text(s.content_tokens_per_s()), s.seed ? fmt::format(", seed {}", *s.seed) : "");
  if (s.emulated)
    text += fmt::format("on {} {:.3g} s and {:.3g} J (modelled)\n", s.emulated->profile, s.emulated->seconds,
                        s.emulated->joules);
  return verbose ? text + details(s) : text;
}

std::string unfinished_line(const Generation& g) {
  if (g.stats.decode.cancelled)
    return fmt::format("interrupted{}\n", g.text.contains(kHole) ? fmt::format("; {} was not decided", kHole) : "");
  if (finish_reason(g) == "stop") return "";
  return fmt::format("the answer was cut at {} (--gen-length)\n", counted(std::ssize(g.tokens), "token"));
}

Json stats_json(const GenerationStats& s) {
  Json phases = Json::object();
  for (size_t i = 0; i < s.phase_ms.size(); ++i)
    if (s.phase_ms[i] > 0) phases[std::string(name(static_cast<OpKind>(i)))] = s.phase_ms[i];
  Json json = {{"label", "measured"},
               {"device", s.device},
               {"nfe", s.decode.nfe},
               {"steps", s.decode.steps},
               {"sparse_forwards", s.decode.sparse_forwards},
               {"full_forwards", s.decode.full_forwards},
               {"rows", s.decode.rows},
               {"trial_rows", s.decode.trial_rows},
               {"logit_rows", s.decode.logit_rows},
               {"tokens_per_forward", s.tokens_per_forward()},
               {"prompt_tokens", s.prompt_tokens},
               {"content_tokens", s.content_tokens},
               {"committed_tokens", s.decode.committed},
               {"drafts_proposed", s.decode.counters.drafts_proposed},
               {"drafts_accepted", s.decode.counters.drafts_accepted},
               {"revisions_made", s.decode.counters.revisions_made},
               {"revisions_changed", s.decode.counters.revisions_changed},
               {"content_tokens_per_s", s.content_tokens_per_s()},
               {"seconds", s.seconds},
               {"ms_per_step", s.ms_per_step()},
               {"phases", std::move(phases)},
               {"peak_memory_bytes", peak_memory_bytes()},
               {"kv_bytes", s.kv_bytes},
               {"canvas_hash", fmt::format("{:016x}", s.canvas_hash)},
               {"stopped_early", s.decode.stopped_early},
               {"cancelled", s.decode.cancelled}};
  if (s.seed) json["seed"] = *s.seed;
  if (const auto& e = s.emulated)
    json["modelled"] = {{"profile", e->profile},
                        {"seconds", e->seconds},
                        {"joules", e->joules},
                        {"mapped_bytes", e->mapped_bytes},
                        {"maps", e->maps},
                        {"exposed_map_seconds", e->exposed_map_s},
                        {"map_seconds", e->map_s + e->dma_s},
                        {"npu_seconds", e->npu_s},
                        {"cpu_seconds", e->cpu_s}};
  if (const auto& e = s.experts) {
    json["experts"] = {{"label", s.emulated ? "emulated" : "measured"},
                       {"wanted", e->used},
                       {"resident", e->hits},
                       {"on_host", e->on_host},
                       {"moved", e->moved},
                       {"guessed", e->guessed},
                       {"guessed_right", e->guessed_right},
                       {"promoted", e->promoted},
                       {"cancelled", e->cancelled},
                       {"moved_bytes", s.emulated ? s.emulated->moved_expert_bytes : e->traffic.moved_bytes},
                       {"guess_ms", e->guess_s * 1e3},
                       {"plan_ms", e->plan_s * 1e3}};
    if (!s.emulated) {
      json["experts"]["copy_ms"] = e->traffic.copy_s * 1e3;
      json["experts"]["wait_ms"] = e->traffic.wait_s * 1e3;
    }
  }
  return json;
}

Json types_json(const std::vector<TypeTotal>& types) {
  Json json = Json::array();
  for (const TypeTotal& t : types)
    json.push_back({{"type", t.type}, {"tensors", t.tensors}, {"parameters", t.parameters}, {"bytes", t.bytes}});
  return json;
}

}  // namespace llada::cli
