// The stand-in for a phone's libcdsprpc, with a DSP program of its own: opens, invokes, mappings in an address space
// that is really as small as asked for, and processes that die, hang and are restarted.
#include <dlfcn.h>

#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

#include "devices/hexagon/cdsprpc_abi.h"
#include "hexagon_tools.h"

namespace llada {
namespace {

constexpr const char* kUri = "file:///libecho_skel.so?echo_skel_handle_invoke&_modver=1.0&_dom=cdsp";

class StandIn : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_EMULATOR();
    ::setenv("ADSP_LIBRARY_PATH", LLADA_BINARY_DIR "/bin/hexagon/test", 1);
    library_ = ::dlopen(standin_path(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << ::dlerror();
    get(alloc, "rpcmem_alloc"), get(free, "rpcmem_free"), get(to_fd, "rpcmem_to_fd");
    get(map, "fastrpc_mmap"), get(unmap, "fastrpc_munmap");
    get(open, "remote_handle64_open"), get(invoke, "remote_handle64_invoke"), get(close, "remote_handle64_close");
    get(session_control, "remote_session_control");
    get(error, "llada_standin_error"), get(space, "llada_standin_space"), get(fault, "llada_standin_fault");
    space(64 << 20);
    fault("");
  }
  void TearDown() override {
    if (library_ == nullptr) return;
    fault("");
    EXPECT_TRUE(dsp_processes().empty());
    EXPECT_EQ(shared_buffers(), 0);
    ::unsetenv("ADSP_LIBRARY_PATH");
  }
  template <class F>
  void get(F*& function, const char* name) {
    function = reinterpret_cast<F*>(::dlsym(library_, name));
    ASSERT_NE(function, nullptr) << name;
  }

  remote_handle64 opened(const char* uri = kUri) {
    remote_handle64 handle = 0;
    EXPECT_EQ(open(uri, &handle), AEE_SUCCESS) << error();
    return handle;
  }
  // The status, and what came back.
  std::pair<int, std::vector<uint32_t>> call(remote_handle64 handle, uint32_t method, std::vector<uint32_t> in,
                                             size_t out_words) {
    std::vector<uint32_t> out(out_words, 0xdddddddd);
    remote_arg arguments[2] = {};
    arguments[0].buf = {in.data(), in.size() * 4};
    arguments[1].buf = {out.data(), out.size() * 4};
    const int status = invoke(handle, REMOTE_SCALARS_MAKEX(0, method, 1, 1, 0, 0), arguments);
    return {status, out};
  }
  // The status, and the address that the DSP sees.
  std::pair<int, uint32_t> map_on_dsp(remote_handle64 handle, int fd, uint32_t bytes) {
    std::vector<uint32_t> in(5, 0);
    in[0] = bytes;
    std::snprintf(reinterpret_cast<char*>(in.data() + 1), 16, "%d", fd);
    const auto [status, out] = call(handle, 6, in, 1);
    return {status, out[0]};
  }
  void kill() {
    remote_rpc_process_clean_params asked{CDSP_DOMAIN_ID};
    EXPECT_EQ(session_control(FASTRPC_REMOTE_PROCESS_KILL, &asked, sizeof asked), AEE_SUCCESS);
  }

  void* library_ = nullptr;
  rpcmem_alloc_fn* alloc;
  rpcmem_free_fn* free;
  rpcmem_to_fd_fn* to_fd;
  fastrpc_mmap_fn* map;
  fastrpc_munmap_fn* unmap;
  remote_handle64_open_fn* open;
  remote_handle64_invoke_fn* invoke;
  remote_handle64_close_fn* close;
  remote_session_control_fn* session_control;
  const char* (*error)();
  int (*space)(uint32_t);
  int (*fault)(const char*);
};

TEST_F(StandIn, ABufferIsSeenFromBothSides) {
  const auto handle = opened();
  auto* words = static_cast<uint32_t*>(alloc(RPCMEM_HEAP_ID_SYSTEM, RPCMEM_DEFAULT_FLAGS, 100000));
  ASSERT_NE(words, nullptr);
  std::iota(words, words + 1000, 7u);
  const int fd = to_fd(words);
  ASSERT_EQ(map(CDSP_DOMAIN_ID, fd, words, 0, 100000, FASTRPC_MAP_FD_DELAYED), AEE_SUCCESS);
  EXPECT_EQ(map(CDSP_DOMAIN_ID, fd, words, 0, 100000, FASTRPC_MAP_FD_DELAYED), AEE_EMAPALREADYPRESENT);
  const auto [mapped, address] = map_on_dsp(handle, fd, 131072);
  ASSERT_EQ(mapped, AEE_SUCCESS);
  const auto [status, out] = call(handle, 2, {address, 4000}, 1);
  EXPECT_EQ(status, AEE_SUCCESS);
  EXPECT_EQ(out, std::vector<uint32_t>{7 * 1000 + 999 * 500});
  EXPECT_EQ(words[0], 8u) << "the DSP wrote";
  EXPECT_EQ(words[999], 1007u);
  EXPECT_EQ(call(handle, 7, {address, 131072}, 1).first, AEE_SUCCESS);
  EXPECT_EQ(unmap(CDSP_DOMAIN_ID, fd, words, 99999), AEE_ENOSUCHMAP) << "another length";
  EXPECT_EQ(unmap(CDSP_DOMAIN_ID, fd, words, 100000), AEE_SUCCESS);
  EXPECT_EQ(unmap(CDSP_DOMAIN_ID, fd, words, 100000), AEE_ENOSUCHMAP);
  free(words);
  EXPECT_EQ(to_fd(words), -1);
  EXPECT_EQ(close(handle), AEE_SUCCESS);
}

TEST_F(StandIn, ArgumentsOfAnySizeGoThereAndBack) {
  const auto handle = opened();
  for (const size_t n : {1u, 7u, 1000u, 100000u}) {
    std::vector<uint32_t> in(n);
    std::iota(in.begin(), in.end(), static_cast<uint32_t>(n));
    const auto [status, out] = call(handle, 3, in, n);
    EXPECT_EQ(status, AEE_SUCCESS);
    EXPECT_EQ(out, in);
  }
  EXPECT_EQ(call(handle, 3, std::vector<uint32_t>(600000), 600000).first, AEE_ENOMEMORY) << "beyond the ring";
  EXPECT_EQ(call(handle, 9, {1}, 1).first, AEE_EUNSUPPORTED) << "the module's own answer";
  EXPECT_EQ(call(handle ^ 1, 3, {1}, 1).first, AEE_EINVHANDLE);
  EXPECT_EQ(close(handle), AEE_SUCCESS);
  EXPECT_EQ(call(handle, 3, {1}, 1).first, AEE_EINVHANDLE);
}

// The refusal is the emulated process's: nothing on this side counts.
TEST_F(StandIn, TheAddressSpaceIsAsSmallAsAskedFor) {
  std::vector<int> fits;
  for (const uint32_t megabytes : {64u, 128u}) {
    space(megabytes << 20);
    const auto handle = opened();
    std::vector<void*> buffers;
    std::vector<uint32_t> addresses;
    int refused = AEE_SUCCESS;
    while (refused == AEE_SUCCESS && buffers.size() < 40) {
      buffers.push_back(alloc(RPCMEM_HEAP_ID_SYSTEM, RPCMEM_DEFAULT_FLAGS, 8 << 20));
      const auto [status, address] = map_on_dsp(handle, to_fd(buffers.back()), 8 << 20);
      refused = status;
      addresses.push_back(address);
    }
    EXPECT_EQ(refused, AEE_ENOMEMORY);
    EXPECT_EQ(call(handle, 3, {42}, 1).second, std::vector<uint32_t>{42}) << "it lives on";
    fits.push_back(static_cast<int>(buffers.size()) - 1);
    // Room is made by unmapping.
    EXPECT_EQ(call(handle, 7, {addresses[0], 8 << 20}, 1).first, AEE_SUCCESS);
    EXPECT_EQ(map_on_dsp(handle, to_fd(buffers.back()), 8 << 20).first, AEE_SUCCESS);
    EXPECT_EQ(close(handle), AEE_SUCCESS);
    for (void* buffer : buffers) free(buffer);
  }
  EXPECT_GE(fits[0], 3);  // 64 MiB less the process's own
  EXPECT_EQ(fits[1] - fits[0], 8) << "64 MiB more hold 8 more";
}

TEST_F(StandIn, MissingModulesAreNamed) {
  remote_handle64 handle = 0;
  EXPECT_EQ(open("file:///libnone.so?echo_skel_handle_invoke&_modver=1.0&_dom=cdsp", &handle), AEE_ENOSUCHMOD);
  EXPECT_EQ(std::string(error()), "libnone.emulated is neither in ADSP_LIBRARY_PATH nor beside the stand-in");
  EXPECT_EQ(open("libecho_skel.so", &handle), AEE_EBADPARM);
  EXPECT_EQ(open("file:///../libecho_skel.so?x&_dom=cdsp", &handle), AEE_EBADPARM);
}

TEST_F(StandIn, ADeadProcessIsNoticedAtOnceAndCanBeStartedAgain) {
  for (int i = 0; i < 3; ++i) {
    const auto handle = opened();
    fault("kill:0:2000");
    EXPECT_EQ(call(handle, 4, {1}, 1).first, AEE_ECONNRESET) << "killed while it worked";
    EXPECT_EQ(call(handle, 3, {1}, 1).first, AEE_ECONNRESET) << "and stays dead";
    EXPECT_EQ(close(handle), AEE_SUCCESS);
  }
  const auto handle = opened();
  EXPECT_EQ(call(handle, 5, {1}, 1).first, AEE_ECONNRESET) << "a crash of the module's own";
  EXPECT_EQ(close(handle), AEE_SUCCESS);
}

TEST_F(StandIn, AHangEndsWhenTheProcessIsKilled) {
  const auto handle = opened();
  fault("hang:1");
  EXPECT_EQ(call(handle, 3, {5}, 1).second, std::vector<uint32_t>{5});
  int status = -1;
  std::thread caller([&] { status = call(handle, 3, {5}, 1).first; });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  kill();
  caller.join();
  EXPECT_EQ(status, AEE_ECONNRESET);
  EXPECT_EQ(close(handle), AEE_SUCCESS);
}

TEST_F(StandIn, OtherFailuresOnPurpose) {
  const auto handle = opened();
  fault("error:1");
  EXPECT_EQ(call(handle, 3, {5}, 1).first, AEE_SUCCESS);
  EXPECT_EQ(call(handle, 3, {5}, 1).first, AEE_EFAILED);
  EXPECT_EQ(call(handle, 3, {5}, 1).first, AEE_SUCCESS);
  fault("garbage:0");
  const auto [status, out] = call(handle, 3, {5}, 1);
  EXPECT_EQ(status, AEE_SUCCESS);
  EXPECT_NE(out, std::vector<uint32_t>{5});
  fault("map:0");
  void* buffer = alloc(RPCMEM_HEAP_ID_SYSTEM, RPCMEM_DEFAULT_FLAGS, 4096);
  EXPECT_EQ(map(CDSP_DOMAIN_ID, to_fd(buffer), buffer, 0, 4096, FASTRPC_MAP_FD_DELAYED), AEE_ENOMEMORY);
  free(buffer);
  EXPECT_EQ(close(handle), AEE_SUCCESS);
}

TEST_F(StandIn, SessionsAreProcessesOfTheirOwn) {
  char domain[] = "cdsp", name[] = "llada", uri[256],
       module[] = "file:///libecho_skel.so?echo_skel_handle_invoke&_modver=1.0";
  remote_rpc_reserve_new_session asked{domain, 4, name, 5, 0, 0};
  ASSERT_EQ(session_control(FASTRPC_RESERVE_NEW_SESSION, &asked, sizeof asked), AEE_SUCCESS);
  remote_rpc_get_uri get_uri{domain, 4, asked.session_id, module, sizeof module - 1, uri, sizeof uri};
  ASSERT_EQ(session_control(FASTRPC_GET_URI, &get_uri, sizeof get_uri), AEE_SUCCESS);
  const auto first = opened(), second = opened(uri);
  EXPECT_EQ(dsp_processes().size(), 2u);
  EXPECT_EQ(call(second, 3, {9}, 1).second, std::vector<uint32_t>{9});
  kill();
  EXPECT_EQ(call(first, 3, {9}, 1).first, AEE_ECONNRESET);
  EXPECT_EQ(call(second, 3, {9}, 1).second, std::vector<uint32_t>{9}) << "the other one is not touched";
  EXPECT_EQ(close(first), AEE_SUCCESS);
  EXPECT_EQ(close(second), AEE_SUCCESS);
}

}  // namespace
}  // namespace llada
