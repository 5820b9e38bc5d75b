// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>

#include "base/error.h"

namespace weft {
namespace {

/// Returns the names of files in the folder of `path` that resemble the name of the missing file.
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

/// Returns a name in the folder of `path` that no other thread or process uses.
std::string temporary_path(const std::filesystem::path& path) {
  static std::atomic<uint64_t> count = 0;
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return cat(path.string(), ".", ::getpid(), "-", now.tv_nsec, "-", count++);
}

struct NewFile {
  Descriptor own;
  bool has_name = false;
};

std::string name_of_descriptor(int fd) { return cat("/proc/self/fd/", fd); }

/// Opens a file without a name (O_TMPFILE), so that a killed writer leaves nothing behind. If the file system does not
/// support this, creates the file `temporary`.
NewFile open_new(const std::filesystem::path& path, const std::string& temporary) {
  const std::string folder = path.has_parent_path() ? path.parent_path().string() : ".";
  Descriptor nameless(::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666));
  if (nameless.fd >= 0 && ::access(name_of_descriptor(nameless.fd).c_str(), F_OK) == 0) return {std::move(nameless)};
  Descriptor named(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (named.fd < 0) file_error(path.string(), "create", errno);
  return {std::move(named), true};
}

bool give_name(int fd, const std::string& name) {
  return ::linkat(AT_FDCWD, name_of_descriptor(fd).c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0;
}

/// True for a device or pipe, which must be written to directly and not be replaced by a new file.
bool is_special(const std::filesystem::path& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

void write_special(const std::filesystem::path& path, std::span<const std::span<const std::byte>> pieces) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (file.fd < 0) file_error(path.string(), "open", errno);
  for (auto piece : pieces) {
    if (!write_all(file.fd, piece)) file_error(path.string(), "write", errno);
  }
}

}  // namespace

void file_error(const std::string& path, std::string_view doing, int code) {
  bool resource = code == ENOSPC || code == ENOMEM || code == EMFILE || code == EFBIG;
  std::string near = code == ENOENT ? near_files(path) : "";
  throw Error({.kind = resource ? ErrorKind::resource : ErrorKind::usage,
               .code = "E106",
               .what = cat("cannot ", doing, " ", printable(path), ": ", std::strerror(code)),
               .hint = near.empty() ? "" : cat("did you mean ", near, "?")});
}

Descriptor::~Descriptor() {
  if (fd >= 0) ::close(fd);
}

bool write_all(int fd, std::span<const std::byte> data) {
  while (!data.empty()) {
    ssize_t count = ::write(fd, data.data(), data.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    data = data.subspan(count);
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

void write_file(const std::filesystem::path& path, std::span<const std::byte> data) {
  write_file(path, std::span(&data, 1));
}

void write_file(const std::filesystem::path& path, std::span<const std::span<const std::byte>> pieces) {
  if (is_special(path)) return write_special(path, pieces);
  const std::string temporary = temporary_path(path);
  NewFile file = open_new(path, temporary);
  try {
    for (auto piece : pieces) {
      if (!write_all(file.own.fd, piece)) file_error(path.string(), "write", errno);
    }
    if (::fsync(file.own.fd) != 0) file_error(path.string(), "write", errno);
    if (!file.has_name && !give_name(file.own.fd, temporary)) file_error(path.string(), "create", errno);
    if (::rename(temporary.c_str(), path.c_str()) != 0) file_error(path.string(), "replace", errno);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
}

}  // namespace weft
