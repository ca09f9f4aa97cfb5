// llada devices: the names that --device can have here.
#include "engine/devices.h"

#include "cli/commands.h"
#include "cli/help.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "json/parse.h"

namespace llada::cli {

namespace {

// Those that compute here, those that cannot, and the clocks of machines that are not here.
std::string devices_text(const std::vector<DeviceSummary>& devices, size_t columns) {
  std::string usable, others, simulated;
  for (const DeviceSummary& d : devices) {
    std::string text = fmt::format("{}: {}", d.name, d.description);
    if (!d.instruction_sets.empty()) text += fmt::format("; instruction sets: {}", fmt::join(d.instruction_sets, ", "));
    std::string& part = d.name.starts_with("sim:") ? simulated : d.usable ? usable : others;
    part += wrapped(text, 0, 4, columns) + '\n';
  }
  return usable + (others.empty() ? "" : "\nNot here:\n" + others) +
         (simulated.empty() ? "" : "\nSimulated (computed by the cpu, with the modelled time of another machine):\n") +
         simulated;
}

}  // namespace

Work setup_devices(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  app.add_flag("--json", *json, "one JSON object on stdout");
  app.footer(
      "LLADA_ISA=NAME in the environment makes every command use that instruction set's kernels.\n\n"
      "Examples:\n"
      "  llada devices\n"
      "  LLADA_ISA=scalar llada devices --json");
  return [json]() -> Result<int> {
    LLADA_TRY(const auto devices, list_devices(isa_from_environment(), 0, cdsprpc_from_environment(), more_devices));
    std::string out;
    if (*json) {
      auto list = Json::array();
      for (const DeviceSummary& d : devices) {
        list.push_back(
            {{"name", d.name}, {"description", d.description}, {"usable", d.usable}, {"threads", d.threads}});
        if (!d.instruction_sets.empty()) list.back()["instruction_sets"] = d.instruction_sets;
      }
      out = json_line({{"devices", std::move(list)}});
    } else {
      out = devices_text(devices, static_cast<size_t>(output_width()));
    }
    LLADA_TRY_STATUS(print(out));
    return 0;
  };
}

}  // namespace llada::cli
