// The experiments for a phone, run against the emulator: what a phone's answers are compared with
// (docs/lab/hexagon-dsp.md).
#include <array>
#include <cstdio>
#include <string>

#include "hexagon_tools.h"

namespace llada {
namespace {

// What the probe prints, with its exit status behind it.
std::string probe(const std::string& experiment, const std::string& environment = "") {
  const std::string command = environment + "LLADA_CDSPRPC='" + std::string(standin_path()) +
                              "' " LLADA_EMULATOR " '" LLADA_BINARY_DIR "/bin/hexagon_probe' " + experiment +
                              "; echo status $?";
  std::string out;
  FILE* pipe = ::popen(command.c_str(), "r");
  std::array<char, 4096> part;
  while (pipe != nullptr && std::fgets(part.data(), part.size(), pipe) != nullptr) out += part.data();
  if (pipe != nullptr) ::pclose(pipe);
  return out;
}

bool has(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

TEST(Probe, AnswersWhatThePageSays) {
  SKIP_WITHOUT_EMULATOR();
  const std::string query = probe("query"), map = probe("map"), matmul = probe("matmul"),
                    ladder = probe("ladder 512", "LLADA_CDSPRPC_PHONE=coherent=2 "), speed = probe("speed 32");
  EXPECT_TRUE(has(query, "arch 67") && has(query, "emulated 1") && has(query, "status 0")) << query;
  EXPECT_TRUE(has(map, "value 3.424002") && has(map, "status 0")) << map;
  EXPECT_TRUE(has(matmul, "hash dd18f839700cd823") && has(matmul, "status 0")) << matmul;
  // 3.5 GiB in pieces of 512 MiB, then of 128: the process and its stack stand in two of seven.
  EXPECT_TRUE(has(ladder, "mapped_mib 3328") && has(ladder, "left_mapped 0") && has(ladder, "status 0")) << ladder;
  EXPECT_NE(ladder.find("refusal hexagon: mapping a buffer of 134217728 bytes"), std::string::npos) << ladder;
  EXPECT_TRUE(has(query, "map_call 2") && has(query, "votes_refused 0") && has(query, "unsigned_status 0")) << query;
  EXPECT_TRUE(has(speed, "votes 0") && has(speed, "votes 1") && has(speed, "threads 1") && has(speed, "status 0"))
      << speed;
  EXPECT_TRUE(has(probe("dance 2>/dev/null"), "status 2"));
  // A phone that gives 2.9 GiB: eleven buffers of 256 MiB, two of 64.
  const std::string less = probe("ladder", "LLADA_CDSPRPC_PHONE=space=3113851289,coherent=2 ");
  EXPECT_TRUE(has(less, "mapped_mib 2944") && has(less, "status 0")) << less;
}

}  // namespace
}  // namespace llada
