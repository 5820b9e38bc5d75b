// SPDX-License-Identifier: Apache-2.0
#include "runtime/codegen_loader.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <filesystem>

#include "base/error.h"
#include "base/knobs.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
constexpr const char* library_name = "libweft-codegen.so";
std::atomic<bool> loaded = false;

void add_near(const fs::path& folder, std::vector<std::string>& out) {
  for (const fs::path& place : {folder, folder / "lib", folder / ".." / "lib"}) {
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
  // RTLD_LOCAL: other LLVMs may live in this process. Never closed: LLVM cannot be unloaded.
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) refuse(::dlerror());
  auto create = reinterpret_cast<Codegen* (*)()>(::dlsym(library, "weft_codegen_create"));
  if (!create) refuse(cat(path, " has no weft_codegen_create"));
  Codegen* made = create();
  loaded = true;
  return *made;
}

}  // namespace

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
