// SPDX-License-Identifier: Apache-2.0
// Sparse constants in the format of TACO: a tree with a level for each axis, in an arbitrary order of axes. A level is
// dense, or lists the indices that are stored. If an axis is split into blocks, indices in a block have a level too.
#include "frontends/tensorflow/lite_sparse.h"

#include <cstring>

#include "base/error.h"

namespace weft::tensorflow {
namespace {

[[noreturn]] void fail_sparse(const LiteTensor& t, std::string what) {
  throw Error({.kind = ErrorKind::model,
               .code = "E108",
               .what = cat("sparse tensor '", printable(t.name), "' is damaged: ", what)});
}

struct Level {
  int64_t axis = 0;    ///< the tensor's axis along which the level runs
  int64_t stride = 1;  ///< elements of that axis from one index of this level to the next
  int64_t size = 0;    ///< number of indices of a dense level
  bool is_dense = true;
  std::vector<int64_t> segments = {}, indices = {};
};

/// Reads a vector of i32, u16 or u8, depending on the union's type.
std::vector<int64_t> numbers(const FlatTable& table, size_t type_slot, const LiteTensor& t) {
  auto vector = table.table(type_slot + 1);
  if (!vector) fail_sparse(t, "an axis lacks its indices");
  auto wide = [](const auto& narrow) { return std::vector<int64_t>(narrow.begin(), narrow.end()); };
  switch (table.number<uint8_t>(type_slot)) {
    case 1: return wide(vector->numbers<int32_t>(0));
    case 2: return wide(vector->numbers<uint16_t>(0));
    case 3: return wide(vector->numbers<uint8_t>(0));
    default: fail_sparse(t, "indices are of an unknown type");
  }
}

class Walk {
 public:
  Walk(const FlatTable& sparsity, const LiteTensor& t, size_t width) : t_(t), width_(width) {
    auto order = sparsity.numbers<int32_t>(0), blocks = sparsity.numbers<int32_t>(1);
    size_t rank = t.dims.size(), count = sparsity.count(2);
    if (order.size() != count || count != rank + blocks.size())
      fail_sparse(t, cat(count, " axes are given for ", t.dims));
    for (size_t l = 0; l < count; ++l) levels_.push_back(level(sparsity.at(2, l)));
    std::vector<int64_t> block(rank, 1), place(count);
    for (size_t l = 0; l < count; ++l) {
      if (order[l] < 0 || order[l] >= std::ssize(order)) fail_sparse(t, cat("it walks axis ", order[l]));
      bool is_block = order[l] >= std::ssize(t.dims);
      int64_t axis = is_block ? blocks[order[l] - rank] : order[l];
      if (axis < 0 || axis >= std::ssize(t.dims)) fail_sparse(t, cat("it cuts axis ", axis));
      levels_[l].axis = axis;
      if (is_block) block[axis] = levels_[l].size;
    }
    for (size_t l = 0; l < count; ++l) {
      if (order[l] < std::ssize(t.dims)) levels_[l].stride = block[order[l]];
    }
  }

  std::vector<std::byte> run() {
    int64_t elements = element_count(t_.dims);
    // Bounds the walk: in a damaged file, segments may overlap and name the same indices many times.
    budget_ = 8 * (elements + static_cast<int64_t>(t_.data->size()) + 64);
    out_.resize(elements * width_);
    at_.assign(t_.dims.size(), 0);
    visit(0, 0);
    return std::move(out_);
  }

 private:
  Level level(const FlatTable& table) const {
    Level l{.size = table.number<int32_t>(1), .is_dense = table.number<int8_t>(0) == 0};
    if (l.is_dense) return l;
    l.segments = numbers(table, 2, t_);
    l.indices = numbers(table, 4, t_);
    return l;
  }

  /// Visits the subtree below entry `entry` of the previous level.
  void visit(size_t depth, int64_t entry) {
    if (--budget_ < 0) fail_sparse(t_, "it has more elements than it says");
    if (depth == levels_.size()) return keep(entry);
    const Level& l = levels_[depth];
    int64_t first = 0, last = l.size;
    if (!l.is_dense) {
      if (entry + 1 >= std::ssize(l.segments)) fail_sparse(t_, "an axis has too few segments");
      first = l.segments[entry], last = l.segments[entry + 1];
      if (first < 0 || last < first || last > std::ssize(l.indices)) fail_sparse(t_, cat("a segment ends at ", last));
    }
    for (int64_t i = first; i < last; ++i) {
      int64_t step = (l.is_dense ? i : l.indices[i]) * l.stride;
      at_[l.axis] += step;
      visit(depth + 1, l.is_dense ? entry * l.size + i : i);
      at_[l.axis] -= step;
    }
  }

  void keep(int64_t entry) {
    int64_t place = 0;
    for (size_t a = 0; a < at_.size(); ++a) {
      if (at_[a] < 0 || at_[a] >= t_.dims[a]) return;  // a block may reach past the end of its axis
      place = place * t_.dims[a] + at_[a];
    }
    size_t from = entry * width_;
    if (from + width_ > t_.data->size()) fail_sparse(t_, "it has fewer elements than its indices name");
    std::memcpy(out_.data() + place * width_, t_.data->data() + from, width_);
  }

  const LiteTensor& t_;
  size_t width_;
  int64_t budget_ = 0;
  std::vector<Level> levels_ = {};
  std::vector<int64_t> at_ = {};
  std::vector<std::byte> out_ = {};
};

}  // namespace

Bytes densified(const FlatTable& sparsity, const LiteTensor& tensor) {
  auto type = lite_type(tensor.code);
  if (!type || bits(*type) < 8) fail_sparse(tensor, "elements of this type cannot be sparse");
  if (element_count(tensor.dims) > (int64_t{1} << 24)) fail_sparse(tensor, "it is too large");
  return Bytes(Walk(sparsity, tensor, bits(*type) / 8).run());
}

}  // namespace weft::tensorflow
