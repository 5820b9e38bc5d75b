// SPDX-License-Identifier: Apache-2.0
#include "base/kept_file.h"

#include <sys/stat.h>

#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "base/error.h"

namespace weft {
namespace {

class KeptFile;

/// The mappings of this process by where they begin.
struct Mappings {
  std::mutex mutex;
  std::map<const std::byte*, const KeptFile*> all;
};

Mappings& mappings() {
  static auto& known = *new Mappings;  // tensors may be freed at the very end of the process
  return known;
}

/// What tells whether a file is as it was; nothing where there is none.
std::optional<struct stat> state_of(const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 ? std::optional(info) : std::nullopt;
}

/// A mapping, listed for as long as somebody has a part of it.
class KeptFile {
 public:
  KeptFile(Bytes file, std::string path) : file_(std::move(file)), path_(std::move(path)), before_(state_of(path_)) {
    std::scoped_lock lock(mappings().mutex);
    mappings().all.emplace(file_.data(), this);
  }
  KeptFile(const KeptFile&) = delete;
  ~KeptFile() {
    std::scoped_lock lock(mappings().mutex);
    mappings().all.erase(file_.data());
  }

  const std::byte* end() const { return file_.data() + file_.size(); }
  void check() const {
    auto now = state_of(path_);
    bool is_there = before_ && now && now->st_dev == before_->st_dev && now->st_ino == before_->st_ino;
    if (!is_there) return;
    bool is_same = now->st_size == before_->st_size && now->st_mtim.tv_sec == before_->st_mtim.tv_sec &&
                   now->st_mtim.tv_nsec == before_->st_mtim.tv_nsec;
    if (is_same) return;
    throw Error({.kind = ErrorKind::usage,
                 .code = "E106",
                 .what = cat(printable(path_), " was changed while it was in use: it had ", before_->st_size,
                             " bytes, now ", now->st_size),
                 .hint = "write new weights to another file and rename it, which leaves the old one to its readers"});
  }

 private:
  Bytes file_;
  std::string path_;
  std::optional<struct stat> before_;
};

/// The mapping that `data` lies in, or null; for who holds the lock.
const KeptFile* find_kept(std::span<const std::byte> data) {
  auto after = mappings().all.upper_bound(data.data());
  if (data.empty() || after == mappings().all.begin()) return nullptr;
  const KeptFile* file = std::prev(after)->second;
  return data.data() < file->end() ? file : nullptr;
}

}  // namespace

Bytes map_kept(const std::filesystem::path& path, size_t offset, size_t size, size_t alignment) {
  Bytes file = map_file(path);
  if (offset > file.size() || size > file.size() - offset) {
    throw Error({.kind = ErrorKind::model,
                 .code = "E161",
                 .what = cat(printable(path.string()), " has ", file.size(), " bytes; ", size, " from ", offset,
                             " on were asked for")});
  }
  std::span<const std::byte> part(file.data() + offset, size);
  if (size == 0 || offset % alignment != 0) return Bytes::copy(part);
  return {part, std::make_shared<const KeptFile>(std::move(file), path.string())};
}

bool is_kept(std::span<const std::byte> data) {
  std::scoped_lock lock(mappings().mutex);
  return find_kept(data) != nullptr;
}

void check_kept(std::span<const std::byte> data) {
  std::scoped_lock lock(mappings().mutex);
  if (const KeptFile* file = find_kept(data)) file->check();
}

}  // namespace weft
