// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/hash.h"

namespace weft {

/// Returns the folder of Weft's files: WEFT_CACHE_DIR, $XDG_CACHE_HOME/weft or ~/.cache/weft; empty if none is set.
std::filesystem::path cache_folder();
/// Creates missing folders, accessible to this user only.
void make_private_folders(const std::filesystem::path& path);

/// One entry of `KernelCache::list`.
struct CacheEntry {
  std::string key;      ///< 32 hexadecimal digits
  int64_t bytes = 0;    ///< on disk
  int64_t used_at = 0;  ///< seconds since 1970 of the last use, to within an hour
};

/// A cache of compiled code on disk, keyed by content hash, shared by all processes of a user.
///
/// The folder has mode 0700 and belongs to the user; symbolic links are not followed. Entries are written atomically
/// with key, size and checksum; a damaged entry counts as absent. An unusable folder causes one warning, never an
/// error. If the size exceeds the limit, `prune` removes the least recently used entries. Thread-safe.
class KernelCache {
 public:
  /// Uses `folder`/kernels, created at the first write. `limit` in bytes; if 0 or less, nothing is read or written.
  KernelCache(std::filesystem::path folder, int64_t limit);
  ~KernelCache();
  KernelCache(const KernelCache&) = delete;
  KernelCache& operator=(const KernelCache&) = delete;

  /// Returns the process's cache: in cache_folder(), with the limit WEFT_CACHE_LIMIT.
  static KernelCache& shared();

  std::optional<Bytes> get(const Hash128& key);
  void put(const Hash128& key, std::span<const std::byte> data);
  /// Returns all entries, the most recently used first.
  std::vector<CacheEntry> list();
  /// Removes every entry; returns how many.
  int64_t clear();
  /// If the limit is exceeded, removes the least recently used entries until at most 3/4 of the limit is used. `put`
  /// calls this from time to time.
  void prune();

  const std::filesystem::path& folder() const { return folder_; }

 private:
  int open_folder(bool create);
  void warn(const std::string& what);
  void stop_writing(int code);
  bool prune_is_due(int folder, int64_t bytes);
  void prune(int folder);

  std::filesystem::path folder_;
  int64_t limit_;
  std::mutex mutex_;
  int fd_ = -1;                        // the open folder; -1: not open
  bool unusable_ = false;              // a warning was given; the folder is not tried again
  std::atomic<bool> is_full_ = false;  // a write failed and a warning was given
  std::atomic<int64_t> written_ = 0;   // bytes that this object wrote since its last prune
};

}  // namespace weft
