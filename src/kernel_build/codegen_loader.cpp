// SPDX-License-Identifier: Apache-2.0
#include "kernel_build/codegen_loader.h"

#include <dlfcn.h>
#include <elf.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/knobs.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
constexpr const char* library_name = "libweft-codegen.so";
std::atomic<bool> loaded = false;

void add_near(const fs::path& folder, std::vector<std::string>& out) {
  for (const fs::path& place : {folder, folder / "lib", folder / ".." / "lib", folder / ".." / library_folder()}) {
    std::string path = (place / library_name).lexically_normal().string();
    if (std::find(out.begin(), out.end(), path) == out.end()) out.push_back(path);
  }
}

std::vector<std::string> candidates() {
  if (!knobs().codegen.empty()) return {knobs().codegen};
  std::vector<std::string> paths;
  Dl_info here{};
  if (::dladdr(reinterpret_cast<const void*>(&codegen_is_loaded), &here) && here.dli_fname) {
    std::error_code ignored;
    add_near(fs::absolute(here.dli_fname, ignored).parent_path(), paths);
  }
  std::error_code failed;
  fs::path executable = fs::read_symlink("/proc/self/exe", failed);
  if (!failed) add_near(executable.parent_path(), paths);
  return paths;
}

[[noreturn]] void refuse(const std::string& why) {
  throw Error({.kind = ErrorKind::unsupported,
               .code = "E205",
               .what = "a kernel must be compiled, but the code generator cannot be opened",
               .why = why,
               .hint = "install libweft-codegen.so beside libweft.so, or name it in WEFT_CODEGEN"});
}

Codegen& open() {
  std::string path = find_codegen_library();
  if (path.empty()) refuse(cat("no such file: ", candidates()));
  // RTLD_LOCAL: other versions of LLVM may be loaded in the process. Never closed, because LLVM cannot be unloaded.
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) refuse(::dlerror());
  auto create = reinterpret_cast<Codegen* (*)()>(::dlsym(library, "weft_codegen_create"));
  if (!create) refuse(cat(path, " has no weft_codegen_create"));
  Codegen* made = create();
  loaded = true;
  return *made;
}

/// Returns the T at byte `offset`; zeros if the file is too short.
template <class T>
T read_at(std::span<const std::byte> file, uint64_t offset) {
  T value{};
  if (offset <= file.size() && file.size() - offset >= sizeof(T)) std::memcpy(&value, file.data() + offset, sizeof(T));
  return value;
}

std::string build_id_in(std::span<const std::byte> notes) {
  for (uint64_t at = 0; at + sizeof(Elf64_Nhdr) <= notes.size();) {
    auto note = read_at<Elf64_Nhdr>(notes, at);
    uint64_t name = at + sizeof note, content = name + (note.n_namesz + 3u) / 4 * 4;
    bool inside = content <= notes.size() && notes.size() - content >= note.n_descsz;
    if (!inside) return "";
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4)
      return to_string(hash128(notes.subspan(content, note.n_descsz)));
    at = content + (note.n_descsz + 3u) / 4 * 4;
  }
  return "";
}

/// Returns a hash of an ELF file's build id, or a hash of the whole file if there is no build id.
std::string build_of(std::span<const std::byte> file) {
  auto header = read_at<Elf64_Ehdr>(file, 0);
  for (uint64_t i = 0; i < header.e_phnum; ++i) {
    auto segment = read_at<Elf64_Phdr>(file, header.e_phoff + i * sizeof(Elf64_Phdr));
    bool inside = segment.p_offset <= file.size() && file.size() - segment.p_offset >= segment.p_filesz;
    if (segment.p_type != PT_NOTE || !inside) continue;
    std::string id = build_id_in(file.subspan(segment.p_offset, segment.p_filesz));
    if (!id.empty()) return id;
  }
  return to_string(hash128(file));
}

std::string find_build() {
  std::string path = find_codegen_library();
  return path.empty() ? "" : build_of(map_file(path));
}

}  // namespace

const std::string& codegen_build() {
  static const std::string build = find_build();
  return build;
}

std::string find_codegen_library() {
  for (const auto& path : candidates()) {
    std::error_code ignored;
    if (fs::is_regular_file(path, ignored)) return path;
  }
  return "";
}

Codegen& codegen() {
  static Codegen& instance = open();
  return instance;
}

bool codegen_is_loaded() { return loaded; }

}  // namespace weft
