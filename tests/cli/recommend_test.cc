// llada recommend, the catalogue of short names, and what a probe says of forwards.
#include <set>

#include "bench/probe.h"
#include "cli/process.h"
#include "hub/catalogue.h"
#include "hub/repository.h"
#include "models/model_graph.h"
#include "must.h"
#include "study/presets.h"

namespace llada::test {
namespace {

// Sizes that were typed, against the published geometries.
TEST(Catalogue, HasTheSizesOfThePublishedGeometries) {
  const auto models = must(hub::parse_catalogue(hub::kCatalogueText));
  std::set<std::string> names;
  for (const hub::CatalogueModel& model : *models) {
    EXPECT_TRUE(names.insert(model.name).second) << model.name;
    EXPECT_TRUE(hub::looks_like_repository(model.repository)) << model.repository;
    EXPECT_GE(model.tokens_per_forward, 1) << model.name;
    EXPECT_FALSE(model.source.empty()) << model.name;
    if (model.geometry.empty()) continue;
    const auto preset = find_preset(model.geometry);
    ASSERT_TRUE(preset) << model.geometry;
    const auto near = [&](double typed, double published, const char* what) {
      EXPECT_NEAR(typed, published, 0.005 * static_cast<double>(parameters_of(*preset))) << model.name << ' ' << what;
    };
    near(model.parameters, static_cast<double>(parameters_of(*preset)), "parameters");
    double experts = 0;
    for (const PresetTensor& tensor : tensors_of(*preset))
      if (tensor.name.contains("_exps.")) experts += static_cast<double>(tensor.shape.elements());
    near(model.in_experts, experts, "experts");
    const ModelConfig& config = preset->config;
    near(model.looked_up, config.tied_head ? 0 : static_cast<double>(config.vocab * config.width), "looked up");
    EXPECT_EQ(model.experts, config.experts) << model.name;
    EXPECT_EQ(model.used, config.experts > 0 ? config.experts_used : 0) << model.name;
  }
  EXPECT_FALSE(hub::parse_catalogue(R"([{"name": "a"}])"));
  EXPECT_FALSE(hub::parse_catalogue("{}"));
}

TEST(Catalogue, AShortNameIsARepository) {
  const auto request = must(hub::parse_request("sdar-1.7b:Q8_0", "x"));
  EXPECT_EQ(request->repository.full_name(), "JetLM/SDAR-1.7B-Chat");
  EXPECT_EQ(request->what, "Q8_0");
  EXPECT_EQ(request->revision, "x");
  EXPECT_EQ(hub::parse_request("a/sdar-1.7b")->repository.full_name(), "a/sdar-1.7b");
  EXPECT_THAT(hub::parse_request("sdar").error().message, HasSubstr("or a short name (llada recommend lists them)"));
}

// Of weights all in one matrix and in experts, by hand.
TEST(Probe, ModelsAForward) {
  const bench::Probe probe{.cpu = {}, .isa = {}, .per_weight = {{1, 1.0}, {8, 2.4}, {32, 9.6}}};
  EXPECT_DOUBLE_EQ(probe.forward_seconds({.dense = 10}, 1), 10);
  EXPECT_DOUBLE_EQ(probe.forward_seconds({.dense = 10}, 4.5), 17);
  EXPECT_DOUBLE_EQ(probe.forward_seconds({.dense = 10}, 64), 192);
  // One row reads the two of eight experts that it chose; so do very many rows all eight, with a quarter of them each.
  EXPECT_DOUBLE_EQ(probe.forward_seconds({.dense = 0, .in_experts = 80, .experts = 8, .used = 2}, 1), 20);
  EXPECT_NEAR(probe.forward_seconds({.dense = 0, .in_experts = 80, .experts = 8, .used = 2}, 128), 80 * 9.6, 1e-9);
}

TEST(Recommend, ListsWhatFitsWithACommand) {
  const Json out = json_of({"recommend", "--json"});
  EXPECT_LT(out["machine"]["probe_seconds"], 5.0 * 6) << "of a machine that does other work";
  ASSERT_FALSE(out["models"].empty());
  for (const Json& model : out["models"]) {
    EXPECT_GT(model["modelled_tokens_per_s"], 0.0) << model;
    EXPECT_EQ(model["fits"], model["lacks"] == "") << model;
    const bool room =
        model["memory_bytes"] <= out["machine"]["memory_bytes"] && model["disk_bytes"] <= out["machine"]["disk_bytes"];
    EXPECT_EQ(model["fits"], room) << model;
  }
}

}  // namespace
}  // namespace llada::test
