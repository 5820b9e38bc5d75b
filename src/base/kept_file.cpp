// SPDX-License-Identifier: Apache-2.0
#include "base/kept_file.h"

#include <iterator>
#include <map>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/file_reading.h"

namespace weft {
namespace {

class KeptFile;

/// The mappings of map_kept in this process, by their start addresses.
struct Mappings {
  std::mutex mutex;
  std::map<const std::byte*, const KeptFile*> all;
};

Mappings& mappings() {
  static auto& known = *new Mappings;  // never destroyed: tensors may be freed at process exit
  return known;
}

/// A mapped file, registered in Mappings from construction to destruction.
class KeptFile {
 public:
  explicit KeptFile(Bytes file) : file_(std::move(file)) {
    std::scoped_lock lock(mappings().mutex);
    mappings().all.emplace(file_.data(), this);
  }
  KeptFile(const KeptFile&) = delete;
  ~KeptFile() {
    std::scoped_lock lock(mappings().mutex);
    mappings().all.erase(file_.data());
  }

  const std::byte* end() const { return file_.data() + file_.size(); }
  void check() const { file_.check_file(); }

 private:
  FileGuard guard_;
  Bytes file_;
};

/// Returns the mapping that holds `data`, or null. The caller holds the lock.
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
                             " on are needed")});
  }
  std::span<const std::byte> part(file.data() + offset, size);
  if (size == 0 || offset % alignment != 0) return Bytes::copy(part);
  return {part, std::make_shared<const KeptFile>(std::move(file))};
}

bool is_kept(std::span<const std::byte> data) {
  std::scoped_lock lock(mappings().mutex);
  return find_kept(data) != nullptr;
}

void check_read(std::span<const Tensor> tensors) {
  for (const Tensor& tensor : tensors) {
    if (is_cut(tensor.data.data())) check_kept(tensor.data);
  }
}

void check_kept(std::span<const std::byte> data) {
  std::scoped_lock lock(mappings().mutex);
  if (const KeptFile* file = find_kept(data)) file->check();
}

}  // namespace weft
