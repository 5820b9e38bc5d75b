// SPDX-License-Identifier: Apache-2.0
#include "targets/gpu/driver.h"

#include <dlfcn.h>

#include "base/error.h"

namespace weft::gpu {

bool Driver::open(const std::vector<std::string>& names, std::string& why) {
  for (const std::string& name : names) {
    library_ = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library_) {
      path_ = name;
      return true;
    }
    const char* reason = ::dlerror();
    why += cat(why.empty() ? "" : "; ", reason ? reason : name);
  }
  return false;
}

bool Driver::find(const std::vector<DriverSymbol>& symbols, std::string& why) {
  for (const DriverSymbol& wanted : symbols) {
    *wanted.to = symbol(wanted.name);
    if (*wanted.to) continue;
    why = cat(path_, " has no ", wanted.name, ": the driver is too old");
    return false;
  }
  return true;
}

int Driver::launch(Handle function, const LaunchSize& size, Handle stream, void** parameters) const {
  return calls_.launch(function, static_cast<unsigned>(size.blocks), 1, 1, static_cast<unsigned>(size.threads), 1, 1,
                       static_cast<unsigned>(size.shared_bytes), stream, parameters, nullptr);
}

void* Driver::symbol(const char* name) const { return ::dlsym(library_, name); }

std::string Driver::numbered(const char* text, int error) {
  return cat(text ? text : "unknown error", " (", error, ")");
}

void Driver::check(int error, std::string_view doing) const {
  if (error == 0) return;
  bool memory = is_out_of_memory(error);
  throw Error({.kind = memory ? ErrorKind::resource : ErrorKind::device,
               .code = memory ? "E400" : "E602",
               .what = cat("the ", vendor(), " driver failed to ", doing, ": ", error_text(error))});
}

const std::vector<DriverSearch>& drivers() {
  static const std::vector<DriverSearch> found = [] {
    std::vector<DriverSearch> list;
    list.push_back(find_cuda());
    list.push_back(find_hip());
    return list;
  }();
  return found;
}

}  // namespace weft::gpu
