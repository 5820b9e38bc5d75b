// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace weft {
namespace {

/// Names in the folder of a missing file that are near to it.
std::string near_files(const std::filesystem::path& path) {
  std::vector<std::string> names;
  std::error_code failed;
  auto folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  for (auto entry = std::filesystem::directory_iterator(folder, failed); !failed && entry != end(entry);
       entry.increment(failed)) {
    if (names.size() == 1000) break;
    names.push_back(entry->path().filename().string());
  }
  return printable(nearest_names(path.filename().string(), names));
}

[[noreturn]] void file_error(const std::string& path, std::string_view doing, int code) {
  bool resource = code == ENOSPC || code == ENOMEM || code == EMFILE || code == EFBIG;
  std::string near = code == ENOENT ? near_files(path) : "";
  throw Error({.kind = resource ? ErrorKind::resource : ErrorKind::usage,
               .code = "E106",
               .what = cat("cannot ", doing, " ", printable(path), ": ", std::strerror(code)),
               .hint = near.empty() ? "" : cat("did you mean ", near, "?")});
}

/// Ends a mapping; bytes with such an owner are pages of a file.
struct Unmap {
  size_t size;
  void operator()(const void* address) const { ::munmap(const_cast<void*>(address), size); }
};

struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

bool write_all(int fd, std::span<const std::byte> data) {
  while (!data.empty()) {
    ssize_t count = ::write(fd, data.data(), data.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    data = data.subspan(static_cast<size_t>(count));
  }
  return true;
}

Bytes::Bytes(std::vector<std::byte> data) {
  auto owner = std::make_shared<const std::vector<std::byte>>(std::move(data));
  data_ = *owner;
  owner_ = std::move(owner);
}

Bytes Bytes::copy(std::span<const std::byte> data) {
  if (data.empty()) return {};
  std::shared_ptr<std::byte> owner(static_cast<std::byte*>(::operator new(data.size(), std::align_val_t{64})),
                                   [](std::byte* p) { ::operator delete(p, std::align_val_t{64}); });
  std::memcpy(owner.get(), data.data(), data.size());
  return {std::span<const std::byte>(owner.get(), data.size()), owner};
}

void Bytes::drop_pages() const {
  if (!std::get_deleter<Unmap>(owner_)) return;
  auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  auto begin = (reinterpret_cast<uintptr_t>(data_.data()) + page - 1) / page * page;
  auto end = reinterpret_cast<uintptr_t>(data_.data() + data_.size()) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

Bytes map_descriptor(int fd, const std::string& name) {
  struct stat info{};
  if (::fstat(fd, &info) != 0) file_error(name, "read", errno);
  if (S_ISDIR(info.st_mode)) file_error(name, "read", EISDIR);
  if (!S_ISREG(info.st_mode)) {
    throw Error({.kind = ErrorKind::usage, .code = "E106", .what = cat(printable(name), " is not a regular file")});
  }
  auto size = static_cast<size_t>(info.st_size);
  if (size == 0) return {};
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (address == MAP_FAILED) file_error(name, "map", errno);
  std::shared_ptr<const void> owner(address, Unmap{size});
  return {std::span(static_cast<const std::byte*>(address), size), owner};
}

Bytes map_file(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a FIFO must not hang; it is refused as not regular.
  Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) file_error(path.string(), "open", errno);
  return map_descriptor(file.fd, path.string());
}

void write_file(const std::filesystem::path& path, std::span<const std::byte> data) {
  write_file(path, std::span(&data, 1));
}

void write_file(const std::filesystem::path& path, std::span<const std::span<const std::byte>> pieces) {
  std::string temporary = path.string() + ".XXXXXX";
  Descriptor file{::mkostemp(temporary.data(), O_CLOEXEC)};
  if (file.fd < 0) file_error(path.string(), "create", errno);
  try {
    for (auto piece : pieces) {
      if (!write_all(file.fd, piece)) file_error(path.string(), "write", errno);
    }
    if (::fchmod(file.fd, 0644) != 0 || ::fsync(file.fd) != 0) file_error(path.string(), "write", errno);
    if (::rename(temporary.c_str(), path.c_str()) != 0) file_error(path.string(), "replace", errno);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
}

}  // namespace weft
