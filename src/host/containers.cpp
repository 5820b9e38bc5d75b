// SPDX-License-Identifier: Apache-2.0
// Functions on sequences and optionals.
#include <algorithm>

#include "base/container.h"
#include "host/functions.h"

namespace weft::host {
namespace {

/// Returns `at`, or at + count if `at` is negative. Throws E301 if the result is outside [0, count).
int64_t place(int64_t at, int64_t count, const char* what) {
  int64_t place = at < 0 ? at + count : at;
  if (place >= 0 && place < count) return place;
  if (count == 0) refuse("E301", what, " ", at, " of an empty container does not exist");
  refuse("E301", what, " ", at, " is outside [", -count, ", ", count - 1, "]");
}

int64_t number(const Tensor& tensor) { return to_int64s(tensor).at(0); }

const Tensor& item_of(Operands in) {
  const auto& items = *in[0].items;
  return items[place(in.size() > 1 ? number(in[1]) : 0, std::ssize(items), "item")];
}

Tensor sequence(std::vector<Tensor> items) { return make_container(Type::Kind::sequence, std::move(items)); }

/// The products of a tensor's sizes before an axis (`outer`) and after it (`inner`).
struct Pieces {
  int64_t outer = 1, inner = 1;
  Pieces(const std::vector<int64_t>& dims, size_t axis) {
    for (size_t i = 0; i < dims.size(); ++i) {
      if (i < axis) outer *= dims[i];
      if (i > axis) inner *= dims[i];
    }
  }
};

/// In each of `outer` pieces, copies `size` rows of `width` elements: the source rows from `from_row` on become the
/// result rows from `to_row` on. Each piece has `from_rows` rows at `from` and `to_rows` rows at `to`.
template <class T>
void move_rows(const T* from, int64_t from_rows, int64_t from_row, T* to, int64_t to_rows, int64_t to_row, int64_t size,
               int64_t outer, int64_t width) {
  for (int64_t o = 0; o < outer; ++o)
    std::copy_n(from + (o * from_rows + from_row) * width, size * width, to + (o * to_rows + to_row) * width);
}

/// A tensor under construction from parts along an axis.
class Assembly {
 public:
  Assembly(DType dtype, std::vector<int64_t> dims, size_t axis) : axis_(axis), pieces_(dims, axis) {
    if (dtype == DType::string) {
      result_ = {.dtype = dtype, .dims = dims};
      strings_.resize(element_count(dims));
    } else {
      if (bits(dtype) < 8) refuse("E149", "elements of ", dtype, " are packed and cannot be split or joined");
      auto made = allocate_tensor(dtype, dims);
      result_ = made.tensor, data_ = made.data, width_ = bits(dtype) / 8;
    }
  }

  /// Copies rows [from_row, from_row + size) of `part`, which has `rows` rows, to rows [at, at + size) of the result.
  void put(const Tensor& part, int64_t rows, int64_t from_row, int64_t at, int64_t size) {
    int64_t to_rows = result_.dims[axis_];
    if (part.dtype == DType::string)
      move_rows(part.strings->data(), rows, from_row, strings_.data(), to_rows, at, size, pieces_.outer, pieces_.inner);
    else move_rows(part.data.data(), rows, from_row, data_, to_rows, at, size, pieces_.outer, pieces_.inner * width_);
  }

  Tensor take() {
    return result_.dtype == DType::string ? make_string_tensor(result_.dims, std::move(strings_)) : result_;
  }

