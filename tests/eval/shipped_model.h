// The model in this repository, read once for all tests of a program.
#pragma once
#include <cstdlib>

#include "engine/model.h"
#include "must.h"

namespace llada::eval {

inline std::shared_ptr<const Model> shipped_model() {
  static const auto model = [] {
    const char* isa = std::getenv("LLADA_ISA");
    return *must(Model::load(LLADA_SOURCE_DIR "/models/tiny-llada", {.isa = isa != nullptr ? isa : "", .threads = 1}));
  }();
  return model;
}

}  // namespace llada::eval
