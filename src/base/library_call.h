// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "base/dim.h"
#include "base/dtype.h"

/// Work that a vendor's library does in place of a kernel of Weft's.
namespace weft {

/// D[b, m, n] = sum over k of A[b, m, k] B[b, n, k], with sums in f32; operands A, B, D. Rows of A and B have k side by
/// side; those of D follow each other without gaps. Strides count elements.
struct LibraryProduct {
  DType type = DType::f16, result = DType::f32;
  int64_t batch = 1, m = 1, n = 1, k = 1;
  int64_t a_row = 0, b_row = 0, a_batch = 0, b_batch = 0;
};

/// y = relu(convolution(x, weights) + bias + other); bias, other and relu are optional. Sums are f32 until y is
/// rounded. Operands: x, weights, then bias, other and y. Tensors are channels last, weights [channel
/// out][taps][channel in of a group], a bias f32; all but x lie without gaps. Spatial lists are as in lower/window.h.
struct LibraryConvolution {
  DType type = DType::f16;                                       ///< of all operands but the bias
  Dim batch = 1, groups = 1, channels_in = 1, channels_out = 1;  ///< channels of one group
  Dims in = {}, out = {}, kernel = {}, stride = {}, dilation = {}, pad = {};
  Dim pixel = 1;  ///< elements from one pixel of x to the next
  bool has_bias = false, has_other = false, has_relu = false;
};

/// A call of a vendor's library in place of a kernel.
struct LibraryCall {
  std::string library = {};  ///< "cublaslt", "cudnn"
  std::variant<LibraryProduct, LibraryConvolution> work = {};
  bool is_open = false;  ///< sizes are open, so the numbers hold for one run: no code may be compiled for them

  size_t operands() const;
  bool has_symbols() const;
  /// The call with a number for every size; is_open if there were symbols.
  LibraryCall at(const std::function<int64_t(const Dim&)>& number) const;
  /// All fields as one line of text.
  std::string text() const;
};
/// Bytes of working memory that a call gets as its last operand.
inline constexpr int64_t library_workspace = int64_t{32} << 20;

/// A vendor's libraries that a program may call; the name of a missing library is empty.
struct VendorLibraries {
  std::string products = {}, convolutions = {};      ///< "cublaslt", "cudnn"
  bool fuses = false;                                ///< a convolution may have a bias, an other operand and relu
  std::function<bool(const LibraryCall&)> can = {};  ///< whether the library can compute this call, all sizes known
};

/// An operation that all ranks of a model do together: each makes the same call with the same number of elements.
enum class CollectiveFn : uint8_t {
  sum,     ///< the sum over all ranks, element by element
  gather,  ///< the elements of all ranks, one rank after another
};
inline std::span<const std::string_view> names(CollectiveFn) {
  static constexpr std::array<std::string_view, 2> list{"sum", "gather"};
  return list;
}

}  // namespace weft
