// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <random>

#include "migraphx/handles.h"
#include "migraphx/npy.h"

using namespace weft::mgx;

namespace {

size_t element_bytes(const migraphx_shape& shape) {
  return static_cast<size_t>(weft_dtype_bits(dtype_of(shape.type))) / 8;
}

bool equal_elements(const migraphx_argument& a, const migraphx_argument& b) {
  check_fixed(a.shape), check_fixed(b.shape);
  if (a.shape.type != b.shape.type || a.shape.lengths != b.shape.lengths) return false;
  size_t size = element_bytes(a.shape);
  for (size_t i = 0; i < a.shape.elements(); ++i)
    if (std::memcmp(a.data() + a.shape.index(i) * size, b.data() + b.shape.index(i) * size, size) != 0) return false;
  return true;
}

template <class T, class Make>
void fill(migraphx_argument& argument, const Make& make) {
  T* values = reinterpret_cast<T*>(argument.data());
  for (size_t i = 0; i < argument.shape.bytes() / sizeof(T); ++i) values[i] = static_cast<T>(make());
}

/// Encodes a number in [0.5, 1) as f16: a constant exponent and 10 bits of fraction.
uint16_t half_bits(float value) { return static_cast<uint16_t>(0x3800 | static_cast<uint32_t>((value - 0.5f) * 2048)); }

void fill_random(migraphx_argument& argument, size_t seed) {
  std::mt19937_64 engine(seed);
  auto real = [&] { return static_cast<double>(engine() >> 11) * 0x1p-53; };
  auto whole = [&] { return engine() % 8; };  // small: sums are exact, and many are valid indices
  switch (argument.shape.type) {
    case migraphx_shape_double_type: return fill<double>(argument, real);
    case migraphx_shape_float_type: return fill<float>(argument, real);
    case migraphx_shape_half_type: return fill<uint16_t>(argument, [&] { return half_bits(float(0.5 + real() / 2)); });
    case migraphx_shape_bf16_type:
      return fill<uint16_t>(argument, [&] { return 0x3f00 + engine() % 128; });  // bf16 numbers in [0.5, 1)
    case migraphx_shape_bool_type: return fill<uint8_t>(argument, [&] { return engine() % 2; });
    default: break;
  }
  switch (element_bytes(argument.shape)) {
    case 8: return fill<uint64_t>(argument, whole);
    case 4: return fill<uint32_t>(argument, whole);
    case 2: return fill<uint16_t>(argument, whole);
    default: return fill<uint8_t>(argument, whole);
  }
}

}  // namespace

namespace weft::mgx {

void check_fixed(const migraphx_shape& shape) {
  if (shape.is_dynamic()) refuse("an argument of " + to_string(shape) + ", whose sizes are not fixed, has no elements");
}

migraphx_argument make_argument(migraphx_shape shape) {
  check_fixed(shape);
  size_t bytes = shape.bytes();
  void* memory = std::aligned_alloc(64, (bytes + 64) / 64 * 64);
  if (!memory) throw std::bad_alloc();
  std::memset(memory, 0, bytes);
  return {std::move(shape), {memory, std::free}};
}

}  // namespace weft::mgx

WEFT_MGX_HANDLE(argument)
WEFT_MGX_HANDLE(arguments)

migraphx_status migraphx_argument_create(migraphx_argument_t* argument, const_migraphx_shape_t shape, void* buffer) {
  return guarded([&] {
    bool needs_memory = !given(shape).is_dynamic() && shape->bytes() > 0;
    if (needs_memory) given(static_cast<char*>(buffer));
    give(argument, migraphx_argument{*shape, {buffer, [](void*) {}}});
  });
}

migraphx_status migraphx_argument_create_empty(migraphx_argument_t* argument, const_migraphx_shape_t shape) {
  return guarded([&] { give(argument, migraphx_argument(make_argument(given(shape)))); });
}

migraphx_status migraphx_argument_shape(const_migraphx_shape_t* out, const_migraphx_argument_t argument) {
  return guarded([&] { given(out) = &given(argument).shape; });
}

migraphx_status migraphx_argument_buffer(char** out, const_migraphx_argument_t argument) {
  return guarded([&] { given(out) = given(argument).data(); });
}

migraphx_status migraphx_argument_equal(bool* out, const_migraphx_argument_t argument, const_migraphx_argument_t x) {
  return guarded([&] { given(out) = equal_elements(given(argument), given(x)); });
}

migraphx_status migraphx_argument_save(const_migraphx_argument_t a, const char* filename) {
  return guarded([&] { save_npy(given(a), &given(filename)); });
}

migraphx_status migraphx_argument_load(migraphx_argument_t* out, const char* filename) {
  return guarded([&] { give(out, migraphx_argument(load_npy(&given(filename)))); });
}

migraphx_status migraphx_argument_generate(migraphx_argument_t* out, const_migraphx_shape_t s, size_t seed) {
  return guarded([&] {
    migraphx_argument made = make_argument(given(s));
    fill_random(made, seed);
    give(out, migraphx_argument(std::move(made)));
  });
}

migraphx_status migraphx_arguments_size(size_t* out, migraphx_arguments_t arguments) {
  return guarded([&] { given(out) = given(arguments).list.size(); });
}
migraphx_status migraphx_arguments_get(const_migraphx_argument_t* out, migraphx_arguments_t arguments, size_t idx) {
  return guarded([&] { given(out) = &item(given(arguments).list, idx); });
}
