// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <numeric>

#include "migraphx/handles.h"

using namespace weft::mgx;

namespace {

struct TypePair {
  migraphx_shape_datatype_t theirs;
  weft_dtype ours;
  const char* name;
};
constexpr TypePair types[] = {{migraphx_shape_bool_type, WEFT_BOOL, "bool"},
                              {migraphx_shape_half_type, WEFT_F16, "half"},
                              {migraphx_shape_float_type, WEFT_F32, "float"},
                              {migraphx_shape_double_type, WEFT_F64, "double"},
                              {migraphx_shape_uint8_type, WEFT_U8, "uint8"},
                              {migraphx_shape_int8_type, WEFT_I8, "int8"},
                              {migraphx_shape_uint16_type, WEFT_U16, "uint16"},
                              {migraphx_shape_int16_type, WEFT_I16, "int16"},
                              {migraphx_shape_int32_type, WEFT_I32, "int32"},
                              {migraphx_shape_int64_type, WEFT_I64, "int64"},
                              {migraphx_shape_uint32_type, WEFT_U32, "uint32"},
                              {migraphx_shape_uint64_type, WEFT_U64, "uint64"},
                              {migraphx_shape_fp8e4m3fnuz_type, WEFT_F8E4M3FNUZ, "fp8e4m3fnuz"},
                              {migraphx_shape_fp8e4m3fn_type, WEFT_F8E4M3FN, "fp8e4m3fn"},
                              {migraphx_shape_fp8e5m2_type, WEFT_F8E5M2, "fp8e5m2"},
                              {migraphx_shape_bf16_type, WEFT_BF16, "bf16"},
                              {migraphx_shape_fp8e5m2fnuz_type, WEFT_F8E5M2FNUZ, "fp8e5m2fnuz"}};

const TypePair* find_type(migraphx_shape_datatype_t type) {
  auto found = std::ranges::find(types, type, &TypePair::theirs);
  return found == std::end(types) ? nullptr : found;
}

std::vector<size_t> row_major(const std::vector<size_t>& lengths) {
  std::vector<size_t> strides(lengths.size());
  size_t step = 1;
  for (size_t i = lengths.size(); i-- > 0; step *= lengths[i]) strides[i] = step;
  return strides;
}

size_t times(size_t a, size_t b) {
  size_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) refuse("a shape has more elements or bytes than 64 bits can count");
  return result;
}

size_t product(const std::vector<size_t>& lengths) {
  size_t count = 1;
  for (size_t length : lengths) count = times(count, length);
  return count;
}

std::vector<size_t> list(const size_t* items, size_t count) {
  if (count > 0) given(items);
  return {items, items + count};
}

migraphx_dynamic_dimension range(size_t min, size_t max, std::set<size_t> optimals) {
  if (min > max) refuse("a size from " + std::to_string(min) + " to " + std::to_string(max) + " is impossible");
  return {min, max, std::move(optimals)};
}

}  // namespace

size_t migraphx_shape::elements() const { return product(lengths); }

size_t migraphx_shape::bytes() const {
  size_t element = static_cast<size_t>(weft_dtype_bits(dtype_of(type))) / 8;
  if (is_dynamic()) return times(elements(), element);
  if (elements() == 0) return 0;
  size_t count = 1;
  for (size_t i = 0; i < lengths.size(); ++i) {
    size_t step = times(lengths[i] - 1, strides[i]);
    if (__builtin_add_overflow(count, step, &count)) refuse("a shape has strides beyond what 64 bits can count");
  }
  return times(count, element);
}

bool migraphx_shape::is_standard() const {
  if (is_dynamic()) return false;
  std::vector<size_t> dense = row_major(lengths);
  for (size_t i = 0; i < lengths.size(); ++i)
    if (lengths[i] != 1 && strides[i] != dense[i]) return elements() == 0;
  return true;
}

size_t migraphx_shape::index(size_t element) const {
  size_t place = 0;
  for (size_t i = lengths.size(); i-- > 0; element /= lengths[i]) place += element % lengths[i] * strides[i];
  return place;
}

