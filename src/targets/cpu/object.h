// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <span>
#include <string>

namespace weft {

/// A shared object that is loaded from memory (a CPU image of `Codegen::link`) and closed on destruction. The system's
/// loader maps it, so that no page is both writable and executable, and debuggers and sanitizers know it.
class LoadedObject {
 public:
  LoadedObject() = default;
  /// Throws E405 with the loader's reason. `name` appears in messages and in /proc/self/maps.
  LoadedObject(std::span<const std::byte> image, const std::string& name);
  ~LoadedObject();
  LoadedObject(LoadedObject&& other) noexcept;
  LoadedObject& operator=(LoadedObject&& other) noexcept;

  /// Returns the address of an exported symbol, valid as long as the object lives; null if there is none.
  void* find(const char* symbol) const;
  /// Returns the address of an exported symbol; throws an internal error that names it if it is missing.
  void* get(const std::string& symbol) const;
  template <class Function>
  Function* function(const std::string& symbol) const {
    return reinterpret_cast<Function*>(get(symbol));
  }

 private:
  void* handle_ = nullptr;
  int fd_ = -1;
};

}  // namespace weft
