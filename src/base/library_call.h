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

/// Calls of a vendor's library (cuBLASLt, cuDNN ...) that replace a kernel.
namespace weft {

/// The batched product D[b, m, n] = sum over k of A[b, m, k] * B[b, n, k], with sums in f32 and operands A, B, D. In A
/// and B, k is contiguous; D is dense. `a_row` to `b_batch` are strides, in elements.
struct LibraryProduct {
  DType type = DType::f16, result = DType::f32;
  int64_t batch = 1, m = 1, n = 1, k = 1;
  int64_t a_row = 0, b_row = 0, a_batch = 0, b_batch = 0;
};

/// y = relu(convolution(x, weights) + bias + other); bias, other and relu are optional. Sums are f32 until y is
/// rounded. Operands: x, weights, bias, other, y. x, other and y are channels last; weights are [output channel][taps]
/// [input channel of a group]; the bias is f32. All but x are dense. lower/window.h defines the spatial lists.
struct LibraryConvolution {
  DType type = DType::f16;                                       ///< of all operands but the bias
  Dim batch = 1, groups = 1, channels_in = 1, channels_out = 1;  ///< channels_in and channels_out count one group
  Dims in = {}, out = {}, kernel = {}, stride = {}, dilation = {}, pad = {};
  Dim pixel = 1;  ///< elements from one pixel of x to the next
  bool has_bias = false, has_other = false, has_relu = false;
};

/// A call of a vendor's library in place of a kernel.
struct LibraryCall {
  std::string library = {};  ///< "cublaslt", "cudnn"
  std::variant<LibraryProduct, LibraryConvolution> work = {};
  bool is_open = false;  ///< sizes were symbolic, so the numbers hold for one run only: compile no code for them

  size_t operands() const;
  bool has_symbols() const;
  /// Returns the call with a number in place of every size; sets is_open if a size was symbolic.
  LibraryCall at(const std::function<int64_t(const Dim&)>& number) const;
  /// Returns all fields as one line of text.
  std::string text() const;
};
/// Bytes of working memory that every call gets as its last operand.
inline constexpr int64_t library_workspace = int64_t{32} << 20;

/// The names of the libraries of one vendor that a program may call; empty for a missing library.
struct VendorLibraries {
  std::string products = {}, convolutions = {};      ///< "cublaslt", "cudnn"
  bool fuses = false;                                ///< a convolution may have a bias, a second addend and relu
  std::function<bool(const LibraryCall&)> can = {};  ///< true if the library supports this call; all sizes are numbers
};

/// An operation that all ranks of a model do together. Each rank makes the same call with the same number of elements.
enum class CollectiveFn : uint8_t {
  sum,     ///< the sum over all ranks, element by element
  gather,  ///< the elements of all ranks, one rank after another
};
inline std::span<const std::string_view> names(CollectiveFn) {
  static constexpr std::array<std::string_view, 2> list{"sum", "gather"};
  return list;
}

}  // namespace weft