namespace weft::mgx {

migraphx_shape make_shape(migraphx_shape_datatype_t type, std::vector<size_t> lengths) {
  product(lengths);
  std::vector<size_t> strides = row_major(lengths);
  return {type, std::move(lengths), std::move(strides), {}};
}

weft_dtype dtype_of(migraphx_shape_datatype_t type) {
  const TypePair* found = find_type(type);
  if (!found) refuse("element type " + std::to_string(type) + " has no elements that can be held");
  return found->ours;
}

migraphx_shape_datatype_t type_of(weft_dtype type) {
  auto found = std::ranges::find(types, type, &TypePair::ours);
  if (found == std::end(types)) not_supported(std::string("MIGraphX has no element type for ") + weft_dtype_name(type));
  return found->theirs;
}

std::string name_of(migraphx_shape_datatype_t type) {
  const TypePair* found = find_type(type);
  return found ? found->name : type == migraphx_shape_tuple_type ? "tuple" : "fp4x2";
}

std::string to_string(const migraphx_shape& shape) {
  std::string text = name_of(shape.type) + "[";
  for (size_t i = 0; i < shape.rank(); ++i) {
    if (i > 0) text += ", ";
    text += shape.is_dynamic() ? std::to_string(shape.dynamic[i].min) + ".." + std::to_string(shape.dynamic[i].max)
                               : std::to_string(shape.lengths[i]);
  }
  return text + "]";
}

}  // namespace weft::mgx

WEFT_MGX_HANDLE(optimals)
WEFT_MGX_HANDLE(dynamic_dimension)
WEFT_MGX_HANDLE(dynamic_dimensions)
WEFT_MGX_HANDLE(shape)

migraphx_status migraphx_optimals_create(migraphx_optimals_t* optimals, const size_t* ptr, size_t size) {
  return guarded([&] {
    std::vector<size_t> values = list(ptr, size);
    give(optimals, migraphx_optimals{{values.begin(), values.end()}});
  });
}

migraphx_status migraphx_dynamic_dimension_create_min_max(migraphx_dynamic_dimension_t* dimension, size_t min,
                                                          size_t max) {
  return guarded([&] { give(dimension, migraphx_dynamic_dimension(range(min, max, {}))); });
}

migraphx_status migraphx_dynamic_dimension_create_min_max_optimals(migraphx_dynamic_dimension_t* dimension, size_t min,
                                                                   size_t max, migraphx_optimals_t optimals) {
  return guarded([&] {
    if (!given(optimals).values.empty())
      warn("optimals of a dynamic dimension change nothing: one program serves every size of the range");
    give(dimension, migraphx_dynamic_dimension(range(min, max, optimals->values)));
  });
}

migraphx_status migraphx_dynamic_dimension_is_fixed(bool* out, const_migraphx_dynamic_dimension_t dimension) {
  return guarded([&] { given(out) = given(dimension).min == given(dimension).max; });
}

migraphx_status weft_migraphx_dynamic_dimension_range(size_t* min, size_t* max,
                                                      const_migraphx_dynamic_dimension_t dimension) {
  return guarded([&] { given(min) = given(dimension).min, given(max) = dimension->max; });
}

migraphx_status migraphx_dynamic_dimension_equal(bool* out, const_migraphx_dynamic_dimension_t dimension,
                                                 const_migraphx_dynamic_dimension_t x) {
  return guarded([&] { given(out) = given(dimension) == given(x); });
}

migraphx_status migraphx_dynamic_dimensions_create(migraphx_dynamic_dimensions_t* dimensions,
                                                   const const_migraphx_dynamic_dimension_t* ptr, size_t size) {
  return guarded([&] {
    auto made = std::make_unique<migraphx_dynamic_dimensions>();
    for (size_t i = 0; i < size; ++i) made->list.push_back(given(given(ptr + i)));
    given(dimensions), *dimensions = made.release();
  });
}

migraphx_status migraphx_dynamic_dimensions_size(size_t* out, migraphx_dynamic_dimensions_t dimensions) {
  return guarded([&] { given(out) = given(dimensions).list.size(); });
}

migraphx_status migraphx_dynamic_dimensions_get(const_migraphx_dynamic_dimension_t* out,
                                                migraphx_dynamic_dimensions_t dimensions, size_t idx) {
  return guarded([&] { given(out) = &item(given(dimensions).list, idx); });
}

