// SPDX-License-Identifier: Apache-2.0
#include "base/tensor.h"

#include <algorithm>
#include <cstring>

#include "base/container.h"
#include "base/error.h"
#include "base/numeric.h"

namespace weft {
namespace {

/// Returns element `index` of a packed narrow type as raw bits.
uint32_t unpack(const std::byte* data, int width, int64_t index) {
  int64_t bit = index * width;
  return static_cast<uint32_t>(data[bit / 8]) >> (bit % 8) & ((1u << width) - 1);
}

void pack(std::byte* data, int width, int64_t index, uint32_t value) {
  int64_t bit = index * width;
  auto mask = static_cast<uint32_t>((1u << width) - 1) << (bit % 8);
  auto old = static_cast<uint32_t>(data[bit / 8]);
  data[bit / 8] = static_cast<std::byte>((old & ~mask) | (value << (bit % 8) & mask));
}

template <class T>
T load_as(const std::byte* data, int64_t index) {
  T value;
  std::memcpy(&value, data + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

template <class T>
void store_as(std::byte* data, int64_t index, T value) {
  std::memcpy(data + index * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}

uint32_t load_bits(const std::byte* data, DType type, int64_t index) {
  int width = bits(type);
  if (width < 8) return unpack(data, width, index);
  return width == 8 ? load_as<uint8_t>(data, index) : load_as<uint16_t>(data, index);
}

void store_bits(std::byte* data, DType type, int64_t index, uint32_t value) {
  int width = bits(type);
  if (width < 8) pack(data, width, index, value);
  else if (width == 8) store_as(data, index, static_cast<uint8_t>(value));
  else store_as(data, index, static_cast<uint16_t>(value));
}

int64_t load_integer(const std::byte* data, DType type, int64_t index) {
  switch (type) {
    case DType::i64:
    case DType::u64: return load_as<int64_t>(data, index);
    case DType::i32: return load_as<int32_t>(data, index);
    case DType::u32: return load_as<uint32_t>(data, index);
    default: break;
  }
  int width = bits(type);
  int64_t value = load_bits(data, type, index);
  if (type == DType::boolean) return value != 0;
  bool negative = is_signed_integer(type) && (value >> (width - 1) & 1);
  return negative ? value - (int64_t{1} << width) : value;
}

void store_integer(std::byte* data, DType type, int64_t index, int64_t value) {
  switch (type) {
    case DType::i64:
    case DType::u64: store_as(data, index, value); return;
    case DType::i32:
    case DType::u32: store_as(data, index, static_cast<int32_t>(value)); return;
    case DType::boolean: store_as(data, index, static_cast<uint8_t>(value != 0)); return;
    default: store_bits(data, type, index, static_cast<uint32_t>(value) & ((1u << bits(type)) - 1));
  }
}

double load_float(const std::byte* data, DType type, int64_t index) {
  if (type == DType::f32) return load_as<float>(data, index);
  if (type == DType::f64) return load_as<double>(data, index);
  return decode_float(load_bits(data, type, index), float_format(type));
}

void store_float(std::byte* data, DType type, int64_t index, double value) {
  if (type == DType::f32) store_as(data, index, static_cast<float>(value));
  else if (type == DType::f64) store_as(data, index, value);
  else store_bits(data, type, index, encode_float(value, float_format(type)));
}

void refuse_conversion(DType type) {
  if (type == DType::string || is_complex(type))
    throw Error({.kind = ErrorKind::model, .code = "E141", .what = cat("a tensor of ", type, " is used as numbers")});
}

}  // namespace

int64_t element_count(std::span<const int64_t> dims) {
  int64_t total = 1;
  for (int64_t dim : dims) {
    if (dim < 0 || __builtin_mul_overflow(total, dim, &total)) {
      throw Error({.kind = ErrorKind::model,
                   .code = "E146",
                   .what = cat("the sizes ", dims, dim < 0 ? " are below 0" : " overflow 64 bits")});
    }
  }
  return total;
}

int64_t Tensor::elements() const { return element_count(dims); }

Shape Tensor::shape() const { return {dtype, Dims(dims.begin(), dims.end())}; }

bool operator==(const Tensor& a, const Tensor& b) {
  if (a.dtype != b.dtype || a.dims != b.dims) return false;
  if (a.kind != b.kind) return false;
  if (!a.is_tensor()) return *a.items == *b.items;
  if (a.dtype == DType::string) return *a.strings == *b.strings;
  if (a.data.data() == b.data.data() && a.data.size() == b.data.size()) return true;
  return a.data.size() == b.data.size() &&
         (a.data.empty() || std::memcmp(a.data.data(), b.data.data(), a.data.size()) == 0);
}

MutableTensor allocate_tensor(DType dtype, std::vector<int64_t> dims) {
  size_t size = byte_size(dtype, element_count(dims));
  std::shared_ptr<std::byte> owner(
      static_cast<std::byte*>(::operator new(std::max<size_t>(size, 1), std::align_val_t{64})),
      [](std::byte* p) { ::operator delete(p, std::align_val_t{64}); });
  if (bits(dtype) < 8) std::memset(owner.get(), 0, size);  // clears the padding bits of packed types
  Tensor tensor{
      .dtype = dtype, .dims = std::move(dims), .data = Bytes(std::span<const std::byte>(owner.get(), size), owner)};
  return {std::move(tensor), owner.get()};
}

Tensor make_tensor(DType dtype, std::vector<int64_t> dims, std::span<const double> values) {
  refuse_conversion(dtype);
  MutableTensor result = allocate_tensor(dtype, std::move(dims));
  check(result.tensor.elements() == std::ssize(values), "a tensor has as many values as elements");
  for (size_t i = 0; i < values.size(); ++i) {
    if (is_float(dtype)) store_float(result.data, dtype, static_cast<int64_t>(i), values[i]);
    else store_integer(result.data, dtype, static_cast<int64_t>(i), to_int64(values[i]));
  }
  return result.tensor;
}

Tensor make_tensor(DType dtype, std::vector<int64_t> dims, std::span<const int64_t> values) {
  refuse_conversion(dtype);
  MutableTensor result = allocate_tensor(dtype, std::move(dims));
  check(result.tensor.elements() == std::ssize(values), "a tensor has as many values as elements");
  for (size_t i = 0; i < values.size(); ++i) {
    if (is_float(dtype)) store_float(result.data, dtype, static_cast<int64_t>(i), static_cast<double>(values[i]));
    else store_integer(result.data, dtype, static_cast<int64_t>(i), values[i]);
  }
  return result.tensor;
}

Tensor scalar_tensor(DType dtype, double value) { return make_tensor(dtype, {}, std::span(&value, 1)); }

Tensor integer_scalar(DType dtype, int64_t value) { return make_tensor(dtype, {}, std::span(&value, 1)); }

Tensor make_i64_tensor(std::span<const int64_t> values) {
  return make_tensor(DType::i64, {static_cast<int64_t>(values.size())}, values);
}

std::vector<double> to_doubles(const Tensor& tensor) {
  refuse_conversion(tensor.dtype);
  std::vector<double> values(tensor.elements());
  for (size_t i = 0; i < values.size(); ++i) {
    auto index = static_cast<int64_t>(i);
    if (is_float(tensor.dtype)) values[i] = load_float(tensor.data.data(), tensor.dtype, index);
    else if (tensor.dtype == DType::u64) values[i] = static_cast<double>(load_as<uint64_t>(tensor.data.data(), index));
    else values[i] = static_cast<double>(load_integer(tensor.data.data(), tensor.dtype, index));
  }
  return values;
}

std::vector<int64_t> to_int64s(const Tensor& tensor) {
  refuse_conversion(tensor.dtype);
  std::vector<int64_t> values(tensor.elements());
  for (size_t i = 0; i < values.size(); ++i) {
    auto index = static_cast<int64_t>(i);
    if (is_float(tensor.dtype)) values[i] = static_cast<int64_t>(load_float(tensor.data.data(), tensor.dtype, index));
    else values[i] = load_integer(tensor.data.data(), tensor.dtype, index);
  }
  return values;
}

Tensor make_string_tensor(std::vector<int64_t> dims, std::vector<std::string> strings) {
  check(element_count(dims) == static_cast<int64_t>(strings.size()), "a tensor has as many strings as elements");
  return {.dtype = DType::string,
          .dims = std::move(dims),
          .strings = std::make_shared<const std::vector<std::string>>(std::move(strings))};
}

Tensor make_container(Type::Kind kind, std::vector<Tensor> items) {
  return {.kind = kind, .items = make_items(std::move(items))};
}

std::optional<double> splat_value(const Tensor& tensor) {
  if (tensor.dtype == DType::string || is_complex(tensor.dtype) || tensor.elements() == 0) return std::nullopt;
  int width = bits(tensor.dtype);
  if (width >= 8) {
    size_t step = width / 8;
    const std::byte* first = tensor.data.data();
    for (size_t at = step; at < tensor.data.size(); at += step) {
      if (std::memcmp(first, first + at, step) != 0) return std::nullopt;
    }
    Tensor one{.dtype = tensor.dtype, .dims = {}, .data = tensor.data.part(0, step)};
    return to_doubles(one)[0];
  }
  auto values = to_doubles(tensor);
  bool same = std::ranges::all_of(values, [&](double v) { return v == values[0]; });
  return same ? std::optional(values[0]) : std::nullopt;
}

static std::string describe_items(const Tensor& container, int64_t limit) {
  constexpr std::string_view kinds[] = {"tensor", "sequence", "optional", "map"};
  std::string text = cat(kinds[static_cast<size_t>(container.kind)], " of ", container.items->size());
  for (size_t i = 0; i < container.items->size() && static_cast<int64_t>(i) < limit; ++i)
    text += cat(i ? ", " : ": ", describe((*container.items)[i], limit));
  return text;
}

std::string describe(const Tensor& tensor, int64_t limit) {
  if (!tensor.is_tensor()) return describe_items(tensor, limit);
  std::string text = cat(tensor.shape());
  if (tensor.dtype == DType::string || is_complex(tensor.dtype)) return text;
  Tensor head = tensor;
  int64_t shown = std::min(limit, tensor.elements());
  head.dims = {shown};
  auto values = to_doubles(head);
  text += cat(" {");
  for (int64_t i = 0; i < shown; ++i) text += cat(i ? ", " : "", values[i]);
  return text + (shown < tensor.elements() ? ", ...}" : "}");
}

}  // namespace weft
