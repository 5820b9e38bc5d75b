// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "base/file.h"

namespace weft {

/// A scope in which missing pages of a mapped file read as zeros on every thread instead of ending the process. The
/// first guard sets a SIGBUS handler, which passes a SIGBUS at other addresses to the previous handler. The last guard
/// to be destroyed restores the previous handler.
class FileGuard {
 public:
  FileGuard();
  ~FileGuard();
  FileGuard(const FileGuard&) = delete;
};

/// True if a read of the mapped file that contains `byte` met a page that the file no longer has.
bool is_cut(const std::byte* byte);

/// A scope for code that reads mapped files, which other processes may change at the same time.
class FileReading {
 public:
  FileReading();
  ~FileReading();
  FileReading(const FileReading&) = delete;

  /// Throws E106 if a file that this thread has mapped during this object's lifetime has changed.
  void check() const;
  /// Notes that this thread has mapped a file.
  static void add(const Bytes& file);

 private:
  FileGuard guard_;
  FileReading* outer_;
  std::vector<Bytes> files_;
};

/// Returns the result of `work`, which maps and reads files. Throws E106 if one of the files changed meanwhile, even if
/// `work` threw another error.
template <class Work>
auto reading_files(const Work& work) {
  FileReading reading;
  try {
    auto result = work();
    reading.check();
    return result;
  } catch (...) {
    reading.check();
    throw;
  }
}

}  // namespace weft
