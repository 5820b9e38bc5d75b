// SPDX-License-Identifier: Apache-2.0
// Imports operators that move elements, and operators that create constants and sizes.
#include <algorithm>
#include <numeric>

#include "frontends/common/create.h"
#include "frontends/common/indexing.h"
#include "frontends/common/views.h"
#include "frontends/tensorflow/call.h"
#include "frontends/tensorflow/network.h"
#include "ir/core_ops.h"
#include "ops/views.h"

namespace weft::tensorflow {
namespace {

using namespace frontend;

Values reshape_op(Call& c) {
  c.expect_inputs(1, 2);
  Expr x = c.input(0);
  std::vector<int64_t> given = c.integers("new_shape");
  if (c.has_input(1)) return {reshape_to(x, c.sizes_for(x, 1))};
  if (given == std::vector<int64_t>{0}) given.clear();  // old converters wrote a scalar's shape as [0]
  return {reshape_to(x, Dims(given.begin(), given.end()))};
}

Values transpose_op(Call& c) {
  c.expect_inputs(2, 2);
  Expr x = c.input(0);
  std::vector<int64_t> order = c.numbers(1);
  for (int64_t& a : order) a = c.axis(a, x.rank());
  if (std::ssize(c.axes(order, x.rank())) != x.rank())
    c.fail("E143", cat("permutes ", order.size(), " axes of ", x.value.shape()));
  return {transpose(x, order)};
}

Values concatenation(Call& c) {
  if (c.input_count() == 0) c.fail("E140", "needs at least one input");
  int64_t axis = c.axis(c.integer("axis", 0), c.input(0).rank());
  return {activated(c, concat(c, c.inputs(), axis))};
}

Values pack(Call& c) {
  if (c.input_count() == 0) c.fail("E140", "needs at least one input");
  if (int64_t count = c.integer("values_count", std::ssize(c.inputs())); count != std::ssize(c.inputs()))
    c.fail("E140", cat("packs ", count, " values, has ", c.input_count()));
  int64_t axis = c.axis(c.integer("axis", 0), c.input(0).rank() + 1);
  Values parts;
  for (size_t i = 0; i < c.input_count(); ++i) {
    Dims dims = c.input(i).dims();
    dims.insert(dims.begin() + std::min(axis, std::ssize(dims)), 1);
    parts.push_back(reshape(c.input(i), dims));
  }
  return {concat(c, parts, axis)};
}

/// Returns the number of results that attribute `name` gives; limits it, because each result becomes an instruction.
int64_t result_count(Call& c, std::string_view name) {
  constexpr int64_t most = 1 << 16;
  int64_t count = c.integer(name, 0);
  if (count < 1 || count > most || (c.has_outputs() && count != static_cast<int64_t>(c.output_count())))
    c.fail("E140", cat("has ", name, " ", count, ", which is not 1 to ", most, " or not the number of its outputs"));
  return count;
}

Values unpack(Call& c) {
  Expr x = c.input(0);
  int64_t axis = c.axis(c.integer("axis", 0), x.rank()), count = result_count(c, "num");
  c.require_same(x.dims()[axis], count, "size of the axis that is unpacked");
  Dims dims = x.dims();
  dims.erase(dims.begin() + axis);
  Values parts;
  for (int64_t i = 0; i < count; ++i) parts.push_back(reshape(slice(x, axis, i, 1), dims));
  return parts;
}

/// Splits into equal parts along the axis in input 0.
Values split_op(Call& c) {
  c.expect_inputs(2, 2);
  Expr x = c.input(1);
  int64_t axis = c.axis(c.number_of(0), x.rank());
  int64_t count = result_count(c, c.has("num_splits") ? "num_splits" : "num_split");
  Dim size = x.dims()[axis], each = floordiv(size, count);
  c.require_same(each * count, size, "parts and the axis that is split");
  return split(x, axis, Dims(count, each));
}

/// Splits into parts of the sizes in input 1; one may be -1, which is inferred.
Values split_v(Call& c) {
  c.expect_inputs(3, 3);
  Expr x = c.input(0), wanted = c.flat(1);
  int64_t axis = c.axis(c.number_of(2), x.rank());
  Dim rest = x.dims()[axis];
  if (!known_contents(wanted)) {
    Expr is_open = equal(wanted, -1), sum = reduce(ReduceFn::sum, select(is_open, 0, wanted), {0});
    wanted = select(is_open, scalar(c, rest) - sum, wanted);
  }
  Dims parts = sizes_in(c.module(), wanted, known_contents(wanted) ? -1 : 0);
  if (int64_t count = c.integer("num_splits", c.integer("num_split", 0)); count != std::ssize(parts))
    c.fail("E140", cat("splits into ", count, " parts, has ", parts.size(), " sizes"));
  auto open = std::ranges::find(parts, Dim(-1));
  for (const Dim& part : parts) rest = rest - part;
  if (open != parts.end()) *open = rest - 1;
  return split(x, axis, parts);
}

Values squeeze(Call& c) {
  Expr x = c.input(0);
  auto given = c.integers("squeeze_dims");
  auto axes = c.axes(given, x.rank());
  Dims dims;
  for (int64_t a = 0; a < x.rank(); ++a) {
    const Dim& size = x.dims()[a];
    bool goes = std::ranges::binary_search(axes, a) || (axes.empty() && known_equal(size, 1));
    if (axes.empty() && !size.is_constant())
      c.unsupported(cat("of all axes of size 1 needs fixed sizes, has ", x.value.shape()));
    if (!goes) dims.push_back(size);
    else c.require_same(size, 1, cat("axis ", a, ", which is removed"));
  }
  return {reshape(x, dims)};
}

Values expand_dims(Call& c) {
  c.expect_inputs(2, 2);
  Expr x = c.input(0);
  Dims dims = x.dims();
  dims.insert(dims.begin() + c.axis(c.number_of(1), x.rank() + 1), 1);
  return {reshape(x, dims)};
}

Values tile_op(Call& c) {
  c.expect_inputs(2, 2);
  return {tile(c.input(0), c.sizes(1))};
}

/// The padding before and after each axis, from an input [rank, 2].
struct Pads {
  Dims before, after;
};
Pads pads_of(Call& c, size_t input, int64_t rank) {
  Dims all = c.sizes(input);
  if (std::ssize(all) != 2 * rank) c.fail("E151", cat("has ", all.size(), " pads for ", rank, " axes"));
  Pads pads;
  for (size_t i = 0; i < all.size(); i += 2) pads.before.push_back(all[i]), pads.after.push_back(all[i + 1]);
  return pads;
}

Values pad_op(Call& c) {
  c.expect_inputs(2, 3);
  Expr x = c.input(0);
  Pads pads = pads_of(c, 1, x.rank());
  return {
      pad(x, pads.before, pads.after, PadMode::constant, c.has_input(2) ? Value(reshape(c.input(2), {})) : Value())};
}

/// Imports MirrorPad. Mode 0 (REFLECT) does not repeat the border, mode 1 (SYMMETRIC) does.
Values mirror_pad(Call& c) {
  c.expect_inputs(2, 2);
  Expr x = c.input(0);
  Pads pads = pads_of(c, 1, x.rank());
  int64_t mode = c.mode("mode", {"REFLECT", "SYMMETRIC"});
  if (mode == 0) return {pad(x, pads.before, pads.after, PadMode::reflect)};
  if (mode != 1) c.fail("E145", cat("mode ", mode, " is not 0 (reflect) or 1 (symmetric)"));
  for (int64_t a = 0; a < x.rank(); ++a) {
    const Dim& before = pads.before[a];
    const Dim& after = pads.after[a];
    if (known_equal(before, 0) && known_equal(after, 0)) continue;
    Dim size = x.dims()[a];
    Expr back = reversed(x, a);
    x = concat(c, {slice(back, a, size - before, before), x, slice(back, a, 0, after)}, a);
  }
  return {x};
}

Values slice_op(Call& c) {
  c.expect_inputs(3, 3);
  Expr x = c.input(0);
  Expr wanted = c.flat(2);
  if (!known_contents(wanted) && wanted.dims()[0] == Dim(x.rank()))  // a run-time -1 means the rest of the axis
    wanted = select(equal(wanted, -1), sizes(c, x.dims()) - c.flat(1), wanted);
  Dims starts = c.sizes(1), counts = sizes_in(c.module(), wanted, known_contents(wanted) ? -1 : 0);
  if (std::ssize(starts) != x.rank() || std::ssize(counts) != x.rank())
    c.fail("E151", cat("has ", starts.size(), " starts and ", counts.size(), " sizes for ", x.value.shape()));
  for (int64_t a = 0; a < x.rank(); ++a) {
    Dim size = x.dims()[a], count = counts[a] == Dim(-1) ? size - starts[a] : counts[a];
    GuardCollector guards(c.module());
    require_less_equal(starts[a] + count, size, "SLICE: the end of the part and the axis");
    x = slice(x, a, starts[a], count);
  }
  return {x};
}

/// The five masks of a strided slice; bit i of each applies to entry i of the starts, ends and steps.
struct StridedSlice {
  int64_t begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask;
  static bool bit(int64_t mask, size_t i) { return (mask >> i) & 1; }
};

/// Returns element i of a vector, as a vector of one element.
Expr element(Expr x, size_t i) { return slice(x, 0, static_cast<int64_t>(i), 1); }

class StridedSlicing {
 public:
  StridedSlicing(Call& c, bool masks_picks)
      : c_(c),
        masks_picks_(masks_picks),
        mask_{c.integer("begin_mask", 0), c.integer("end_mask", 0), c.integer("ellipsis_mask", 0),
              c.integer("new_axis_mask", 0), c.integer("shrink_axis_mask", 0)},
        is_offset_(c.flag("offset")),
        begin_(c.flat(1)),
        end_(is_offset_ ? begin_ + c.flat(2) : c.flat(2)),
        starts_(partly_known_contents(begin_)),
        ends_(partly_known_contents(end_)),
        steps_(c.numbers(3)),
        x_(c.input(0)) {
    if (starts_.size() != steps_.size() || ends_.size() != steps_.size() || steps_.size() > 32)
      c.fail("E140", cat("has ", starts_.size(), " starts, ", ends_.size(), " ends and ", steps_.size(), " steps"));
  }

