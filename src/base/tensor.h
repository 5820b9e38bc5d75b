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

/// A value of a run: a dense, row-major tensor in host memory with known sizes, or an ONNX container (sequence,
/// optional, map) of such values. Copies share the data.
struct Tensor {
  DType dtype = DType::f32;
  std::vector<int64_t> dims = {};
  Bytes data = {};                                                    ///< not for strings; narrow types are packed
  std::shared_ptr<const std::vector<std::string>> strings = nullptr;  ///< DType::string only
  Type::Kind kind = Type::Kind::tensor;
  /// Containers: a sequence's items, an optional's item (if any), or a map's keys and values (two tensors of one axis).
  std::shared_ptr<const std::vector<Tensor>> items = nullptr;

  bool is_tensor() const { return kind == Type::Kind::tensor; }
  int64_t elements() const;
  Shape shape() const;
  /// Returns the elements; `T` must have the size of the element type.
  template <class T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(data.data()), data.size() / sizeof(T)};
  }
};
/// True if kind, element type, sizes and contents (bytes, strings or items) are equal.
bool operator==(const Tensor& a, const Tensor& b);

/// Returns the number of elements; throws E146 for a negative size, or if the number overflows.
int64_t element_count(std::span<const int64_t> dims);

/// A new tensor without contents yet. The caller fills it through the returned pointer before sharing it.
struct MutableTensor {
  Tensor tensor;
  std::byte* data = nullptr;
};
MutableTensor allocate_tensor(DType dtype, std::vector<int64_t> dims);

/// Makes a tensor of any real, integer or bool type from numbers, which are converted to the type.
Tensor make_tensor(DType dtype, std::vector<int64_t> dims, std::span<const double> values);
Tensor make_tensor(DType dtype, std::vector<int64_t> dims, std::span<const int64_t> values);
Tensor scalar_tensor(DType dtype, double value);
Tensor integer_scalar(DType dtype, int64_t value);
Tensor make_i64_tensor(std::span<const int64_t> values);  ///< rank 1

/// Return all elements as numbers (real, integer and bool types). to_int64s wraps u64 values from 2^63 on.
std::vector<double> to_doubles(const Tensor& tensor);
std::vector<int64_t> to_int64s(const Tensor& tensor);

Tensor make_string_tensor(std::vector<int64_t> dims, std::vector<std::string> strings);
Tensor make_container(Type::Kind kind, std::vector<Tensor> items);

/// Returns the value of the elements if all are equal, otherwise nothing.
std::optional<double> splat_value(const Tensor& tensor);

/// Returns the type and up to `limit` elements as text: "f32[2,3] ...", "sequence of 2: ...".
std::string describe(const Tensor& tensor, int64_t limit = 8);

}  // namespace weft
