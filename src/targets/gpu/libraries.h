// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/library_call.h"
#include "targets/gpu/device.h"

/// Vendors' libraries (cuBLASLt and cuDNN, hipBLASLt and MIOpen), found with dlopen at run time. They are optional:
/// tuning measures both them and Weft's kernels. base/library_call.h describes a call.
///
///     auto work = prepare(device, call);        // finds an algorithm; kept for the process
///     work->launch(stream, operands);           // any number of times, also while a graph is captured
namespace weft::gpu {

/// The result of searching for a library.
struct LibrarySearch {
  std::string name = {};                ///< "cublaslt", "cudnn", "hipblaslt", "miopen"; names of candidates begin so
  std::vector<std::string> tried = {};  ///< names of files, in order
  std::string path = {};                ///< empty: there is none
  std::string why = {};
};

/// Opens the libraries of a device's vendor, which takes long. WEFT_CUBLASLT_LIBRARY, WEFT_CUDNN_LIBRARY,
/// WEFT_HIPBLASLT_LIBRARY and WEFT_MIOPEN_LIBRARY name other files.
VendorLibraries find_libraries(const std::shared_ptr<Device>& device);

/// True if the candidate of this name calls a library: "cudnn", "cudnn fused".
bool is_library(std::string_view candidate);

/// A library call that is ready to run. Any thread may queue it, any number of times.
class LibraryWork {
 public:
  virtual ~LibraryWork() = default;
  /// Queues the call. `operands` are those of the call, then library_workspace bytes of working memory.
  virtual void launch(const Stream& stream, std::span<std::byte* const> operands) const = 0;
};

/// Asks the library for its best algorithm that is deterministic and can be captured in a graph. `call` has numbers for
/// all sizes. The result is kept for the process. Throws E602 if there is none, E501 without the library.
std::shared_ptr<const LibraryWork> prepare(const std::shared_ptr<Device>& device, const LibraryCall& call);

}  // namespace weft::gpu
