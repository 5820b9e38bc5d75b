// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "api/c/handles.h"
#include "base/kept_file.h"

using namespace weft;

#define SAME(number, type) static_assert(static_cast<int>(DType::type) == (number))
SAME(WEFT_BOOL, boolean);
SAME(WEFT_U2, u2);
SAME(WEFT_U4, u4);
SAME(WEFT_U8, u8);
SAME(WEFT_U16, u16);
SAME(WEFT_U32, u32);
SAME(WEFT_U64, u64);
SAME(WEFT_I2, i2);
SAME(WEFT_I4, i4);
SAME(WEFT_I8, i8);
SAME(WEFT_I16, i16);
SAME(WEFT_I32, i32);
SAME(WEFT_I64, i64);
SAME(WEFT_F4E2M1, f4e2m1);
SAME(WEFT_F8E4M3FN, f8e4m3fn);
SAME(WEFT_F8E4M3FNUZ, f8e4m3fnuz);
SAME(WEFT_F8E5M2, f8e5m2);
SAME(WEFT_F8E5M2FNUZ, f8e5m2fnuz);
SAME(WEFT_F8E8M0, f8e8m0);
SAME(WEFT_F16, f16);
SAME(WEFT_BF16, bf16);
SAME(WEFT_F32, f32);
SAME(WEFT_F64, f64);
SAME(WEFT_C64, c64);
SAME(WEFT_C128, c128);
SAME(WEFT_STRING, string);
#undef SAME
static_assert(static_cast<int>(Type::Kind::sequence) == WEFT_SEQUENCE &&
              static_cast<int>(Type::Kind::optional) == WEFT_OPTIONAL && static_cast<int>(Type::Kind::map) == WEFT_MAP);

namespace {

constexpr size_t max_axes = 1024;  // far above the rank of any model: a larger rank is a mistake of the caller

bool is_type(weft_dtype type) { return type >= WEFT_BOOL && type <= WEFT_STRING; }

std::vector<int64_t> checked_dims(const int64_t* dims, size_t rank) {
  if (rank > max_axes) usage_error("E210", cat("rank ", rank, " is more than ", max_axes));
  if (rank > 0) required(dims, "dims");
  std::vector<int64_t> copy(dims, dims + rank);
  for (int64_t size : copy) {
    if (size < 0) usage_error("E210", cat("dims ", copy, " hold a negative size"));
  }
  return copy;
}

/// Checks the type (no strings) and the sizes; returns a tensor without data.
Tensor checked_tensor(weft_dtype type, const int64_t* dims, size_t rank) {
  if (!is_type(type)) usage_error("E210", cat("element type ", static_cast<int>(type), " is unknown"));
  if (type == WEFT_STRING)
    usage_error("E210", "a tensor of strings has no contiguous bytes", "use weft_tensor_strings");
  return {.dtype = static_cast<DType>(type), .dims = checked_dims(dims, rank)};
}

size_t bytes_of(const Tensor& tensor) {
  return static_cast<size_t>(byte_size(tensor.dtype, element_count(tensor.dims)));
}

/// Checks the type and the sizes. Checks that the tensor takes `bytes` bytes, and that `data` is not NULL unless
/// `bytes` is 0. Returns a tensor without data.
Tensor checked_tensor(weft_dtype type, const int64_t* dims, size_t rank, const void* data, size_t bytes) {
  Tensor tensor = checked_tensor(type, dims, rank);
  size_t wanted = bytes_of(tensor);
  if (bytes != wanted)
    usage_error("E210", cat("a tensor ", to_string(tensor.shape()), " has ", wanted, " bytes, ", bytes, " given"));
  if (bytes > 0) required(static_cast<const std::byte*>(data), "data");
  return tensor;
}

std::span<const std::byte> span_of(const void* data, size_t bytes) {
  return {static_cast<const std::byte*>(data), bytes};
}

}  // namespace

const char* weft_dtype_name(weft_dtype type) {
  return is_type(type) ? name(static_cast<DType>(type)).data() : "";  // names are literals, so they end with 0
}
int32_t weft_dtype_bits(weft_dtype type) { return is_type(type) ? bits(static_cast<DType>(type)) : 0; }

weft_status* weft_tensor_wrap(weft_dtype type, const int64_t* dims, size_t rank, const void* data, size_t bytes,
                              void (*release)(void* user), void* user, weft_tensor** tensor) {
  // The owner is made first, so that `release` is called exactly once even if a later line throws.
  std::shared_ptr<const void> owner;
  return guarded([&] {
    if (release) owner = std::shared_ptr<const void>(user, [release, user](const void*) { release(user); });
    required(tensor, "tensor");
    Tensor made = checked_tensor(type, dims, rank, data, bytes);
    made.data = Bytes(span_of(data, bytes), owner);
    *tensor = new weft_tensor{.tensor = std::move(made)};
  });
}

weft_status* weft_tensor_map(weft_dtype type, const int64_t* dims, size_t rank, const char* path, size_t offset,
                             weft_tensor** tensor) {
  return guarded([&] {
    required(tensor, "tensor");
    Tensor made = checked_tensor(type, dims, rank);
    size_t alignment = std::max<size_t>(static_cast<size_t>(bits(made.dtype)) / 8, 1);
    made.data = map_kept(&required(path, "path"), offset, bytes_of(made), alignment);
    *tensor = new weft_tensor{.tensor = std::move(made)};
  });
}

