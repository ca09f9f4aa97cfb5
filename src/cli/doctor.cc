// llada doctor: what this machine is and what keeps a model from running well on it, a line per finding.
#include <unistd.h>

#include <filesystem>

#include "base/file.h"
#include "base/processors.h"
#include "bench/hexagon_checkup.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "cli/options.h"
#include "cli/output_file.h"
#include "cli/report.h"
#include "cli/terminal.h"
#include "engine/devices.h"
#include "json/parse.h"

namespace llada::cli {
namespace {

using bench::Finding;

struct DoctorRequest {
  std::string device, library, output = "hexagon.json";
  bool json = false;
};

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

Result<std::vector<Finding>> machine_findings() {
  LLADA_TRY(const auto devices, list_devices(isa_from_environment(), 0, cdsprpc_from_environment()));
  const Processors cores = usable_processors();
  const double page = static_cast<double>(::sysconf(_SC_PAGESIZE));
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
                    fmt::format("{} in all, pages of {:.0f} bytes; a model needs its file's size and 1 GB more",
                                bytes_text(page * static_cast<double>(::sysconf(_SC_PHYS_PAGES))), page)}});
  return findings;
}

Result<int> examine(const DoctorRequest& r) {
  if (r.device.empty()) {
    LLADA_TRY(const auto findings, machine_findings());
    std::string text;
    for (const Finding& finding : findings) text += finding_line(finding);
    LLADA_TRY_STATUS(print(r.json ? json_line({{"findings", findings_json(findings)}}) : text));
    return 0;
  }
  bench::CheckupOptions options;
  options.library = r.library.empty() ? cdsprpc_from_environment() : r.library;
  LoadOptions environment;
  read_environment(environment);
  options.cache = std::filesystem::path(environment.pack_cache.folder).parent_path();
  // What takes long is said when it is known.
  Status printed;
  if (!r.json)
    options.found = [&](const Finding& finding) {
      if (printed) printed = print(finding_line(finding));
    };
  const bench::Checkup checkup = bench::check_hexagon(options);
  LLADA_TRY_STATUS(printed);
  if (checkup.profile) LLADA_TRY_STATUS(write_file(r.output, profile_text(*checkup.profile)));
  const bool usable = checkup.profile.has_value();
  if (r.json) {
    LLADA_TRY_STATUS(print(json_line({{"findings", findings_json(checkup.findings)},
                                      {"profile", usable ? Json(r.output) : nullptr}})));
  } else if (usable) {
    LLADA_TRY_STATUS(print(
        fmt::format("{0}: for --device hexagon:profile={0} and llada simulate --profile {0}\n", one_line(r.output))));
  }
  return usable ? 0 : 1;
}

}  // namespace

Work setup_doctor(CLI::App& app) {
  auto r = std::make_shared<DoctorRequest>();
  offer(app.add_option("--device", r->device, "examine this device: hexagon (all devices, briefly)")
            ->check(CLI::IsMember({"hexagon"}).description(""))
            ->type_name("NAME"),
        "hexagon");
  only_file(app.add_option("--library", r->library, "libcdsprpc, instead of what --device hexagon finds"))
      ->type_name("FILE");
  only_file(app.add_option("-o,--output", r->output, "where its profile goes (hexagon.json)"))->type_name("FILE");
  app.add_flag("--json", r->json, "one JSON object on stdout");
  app.footer(
      "Examples:\n"
      "  llada doctor\n"
      "  llada doctor --device hexagon -o phone.json");
  return [r] { return examine(*r); };
}

}  // namespace llada::cli
