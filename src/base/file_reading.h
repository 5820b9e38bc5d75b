// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "base/file.h"

namespace weft {

/// While one lives, on any thread, pages that are no longer in a mapped file read as zeros instead of ending the
/// process: SIGBUS has a handler, which passes on what is not about such a page to the handler before it. When the last
/// one ends, that one is back.
class FileGuard {
 public:
  FileGuard();
  ~FileGuard();
  FileGuard(const FileGuard&) = delete;
};

/// Whether a read of the mapped file that `byte` lies in met a page that the file no longer has.
bool is_cut(const std::byte* byte);

/// Stands around whatever reads mapped files, which other processes may change meanwhile.
class FileReading {
 public:
  FileReading();
  ~FileReading();
  FileReading(const FileReading&) = delete;

  /// Throws E106 when a file that this thread has mapped since has been changed.
  void check() const;
  /// A file was mapped by this thread.
  static void add(const Bytes& file);

 private:
  FileGuard guard_;
  FileReading* outer_;
  std::vector<Bytes> files_;
};

/// The result of `work`, which maps and reads files; E106 when one of them was changed meanwhile, whatever else came of
/// that.
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
