// Profiles: the built-in ones are complete and sourced; everything else is refused with one line; mutated
// texts never crash and never yield a number out of range.
#include "study/sim/profile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "base/random.h"
#include "must.h"

namespace llada {
namespace {

std::string text_of(const std::string& name) {
  std::ifstream in(std::string(LLADA_SOURCE_DIR) + "/profiles/" + name + ".json");
  std::stringstream out;
  out << in.rdbuf();
  return out.str();
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Profile, BuiltInOnesAreTheFilesAndEveryNumberHasASource) {
  const auto profiles = builtin_profiles();
  std::vector<std::string> names;
  for (const Profile& profile : profiles) {
    names.push_back(profile.name);
    const auto file = must(parse_profile(text_of(profile.name), profile.name));
    const auto built = numbers(profile), read = numbers(*file);
    ASSERT_EQ(built.size(), read.size());
    for (size_t i = 0; i < built.size(); ++i) {
      EXPECT_EQ(built[i].number->value, read[i].number->value) << profile.name << ": " << built[i].path;
      EXPECT_GE(built[i].number->source.size(), 6u) << profile.name << ": " << built[i].path;
    }
    EXPECT_EQ(profile.uncertain.size(), 3u);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"a6000-pcie4", "rtx4060-pcie4", "sm8750-paper", "v75-8gen3", "v75-hmx",
                                             "v75-hvx", "v79-8elite", "v79-hmx", "v79-hvx", "v81-8elite-gen5"}));
}

TEST(Profile, ValuesArriveWhereTheyBelong) {
  const Profile p = *load_profile("sm8750-paper");
  EXPECT_EQ(p.npu.stream_gb_per_s.value, 60);
  EXPECT_EQ(p.npu.stream_gb_per_s.trust, 'H');
  EXPECT_EQ(p.npu.row_tile.value, 32);
  EXPECT_EQ(p.cpu.row_tile.value, 1);
  ASSERT_TRUE(p.window_gib);
  EXPECT_EQ(p.window_gib->value, 3.5);
  EXPECT_EQ(*p.window_gib->low, 3.0);
  EXPECT_EQ(p.reserve_gib.value, 0.3);
  EXPECT_FALSE(p.head_on_npu);
  EXPECT_TRUE(p.logits_all_rows);
  EXPECT_FALSE(p.npu.overlap);
  EXPECT_EQ(p.map("").name, "fastrpc");
  EXPECT_EQ(p.map("hap-mmap2").us_per_mb.value, 20);
  EXPECT_EQ(std::ranges::count(p.npu.ops, OpKind::embed), 0);
  EXPECT_EQ(std::ranges::count(p.npu.types, DType::Q4_0), 1);
  EXPECT_FALSE(load_profile("v81-8elite-gen5")->window_gib);
}

TEST(Profile, OneNumberCanBeChangedByPath) {
  const Profile p = *load_profile("v79-8elite");
  const Profile changed = with_number(p, "map.variants.hap-mmap2.us_per_mb", 7);
  EXPECT_EQ(changed.map("").us_per_mb.value, 7);
  EXPECT_EQ(p.map("").us_per_mb.value, 20);
  EXPECT_EQ(with_number(p, "window.gib", 2).window_gib->value, 2);
  EXPECT_EQ(with_number(p, "npu.matmul_gflops", 1).npu.matmul_gflops.value, 1);
}

