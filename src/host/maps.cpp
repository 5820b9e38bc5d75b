// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "host/functions.h"

namespace weft::host {

static Tensor keys_of(const HostCall& call) {
  if (!call.strings.empty()) return make_string_tensor({std::ssize(call.strings)}, call.strings);
  return make_i64_tensor(call.numbers);
}

static Tensor part(const Tensor& tensor, int64_t first, int64_t count) {
  size_t width = bits(tensor.dtype) / 8;
  Tensor rest{.dtype = tensor.dtype, .dims = {count}};
  rest.data = tensor.data.part(first * width, count * width);
  return rest;
}

/// Returns the index in `keys` of each key of `wanted`; -1 if absent.
static std::vector<int64_t> places(const Tensor& keys, const Tensor& wanted) {
  auto find_each = [](const auto& have, const auto& want) {
    std::vector<int64_t> found;
    for (const auto& key : want) {
      auto at = std::ranges::find(have, key);
      found.push_back(at == have.end() ? -1 : at - have.begin());
    }
    return found;
  };
  if (keys.dtype == DType::string) return find_each(*keys.strings, *wanted.strings);
  return find_each(to_int64s(keys), to_int64s(wanted));
}

/// Returns the elements of `values` at these indices as [1, n] of `type`; 0 or "" for index -1.
static Tensor picked(const Tensor& values, const std::vector<int64_t>& places, DType type) {
  std::vector<int64_t> dims = {1, std::ssize(places)};
  if (type == DType::string) {
    std::vector<std::string> strings;
    for (int64_t at : places) strings.push_back(at < 0 ? std::string() : text_of(values, at));
    return make_string_tensor(dims, std::move(strings));
  }
  std::vector<double> numbers, all;
  if (values.dtype != DType::string) all = to_doubles(values);
  for (int64_t at : places) {
    numbers.push_back(at < 0 ? 0 : all.empty() ? number_of((*values.strings)[at]) : all[at]);
  }
  return make_tensor(type, dims, std::span<const double>(numbers));
}

Values zip_map(const HostCall& call, Operands in) {
  Tensor keys = keys_of(call);
  int64_t classes = keys.elements(), rows = in[0].dims.size() == 1 ? 1 : in[0].dims.at(0);
  int64_t all = 0;
  bool fits = !__builtin_mul_overflow(rows, classes, &all) && in[0].elements() == all;
  if (!fits) refuse("E312", "scores of sizes ", in[0].dims, " were to be zipped with ", classes, " labels");
  Values maps;
  for (int64_t row = 0; row < rows; ++row)
    maps.push_back(make_container(Type::Kind::map, {keys, part(in[0], row * classes, classes)}));
  return {make_container(Type::Kind::sequence, std::move(maps))};
}

Values map_values(const HostCall& call, Operands in) {
  const Tensor &keys = in[0].items->at(0), &values = in[0].items->at(1);
  auto type = static_cast<DType>(call.numbers.at(0));
  if (int64_t length = call.numbers.at(1); length > 0) {
    std::vector<int64_t> wanted;
    for (int64_t i = 0; i < length; ++i) wanted.push_back(i);
    return {boxed(picked(values, places(keys, make_i64_tensor(wanted)), type))};
  }
  std::vector<int64_t> numbers = to_int64s(keys), order;
  for (int64_t i = 0; i < std::ssize(numbers); ++i) order.push_back(i);
  std::ranges::sort(order, {}, [&](int64_t i) { return numbers[i]; });
  return {boxed(picked(values, order, type))};
}

Values map_vector(const HostCall& call, Operands in) {
  const Tensor &keys = in[0].items->at(0), &values = in[0].items->at(1);
  return {picked(values, places(keys, keys_of(call)), values.dtype)};
}

}  // namespace weft::host
