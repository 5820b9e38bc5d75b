// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "base/file.h"

namespace weft {

/// While a guard lives, on any thread, missing pages of a mapped file read as zeros instead of ending the process. A
/// handler of SIGBUS does this. It passes every SIGBUS about other memory to the previous handler. The last guard
/// restores that one.
class FileGuard {
 public:
  FileGuard();
  ~FileGuard();
  FileGuard(const FileGuard&) = delete;
};

/// Whether a read of the mapped file that holds `byte` met a page that the file no longer has.
bool is_cut(const std::byte* byte);

/// Surrounds code that reads mapped files, which other processes may change at the same time.
class FileReading {
 public:
  FileReading();
  ~FileReading();
  FileReading(const FileReading&) = delete;

  /// Throws E106 if a file that this thread has mapped since then has changed.
  void check() const;
  /// Notes that this thread has mapped a file.
  static void add(const Bytes& file);

 private:
  FileGuard guard_;
  FileReading* outer_;
  std::vector<Bytes> files_;
};

/// The result of `work`, which maps and reads files. Throws E106 if one of them changed meanwhile, whatever `work`
/// returned.
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
