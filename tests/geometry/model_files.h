// A model that lies in memory as what the engine opens: a Hugging Face folder of any architecture (F32, with
// the tokenizer of the shipped mixture), a GGUF file, or a model that stays in memory.
#pragma once
#include <string>

#include "formats/model_file.h"
#include "geometry/reference_forward.h"

namespace llada {

// The model holds F32. `tied_head_too`: a tied head is written all the same, as some tools do; with other
// values, which nobody may read.
void write_hf_folder(const SmallModel& model, const std::string& folder, bool tied_head_too = false);

// Without a tokenizer; the experts of a layer are one tensor.
void write_gguf(const SmallModel& model, const std::string& path);
// LLaDA2 as a fork of diffuse-cpp writes it, with q, k and v in one matrix.
void write_diffuse_llada2(const SmallModel& model, const std::string& path);

// Views into the model, which must live longer.
ModelFile in_memory(const SmallModel& model);

}  // namespace llada
