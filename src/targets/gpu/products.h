// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/plan.h"
#include "targets/gpu/device.h"

/// Matrix products by the vendor's own library (cuBLASLt, hipBLASLt), found with dlopen at run time and never needed:
/// tuning measures it beside Weft's kernels. The two have the same functions with other prefixes and other numbers.
namespace weft::gpu {

/// What looking for the vendor's library gave.
struct ProductSearch {
  std::string name = {};                ///< "cublaslt", "hipblaslt": the candidate's name
  std::vector<std::string> tried = {};  ///< names of files, in order
  std::string path = {};                ///< empty: there is none
  std::string why = {};
};
/// Looked for once for the process. WEFT_CUBLASLT_LIBRARY and WEFT_HIPBLASLT_LIBRARY name another file.
const ProductSearch& find_products(std::string_view vendor);

/// Whether a candidate of that name is one of the libraries.
constexpr bool is_product_library(std::string_view name) { return name == "cublaslt" || name == "hipblaslt"; }

/// A product that is ready to be launched, any number of times and by any thread.
class Product {
 public:
  /// Asks the library for its best algorithm. Throws E602 when it has none, E501 without the library.
  Product(const std::shared_ptr<Device>& device, const LibraryProduct& product);
  ~Product();
  Product(Product&& other) noexcept;
  /// "cublaslt"
  const std::string& name() const;
  /// Queues D = A B on the stream; the memory is of the device, `workspace` of library_workspace bytes.
  void launch(const Stream& stream, const std::byte* a, const std::byte* b, std::byte* d, std::byte* workspace) const;

 private:
  struct Prepared;
  std::unique_ptr<Prepared> prepared_;
};

}  // namespace weft::gpu