  Values run() {
    int64_t named = 0;
    for (size_t i = 0; i < steps_.size(); ++i) named += !is_ellipsis(i) && !is_new(i);
    int64_t axis = 0, rest = x_.rank() - named;
    if (rest < 0) c_.fail("E151", cat("names ", named, " axes of ", x_.value.shape()));
    std::vector<int64_t> shape;  // for each axis of the result: the axis of the cut value, or -1 for a new axis
    bool has_ellipsis = false;
    for (size_t i = 0; i < steps_.size(); ++i) {
      if (is_ellipsis(i)) {
        if (std::exchange(has_ellipsis, true)) c_.fail("E145", "has two ellipses");
        for (int64_t k = 0; k < rest; ++k) shape.push_back(axis++);
      } else if (is_new(i)) {
        shape.push_back(-1);
      } else if (StridedSlice::bit(mask_.shrink_axis_mask, i)) {
        pick(i, axis++);
      } else {
        cut_axis(i, axis);
        shape.push_back(axis++);
      }
    }
    while (axis < x_.rank()) shape.push_back(axis++);
    Expr y = cut(x_, cuts_);
    Dims dims;
    for (int64_t a : shape) dims.push_back(a < 0 ? Dim(1) : y.dims()[a]);
    return {reshape(y, dims)};
  }

