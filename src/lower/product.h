// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "lower/lowering.h"

/// A dot as a matrix product of rows by columns, for all targets.
namespace weft {

/// Sizes and strides of a view's leading axes, which are the batches of a product.
struct Batch {
  Dims dims, strides;
};
Batch leading(const View& view, size_t count);
/// True if all batches have the same elements (each axis has stride 0 or size 1).
bool is_repeated(const Batch& batch);
/// Returns the C++ text of a batch's offset in elements; the variable `at` holds the flat index of the batch.
std::string batch_offset(KernelBuilder& kernel, Batch batch, const std::string& at);

/// A dot as a matrix product: A [batch, m, k] by B [batch, k, n].
struct Product {
  View a, b;
  size_t batch_axes = 0;  ///< number of leading axes that are batches; the others but the last are rows
  Dim batch = 1, m = 1, n = 0, k = 0;
  std::vector<size_t> order = {};   ///< the order in which the kernel walks the result's axes; empty: their own
  std::vector<size_t> stored = {};  ///< the order of the axes in the stored result; empty: `order`
};
/// Describes a dot as a matrix product. If all batches share B, the batches become rows of A. If these rows have no
/// common stride, a GPU takes them in memory order (exporters often transpose batch and sequence), or else A is copied.
/// `rows` is the dot's first operand or its replacement.
Product as_product(Lowering& lowering, const Instruction& dot, Value rows);
/// True if one stride leads from each row of A to the next across all leading axes.
bool rows_are_even(const View& a);
/// Returns the stride between rows of A; all row axes must merge into one.
Dim row_stride(const Product& p);
/// Returns an iteration that groups the result's axes into the coordinates (at, row, col); without batches (row, col).
Iteration result_iteration(const Dims& dims, size_t batch_axes);
/// Like the first overload, with the axes in Product::order.
Iteration result_iteration(const Dims& dims, const Product& p);
/// Returns the type of a GPU's accumulators for operands of this type.
DType sum_type(DType type);

}  // namespace weft