TEST(Profile, EveryFieldIsNeededAndNothingElse) {
  const std::string good = text_of("sm8750-paper");
  struct Case {
    std::string text, message;
  };
  const std::vector<Case> cases = {
      {"[]", "p: the JSON is not an object"},
      {"{\"name\": ", "p: not valid JSON"},
      {"{}", "p: name: is missing"},
      {replaced(good, "\"head\": \"cpu\"", "\"heads\": \"cpu\""), "p: head: is missing; needed a string"},
      {replaced(good, "\"head\": \"cpu\"", "\"head\": \"cpu\", \"heads\": 1"), "p: heads: is not known here"},
      {replaced(good, "\"matmul_gflops\"", "\"matmul_tflops\""), "p: npu.matmul_gflops: is missing"},
      {replaced(good, "{\"value\": 60,", "{\"value\": \"60\","),
       "p: npu.stream_gb_per_s.value: found \"60\", needed a number from 1e-06 to 1000000000 GB/s"},
      {replaced(good, "{\"value\": 60,", "{\"value\": -60,"),
       "p: npu.stream_gb_per_s.value: found -60, needed a number from 1e-06 to 1000000000 GB/s"},
      {replaced(good, "{\"value\": 60,", "{\"value\": 1e300,"), "p: npu.stream_gb_per_s.value: found 1e+300"},
      {replaced(good, "\"trust\": \"H\"", "\"trust\": \"A\""), "trust: found \"A\", needed H, M, L or I"},
      {replaced(good, "\"low\": 3.0", "\"low\": 3.6"), "needed low <= value <= high"},
      {replaced(good, ", \"high\": 3.8", ""), "p: window.gib.high: is missing"},
      {replaced(good, "\"value\": 0.3,", "\"value\": 3.5,"),
       "p: window.reserve_gib: found 3.5 GiB, needed less than window.gib"},
      {replaced(good, "\"default\": \"fastrpc\"", "\"default\": \"fast\""),
       "p: map.default: found \"fast\", needed the name of a variant"},
      {replaced(good, "\"head\": \"cpu\"", "\"head\": \"gpu\""), "p: head: found \"gpu\", needed npu or cpu"},
      {replaced(good, "\"rope\"", "\"ropes\""),
       "p: npu.ops: found \"ropes\", needed names that are known here, each once"},
      {replaced(good, "\"rope\"", "\"matmul\""),
       "p: npu.ops: found \"matmul\", needed names that are known here, each once"},
      {replaced(good, "\"q4_1\"", "\"q9\""), "p: npu.types: found \"q9\", needed names that are known here, each once"},
      {replaced(good, "\"window.gib\"]", "\"window.mb\"]"),
       "p: uncertain: found \"window.mb\", needed a number of this profile"},
      {replaced(good, "\"window.gib\"]", "\"ddr.gb_per_s\"]"),
       "p: ddr.gb_per_s: needed low and high, because uncertain names it"},
      {replaced(good, "\"overlap\": false", "\"overlap\": 0"), "p: npu.overlap: found 0, needed true or false"},
      {replaced(good, "\"name\": \"sm8750-paper\"", "\"name\": \"a b\""),
       "p: name: found \"a b\", needed a name of lower-case letters"},
  };
  for (const Case& c : cases) {
    const auto profile = parse_profile(c.text, "p");
    ASSERT_FALSE(profile) << c.message;
    EXPECT_EQ(exit_status(profile.error()), 2);
    EXPECT_NE(profile.error().message.find(c.message), std::string::npos) << profile.error().message;
    EXPECT_EQ(profile.error().message.find('\n'), std::string::npos);
  }
}

// What is written is what was read, and what a DSP was found to be travels with it.
TEST(Profile, ItsTextReadsBack) {
  for (Profile profile : builtin_profiles()) {
    profile.dsp = {.arch = 79, .threads = 6, .module = "libllada_hexagon_skel_v79.so"};
    const std::string text = profile_text(profile);
    const auto read = must(parse_profile(text, "written"));
    EXPECT_EQ(profile_text(*read), text);
    const auto before = numbers(profile), after = numbers(*read);
    ASSERT_EQ(before.size(), after.size());
    for (size_t i = 0; i < before.size(); ++i) {
      EXPECT_EQ(before[i].path, after[i].path);
      EXPECT_EQ(before[i].number->value, after[i].number->value) << before[i].path;
      EXPECT_EQ(before[i].number->low, after[i].number->low) << before[i].path;
      EXPECT_EQ(before[i].number->source, after[i].number->source) << before[i].path;
    }
    EXPECT_EQ(read->npu.ops, profile.npu.ops);
    EXPECT_EQ(read->cpu.types, profile.cpu.types);
    EXPECT_EQ(read->npu.overlap, profile.npu.overlap);
    EXPECT_EQ(read->window_gib.has_value(), profile.window_gib.has_value());
    EXPECT_EQ(read->uncertain, profile.uncertain);
    EXPECT_EQ(read->dsp->threads, 6);
    EXPECT_EQ(read->dsp->module, profile.dsp->module);
  }
}

