// The files that a phone's DSP would load, as far as their heads tell: pages, names, what they need of the system. That
// no loader has seen them yet is why there are three variants.
// labels of this file: device native
#include <elf.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "hexagon_tools.h"

namespace llada {
namespace {

constexpr unsigned kPage = 0x1000;

struct Module {
  std::string bytes;
  const Elf32_Ehdr& head() const { return *reinterpret_cast<const Elf32_Ehdr*>(bytes.data()); }
  std::vector<Elf32_Phdr> segments(uint32_t type) const {
    std::vector<Elf32_Phdr> found;
    for (int i = 0; i < head().e_phnum; ++i) {
      Elf32_Phdr segment;
      std::memcpy(&segment, bytes.data() + head().e_phoff + static_cast<size_t>(i) * sizeof segment, sizeof segment);
      if (segment.p_type == type) found.push_back(segment);
    }
    return found;
  }
  std::vector<Elf32_Dyn> dynamic() const {
    std::vector<Elf32_Dyn> entries;
    for (const Elf32_Phdr& segment : segments(PT_DYNAMIC))
      for (size_t at = 0; at + sizeof(Elf32_Dyn) <= segment.p_filesz; at += sizeof(Elf32_Dyn)) {
        entries.emplace_back();
        std::memcpy(&entries.back(), bytes.data() + segment.p_offset + at, sizeof(Elf32_Dyn));
        if (entries.back().d_tag == DT_NULL) break;
      }
    return entries;
  }
  uint32_t value(int32_t tag) const {
    for (const Elf32_Dyn& entry : dynamic())
      if (entry.d_tag == tag) return entry.d_un.d_val;
    return 0;
  }
  // The bytes at an address.
  const char* at(uint32_t address) const {
    for (const Elf32_Phdr& s : segments(PT_LOAD))
      if (address >= s.p_vaddr && address < s.p_vaddr + s.p_filesz)
        return bytes.data() + s.p_offset + (address - s.p_vaddr);
    return "";
  }
  std::string text(uint32_t offset) const { return at(value(DT_STRTAB) + offset); }
  std::vector<Elf32_Sym> symbols() const {
    uint32_t count[2];  // buckets, symbols: of the System V table alone
    std::memcpy(count, at(value(DT_HASH)), sizeof count);
    std::vector<Elf32_Sym> all(count[1]);
    std::memcpy(all.data(), at(value(DT_SYMTAB)), all.size() * sizeof(Elf32_Sym));
    return all;
  }
};

class PhoneModule : public testing::TestWithParam<const char*> {};

TEST_P(PhoneModule, HasTheHeadThatALoaderWants) {
  const std::string variant = GetParam();
  const std::string name = "libllada_hexagon_skel_v73" + variant + ".so";
  std::ifstream file(std::string(LLADA_BINARY_DIR "/bin/hexagon/") + name, std::ios::binary);
  if (!file) GTEST_SKIP() << "no compiler for v73 when this was built";
  const Module m{{std::istreambuf_iterator<char>(file), {}}};
  ASSERT_GT(m.bytes.size(), sizeof(Elf32_Ehdr));
  EXPECT_EQ(m.bytes.substr(0, 4), ELFMAG);
  EXPECT_EQ(m.head().e_machine, 164) << "Hexagon";
  EXPECT_EQ(m.head().e_type, ET_DYN);
  EXPECT_EQ(m.head().e_flags & 0xff, 0x73u);
  const auto loads = m.segments(PT_LOAD);
  ASSERT_GE(loads.size(), 2u);
  for (const Elf32_Phdr& load : loads) {
    EXPECT_EQ(load.p_align, kPage);
    EXPECT_EQ(load.p_offset % kPage, load.p_vaddr % kPage) << "mappable";
    if (!variant.empty()) {
      EXPECT_EQ(load.p_offset % kPage, 0u) << "a page of its own";
    }
    EXPECT_FALSE((load.p_flags & PF_W) != 0 && (load.p_flags & PF_X) != 0);
  }
  EXPECT_EQ(m.text(m.value(DT_SONAME)), name);
  std::vector<std::string> needed;
  for (const Elf32_Dyn& entry : m.dynamic())
    if (entry.d_tag == DT_NEEDED) needed.push_back(m.text(entry.d_un.d_val));
  const bool sdk = variant == "_sdk";
  EXPECT_EQ(needed, sdk ? (std::vector<std::string>{"libc.so", "libgcc.so"}) : std::vector<std::string>{});
  EXPECT_EQ((m.value(DT_FLAGS) & DF_SYMBOLIC) != 0 ||
                std::ranges::any_of(m.dynamic(), [](const Elf32_Dyn& entry) { return entry.d_tag == DT_SYMBOLIC; }),
            sdk);
  std::set<std::string> imports, exports;
  for (const Elf32_Sym& symbol : m.symbols()) {
    const std::string symbol_name = m.text(symbol.st_name);
    if (symbol_name.empty()) continue;
    if (symbol.st_shndx != SHN_UNDEF) {
      exports.insert(symbol_name);
      continue;
    }
    imports.insert(symbol_name);
    EXPECT_EQ(ELF32_ST_BIND(symbol.st_info), STB_WEAK) << symbol_name << ": a phone without it loads nothing";
  }
  EXPECT_EQ(exports, std::set<std::string>{"llada_hexagon_skel_handle_invoke"});
  EXPECT_EQ(imports, (std::set<std::string>{"HAP_debug",
                                            "HAP_mmap",
                                            "HAP_mmap2",
                                            "HAP_munmap",
                                            "HAP_munmap2",
                                            "HAP_perf_get_time_us",
                                            "HAP_power_set",
                                            "compute_resource_acquire",
                                            "compute_resource_attr_get_vtcm_ptr_v2",
                                            "compute_resource_attr_init",
                                            "compute_resource_attr_set_hmx_param",
                                            "compute_resource_attr_set_vtcm_param_v2",
                                            "compute_resource_hmx_lock",
                                            "compute_resource_hmx_unlock",
                                            "compute_resource_release",
                                            "pthread_attr_init",
                                            "pthread_attr_setstackaddr",
                                            "pthread_attr_setstacksize",
                                            "pthread_create",
                                            "pthread_join",
                                            "qurt_futex_wait",
                                            "qurt_futex_wake",
                                            "qurt_hvx_get_units"}));
}

INSTANTIATE_TEST_SUITE_P(Variants, PhoneModule, testing::Values("", "_aligned", "_sdk"),
                         [](const auto& info) { return *info.param == 0 ? "plain" : info.param + 1; });

}  // namespace
}  // namespace llada
