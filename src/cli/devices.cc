// llada devices: what --device can name here.
#include "engine/devices.h"

#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/report.h"
#include "cli/terminal.h"

namespace llada::cli {

Work setup_devices(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  app.add_flag("--json", *json, "one JSON object on stdout");
  app.footer(
      "LLADA_ISA=NAME in the environment makes every command use that instruction set's kernels.\n\n"
      "Examples:\n"
      "  llada devices\n"
      "  LLADA_ISA=scalar llada devices --json");
  return [json]() -> Result<int> {
    LLADA_TRY(const auto devices, list_devices(isa_from_environment(), 0, cdsprpc_from_environment()));
    std::string out;
    if (*json) {
      auto list = nlohmann::ordered_json::array();
      for (const DeviceSummary& d : devices) {
        list.push_back(
            {{"name", d.name}, {"description", d.description}, {"usable", d.usable}, {"threads", d.threads}});
        if (!d.instruction_sets.empty()) list.back()["instruction_sets"] = d.instruction_sets;
      }
      out = json_line({{"devices", std::move(list)}});
    } else {
      for (const DeviceSummary& d : devices)
        out += d.instruction_sets.empty() ? fmt::format("{}: {}\n", d.name, d.description)
                                          : fmt::format("{}: {}; instruction sets: {}\n", d.name, d.description,
                                                        fmt::join(d.instruction_sets, ", "));
    }
    LLADA_TRY_STATUS(print(out));
    return 0;
  };
}

}  // namespace llada::cli
