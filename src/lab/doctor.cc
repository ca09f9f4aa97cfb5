// llada-study doctor: the facts about a phone's DSP, a line per finding, and a profile of it.
#include "cli/doctor.h"

#include <filesystem>

#include "base/file.h"
#include "cli/help.h"
#include "cli/options.h"
#include "cli/output_file.h"
#include "cli/report.h"
#include "cli/terminal.h"
#include "lab/commands.h"
#include "lab/hexagon_checkup.h"

namespace llada::cli {
namespace {

struct DoctorRequest {
  std::string device, library, output = "hexagon.json";
  bool json = false;
};

Result<int> examine(const DoctorRequest& r) {
  lab::CheckupOptions options;
  options.library = r.library.empty() ? cdsprpc_from_environment() : r.library;
  LoadOptions environment;
  read_environment(environment);
  options.cache = std::filesystem::path(environment.pack_cache.folder).parent_path();
  // Slow findings are said when they are known.
  Status printed;
  if (!r.json)
    options.found = [&](const Finding& finding) {
      if (printed) printed = print(finding_line(finding));
    };
  const lab::Checkup checkup = lab::check_hexagon(options);
  LLADA_TRY_STATUS(printed);
  if (checkup.profile) LLADA_TRY_STATUS(write_file(r.output, profile_text(*checkup.profile)));
  const bool usable = checkup.profile.has_value();
  if (r.json) {
    LLADA_TRY_STATUS(print(
        json_line({{"findings", findings_json(checkup.findings)}, {"profile", usable ? Json(r.output) : nullptr}})));
  } else if (usable) {
    LLADA_TRY_STATUS(print(fmt::format("{0}: for --device hexagon:profile={0} and llada-study simulate --profile {0}\n",
                                       one_line(r.output))));
  }
  return usable ? 0 : 1;
}

}  // namespace

Work setup_dsp_doctor(CLI::App& app) {
  auto r = std::make_shared<DoctorRequest>();
  offer(app.add_option("--device", r->device, "examine this device: hexagon")
            ->required()
            ->check(CLI::IsMember({"hexagon"}).description(""))
            ->type_name("NAME"),
        "hexagon");
  only_file(app.add_option("--library", r->library, "libcdsprpc, instead of the one that --device hexagon finds"))
      ->type_name("FILE");
  only_file(app.add_option("-o,--output", r->output, "where its profile goes (hexagon.json)"))->type_name("FILE");
  app.add_flag("--json", r->json, "one JSON object on stdout");
  app.footer(
      "Examples:\n"
      "  llada-study doctor --device hexagon -o phone.json");
  return [r] { return examine(*r); };
}

}  // namespace llada::cli
