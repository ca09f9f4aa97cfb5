#include "hub/catalogue.h"

#include "json/parse.h"

namespace llada::hub {

Result<std::vector<CatalogueModel>> parse_catalogue(std::string_view text) {
  LLADA_TRY(const JsonDocument read, parse_json_document(text, "catalogue", kOwnJson));
  const Json& list = read.root;
  if (!list.is_array()) return invalid("catalogue: a list of models needed");
  std::vector<CatalogueModel> models;
  try {
    for (const auto& entry : list) {
      constexpr double kBillion = 1e9;
      const auto pace = entry.at("tokens_per_forward"), experts = entry.value("experts", Json::object());
      models.push_back({.name = entry.at("name"),
                        .repository = entry.at("repository"),
                        .geometry = entry.value("geometry", ""),
                        .parameters = kBillion * entry.at("billions").get<double>(),
                        .looked_up = kBillion * entry.at("looked_up").get<double>(),
                        .in_experts = kBillion * experts.value("billions", 0.0),
                        .experts = experts.value("count", 0),
                        .used = experts.value("used", 0),
                        .rows = entry.at("rows"),
                        .tokens_per_forward = pace.at("value"),
                        .source = pace.at("source")});
    }
  } catch (const Json::exception& error) {
    return invalid("catalogue: model {}: {}", models.size() + 1, error.what());
  }
  return models;
}

std::string repository_of(std::string_view name) {
  const auto models = parse_catalogue(kCatalogueText);
  if (models)
    for (const CatalogueModel& model : *models)
      if (model.name == name) return model.repository;
  return "";
}

}  // namespace llada::hub
