// llada recommend: published models that fit this machine, how fast they would be, and the commands for one of them.
#include <filesystem>

#include "base/memory_room.h"
#include "bench/probe.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "cli/hub_access.h"
#include "cli/options.h"
#include "cli/report.h"
#include "cli/terminal.h"
#include "hub/catalogue.h"
#include "json/parse.h"

namespace llada::cli {
namespace {

using hub::CatalogueModel;

constexpr double kPleasant = 5;  // tokens per second that are read as fast as they come

struct Machine {
  bench::Probe probe;
  double memory = -1, disk = -1;  // bytes that are free; -1: the system does not tell
};

struct Offer {
  CatalogueModel model;
  double memory = 0, disk = 0;  // bytes needed, in Q4_0; for the download and the converted file
  double tokens_per_s = 0;
  std::string lacks;  // empty: it fits
};

// Free bytes where the folder is or would be made.
double free_disk(std::filesystem::path folder) {
  std::error_code error;
  while (!std::filesystem::exists(folder, error) && folder.has_relative_path()) folder = folder.parent_path();
  const auto space = std::filesystem::space(folder, error);
  return error ? -1 : static_cast<double>(space.available);
}

Offer judge(const CatalogueModel& model, const Machine& machine) {
  Offer offer{.model = model, .lacks = {}};
  offer.memory = CatalogueModel::memory(model.q4_bytes());
  offer.disk = model.published_bytes() + model.q4_bytes();
  const bench::ProbedWeights weights{.dense = model.parameters - model.looked_up - model.in_experts,
                                     .in_experts = model.in_experts,
                                     .experts = model.experts,
                                     .used = model.used};
  offer.tokens_per_s = model.tokens_per_forward / machine.probe.forward_seconds(weights, model.rows);
  if (machine.memory >= 0 && offer.memory > machine.memory)
    offer.lacks = fmt::format("{} of memory", bytes_text(offer.memory));
  else if (machine.disk >= 0 && offer.disk > machine.disk)
    offer.lacks = fmt::format("{} of disk", bytes_text(offer.disk));
  return offer;
}

// The first that is fast enough, as the better ones come first; else the fastest. Null: none fits.
const Offer* best_of(const std::vector<Offer>& offers) {
  const Offer* best = nullptr;
  for (const Offer& offer : offers) {
    if (!offer.lacks.empty()) continue;
    if (offer.tokens_per_s >= kPleasant) return &offer;
    if (best == nullptr || offer.tokens_per_s > best->tokens_per_s) best = &offer;
  }
  return best;
}

std::string size_or_unknown(double bytes) { return bytes < 0 ? "an unknown amount" : bytes_text(bytes); }

std::string text_of(const Machine& machine, const std::vector<Offer>& offers, const Offer* best) {
  const auto columns = static_cast<size_t>(output_width());
  std::string rates;
  for (const auto& [rows, seconds] : machine.probe.per_weight)
    rates += fmt::format("{}{:.0f} with {:.0f} row{}", rates.empty() ? "" : ", ", 2 * rows / seconds / 1e9, rows,
                         rows == 1 ? "" : "s");
  std::string out = wrapped(fmt::format("{}, kernels {}, {} thread{}; {} of memory and {} of disk are free. Products "
                                        "of Q4_0, measured in {:.1f} s, GOP/s: {}.",
                                        machine.probe.cpu, machine.probe.isa, machine.probe.threads,
                                        machine.probe.threads == 1 ? "" : "s", size_or_unknown(machine.memory),
                                        size_or_unknown(machine.disk), machine.probe.seconds, rates),
                            0, 0, columns) +
                    "\n\n";
  out += fmt::format("{:<16} {:>8} {:>8}  {}\n", "model", "download", "memory", "tokens/s, modelled");
  std::string others;
  for (const Offer& o : offers) {
    if (o.lacks.empty())
      out += fmt::format("{:<16} {:>8} {:>8}  {}\n", o.model.name, bytes_text(o.model.published_bytes()),
                         bytes_text(o.memory), rate_text(o.tokens_per_s));
    else
      others += fmt::format("{}{} ({})", others.empty() ? "" : ", ", o.model.name, o.lacks);
  }
  if (!others.empty()) out += wrapped("These do not fit: " + others, 0, 4, columns) + '\n';
  out += '\n' +
         wrapped(
             "Memory and speed are those of Q4_0. The speed is modelled: the products above, and how many tokens a "
             "forward decides by published figures or an assumption (--json names each); reading the prompt is not "
             "counted.",
             0, 0, columns) +
         '\n';
  if (best == nullptr) return out;
  const std::string& name = best->model.name;
  return out + fmt::format(
                   "\nFor this machine:\n"
                   "  llada convert \"$(llada pull {0})\" {0}-q4_0.gguf --type q4_0\n"
                   "  llada chat {0}-q4_0.gguf\n",
                   name);
}

Json json_of(const Machine& machine, const std::vector<Offer>& offers, const Offer* best) {
  auto products = Json::array(), models = Json::array();
  for (const auto& [rows, seconds] : machine.probe.per_weight)
    products.push_back({{"rows", rows}, {"gop_per_s", 2 * rows / seconds / 1e9}});
  const auto bytes = [](double value) { return value < 0 ? Json() : Json(static_cast<int64_t>(value)); };
  for (const Offer& o : offers)
    models.push_back({{"name", o.model.name},
                      {"repository", o.model.repository},
                      {"fits", o.lacks.empty()},
                      {"lacks", o.lacks},
                      {"download_bytes", bytes(o.model.published_bytes())},
                      {"memory_bytes", bytes(o.memory)},
                      {"disk_bytes", bytes(o.disk)},
                      {"modelled_tokens_per_s", o.tokens_per_s},
                      {"tokens_per_forward", o.model.tokens_per_forward},
                      {"source", o.model.source}});
  return {{"machine",
           {{"cpu", machine.probe.cpu},
            {"isa", machine.probe.isa},
            {"threads", machine.probe.threads},
            {"memory_bytes", bytes(machine.memory)},
            {"disk_bytes", bytes(machine.disk)},
            {"probe_seconds", machine.probe.seconds},
            {"products", std::move(products)}}},
          {"models", std::move(models)},
          {"recommended", best == nullptr ? Json() : Json(best->model.name)}};
}

Result<int> recommend(int threads, bool json) {
  LLADA_TRY(const auto settings, hub_settings_from_environment());
  LLADA_TRY(const auto models, hub::parse_catalogue(hub::kCatalogueText));
  Machine machine;
  LLADA_TRY(machine.probe, bench::probe_machine(threads, isa_from_environment()));
  if (const auto room = find_memory_room("/")) machine.memory = static_cast<double>(room->available);
  machine.disk = free_disk(settings.cache);
  std::vector<Offer> offers;
  for (const CatalogueModel& model : models) offers.push_back(judge(model, machine));
  const Offer* best = best_of(offers);
  LLADA_TRY_STATUS(print(json ? json_line(json_of(machine, offers, best)) : text_of(machine, offers, best)));
  return 0;
}

}  // namespace

Work setup_recommend(CLI::App& app) {
  struct Options {
    LoadOptions load;
    bool json = false;
  };
  auto o = std::make_shared<Options>();
  add_threads_option(app, o->load, "Options");
  app.add_flag("--json", o->json, "one JSON object on stdout");
  app.footer(
      "A probe of at most five seconds measures products; nothing is downloaded. The names are short for repositories "
      "of "
      "Hugging Face: llada pull, llada run and every other command take them.\n\n"
      "Examples:\n"
      "  llada recommend\n"
      "  llada run sdar-1.7b 'Why is the sky blue?'");
  return [o] { return recommend(o->load.threads, o->json); };
}

}  // namespace llada::cli
