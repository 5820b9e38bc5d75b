// SPDX-License-Identifier: Apache-2.0
#include "base/kept_file.h"

#include <iterator>
#include <map>
#include <mutex>
#include <utility>

#include "base/error.h"

namespace weft {
namespace {

/// Where the mappings of this process lie: begin -> end.
struct Mappings {
  std::mutex mutex;
  std::map<const std::byte*, const std::byte*> ranges;
};

Mappings& mappings() {
  static auto& all = *new Mappings;  // tensors may be freed at the very end of the process
  return all;
}

/// A mapping, listed for as long as somebody has a part of it.
class KeptFile {
 public:
  explicit KeptFile(Bytes file) : file_(std::move(file)) {
    std::scoped_lock lock(mappings().mutex);
    place_ = mappings().ranges.emplace(file_.data(), file_.data() + file_.size()).first;
  }
  KeptFile(const KeptFile&) = delete;
  ~KeptFile() {
    std::scoped_lock lock(mappings().mutex);
    mappings().ranges.erase(place_);
  }

 private:
  Bytes file_;
  std::map<const std::byte*, const std::byte*>::iterator place_;
};

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
  return {part, std::make_shared<const KeptFile>(std::move(file))};
}

bool is_kept(std::span<const std::byte> data) {
  std::scoped_lock lock(mappings().mutex);
  auto after = mappings().ranges.upper_bound(data.data());
  return !data.empty() && after != mappings().ranges.begin() && data.data() < std::prev(after)->second;
}

}  // namespace weft
