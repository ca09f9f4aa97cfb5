// llada doctor: the parts of this machine and the reasons that keep a model from running well on it, a line per
// finding.
#include "cli/doctor.h"

#include "base/processors.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "cli/options.h"
#include "cli/report.h"
#include "cli/terminal.h"
#include "engine/devices.h"
#include "json/parse.h"

namespace llada::cli {

std::string finding_line(const Finding& finding) {
  constexpr std::string_view kMarks[] = {"ok ", "-- ", "NO "};
  return wrapped(fmt::format("{}{:<10} {}", kMarks[static_cast<size_t>(finding.kind)], finding.what, finding.text), 0,
                 14, static_cast<size_t>(output_width())) +
         '\n';
}

Json findings_json(const std::vector<Finding>& findings) {
  constexpr const char* kKinds[] = {"good", "less", "bad"};
  auto list = Json::array();
  for (const Finding& f : findings)
    list.push_back({{"finding", f.what}, {"kind", kKinds[static_cast<size_t>(f.kind)]}, {"text", f.text}});
  return list;
}

namespace {

Result<std::vector<Finding>> machine_findings() {
  LLADA_TRY(const auto devices, list_devices(isa_from_environment(), 0, cdsprpc_from_environment()));
  const Processors cores = usable_processors();
  std::vector<Finding> findings;
  for (const DeviceSummary& d : devices)
    findings.push_back({d.usable ? Finding::Kind::good : Finding::Kind::less, d.name,
                        d.instruction_sets.empty() ? d.description
                                                   : fmt::format("{}; instruction sets: {}", d.description,
                                                                 fmt::join(d.instruction_sets, ", "))});
  findings.insert(findings.begin() + 1,
                  {{Finding::Kind::good, "cores",
                    fmt::format("{} may be used, {} of them are fast cores of their own, {} threads without --threads",
                                cores.order.size(), cores.preferred, cores.threads)},
                   {Finding::Kind::good, "memory",
                    fmt::format("{} in all, pages of {} bytes; a model needs its file's size and 1 GB more",
                                bytes_text(static_cast<double>(os::machine_bytes())), os::page_bytes())}});
  return findings;
}

Result<int> examine(bool json) {
  LLADA_TRY(const auto findings, machine_findings());
  std::string text;
  for (const Finding& finding : findings) text += finding_line(finding);
  LLADA_TRY_STATUS(print(json ? json_line({{"findings", findings_json(findings)}}) : text));
  return 0;
}

}  // namespace

Work setup_doctor(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  app.add_flag("--json", *json, "one JSON object on stdout");
  app.footer(
      "llada-study doctor --device hexagon measures a phone's DSP.\n\n"
      "Examples:\n"
      "  llada doctor\n"
      "  llada doctor --json");
  return [json] { return examine(*json); };
}

}  // namespace llada::cli
