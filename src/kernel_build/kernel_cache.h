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

/// The folder of Weft's own files: WEFT_CACHE_DIR, or $XDG_CACHE_HOME/weft, or ~/.cache/weft; empty if none is set.
std::filesystem::path cache_folder();
/// Creates missing folders, accessible to this user only.
void make_private_folders(const std::filesystem::path& path);

/// One entry of `KernelCache::list`.
struct CacheEntry {
  std::string key;      ///< 32 hexadecimal digits
  int64_t bytes = 0;    ///< on disk
  int64_t used_at = 0;  ///< seconds since 1970 of the last use, to within an hour
};

/// Compiled code by content hash, on disk, shared by all processes of one user.
///
/// The folder is 0700 and the user's own; symbolic links are not followed; an entry is written atomically, carries its
/// key, size and checksum, and counts as absent if damaged. A folder that cannot be used costs one warning, never an
/// error. Entries that were not used for longest go first when the size passes the limit. Thread-safe.
class KernelCache {
 public:
  /// Uses `folder`/kernels, made when first written to. `limit` in bytes; 0 or less: nothing is read or written.
  KernelCache(std::filesystem::path folder, int64_t limit);
  ~KernelCache();
  KernelCache(const KernelCache&) = delete;
  KernelCache& operator=(const KernelCache&) = delete;

  /// The process's cache: in cache_folder(), with the limit of WEFT_CACHE_LIMIT.
  static KernelCache& shared();

  std::optional<Bytes> get(const Hash128& key);
  void put(const Hash128& key, std::span<const std::byte> data);
  /// The latest used first.
  std::vector<CacheEntry> list();
  /// Removes every entry; returns how many.
  int64_t clear();
  /// If the limit is passed, removes the least recently used entries until at most three quarters of it are left. `put`
  /// calls this by itself, at most once an hour for all processes, and whenever it has written 1/16 of the limit.
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
  int fd_ = -1;                        // descriptor of the folder, once it is open
  bool unusable_ = false;              // a warning was given; do not try again
  std::atomic<bool> is_full_ = false;  // a write failed and a warning was given
  std::atomic<int64_t> written_ = 0;   // bytes put since the last prune
};

}  // namespace weft
