// Models with random weights and the geometry of a published one: as a GGUF file, or in memory where no file
// is wanted. Speed and memory are those of the real model; the text is noise. The same preset, type and seed
// give the same weights in both forms.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "engine/model.h"
#include "study/presets.h"

namespace llada {

struct SynthOptions {
  uint64_t seed = 0;
  int threads = 0;  // 0: one per usable physical core
  std::function<void(double fraction, std::string_view what)> progress = {};
};

// The model to make: "llada-8b", "q4_0", layers as published (0) or that many.
struct SynthRequest {
  Preset preset;
  DType type;  // of every matrix; vectors and routers are F32
  // Standard deviation of the routers' selection biases, of a model with such (LLaDA2). Small ones leave the choice to
  // the random scores, which share rows out among all experts; a trained model has favourites.
  double router_bias = 0.05;
};
std::vector<std::string_view> synth_presets();  // names of the models
Result<SynthRequest> synth_request(std::string_view preset, std::string_view type, int64_t layers);

struct SynthReport {
  uint64_t bytes = 0;
  int64_t parameters = 0;
  std::string model;   // the published model's name
  std::string no_run;  // why this version cannot run the file; empty where it can
};

// Streams the file to out_path, tensor by tensor, never holding more than a piece of one. It appears whole or
// not at all. Fails before writing where the file system has no room for it.
Result<SynthReport> synthesize_file(const std::string& out_path, const SynthRequest& request,
                                    const SynthOptions& options);

// The same model on a device. Weights are made, packed and let go of one by one, so memory peaks at the
// packed size and one matrix. It has no tokenizer: token ids only.
Result<std::shared_ptr<const Model>> synthesize_model(const SynthRequest& request, const SynthOptions& options,
                                                      const LoadOptions& load);

}  // namespace llada
