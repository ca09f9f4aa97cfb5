#include "lab/hexagon/standin/buffers.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace llada::standin {
namespace {

uint8_t* map_file(int fd, size_t bytes) {
  void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return at == MAP_FAILED ? nullptr : static_cast<uint8_t*>(at);
}

int make_file(size_t bytes) {
  const char* folder = std::getenv("LLADA_HEXAGON_FILES");
  const int fd = folder != nullptr ? ::open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)
                                   : ::memfd_create("llada-rpcmem", MFD_CLOEXEC);
  if (fd >= 0 && ::ftruncate(fd, static_cast<off_t>(bytes)) == 0) return fd;
  if (fd >= 0) ::close(fd);
  return -1;
}

void close_files(const RingBuffer& files) {
  for (const int fd : {files.fd, files.cache, files.shadow})
    if (fd >= 0) ::close(fd);
  if (files.memory >= 0 && files.memory != files.fd) ::close(files.memory);
}

}  // namespace

void move_written(uint8_t* from, uint8_t* shadow, uint8_t* to, size_t bytes) {
  for (size_t at = 0; at < bytes; at += RING_CACHE_LINE) {
    const size_t line = std::min<size_t>(RING_CACHE_LINE, bytes - at);
    if (std::memcmp(from + at, shadow + at, line) == 0) continue;
    std::memcpy(to + at, from + at, line);
    std::memcpy(shadow + at, from + at, line);
  }
}

void write_back(const RingBuffer& buffer) {
  struct stat file {};
  if (::fstat(buffer.cache, &file) != 0) return;
  const auto bytes = static_cast<size_t>(file.st_size);
  uint8_t* const cache = map_file(buffer.cache, bytes);
  uint8_t* const shadow = map_file(buffer.shadow, bytes);
  uint8_t* const memory = map_file(buffer.memory, bytes);
  if (cache != nullptr && shadow != nullptr && memory != nullptr) move_written(cache, shadow, memory, bytes);
  for (uint8_t* at : {cache, shadow, memory})
    if (at != nullptr) ::munmap(at, bytes);
}

void* Buffers::allocate(size_t bytes, Coherent coherent, int poison) {
  Buffer b{nullptr, bytes, {make_file(bytes), -1, -1, -1}, {}};
  bool there = b.files.fd >= 0;
  b.files.memory = b.files.fd;
  if (there && coherent != kBoth) {
    b.files.cache = make_file(bytes), b.files.shadow = make_file(bytes);
    if (coherent == kNeither) b.files.memory = make_file(bytes), b.shadow.resize(bytes);
    there = b.files.cache >= 0 && b.files.shadow >= 0 && b.files.memory >= 0;
  }
  if (there) b.data = map_file(b.files.fd, bytes);
  if (b.data == nullptr) {
    close_files(b.files);
    return nullptr;
  }
  if (poison != 0) std::memset(b.data, poison, bytes);
  void* const data = b.data;
  const std::lock_guard lock(mutex_);
  all_[data] = std::move(b);
  return data;
}

int Buffers::free(void* data) {
  const std::lock_guard lock(mutex_);
  const auto found = all_.find(data);
  if (found == all_.end()) return -1;
  const Buffer& b = found->second;
  const int fd = b.files.fd;
  ::munmap(data, b.bytes);
  close_files(b.files);
  all_.erase(found);
  return fd;
}

int Buffers::descriptor(void* data) const {
  const std::lock_guard lock(mutex_);
  const auto found = all_.find(data);
  return found == all_.end() ? -1 : found->second.files.fd;
}

const Buffers::Buffer* Buffers::find(int fd) const {
  const auto found = std::ranges::find_if(all_, [&](const auto& b) { return b.second.files.fd == fd; });
  return found == all_.end() ? nullptr : &found->second;
}

std::optional<RingBuffer> Buffers::cached(int fd) const {
  const std::lock_guard lock(mutex_);
  const Buffer* const b = find(fd);
  return b == nullptr || b->files.cache < 0 ? std::nullopt : std::optional(b->files);
}

int Buffers::sync(int fd, bool take) {
  const std::lock_guard lock(mutex_);
  auto* const b = const_cast<Buffer*>(find(fd));
  if (b == nullptr) return -1;
  if (b->shadow.empty()) return 0;
  uint8_t* const memory = map_file(b->files.memory, b->bytes);
  if (memory == nullptr) return -1;
  if (!take) {
    move_written(b->data, b->shadow.data(), memory, b->bytes);
  } else {
    // Lines that were written and not given to memory are lost: they are forgotten, not written.
    for (size_t at = 0; at < b->bytes; at += RING_CACHE_LINE)
      if (std::memcmp(b->data + at, memory + at, RING_CACHE_LINE) != 0)
        std::memcpy(b->data + at, memory + at, RING_CACHE_LINE);
    std::memcpy(b->shadow.data(), b->data, b->bytes);
  }
  ::munmap(memory, b->bytes);
  return 0;
}

}  // namespace llada::standin