 private:
  size_t axis_;
  Pieces pieces_;
  Tensor result_;
  std::byte* data_ = nullptr;
  int64_t width_ = 0;
  std::vector<std::string> strings_;
};

constexpr int64_t max_parts = int64_t{1} << 24;  // limit on the parts of a split, empty parts included

/// Returns the lengths of the parts into which `size` rows are split. Operand 1 is the length of all parts but the
/// last, or the list of all lengths; without operand 1, each length is 1.
std::vector<int64_t> part_lengths(Operands in, int64_t size) {
  std::vector<int64_t> lengths = in.size() > 1 ? to_int64s(in[1]) : std::vector<int64_t>{1};
  if (in.size() > 1 && !in[1].dims.empty()) {
    int64_t left = size;
    for (int64_t length : lengths) {
      if (length < 0) refuse("E312", "cannot split into parts of ", lengths, ": one is negative");
      if (length > left) refuse("E312", "parts of ", lengths, " are more than the ", size, " of the axis");
      left -= length;
    }
    if (left != 0) refuse("E312", "parts of ", lengths, " do not make up the ", size, " of the axis");
    return lengths;
  }
  int64_t each = lengths.at(0);
  if (each < 1) refuse("E312", "cannot split into parts of ", each);
  int64_t parts = size / each + (size % each != 0);
  if (parts > max_parts) refuse("E312", "cannot split into ", parts, " parts; at most ", max_parts);
  lengths.assign(parts, each);
  if (size % each) lengths.back() = size % each;
  return lengths;
}

}  // namespace

Values collect(const HostCall& call, Operands in) {
  return {make_container(static_cast<Type::Kind>(call.numbers.at(0)), Values(in.begin(), in.end()))};
}

Values length(Operands in) { return {scalar_tensor(DType::i64, static_cast<double>(in[0].items->size()))}; }

Values item(Operands in) { return {item_of(in)}; }

Values item_sizes(const HostCall& call, Operands in) {
  const Tensor& found = item_of(in);
  if (std::ssize(found.dims) != call.numbers.at(0))
    refuse("E312", "an item has rank ", found.dims.size(), " where ", call.numbers[0], " is expected");
  return {make_i64_tensor(found.dims)};
}

Values insert(Values in) {
  int64_t count = std::ssize(*in[0].items);
  // An insertion may also come after the last item.
  int64_t at = in.size() > 2 ? number(in[2]) : count;
  if (at < -count || at > count) refuse("E301", "position ", at, " is outside [", -count, ", ", count, "]");
  insert_item(in[0], at < 0 ? at + count : at, std::move(in[1]));
  return {std::move(in[0])};
}

Values erase(Values in) {
  erase_item(in[0], place(in.size() > 1 ? number(in[1]) : -1, std::ssize(*in[0].items), "position"));
  return {std::move(in[0])};
}

Values split(const HostCall& call, Operands in) {
  size_t axis = call.numbers.at(0);
  bool keeps_axis = call.numbers.at(1) != 0;
  int64_t size = in[0].dims.at(axis), begin = 0;
  Values parts;
  for (int64_t length : part_lengths(in, size)) {
    std::vector<int64_t> dims = in[0].dims;
    dims[axis] = length;
    Assembly part(in[0].dtype, dims, axis);
    part.put(in[0], size, begin, 0, length);
    parts.push_back(part.take());
    if (!keeps_axis) parts.back().dims.erase(parts.back().dims.begin() + static_cast<std::ptrdiff_t>(axis));
    begin += length;
  }
  return {sequence(std::move(parts))};
}

Values join(const HostCall& call, Operands in) {
  const auto& items = *in[0].items;
  bool is_new_axis = call.numbers.at(1) != 0;
  if (items.empty()) refuse("E301", "an empty sequence cannot be concatenated");
  std::vector<int64_t> dims = items[0].dims;
  int64_t rank = std::ssize(dims) + is_new_axis;
  size_t axis = place(call.numbers.at(0), rank, "axis");
  if (is_new_axis) dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis), 1);
  std::vector<Tensor> parts;
  int64_t total = 0;
  for (Tensor part : items) {
    if (is_new_axis && part.dims.size() + 1 == dims.size())
      part.dims.insert(part.dims.begin() + static_cast<std::ptrdiff_t>(axis), 1);
    bool fits = part.dims.size() == dims.size() && part.is_tensor() && part.dtype == items[0].dtype;
    for (size_t i = 0; fits && i < dims.size(); ++i) fits = i == axis || part.dims[i] == dims[i];
    fits = fits && !__builtin_add_overflow(total, part.dims[axis], &total);
    if (!fits) refuse("E312", "items ", items[0].shape(), " and ", part.shape(), " were to be concatenated");
    parts.push_back(std::move(part));
  }
  dims[axis] = total;
  Assembly whole(items[0].dtype, dims, axis);
  int64_t at = 0;
  for (const Tensor& part : parts) {
    whole.put(part, part.dims[axis], 0, at, part.dims[axis]);
    at += part.dims[axis];
  }
  return {boxed(whole.take())};
}

}  // namespace weft::host
