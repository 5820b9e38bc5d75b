// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <mutex>
#include <utility>

#include "targets/gpu/libraries.h"

/// Code that the wrappers of the vendors' libraries share.
namespace weft::gpu {

/// An owned object (descriptor) of a library; this wrapper destroys it.
class LibraryObject {
 public:
  LibraryObject() = default;
  LibraryObject(Handle handle, int (*destroy)(Handle)) : handle_(handle), destroy_(destroy) {}
  LibraryObject(LibraryObject&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)), destroy_(other.destroy_) {}
  LibraryObject& operator=(LibraryObject&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(destroy_, other.destroy_);
    return *this;
  }
  ~LibraryObject() {
    if (handle_) destroy_(handle_);
  }
  Handle get() const { return handle_; }

 private:
  Handle handle_ = nullptr;
  int (*destroy_)(Handle) = nullptr;
};

/// A library's handle for a device. It is tied to a stream, so one thread uses it at a time.
struct LibraryHandle {
  std::mutex mutex = {};
  LibraryObject object = {};
};

/// A vendor's library, or the reason why it was not found.
class Library {
 public:
  Library(std::string name, std::vector<std::string> files, const std::string& given);
  virtual ~Library() = default;
  const LibrarySearch& search() const { return search_; }
  /// Prepares a call of this library, as gpu::prepare does.
  virtual std::unique_ptr<LibraryWork> prepare(const std::shared_ptr<Device>& device,
                                               const LibraryCall& call) const = 0;
  /// Throws E602 with `doing` unless the status is 0.
  void check(int status, std::string_view doing) const;
  /// Throws E602 because the library has no algorithm that may be used.
  [[noreturn]] void refuse(std::string_view why) const;
  LibraryObject made(int (*create)(Handle*), int (*destroy)(Handle), std::string_view doing) const;

 protected:
  /// Returns the library's handle for `device`, which is current; creates it at the first request.
  std::shared_ptr<LibraryHandle> handle_of(const Device& device, int (*create)(Handle*), int (*destroy)(Handle)) const;
  /// Opens the first file that has all functions; their names begin with `prefix`.
  void open(const std::string& prefix, std::span<const DriverSymbol> functions);
  template <class F>
  static void** slot(F& function) {
    return reinterpret_cast<void**>(&function);
  }

 private:
  bool find(void* library, const std::string& file, const std::string& prefix, std::span<const DriverSymbol> functions);
  LibrarySearch search_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::shared_ptr<LibraryHandle>> handles_;  // handles by device
};

std::unique_ptr<Library> open_cublaslt();
std::unique_ptr<Library> open_hipblaslt();
std::unique_ptr<Library> open_cudnn();
std::unique_ptr<Library> open_miopen();

/// The sizes of a convolution over two or three spatial axes, as numbers. Spatial axes follow the channels.
struct ConvolutionShape {
  using Sizes = std::vector<int64_t>;
  explicit ConvolutionShape(const LibraryConvolution& convolution);
  Sizes x, x_strides, weights, weights_strides, y, y_strides;
  Sizes kernel, stride, dilation, pad, pad_end;
};

}  // namespace weft::gpu