 private:
  bool is_ellipsis(size_t i) const { return StridedSlice::bit(mask_.ellipsis_mask, i); }
  bool is_new(size_t i) const { return !is_ellipsis(i) && StridedSlice::bit(mask_.new_axis_mask, i); }

  /// Picks one element of an axis. The axis stays, with size 1.
  void pick(size_t i, int64_t axis) {
    if (steps_[i] < 1) c_.fail("E145", cat("has a step of ", steps_[i], " along an axis that is removed"));
    Expr place = element(begin_, i);
    bool is_first = masks_picks_ && StridedSlice::bit(mask_.begin_mask, i);
    auto start = is_first ? std::optional<Dim>(0) : starts_[i];
    if (!start || !start->is_constant()) {
      x_ = gather(x_, place, axis);
      return;
    }
    Dim size = x_.dims()[axis], from = start->value() < 0 ? size + *start : *start;
    GuardCollector guards(c_.module());
    require_less_equal(0, from, "STRIDED_SLICE: an element before the first");
    require_less_equal(from + 1, size, "STRIDED_SLICE: an element and its axis");
    x_ = slice(x_, axis, from, 1);
  }

  void cut_axis(size_t i, int64_t axis) {
    int64_t step = steps_[i];
    if (step == 0) c_.fail("E145", "has a step of 0");
    Cut cut{.axis = axis, .step = step};
    if (StridedSlice::bit(mask_.begin_mask, i)) cut.start = step > 0 ? 0 : INT64_MAX;
    else cut.start = starts_[i], cut.start_data = element(begin_, i);
    if (StridedSlice::bit(mask_.end_mask, i)) cut.end = step > 0 ? INT64_MAX : -INT64_MAX;
    else cut.end = ends_[i], cut.end_data = element(end_, i);
    cuts_.push_back(cut);
  }