TEST(Profile, WhatIsSaidOfADspIsChecked) {
  Profile profile = *load_profile("v79-8elite");
  profile.dsp = {.arch = 79, .threads = 6, .module = "libllada_hexagon_skel_v79.so"};
  const std::string good = profile_text(profile);
  for (const auto& [from, to, says] :
       {std::tuple{"\"threads\": 6", "\"threads\": 9", "p: dsp.threads: found 9, needed a whole number from 1 to 8"},
        {"\"threads\": 6", "\"threads\": \"6\"", "p: dsp.threads: found \"6\", needed a whole number from 1 to 8"},
        {"\"arch\": 79", "\"arch\": 0", "p: dsp.arch: found 0, needed a whole number from 1 to 999"},
        {"\"arch\": 79", "\"art\": 79", "p: dsp.arch: is missing; needed a whole number from 1 to 999"},
        {"libllada_hexagon_skel_v79.so", "../x.so",
         "p: dsp.module: found \"../x.so\", needed the name of a .so file"}}) {
    EXPECT_EQ(why_not(parse_profile(replaced(good, from, to), "p")), says);
  }
}

TEST(Profile, AnUnknownNameListsTheKnownOnes) {
  EXPECT_EQ(why_not(load_profile("v80")),
            "profile: found 'v80', needed a .json file or one of a6000-pcie4, rtx4060-pcie4, sm8750-paper, "
            "v75-8gen3, v75-hmx, v75-hvx, v79-8elite, v79-hmx, v79-hvx, v81-8elite-gen5");
  const auto file = load_profile("no/such.json");
  ASSERT_FALSE(file);
  EXPECT_EQ(exit_status(file.error()), 2);
}

// Bytes flipped, cut, doubled: an error of one line, or a profile whose numbers are still in range.
TEST(Profile, MutatedTextsAreRefusedOrStillInRange) {
  const std::string good = text_of("v79-8elite");
  int accepted = 0;
  for (uint64_t trial = 0; trial < 400; ++trial) {
    std::string text = good;
    const int changes = 1 + static_cast<int>(uniform(trial, 0, 0, 0) * 3);
    for (int i = 0; i < changes; ++i) {
      const auto key = static_cast<uint64_t>(i);
      const auto at = static_cast<size_t>(uniform(trial, 1, key, 0) * static_cast<double>(text.size()));
      const auto byte = static_cast<char>(uniform(trial, 2, key, 0) * 256);
      switch (static_cast<int>(uniform(trial, 3, key, 0) * 4)) {
        case 0:
          text[at] = byte;
          break;
        case 1:
          text.erase(at, 1 + static_cast<size_t>(uniform(trial, 4, key, 0) * 40));
          break;
        case 2:
          text.insert(at, 1, byte);
          break;
        default:
          text.insert(at, text.substr(at, 60));
      }
    }
    const auto profile = parse_profile(text, "p");
    if (!profile) {
      EXPECT_EQ(profile.error().message.find('\n'), std::string::npos);
      EXPECT_EQ(exit_status(profile.error()), 2);
      continue;
    }
    ++accepted;
    for (const NamedNumber& named : numbers(*profile)) {
      EXPECT_TRUE(std::isfinite(named.number->value)) << named.path;
      EXPECT_GE(named.number->value, 0) << named.path;
    }
  }
  EXPECT_GT(accepted, 0) << "changes inside a source text are still profiles";
  EXPECT_LT(accepted, 300);
}

}  // namespace
}  // namespace llada
