// The files of a repository, and which of them a model needs.
//
// Source of the format: Hugging Face's hub, GET {endpoint}/api/models/OWNER/NAME/revision/REVISION?blobs=true. Only
// these members of its answer are read: "sha", "gguf": {"architecture"}? and "siblings": [{"rfilename", "size"?, "lfs":
// {"size", "sha256"}?}]. Servers that do not know ?blobs leave the sizes out, so nothing rests on them.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace llada::hub {

inline constexpr int64_t kMaxFileBytes = int64_t{1} << 44;  // a larger size counts as not said

struct RemoteFile {
  std::string path;
  int64_t bytes = -1;  // -1: not said
};

struct Listing {
  std::string commit;  // 40 hexadecimal digits
  std::vector<RemoteFile> files;
  std::string architecture;  // of a repository of GGUF files, as the hub has read it; empty: not said
};

// Parses a hub's answer: at most 16 MiB, 500,000 values, 64 levels, 20,000 files. Invalid: a path that leaves its
// folder, a commit that is no hash. `source` names it in errors.
Result<Listing> parse_listing(std::string_view text, std::string_view source);

inline constexpr size_t kMaxListingBytes = size_t{16} << 20;

struct Choice {
  std::vector<std::string> files;  // in the order in which to fetch them: small ones first
  bool folder = false;             // a Hugging Face folder; otherwise one file
  std::string joined = {};         // the name of the file that these are pieces of, in this order; empty: whole files
  size_t small = 0;                // how many of a folder's files come before its weights
};

// The files to fetch. `what`: a file, or a quantization in the name of a GGUF file. Where it is empty: the best GGUF
// file by kPreferredTypes, or weights, configuration and tokenizer of a folder with safetensors. Raw pieces of a GGUF
// file (cut_name) count as the file. Errors list the files that are there. name: the repository's, for errors.
Result<Choice> choose_files(const std::vector<std::string>& files, std::string_view what, std::string_view name);

// Types in the names of GGUF files, best first: the fastest of those that keep most of a model's quality, then those
// that are larger. Types that are not here cannot be opened.
inline constexpr std::string_view kPreferredTypes[] = {"Q4_0", "Q4_K_M", "Q4_K_S", "Q8_0", "Q5_0", "Q5_K_M", "Q5_K_S",
                                                       "Q6_K", "Q4_1",   "Q5_1",   "BF16", "F16",  "F32"};

}  // namespace llada::hub