  Call& c_;
  bool masks_picks_;  ///< true if begin_mask also applies to an axis that is removed
  StridedSlice mask_;
  bool is_offset_;
  Expr begin_, end_;
  std::vector<std::optional<Dim>> starts_, ends_;
  std::vector<int64_t> steps_;
  Expr x_;
  std::vector<Cut> cuts_ = {};
};

/// TensorFlow, unlike LiteRT, ignores begin_mask where shrink_axis_mask removes the axis.
template <bool masks_picks>
Values strided_slice(Call& c) {
  c.expect_inputs(4, 4);
  return StridedSlicing(c, masks_picks).run();
}

Values shape_of(Call& c) {
  c.ignore("out_type");
  return {convert(sizes(c, c.input(0).dims()), c.output_type())};
}

Values shapes_of(Call& c) {
  c.ignore("out_type");
  Values all;
  for (size_t i = 0; i < c.input_count(); ++i) all.push_back(convert(sizes(c, c.input(i).dims()), c.output_type()));
  return all;
}

Values rank_of(Call& c) { return {number(c, c.output_type(), static_cast<double>(c.input(0).rank()))}; }

Values fill(Call& c) {
  c.expect_inputs(2, 2);
  return {broadcast(reshape(c.input(1), {}), c.sizes(0))};
}

Values range_op(Call& c) {
  c.expect_inputs(3, 3);
  auto one = [&](size_t i) { return reshape(c.input(i), {}); };
  return {range(one(0), one(1), one(2))};
}

/// Returns evenly spaced numbers from input 0 to input 1, both included.
Values linspace(Call& c) {
  c.expect_inputs(3, 3);
  Expr first = reshape(c.input(0), {}), last = reshape(c.input(1), {});
  Dims count = c.sizes(2, 1);
  if (count.size() != 1) c.fail("E140", cat("needs one number of elements, has ", count));
  Expr place = iota(c, count[0]), step = (last - first) / max(scalar(c, count[0], first.dtype()) - 1, 1);
  Expr is_last = equal(place + 1, scalar(c, count[0])) & (place > 0);
  return {select(is_last, last, first + convert(place, first.dtype()) * step)};
}

/// Rotates x along axes (numpy.roll).
Values roll(Call& c) {
  c.expect_inputs(3, 3);
  Expr x = c.input(0);
  auto places = c.numbers(1), axes = c.numbers(2);
  if (places.size() != axes.size()) c.fail("E140", cat("moves ", axes.size(), " axes by ", places.size(), " numbers"));
  for (size_t i = 0; i < axes.size(); ++i) {
    int64_t axis = c.axis(axes[i], x.rank());
    Dim size = x.dims()[axis], by = mod(places[i], max(size, 1));
    x = concat(c, {slice(x, axis, size - by, by), slice(x, axis, 0, size - by)}, axis);
  }
  return {x};
}

/// Inverts a permutation: y[x[i]] = i.
Values invert_permutation(Call& c) {
  c.expect_inputs(1, 1);
  c.expect_rank(0, 1);
  Expr x = c.input(0), zeros = full(c, x.dtype(), x.dims(), 0);
  return {scatter_elements(zeros, convert(x, DType::i64), iota(c, x.dims()[0], x.dtype()), 0)};
}

Values broadcast_to(Call& c) {
  c.expect_inputs(2, 2);
  return {broadcast(c.input(0), c.sizes(1))};
}

/// Returns the sizes that two shapes are broadcast to.
Values broadcast_args(Call& c) {
  c.expect_inputs(2, 2);
  Expr a = c.flat(0), b = c.flat(1);
  int64_t rank = std::max(a.dims()[0].value(), b.dims()[0].value());
  auto widened = [&](Expr dims) {
    Dim ones = rank - dims.dims()[0].value();
    return concat(c, {full(c, DType::i64, {ones}, 1), dims}, 0);
  };
  a = widened(a), b = widened(b);
  return {convert(select(equal(a, 1), b, a), c.output_type())};
}

Values reverse(Call& c) {
  c.expect_inputs(2, 2);
  Expr x = c.input(0);
  for (int64_t a : c.axes_in(1, x.rank())) x = reversed(x, a);
  return {x};
}

Values reverse_sequence(Call& c) {
  c.expect_inputs(2, 2);
  Expr x = c.input(0);
  int64_t time = c.axis(c.integer("seq_dim", 0), x.rank()), batch = c.axis(c.integer("batch_dim", 0), x.rank());
  return {reverse_rows(x, convert(c.input(1), DType::i64), batch, time)};
}

int64_t block_size(Call& c) {
  c.expect_rank(0, 4);
  if (c.text("data_format", "NHWC") != "NHWC") c.unsupported("with channels first is not supported");
  int64_t block = c.integer("block_size", 0);
  if (block < 1 || block > INT16_MAX) c.fail("E145", cat("block_size must be 1 to 32767, is ", block));
  return block;
}

Values space_to_depth_op(Call& c) {
  int64_t b = block_size(c);
  Expr x = c.input(0);
  Dims d = x.dims();
  Dim h = floordiv(d[1], b), w = floordiv(d[2], b);
  c.require_same(h * b, d[1], "blocks and the height"), c.require_same(w * b, d[2], "blocks and the width");
  return {reshape(transpose(reshape(x, {d[0], h, b, w, b, d[3]}), {0, 1, 3, 2, 4, 5}), {d[0], h, w, d[3] * (b * b)})};
}

Values depth_to_space_op(Call& c) {
  int64_t b = block_size(c);
  Expr x = c.input(0);
  Dims d = x.dims();
  Dim depth = floordiv(d[3], b * b);
  c.require_same(depth * (b * b), d[3], "blocks and the channels");
  return {reshape(transpose(reshape(x, {d[0], d[1], d[2], b, b, depth}), {0, 1, 3, 2, 4, 5}),
                  {d[0], d[1] * b, d[2] * b, depth})};
}

std::vector<int64_t> blocks_of(Call& c, int64_t rank) {
  c.expect_inputs(3, 3);
  std::vector<int64_t> block = c.numbers(1);
  bool is_bad = std::ranges::any_of(block, [](int64_t b) { return b < 1 || b > INT32_MAX; });
  if (is_bad || std::ssize(block) >= rank)
    c.fail("E145", cat("needs block sizes >=1, fewer than rank ", rank, ", has ", block));
  element_count(block);  // E146 if the product overflows
  return block;
}

/// Imports SpaceToBatch: pads, then moves blocks of the axes after the first into the batch axis.
Values space_to_batch(Call& c) {
  Expr x = c.input(0);
  auto block = blocks_of(c, x.rank());
  Pads pads = pads_of(c, 2, std::ssize(block));
  Dims before(x.dims().size(), 0), after = before;
  std::ranges::copy(pads.before, before.begin() + 1), std::ranges::copy(pads.after, after.begin() + 1);
  x = pad(x, before, after);
  Dims split = {x.dims()[0]}, joined = {x.dims()[0]};
  std::vector<int64_t> inside, outside = {0};
  for (size_t i = 0; i < block.size(); ++i) {
    Dim count = floordiv(x.dims()[i + 1], block[i]);
    c.require_same(count * block[i], x.dims()[i + 1], "blocks and a padded axis");
    outside.push_back(std::ssize(split)), inside.push_back(std::ssize(split) + 1);
    split.insert(split.end(), {count, block[i]});
    joined[0] = joined[0] * block[i], joined.push_back(count);
  }
  for (size_t a = block.size() + 1; a < x.dims().size(); ++a) {
    outside.push_back(std::ssize(split));
    split.push_back(x.dims()[a]), joined.push_back(x.dims()[a]);
  }
  inside.insert(inside.end(), outside.begin(), outside.end());
  return {reshape(transpose(reshape(x, split), inside), joined)};
}

/// Imports BatchToSpace: moves blocks from the batch axis into the axes after it, then removes crops.
Values batch_to_space(Call& c) {
  Expr x = c.input(0);
  auto block = blocks_of(c, x.rank());
  Pads crops = pads_of(c, 2, std::ssize(block));
  int64_t all = std::accumulate(block.begin(), block.end(), int64_t{1}, std::multiplies<>());
  Dim batch = floordiv(x.dims()[0], all);
  c.require_same(batch * all, x.dims()[0], "blocks and the batch");
  int64_t blocks = std::ssize(block);
  Dims split(block.begin(), block.end()), joined = {batch};
  split.push_back(batch);
  std::vector<int64_t> order = {blocks};
  for (int64_t i = 0; i < blocks; ++i) {
    order.insert(order.end(), {blocks + 1 + i, i});
    joined.push_back(x.dims()[i + 1] * block[i]);
  }
  for (size_t a = 1; a < x.dims().size(); ++a) split.push_back(x.dims()[a]);
  for (int64_t a = blocks + 1; a < x.rank(); ++a) {
    order.push_back(blocks + a);
    joined.push_back(x.dims()[a]);
  }
  x = reshape(transpose(reshape(x, split), order), joined);
  for (int64_t i = 0; i < blocks; ++i)
    x = slice(x, i + 1, crops.before[i], x.dims()[i + 1] - crops.before[i] - crops.after[i]);
  return {x};
}

/// Returns the operand, because the reader has already made sparse constants dense.
Values densify(Call& c) {
  if (!c.constant(0)) c.unsupported("of a value that is not constant is not supported");
  return {c.input(0)};
}

constexpr Operator layout_table[] = {
#define OPERATORS_layout
#include "frontends/tensorflow/operators.def"
};

}  // namespace

std::span<const Operator> layout_operators() { return layout_table; }

}  // namespace weft::tensorflow
