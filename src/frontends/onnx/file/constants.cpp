// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/file/constants.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace weft::onnx {

constexpr int64_t largest_dense = 64 << 20;  // bytes

[[noreturn]] static void fail_sparse(const SparseTensor& sparse, std::string code, std::string what) {
  throw Error({.kind = ErrorKind::model,
               .code = std::move(code),
               .what = cat("sparse tensor '", printable(sparse.values.name), "' ", what)});
}

/// Returns the flat position of value `n`. `indices` holds flat positions, or a row of coordinates for each value.
static int64_t position(const SparseTensor& sparse, const std::vector<int64_t>& indices, size_t n, int64_t total) {
  size_t rank = sparse.dims.size();
  bool is_flat = sparse.indices.dims.size() == 1;
  int64_t at = is_flat ? indices[n] : 0;
  for (size_t axis = 0; !is_flat && axis < rank; ++axis) {
    int64_t coordinate = indices[n * rank + axis];
    if (coordinate < 0 || coordinate >= sparse.dims[axis])
      fail_sparse(sparse, "E148", cat("has index ", coordinate, " of ", sparse.dims));
    at = at * sparse.dims[axis] + coordinate;
  }
  if (at < 0 || at >= total) fail_sparse(sparse, "E148", cat("has index ", at, " of ", sparse.dims));
  return at;
}

Tensor to_tensor(const TensorData& data) {
  Tensor tensor{.dtype = data.type, .dims = data.dims, .data = data.bytes};
  if (data.type == DType::string) {
    tensor.strings = std::make_shared<const std::vector<std::string>>(data.strings.begin(), data.strings.end());
    return tensor;
  }
  // The compiler reads small tensors element by element, so these get aligned memory. Large tensors stay in the file.
  constexpr size_t small = 1 << 16;
  if (data.bytes.size() <= small) tensor.data = Bytes::copy(data.bytes);
  return tensor;
}

Tensor dense_tensor(const SparseTensor& sparse) {
  DType type = sparse.values.type;
  if (bits(type) % 8 || type == DType::string) fail_sparse(sparse, "E149", cat("of ", type, " is not supported"));
  auto is_negative = [](int64_t d) { return d < 0; };
  if (std::ranges::any_of(sparse.dims, is_negative)) fail_sparse(sparse, "E150", cat("has dims ", sparse.dims));
  int64_t total = element_count(sparse.dims);
  if (total > largest_dense / (bits(type) / 8))
    fail_sparse(sparse, "E401", cat("of ", sparse.dims, " would take more than 64 MiB"));
  size_t width = bits(type) / 8;
  size_t count = sparse.values.bytes.size() / width;
  if (sparse.indices.type != DType::i64) fail_sparse(sparse, "E149", "needs indices of i64");
  auto indices = to_int64s(to_tensor(sparse.indices));
  size_t per_value = sparse.indices.dims.size() == 1 ? 1 : sparse.dims.size();
  if (indices.size() != count * per_value)
    fail_sparse(sparse, "E148", cat("has ", indices.size(), " indices for ", count, " values"));
  auto [tensor, data] = allocate_tensor(type, sparse.dims);
  std::fill_n(data, tensor.data.size(), std::byte{0});
  for (size_t n = 0; n < count; ++n) {
    size_t at = position(sparse, indices, n, total);
    std::memcpy(data + at * width, sparse.values.bytes.data() + n * width, width);
  }
  return tensor;
}

}  // namespace weft::onnx
