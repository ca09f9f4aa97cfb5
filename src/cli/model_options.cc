// -m, --device and what else says which model computes where.
#include <cstdlib>

#include "cli/help.h"
#include "cli/hub_access.h"
#include "cli/options.h"

namespace llada::cli {

static constexpr const char* kGroup = "Model and device";

void read_environment(LoadOptions& options) {
  options.isa = isa_from_environment();
  options.cdsprpc = cdsprpc_from_environment();
}

std::string cdsprpc_from_environment() {
  const char* path = std::getenv("LLADA_CDSPRPC");
  return path != nullptr ? path : "";
}

std::string isa_from_environment() {
  const char* isa = std::getenv("LLADA_ISA");
  return isa != nullptr ? isa : "";
}

void add_device_options(CLI::App& app, LoadOptions& options) {
  app.add_option("--device", options.device,
                 "where to compute: cpu, sim:PROFILE[,window=40%,...], hexagon[:...] or cuda[:budget=4GiB] (cpu)")
      ->type_name("NAME")
      ->group(kGroup);
  add_integer_option(app, "-t,--threads", options.threads, 0, 1024, "0: one per physical core (0)")->group(kGroup);
  add_integer_option(app, "-c,--ctx-size", options.context, 0, int64_t{1} << 30,
                     "most positions of prompt and answer together; 0: what the model was trained for (0)")
      ->group(further(kGroup));
  app.add_option_function<std::string>(
         "--attention",
         [&options](const std::string& text) {
           if (text != "fast" && text != "exact")
             throw CLI::ValidationError("--attention", fmt::format("found '{}', needed fast or exact", text));
           options.exact_attention = text == "exact";
         },
         "of rows that see 1024 positions or more: fast reads 8-bit copies of keys and values where the processor has "
         "kernels for them (error about 1 %), exact the stored ones (fast)")
      ->type_name("KIND")
      ->group(further(kGroup));
}

void add_model_options(CLI::App& app, ModelOptions& options) {
  app.add_option("-m,--model", options.path, "a GGUF file or Hugging Face folder; or -hf OWNER/NAME")
      ->type_name("MODEL")
      ->group(kGroup);
  add_hub_option(app, options, further(kGroup));
  add_device_options(app, options.load);
}

}  // namespace llada::cli
