// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/file/model.h"

namespace weft::onnx {

std::optional<DType> element_type(int64_t code) {
  using enum DType;
  static constexpr DType types[] = {f32,    u8,         i8,  u16, i16,    i32,    i64,  string,   boolean,
                                    f16,    f64,        u32, u64, c64,    c128,   bf16, f8e4m3fn, f8e4m3fnuz,
                                    f8e5m2, f8e5m2fnuz, u4,  i4,  f4e2m1, f8e8m0, u2,   i2};
  if (code < 1 || code > std::ssize(types)) return std::nullopt;
  return types[code - 1];
}

std::string to_string(AttributeKind kind) {
  static constexpr std::string_view names[] = {
      "undefined", "float",   "int",    "string",        "tensor",         "graph", "floats", "ints",
      "strings",   "tensors", "graphs", "sparse tensor", "sparse tensors", "type",  "types"};
  return std::string(names[static_cast<size_t>(kind)]);
}

}  // namespace weft::onnx
