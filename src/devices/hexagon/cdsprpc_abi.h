// The part of the libcdsprpc interface that this project uses, declared from the public FastRPC headers (Qualcomm's
// open fastrpc library, inc/remote.h and inc/rpcmem.h). A phone's vendor library exports it, the stand-in imitates it,
// and devices/hexagon knows nothing else of either. Plain C layout; nothing here is ours to change.
//
// Words: domain = a DSP, or a session (process) on it once it is reserved. scalars = method number and argument counts
// of an invoke in one word. handle = an opened module (skel) on the DSP.
#pragma once
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef uint64_t remote_handle64;

typedef struct {
  void* pv;
  size_t nLen;
} remote_buf;

typedef struct {
  int32_t fd;
  uint32_t offset;
} remote_dma_handle;

typedef union {
  remote_buf buf;
  remote_handle64 h64;
  remote_dma_handle dma;
} remote_arg;

// Arguments stand in this order: input buffers, output buffers, input handles, output handles.
#define REMOTE_SCALARS_MAKEX(attr, method, in, out, in_handles, out_handles)                                  \
  ((((uint32_t)(attr) & 0x7) << 29) | (((uint32_t)(method) & 0x1f) << 24) | (((uint32_t)(in) & 0xff) << 16) | \
   (((uint32_t)(out) & 0xff) << 8) | (((uint32_t)(in_handles) & 0x0f) << 4) | ((uint32_t)(out_handles) & 0x0f))
#define REMOTE_SCALARS_METHOD(sc) (((sc) >> 24) & 0x1f)
#define REMOTE_SCALARS_INBUFS(sc) (((sc) >> 16) & 0xff)
#define REMOTE_SCALARS_OUTBUFS(sc) (((sc) >> 8) & 0xff)

enum {
  CDSP_DOMAIN_ID = 3,
  RPCMEM_HEAP_ID_SYSTEM = 25,
  RPCMEM_DEFAULT_FLAGS = 1,
  FASTRPC_MAP_FD_DELAYED = 3,  // the DSP may map it from now on, by HAP_mmap
};

enum {  // requests of remote_session_control
  FASTRPC_THREAD_PARAMS = 1,
  DSPRPC_CONTROL_UNSIGNED_MODULE = 2,
  FASTRPC_REMOTE_PROCESS_KILL = 6,
  FASTRPC_RESERVE_NEW_SESSION = 13,
  FASTRPC_GET_URI = 15,
};
enum { DSPRPC_CONTROL_LATENCY = 1 };                     // a request of remote_handle64_control
enum { RPC_DISABLE_QOS = 0, RPC_PM_QOS = 1 };            // how: not at all, by keeping processors awake
enum { DSPRPC_GET_DSP_INFO = 2 };                        // a request of remote_handle_control
enum { DSP_UNSIGNED_PD_SUPPORT = 1, DSP_ARCH_VER = 6 };  // attributes of DSPRPC_GET_DSP_INFO

struct remote_rpc_control_latency {
  uint32_t enable, latency;  // how; microseconds
};
struct remote_rpc_thread_params {
  int domain, priority, stack_bytes;  // of the DSP's threads that serve calls; -1: the system's
};
struct remote_rpc_control_unsigned_module {
  int domain, enable;
};
struct remote_rpc_process_clean_params {
  int domain;
};
struct remote_dsp_capability {
  uint32_t domain, attribute_ID, capability;
};
struct remote_rpc_reserve_new_session {
  char* domain_name;
  uint32_t domain_name_len;
  char* session_name;
  uint32_t session_name_len;
  uint32_t effective_domain_id;  // out: the domain of this session from now on
  uint32_t session_id;           // out
};
struct remote_rpc_get_uri {
  char* domain_name;
  uint32_t domain_name_len;
  uint32_t session_id;
  char* module_uri;
  uint32_t module_uri_len;
  char* uri;  // out
  uint32_t uri_len;
};

// Error codes of the interface that a caller tells apart (AEEStdErr.h).
enum {
  AEE_SUCCESS = 0,
  AEE_EFAILED = 1,
  AEE_ENOMEMORY = 2,
  AEE_EUNABLETOLOAD = 6,
  AEE_EBADPARM = 14,
  AEE_EUNSUPPORTED = 20,
  AEE_ENOSUCH = 39,
  AEE_EINVHANDLE = 44,
  AEE_ENOSUCHMOD = 62,
  AEE_ENOSUCHSYMBOL = 66,
  AEE_ENOSUCHMAP = 72,
  AEE_EMAPALREADYPRESENT = 135,
  AEE_ECONNRESET = 104,
};

// The functions, as types, because they are found by dlsym.
typedef void* rpcmem_alloc_fn(int heap, uint32_t flags, int size);
typedef void rpcmem_free_fn(void* data);
typedef int rpcmem_to_fd_fn(void* data);
typedef int fastrpc_mmap_fn(int domain, int fd, void* address, int offset, size_t length, int flags);
typedef int fastrpc_munmap_fn(int domain, int fd, void* address, size_t length);
typedef int remote_handle64_open_fn(const char* uri, remote_handle64* handle);
typedef int remote_handle64_invoke_fn(remote_handle64 handle, uint32_t scalars, remote_arg* arguments);
typedef int remote_handle64_close_fn(remote_handle64 handle);
typedef int remote_handle_control_fn(uint32_t request, void* data, uint32_t length);
typedef int remote_handle64_control_fn(remote_handle64 handle, uint32_t request, void* data, uint32_t length);
typedef int remote_session_control_fn(uint32_t request, void* data, uint32_t length);

#ifdef __cplusplus
}
#endif
