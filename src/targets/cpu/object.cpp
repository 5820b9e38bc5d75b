// SPDX-License-Identifier: Apache-2.0
#include "targets/cpu/object.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/file.h"

namespace weft {

[[noreturn]] static void refuse_object(const std::string& name, const std::string& why) {
  throw Error({.kind = ErrorKind::resource,
               .code = "E405",
               .what = cat("cannot open the compiled code of ", printable(name)),
               .why = why});
}

/// Creates a memory file. Returns -1 if that fails, for example because the system forbids executable memory files.
static int memory_file(std::span<const std::byte> image, const std::string& name) {
  int fd = ::memfd_create(cat("weft-", name.substr(0, 200)).c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return -1;
  bool ready = write_all(fd, image) && ::fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW) == 0;
  if (ready) return fd;
  ::close(fd);
  return -1;
}

static void* open_memory(int fd) {
  std::string path = cat("/proc/self/fd/", fd);
  // The loader identifies libraries by path. If a closed library with this path is still loaded, dlopen would return
  // that library instead of ours.
  if (void* other = ::dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD)) {
    ::dlclose(other);
    return nullptr;
  }
  return ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
}

static void* open_temporary(std::span<const std::byte> image, const std::string& name) {
  std::error_code failed;
  auto folder = std::filesystem::temp_directory_path(failed);
  std::string path = (failed ? std::filesystem::path("/tmp") : folder) / "weft-XXXXXX";
  int fd = ::mkostemp(path.data(), O_CLOEXEC);  // mode 0600
  if (fd < 0) refuse_object(name, cat("no file in memory, and ", path, ": ", std::strerror(errno)));
  bool written = write_all(fd, image);
  ::close(fd);
  void* handle = written ? ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  const char* why = written ? (handle ? "" : ::dlerror()) : std::strerror(errno);
  ::unlink(path.c_str());
  if (!handle) refuse_object(name, why);
  return handle;
}

LoadedObject::LoadedObject(std::span<const std::byte> image, const std::string& name) : fd_(memory_file(image, name)) {
  // The descriptor stays open as long as the library, so that its path cannot name another file.
  if (fd_ >= 0) handle_ = open_memory(fd_);
  if (!handle_) handle_ = open_temporary(image, name);
}

LoadedObject::~LoadedObject() {
  if (handle_) ::dlclose(handle_);
  if (fd_ >= 0) ::close(fd_);
}

LoadedObject::LoadedObject(LoadedObject&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)), fd_(std::exchange(other.fd_, -1)) {}

LoadedObject& LoadedObject::operator=(LoadedObject&& other) noexcept {
  std::swap(handle_, other.handle_);
  std::swap(fd_, other.fd_);
  return *this;
}

void* LoadedObject::find(const char* symbol) const { return handle_ ? ::dlsym(handle_, symbol) : nullptr; }

void* LoadedObject::get(const std::string& symbol) const {
  void* address = find(symbol.c_str());
  if (!address) internal_error(cat("the compiled code has no kernel ", symbol));
  return address;
}

}  // namespace weft
