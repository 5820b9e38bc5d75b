// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace weft {

/// A shared object opened from memory (an x86 image of `Codegen::link`) and closed with this value. The system's own
/// loader maps it. So no page is ever both writable and executable, and debuggers and sanitizers know it.
class LoadedObject {
 public:
  LoadedObject() = default;
  /// Throws E301 with the loader's reason. `name` shows up in messages, and in /proc/self/maps.
  LoadedObject(std::span<const std::byte> image, const std::string& name);
  ~LoadedObject();
  LoadedObject(LoadedObject&& other) noexcept;
  LoadedObject& operator=(LoadedObject&& other) noexcept;

  /// Address of an exported symbol; null when there is none. Lives as long as the object.
  void* find(const char* symbol) const;
  /// The same, but a missing symbol is an internal error that names it.
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
