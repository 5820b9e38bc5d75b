// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/file.h"
#include "base/shape.h"

namespace weft {

/// A value of a run: a dense, row-major tensor in host memory with fixed sizes, or one of ONNX's containers of such
/// values. Copies share the data.
struct Tensor {
  DType dtype = DType::f32;
  std::vector<int64_t> dims = {};
  Bytes data = {};                                                    ///< not for strings; narrow types are packed
  std::shared_ptr<const std::vector<std::string>> strings = nullptr;  ///< DType::string only
  Type::Kind kind = Type::Kind::tensor;
  /// Containers: the items of a sequence; none or one of an optional; the keys and the values of a map (two vectors).
  std::shared_ptr<const std::vector<Tensor>> items = nullptr;

  bool is_tensor() const { return kind == Type::Kind::tensor; }
  int64_t elements() const;
  Shape shape() const;
  /// The elements; `T` must have the size of the element type.
  template <class T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(data.data()), data.size() / sizeof(T)};
  }
};
/// Same kind, type, sizes and bytes.
bool operator==(const Tensor& a, const Tensor& b);

/// The number of elements, E146 when it overflows.
int64_t element_count(std::span<const int64_t> dims);

/// A tensor of uninitialised data that the caller fills through the returned pointer before sharing it.
struct MutableTensor {
  Tensor tensor;
  std::byte* data = nullptr;
};
MutableTensor allocate_tensor(DType dtype, std::vector<int64_t> dims);

/// A tensor of any real, integer or bool type from numbers, rounded as the type does.
Tensor make_tensor(DType dtype, std::vector<int64_t> dims, std::span<const double> values);
Tensor make_tensor(DType dtype, std::vector<int64_t> dims, std::span<const int64_t> values);
/// A scalar of `dtype`.
Tensor scalar_tensor(DType dtype, double value);
Tensor make_i64_tensor(std::span<const int64_t> values);  ///< rank 1

/// All elements as numbers (real, integer and bool types; u64 above 2^63 wraps in the integer form).
std::vector<double> to_doubles(const Tensor& tensor);
std::vector<int64_t> to_int64s(const Tensor& tensor);

Tensor make_string_tensor(std::vector<int64_t> dims, std::vector<std::string> strings);
Tensor make_container(Type::Kind kind, std::vector<Tensor> items);

/// The value when every element is the same (used to recognise splat constants).
std::optional<double> splat_value(const Tensor& tensor);

/// "f32[2,3]" and up to `limit` elements; "sequence of 2: ...".
std::string describe(const Tensor& tensor, int64_t limit = 8);

}  // namespace weft