migraphx_status migraphx_shape_create(migraphx_shape_t* shape, migraphx_shape_datatype_t type, size_t* lengths,
                                      size_t lengths_size) {
  return guarded([&] { give(shape, migraphx_shape(make_shape(type, list(lengths, lengths_size)))); });
}

migraphx_status migraphx_shape_create_with_strides(migraphx_shape_t* shape, migraphx_shape_datatype_t type,
                                                   size_t* lengths, size_t lengths_size, size_t* strides,
                                                   size_t strides_size) {
  return guarded([&] {
    if (lengths_size != strides_size)
      refuse(std::to_string(lengths_size) + " lengths and " + std::to_string(strides_size) + " strides are given");
    migraphx_shape made = make_shape(type, list(lengths, lengths_size));
    made.strides = list(strides, strides_size);
    give(shape, migraphx_shape(made));
  });
}

migraphx_status migraphx_shape_create_scalar(migraphx_shape_t* shape, migraphx_shape_datatype_t type) {
  return guarded([&] { give(shape, migraphx_shape{type, {1}, {0}, {}}); });
}

migraphx_status migraphx_shape_create_dynamic(migraphx_shape_t* shape, migraphx_shape_datatype_t type,
                                              migraphx_dynamic_dimensions_t dims) {
  return guarded([&] {
    std::vector<size_t> most;
    for (const migraphx_dynamic_dimension& size : given(dims).list) most.push_back(size.max);
    give(shape, migraphx_shape{type, std::move(most), {}, dims->list});
  });
}

migraphx_status migraphx_shape_lengths(const size_t** out, size_t* out_size, const_migraphx_shape_t shape) {
  return guarded([&] { given(out) = given(shape).lengths.data(), given(out_size) = shape->lengths.size(); });
}

migraphx_status migraphx_shape_strides(const size_t** out, size_t* out_size, const_migraphx_shape_t shape) {
  return guarded([&] {
    if (given(shape).is_dynamic()) refuse(to_string(*shape) + " has no fixed strides");
    given(out) = shape->strides.data(), given(out_size) = shape->strides.size();
  });
}

migraphx_status migraphx_shape_dyn_dims(migraphx_dynamic_dimensions_t* out, const_migraphx_shape_t shape) {
  return guarded([&] {
    auto made = std::make_unique<migraphx_dynamic_dimensions>(migraphx_dynamic_dimensions{given(shape).dynamic});
    if (!shape->is_dynamic())
      for (size_t length : shape->lengths) made->list.push_back({length, length, {}});
    given(out), *out = made.release();
  });
}

migraphx_status migraphx_shape_type(migraphx_shape_datatype_t* out, const_migraphx_shape_t shape) {
  return guarded([&] { given(out) = given(shape).type; });
}
migraphx_status migraphx_shape_elements(size_t* out, const_migraphx_shape_t shape) {
  return guarded([&] { given(out) = given(shape).elements(); });
}
migraphx_status migraphx_shape_bytes(size_t* out, const_migraphx_shape_t shape) {
  return guarded([&] { given(out) = given(shape).bytes(); });
}
migraphx_status migraphx_shape_ndim(size_t* out, const_migraphx_shape_t shape) {
  return guarded([&] { given(out) = given(shape).rank(); });
}
migraphx_status migraphx_shape_equal(bool* out, const_migraphx_shape_t shape, const_migraphx_shape_t x) {
  return guarded([&] { given(out) = given(shape) == given(x); });
}
migraphx_status migraphx_shape_standard(bool* out, const_migraphx_shape_t shape) {
  return guarded([&] { given(out) = given(shape).is_standard(); });
}
migraphx_status migraphx_shape_dynamic(bool* out, const_migraphx_shape_t shape) {
  return guarded([&] { given(out) = given(shape).is_dynamic(); });
}
migraphx_status migraphx_shape_index(size_t* out, const_migraphx_shape_t shape, size_t i) {
  return guarded([&] {
    if (given(shape).is_dynamic() || i >= shape->elements())
      refuse("there is no element " + std::to_string(i) + " in " + to_string(*shape));
    given(out) = shape->index(i);
  });
}