weft_status* weft_tensor_copy(weft_dtype type, const int64_t* dims, size_t rank, const void* data, size_t bytes,
                              weft_tensor** tensor) {
  return guarded([&] {
    required(tensor, "tensor");
    Tensor made = checked_tensor(type, dims, rank, data, bytes);
    made.data = Bytes::copy(span_of(data, bytes));
    *tensor = new weft_tensor{.tensor = std::move(made)};
  });
}

weft_status* weft_tensor_new(const weft_program* program, weft_dtype type, const int64_t* dims, size_t rank,
                             weft_tensor** tensor, void** data) {
  return guarded([&] {
    required(tensor, "tensor"), required(data, "data");
    Tensor wanted = checked_tensor(type, dims, rank);
    MutableTensor made = program ? program->executable->host_tensor(wanted.dtype, std::move(wanted.dims))
                                 : allocate_tensor(wanted.dtype, std::move(wanted.dims));
    *tensor = new weft_tensor{.tensor = std::move(made.tensor)};
    *data = made.data;
  });
}

weft_status* weft_tensor_strings(const int64_t* dims, size_t rank, const char* const* strings, const size_t* lengths,
                                 weft_tensor** tensor) {
  return guarded([&] {
    required(tensor, "tensor");
    Tensor made{.dtype = DType::string, .dims = checked_dims(dims, rank)};
    size_t count = static_cast<size_t>(element_count(made.dims));
    if (count > 0) required(strings, "strings");
    auto elements = std::make_shared<std::vector<std::string>>();
    for (size_t i = 0; i < count; ++i) {
      const char* text = &required(strings[i], "strings");
      elements->push_back(lengths ? std::string(text, lengths[i]) : std::string(text));
    }
    made.strings = std::move(elements);
    *tensor = new weft_tensor{.tensor = std::move(made)};
  });
}

weft_kind weft_tensor_kind(const weft_tensor* tensor) {
  return tensor ? static_cast<weft_kind>(tensor->tensor.kind) : WEFT_TENSOR;
}

weft_status* weft_tensor_collect(weft_kind kind, const weft_tensor* const* items, size_t count,
                                 weft_tensor** container) {
  return guarded([&] {
    required(container, "container");
    if (count > 0) required(items, "items");
    std::vector<Tensor> values;
    for (size_t i = 0; i < count; ++i) values.push_back(required(items[i], "items").tensor);
    bool is_map = kind == WEFT_MAP && count == 2 && values[0].is_tensor() && values[1].is_tensor() &&
                  values[0].dims.size() == 1 && values[0].dims == values[1].dims;
    if (!is_map && kind != WEFT_SEQUENCE && (kind != WEFT_OPTIONAL || count > 1))
      usage_error("E210", cat(count, " items do not make a container of kind ", static_cast<int>(kind)),
                  "an optional has one or none, a map its keys and its values: two vectors of one length");
    *container = new weft_tensor{.tensor = make_container(static_cast<Type::Kind>(kind), std::move(values))};
  });
}

weft_status* weft_tensor_item(const weft_tensor* container, size_t index, weft_tensor** item) {
  return guarded([&] {
    const Tensor& all = required(container, "container").tensor;
    size_t count = all.is_tensor() ? 0 : all.items->size();
    if (index >= count) usage_error("E210", cat("there is no item ", index, ", only ", count));
    required(item, "item");
    *item = new weft_tensor{.tensor = (*all.items)[index]};
  });
}

weft_status* weft_tensor_share(const weft_tensor* tensor, weft_tensor** shared) {
  return guarded([&] {
    required(shared, "shared");
    *shared = new weft_tensor{.tensor = required(tensor, "tensor").tensor};
  });
}

void weft_tensor_free(weft_tensor* tensor) { delete tensor; }

weft_dtype weft_tensor_dtype(const weft_tensor* tensor) {
  return tensor ? static_cast<weft_dtype>(tensor->tensor.dtype) : WEFT_DTYPE_UNKNOWN;
}
size_t weft_tensor_rank(const weft_tensor* tensor) { return tensor ? tensor->tensor.dims.size() : 0; }
const int64_t* weft_tensor_dims(const weft_tensor* tensor) { return tensor ? tensor->tensor.dims.data() : nullptr; }
int64_t weft_tensor_elements(const weft_tensor* tensor) {
  if (!tensor) return 0;
  return tensor->tensor.is_tensor() ? tensor->tensor.elements() : std::ssize(*tensor->tensor.items);
}
const void* weft_tensor_data(const weft_tensor* tensor) {
  bool has_bytes = tensor && tensor->tensor.is_tensor() && tensor->tensor.dtype != DType::string;
  return has_bytes ? tensor->tensor.data.data() : nullptr;
}
size_t weft_tensor_bytes(const weft_tensor* tensor) { return tensor ? tensor->tensor.data.size() : 0; }

int32_t weft_tensor_is_shared(const weft_tensor* tensor) { return tensor && tensor->is_shared; }

const char* weft_tensor_string(const weft_tensor* tensor, size_t index, size_t* length) {
  if (!tensor || !tensor->tensor.strings || index >= tensor->tensor.strings->size()) return nullptr;
  const std::string& text = (*tensor->tensor.strings)[index];
  if (length) *length = text.size();
  return text.c_str();
}
