// Packed weights kept on disk: where they lie, whose they are, when they are made. One file per model file and
// instruction set in a folder, the user's cache by default; packed_weights.h of devices/cpu says what is in it.
//
// A copy is as large as the model, so a machine with enough memory makes none that nobody asked for. make_packed()
// (`llada pack`) makes it. From then on it is found, used, and made again when the model's file has changed.
// PackCache::Use::make makes one at the first start. Where memory is short (fit_check.h), `found` makes one too, if the
// disk has room for two. Nothing here is needed: a cache that cannot be used or written is a warning, and the weights
// are then packed in memory.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace llada {

class ModelFile;
class PackedWeights;
struct LoadOptions;
struct ModelGraph;

struct PackCache {
  enum class Use : uint8_t {
    none,            // weights are packed in memory, whatever is in the folder
    found,           // a file that is there is used; one whose model has changed is made again
    make,            // one that is not there is made too
    make_with_room,  // the same where the disk has twice its size left, which a line says; else as `found`
  };
  Use use = Use::none;
  std::string folder;  // none: as Use::none
};

// $XDG_CACHE_HOME/llada/packed from the values of the environment, empty where both are.
std::string default_pack_folder(std::string_view xdg_cache_home, std::string_view home);

// The part of the cache that a loading model can use, or null. options: isa, threads, pack_cache, progress, warn.
std::shared_ptr<const PackedWeights> cached_weights(const LoadOptions& options, const ModelFile& file,
                                                    const ModelGraph& graph);

// A line for the user after a load that packed for so long although a cache could be used; empty where none is needed.
std::string packing_note(const PackCache& cache, const std::string& model, double seconds);

struct PackReport {
  std::string path, isa;
  uint64_t bytes = 0;
  bool made = false;  // false: it was there, and is the model's
};
// Makes the packed weights of a model for one instruction set (options.isa) unless they are there. While another
// process makes them it waits, until `stop` is true. options as above; the folder must be given.
Result<PackReport> make_packed(const std::string& model, const LoadOptions& options, const std::function<bool()>& stop);

// Compares the file of a model and instruction set with its checksums. It must be there.
Result<PackReport> verify_packed(const std::string& model, const LoadOptions& options);

struct PackedEntry {
  std::string path, isa, model;  // isa and model are empty where the file is damaged
  uint64_t bytes = 0;
  std::string state;  // "ready"; else why it is not used
};
std::vector<PackedEntry> list_packed(const std::string& folder);

// Removes an entry of list_packed(), with its lock.
Status remove_packed(const PackedEntry& entry);

}  // namespace llada
