// SPDX-License-Identifier: Apache-2.0
#include "frontends/common/external.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/text.h"

namespace weft::frontend {
namespace {

namespace fs = std::filesystem;

constexpr size_t longest_location = 4096;

[[noreturn]] void refuse(std::string_view tensor, std::string_view location, std::string_view why) {
  throw Error({.kind = ErrorKind::model,
               .code = "E160",
               .what = cat("external data '", printable(tensor), "' leaves the model's folder: '",
                           printable(location.substr(0, 200)), "' ", why),
               .hint = "put the file beside the model, or name its folder with --external-data-dir"});
}

/// Returns why the text of a location is refused; empty if it is accepted.
std::string_view location_fault(std::string_view location) {
  if (location.empty()) return "is empty";
  if (location.size() > longest_location) return "is longer than 4096 characters";
  if (location.find('\0') != location.npos) return "holds a NUL";
  if (location.front() == '/') return "is an absolute path";
  auto parts = weft::split(location, '/');
  return std::ranges::find(parts, "..") != parts.end() ? "holds '..'" : std::string_view();
}

std::string descriptor_path(int fd) { return cat("/proc/self/fd/", fd); }

bool is_inside(const fs::path& file, const fs::path& folder) {
  auto [folder_end, file_at] = std::ranges::mismatch(folder, file);
  return (folder_end == folder.end() || folder_end->empty()) && file_at != file.end();
}

}  // namespace

ExternalFiles ExternalFiles::beside(const fs::path& model) {
  ExternalFiles files;
  fs::path folder = model.parent_path();
  files.folders_ = {fs::canonical(folder.empty() ? fs::path(".") : folder), fs::canonical(model).parent_path()};
  if (files.folders_[0] == files.folders_[1]) files.folders_.pop_back();
  return files;
}

ExternalFiles ExternalFiles::within(const fs::path& folder) {
  std::error_code problem;
  fs::path real = fs::canonical(folder, problem);
  if (problem || !fs::is_directory(real, problem)) {
    throw Error({.kind = ErrorKind::usage,
                 .code = "E106",
                 .what = cat("the folder for external data, ", printable(folder.string()), ", cannot be opened")});
  }
  ExternalFiles files;
  files.folders_ = {real};
  return files;
}

Bytes ExternalFiles::open(std::string_view location, std::string_view tensor) {
  if (auto found = open_.find(location); found != open_.end()) return found->second;
  if (folders_.empty()) {
    throw Error(
        {.kind = ErrorKind::usage,
         .code = "E160",
         .what = cat("external data '", printable(tensor), "' needs a folder, and the model was given as bytes"),
         .hint = "name the folder with --external-data-dir"});
  }
  if (auto fault = location_fault(location); !fault.empty()) refuse(tensor, location, fault);
  std::string key(location);
  return open_[key] = map(key, tensor);
}

Bytes ExternalFiles::map(const std::string& location, std::string_view tensor) const {
  for (const auto& folder : folders_) {
    // O_PATH opens a FIFO or a device without blocking and without effect on it.
    Descriptor directory(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    Descriptor found(::openat(directory.fd, location.c_str(), O_PATH | O_CLOEXEC));
    if (found.fd < 0 && errno == ENOENT && &folder != &folders_.back()) continue;
    if (found.fd < 0) {
      throw Error({.kind = ErrorKind::model,
                   .code = "E161",
                   .what = cat("external data '", printable(tensor), "': ", printable(location), " in ",
                               printable(folder.string()), ": ", std::strerror(errno)),
                   .hint = "the weights of this model lie in files beside it: copy them too"});
    }
    std::error_code problem;
    fs::path real = fs::read_symlink(descriptor_path(found.fd), problem);
    if (problem) refuse(tensor, location, "cannot be checked: /proc is not mounted");
    auto holds_it = [&](const fs::path& allowed) { return is_inside(real, allowed); };
    if (std::ranges::none_of(folders_, holds_it)) refuse(tensor, location, "leads out of it");
    struct stat info{};
    if (::fstat(found.fd, &info) != 0 || !S_ISREG(info.st_mode)) refuse(tensor, location, "is not a regular file");
    if (info.st_nlink > 1) refuse(tensor, location, "has a second hard link, which may lie elsewhere");
    Descriptor readable(::open(descriptor_path(found.fd).c_str(), O_RDONLY | O_CLOEXEC));
    if (readable.fd < 0) {
      throw Error({.kind = ErrorKind::usage,
                   .code = "E161",
                   .what = cat("external data '", printable(tensor), "': cannot open ", printable(location), ": ",
                               std::strerror(errno))});
    }
    return map_descriptor(readable.fd, location);
  }
  internal_error("external data without a folder");
}

}  // namespace weft::frontend
