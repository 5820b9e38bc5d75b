// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/chip.h"

/// One interface to the drivers of both vendors. Functions that CUDA's driver API and HIP have in nearly the same form
/// are in a table of pointers; the others are virtual functions (cuda.cpp, hip.cpp). The build needs no files of the
/// vendors: libraries are found with dlopen at run time.
namespace weft::gpu {

/// A handle of the driver, opaque to Weft.
using Handle = void*;

/// Functions that both drivers have with the same arguments. Each returns 0 or an error number of its vendor.
struct DriverCalls {
  int (*allocate)(void** memory, size_t bytes) = nullptr;
  int (*free)(void* memory) = nullptr;
  int (*free_host)(void* memory) = nullptr;
  int (*copy_to_device)(void* to, const void* from, size_t bytes, Handle stream) = nullptr;
  int (*copy_to_host)(void* to, void* from, size_t bytes, Handle stream) = nullptr;
  int (*copy_on_device)(void* to, void* from, size_t bytes, Handle stream) = nullptr;
  int (*fill)(void* to, unsigned char value, size_t bytes, Handle stream) = nullptr;
  int (*stream_create)(Handle* stream, unsigned flags) = nullptr;
  int (*stream_destroy)(Handle stream) = nullptr;
  int (*stream_synchronize)(Handle stream) = nullptr;
  int (*stream_query)(Handle stream) = nullptr;  ///< not_ready while it has work
  int (*stream_wait_event)(Handle stream, Handle event, unsigned flags) = nullptr;
  int (*event_create)(Handle* event, unsigned flags) = nullptr;
  int (*event_destroy)(Handle event) = nullptr;
  int (*event_record)(Handle event, Handle stream) = nullptr;
  int (*event_synchronize)(Handle event) = nullptr;
  int (*event_elapsed)(float* milliseconds, Handle begin, Handle end) = nullptr;
  int (*module_unload)(Handle module) = nullptr;
  int (*module_function)(Handle* function, Handle module, const char* name) = nullptr;
  int (*launch)(Handle function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                unsigned block_z, unsigned shared_bytes, Handle stream, void** parameters, void** extra) = nullptr;
  int (*capture_begin)(Handle stream, int mode) = nullptr;
  int (*capture_end)(Handle stream, Handle* graph) = nullptr;
  int (*graph_instantiate)(Handle* executable, Handle graph, unsigned long long flags) = nullptr;
  int (*graph_launch)(Handle executable, Handle stream) = nullptr;
  int (*graph_destroy)(Handle graph) = nullptr;
  int (*graph_executable_destroy)(Handle executable) = nullptr;
};

/// The value of CUDA_ERROR_NOT_READY and hipErrorNotReady.
inline constexpr int not_ready = 600;

/// A function to find: the pointer that receives its address, and its name in the vendor's library.
struct DriverSymbol {
  void** to;
  const char* name;
};

/// The blocks and threads of a launch, and the shared memory of a block.
struct LaunchSize {
  int64_t blocks = 1;
  int threads = 256, shared_bytes = 0;
  int cluster = 1;       ///< blocks that run together; divides `blocks`
  bool overlap = false;  ///< may start while the previous launch runs; the kernel itself waits for that launch (NVIDIA)
};

/// The properties and limits of a device.
struct DeviceInfo {
  std::string name{};     ///< "NVIDIA H200"
  Chip chip{};            ///< the target of its kernels
  int64_t memory = 0;     ///< bytes
  int compute_units = 0;  ///< streaming multiprocessors or compute units
  int wave = 32;          ///< threads of a wave (warp)
  int shared_bytes = 0;   ///< most shared memory of a block
  int l2_bytes = 0;
  int driver_version = 0;
};

/// A vendor's driver; loaded once for the process, never unloaded.
class Driver {
 public:
  virtual ~Driver() = default;
  const DriverCalls& calls() const { return calls_; }
  const std::string& path() const { return path_; }

  virtual std::string_view vendor() const = 0;  ///< "nvidia", "amd"
  virtual int device_count() const = 0;
  virtual DeviceInfo describe(int ordinal) const = 0;
  /// Makes the device current for the calling thread; cheap if it is current already.
  virtual void use(int ordinal) const = 0;
  /// Lets kernels of one device read and write the memory of another; false if they cannot.
  virtual bool connect(int ordinal, int peer) const = 0;
  /// Allocates pinned host memory, which the device reads and writes directly.
  virtual int allocate_host(void** memory, size_t bytes) const = 0;
  /// Loads a code object (AMD), or PTX or a cubin (NVIDIA), as a module of the current device; the messages of the
  /// driver's compiler go into `log`.
  virtual int load_module(Handle* module, std::span<const std::byte> image, std::string& log) const = 0;
  /// Starts a kernel; `parameters` has a pointer to each kernel parameter, as for the drivers' launch functions.
  virtual int launch(Handle function, const LaunchSize& size, Handle stream, void** parameters) const;
  /// Allows a function `bytes` of dynamic shared memory, if the driver requires such a call.
  virtual int allow_shared(Handle function, int bytes) const = 0;
  /// Returns the text of an error, such as "out of memory (2)".
  virtual std::string error_text(int error) const = 0;
  /// True if the error number means that memory ran out.
  virtual bool is_out_of_memory(int error) const { return error == 2; }

  /// Throws E400 (memory) or E602 (other errors) unless `error` is 0. `doing` names the action: "copy to the device".
  void check(int error, std::string_view doing) const;

 protected:
  /// Open the first of `names` that loads; find every symbol in it. Return false, with the reason in `why`, on failure.
  bool open(const std::vector<std::string>& names, std::string& why);
  bool find(const std::vector<DriverSymbol>& symbols, std::string& why);
  /// Returns the address of a symbol, or null.
  void* symbol(const char* name) const;
  /// Returns the address of a function pointer, so that `symbol` can be stored there.
  template <class F>
  static void** slot(F& function) {
    return reinterpret_cast<void**>(&function);
  }
  /// Returns `text`, the driver's text for an error (may be null), followed by the error's number.
  static std::string numbered(const char* text, int error);

  DriverCalls calls_;

 private:
  void* library_ = nullptr;
  std::string path_;
};

/// The result of searching for one vendor's driver: the driver, or why there is none.
struct DriverSearch {
  std::string_view vendor;              ///< "nvidia", "amd"
  std::vector<std::string> tried = {};  ///< names of libraries, in order
  std::unique_ptr<Driver> driver = {};  ///< null: `why` has the reason
  std::string why = {};                 ///< why there is none, or why it has no device
};

DriverSearch find_cuda();
DriverSearch find_hip();

/// Returns the results of the searches for nvidia and amd, made once for the process.
const std::vector<DriverSearch>& drivers();

}  // namespace weft::gpu
