// SPDX-License-Identifier: Apache-2.0
#include "kernel_build/kernel_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <memory>

#include "base/knobs.h"
#include "base/log.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
constexpr int64_t hour = 3600;
constexpr const char* prune_mark = "pruned";
constexpr std::string_view temporary_prefix = "tmp-";

/// The header of a cache file; `magic` contains its version.
struct CacheHeader {
  std::array<char, 8> magic{'w', 'e', 'f', 't', 'k', 'c', '0', '1'};
  uint64_t size = 0;
  Hash128 key, checksum;
};
static_assert(sizeof(CacheHeader) == 48);

bool read_all(int fd, std::span<std::byte> data) {
  while (!data.empty()) {
    ssize_t count = ::read(fd, data.data(), data.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    data = data.subspan(count);
  }
  return true;
}

template <class T>
std::span<std::byte> bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

bool is_private_file(int fd, struct stat& info) {
  return ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == ::geteuid() && (info.st_mode & 022) == 0;
}

/// Reads the data of an entry; nothing if the file is damaged, has another key or may be written by other users.
std::optional<Bytes> read_entry(int fd, const Hash128& key) {
  struct stat info{};
  CacheHeader header;
  const CacheHeader expected;
  if (!is_private_file(fd, info) || !read_all(fd, bytes_of(header))) return std::nullopt;
  bool fits = header.magic == expected.magic && header.key == key &&
              header.size == static_cast<uint64_t>(info.st_size) - sizeof(CacheHeader);
  if (!fits) return std::nullopt;
  std::vector<std::byte> data(header.size);
  if (!read_all(fd, data) || hash128(data) != header.checksum) return std::nullopt;
  return Bytes(std::move(data));
}

/// Sets the modification time, which is the time of the last use; at most once an hour, to save writes.
void touch(int fd) {
  struct stat info{};
  if (::fstat(fd, &info) == 0 && info.st_mtime + hour < ::time(nullptr)) ::futimens(fd, nullptr);
}

bool is_key(std::string_view name) {
  return name.size() == 32 && name.find_first_not_of("0123456789abcdef") == name.npos;
}

struct File {
  std::string name;
  int64_t bytes, time;
};

std::vector<File> files_in(int folder) {
  std::vector<File> files;
  int own = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  std::unique_ptr<DIR, int (*)(DIR*)> stream(own < 0 ? nullptr : ::fdopendir(own), ::closedir);
  if (!stream && own >= 0) ::close(own);
  while (dirent* entry = stream ? ::readdir(stream.get()) : nullptr) {
    struct stat info{};
    bool regular = ::fstatat(folder, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(info.st_mode);
    if (regular) files.push_back({entry->d_name, info.st_size, info.st_mtime});
  }
  return files;
}

/// Returns a name with process id, time and a count, so that writers that share the file system use different names.
std::string temporary_name() {
  static std::atomic<uint64_t> count = 0;
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return cat(temporary_prefix, ::getpid(), "-", now.tv_sec, now.tv_nsec, "-", count++);
}

/// Writes a file under a temporary name and renames it, so that readers see all of it or nothing. Needs no fsync: after
/// a power loss, the checksum reveals a half-written entry.
bool write_entry(int folder, const std::string& name, const CacheHeader& header, std::span<const std::byte> data) {
  std::string temporary = temporary_name();
  Descriptor file(::openat(folder, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (file.fd < 0) return false;
  bool done = write_all(file.fd, std::as_bytes(std::span(&header, 1))) && write_all(file.fd, data) &&
              ::renameat(folder, temporary.c_str(), folder, name.c_str()) == 0;
  int code = errno;
  if (!done) ::unlinkat(folder, temporary.c_str(), 0);
  errno = code;
  return done;
}

}  // namespace

fs::path cache_folder() {
  if (!knobs().cache_dir.empty()) return knobs().cache_dir;
  std::string xdg = environment("XDG_CACHE_HOME");
  if (!xdg.empty() && fs::path(xdg).is_absolute()) return fs::path(xdg) / "weft";
  std::string home = environment("HOME");
  return home.empty() ? fs::path() : fs::path(home) / ".cache" / "weft";
}

void make_private_folders(const fs::path& path) {
  if (path.empty() || path == path.root_path()) return;
  struct stat info{};
  if (::stat(path.c_str(), &info) == 0) return;
  make_private_folders(path.parent_path());
  ::mkdir(path.c_str(), 0700);
}

KernelCache::KernelCache(fs::path folder, int64_t limit)
    : folder_(folder.empty() ? folder : folder / "kernels"), limit_(folder.empty() ? 0 : limit) {}

KernelCache::~KernelCache() {
  if (fd_ >= 0) ::close(fd_);
}

KernelCache& KernelCache::shared() {
  static KernelCache cache(cache_folder(), knobs().cache_limit << 20);
  return cache;
}

void KernelCache::warn(const std::string& what) {
  unusable_ = true;
  log(LogLevel::warning, "W210: the kernel cache ", printable(folder_.string()), " is not used: ", what);
}

/// Returns the folder's descriptor, or -1 if it cannot be used. A missing folder causes a warning only with `create`.
int KernelCache::open_folder(bool create) {
  std::scoped_lock lock(mutex_);
  if (limit_ <= 0 || unusable_) return -1;
  if (fd_ >= 0) return fd_;
  if (create) make_private_folders(folder_);
  int fd = ::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) {
    if (create || errno != ENOENT) warn(std::strerror(errno));
    return -1;
  }
  struct stat info{};
  bool ours = ::fstat(fd, &info) == 0 && info.st_uid == ::geteuid() && (info.st_mode & 077) == 0;
  if (ours) return fd_ = fd;
  ::close(fd);
  warn("it must belong to this user, with no access for others (mode 0700)");
  return -1;
}

std::optional<Bytes> KernelCache::get(const Hash128& key) {
  int folder = open_folder(false);
  if (folder < 0) return std::nullopt;
  std::string name = to_string(key);
  Descriptor file(::openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (file.fd < 0) return std::nullopt;
  auto data = read_entry(file.fd, key);
  if (data) touch(file.fd);
  else log(LogLevel::note, "kernel cache: entry ", name, " is damaged and will be made again");
  return data;
}

/// Warns once and ends writing because of the error `code` (errno); existing entries are still read.
void KernelCache::stop_writing(int code) {
  if (is_full_.exchange(true)) return;
  log(LogLevel::warning, "W210: the kernel cache ", printable(folder_.string()),
      " cannot be written: ", std::strerror(code));
}

void KernelCache::put(const Hash128& key, std::span<const std::byte> data) {
  auto size = static_cast<int64_t>(data.size() + sizeof(CacheHeader));
  if (size > limit_ / 4 || is_full_) return;
  int folder = open_folder(true);
  if (folder < 0) return;
  const CacheHeader header{.size = data.size(), .key = key, .checksum = hash128(data)};
  if (!write_entry(folder, to_string(key), header, data)) return stop_writing(errno);
  if (prune_is_due(folder, size)) prune(folder);
}

bool KernelCache::prune_is_due(int folder, int64_t bytes) {
  if ((written_ += bytes) > limit_ / 16) return true;
  if (written_ != bytes) return false;  // checks the time only at the first put after a prune
  struct stat mark{};
  return ::fstatat(folder, prune_mark, &mark, AT_SYMLINK_NOFOLLOW) != 0 || mark.st_mtime + hour < ::time(nullptr);
}

void KernelCache::prune(int folder) {
  written_ = 0;
  Descriptor mark(::openat(folder, prune_mark, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (mark.fd >= 0) ::futimens(mark.fd, nullptr);
  auto files = files_in(folder);
  int64_t total = 0, now = ::time(nullptr);
  for (const File& file : files) {
    total += file.bytes;
    bool stale = file.name.starts_with(temporary_prefix) && file.time + hour < now;
    if (stale) ::unlinkat(folder, file.name.c_str(), 0);
  }
  if (total <= limit_) return;
  std::ranges::sort(files, {}, [](const File& file) { return std::tie(file.time, file.name); });
  for (const File& file : files) {
    if (total <= limit_ / 4 * 3) return;
    if (is_key(file.name) && ::unlinkat(folder, file.name.c_str(), 0) == 0) total -= file.bytes;
  }
}

void KernelCache::prune() {
  int folder = open_folder(false);
  if (folder >= 0) prune(folder);
}

std::vector<CacheEntry> KernelCache::list() {
  std::vector<CacheEntry> entries;
  int folder = open_folder(false);
  if (folder < 0) return entries;
  for (const File& file : files_in(folder)) {
    if (is_key(file.name)) entries.push_back({file.name, file.bytes, file.time});
  }
  std::ranges::sort(
      entries, [](const auto& a, const auto& b) { return std::tie(b.used_at, a.key) < std::tie(a.used_at, b.key); });
  return entries;
}

int64_t KernelCache::clear() {
  int64_t removed = 0;
  int folder = open_folder(false);
  if (folder < 0) return removed;
  for (const File& file : files_in(folder)) {
    bool ours = is_key(file.name) || file.name.starts_with(temporary_prefix);
    if (ours && ::unlinkat(folder, file.name.c_str(), 0) == 0) removed += is_key(file.name);
  }
  return removed;
}

}  // namespace weft
