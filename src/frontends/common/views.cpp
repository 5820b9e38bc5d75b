// SPDX-License-Identifier: Apache-2.0
#include "frontends/common/views.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "frontends/common/indexing.h"

namespace weft::frontend {
namespace {

constexpr int64_t far = INT32_MAX;  // exporters write "to the end" as INT32_MAX or INT64_MAX

/// Returns one bound of a slice, counted from the front and clamped to [low, high]; `size` is the size of the axis.
Dim slice_bound(const Builder& b, const Dim& given, const Dim& size, const Dim& low, const Dim& high) {
  if (auto value = given.constant()) {
    if (*value >= far) return high;
    if (*value <= -far) return low;
    return *value < 0 ? max(given + size, low) : min(given, high);
  }
  GuardCollector guards(b.module());
  bool is_from_front =
      given.upper_bound() >= 0 && assume(Guard::Kind::less_equal, 0, given, "Slice: a bound is counted from the front");
  return is_from_front ? min(given, high) : max(given + size, low);
}

void cut_one(const Builder& b, Slice& slice, const Cut& c) {
  int64_t axis = c.axis;
  const Dim size = slice.sizes[axis], &start = *c.start;
  Dim low = c.step > 0 ? 0 : -1, high = c.step > 0 ? size : size - 1;
  Dim from = slice_bound(b, start, size, low, high), to = slice_bound(b, *c.end, size, low, high);
  if (c.step < 0 && c.clamps_start && start.lower_bound() < -1) from = min(max(from, 0), high);
  slice.starts[axis] = from;
  slice.steps[axis] = c.step;
  // Forward slices use an unclamped start >= 0: for start 2 of n elements, max(n - 2, 0) is simpler than n - min(2, n).
  bool counts_from_front = start.lower_bound() >= 0;
  Dim count = c.step > 0 ? ceildiv(to - (counts_from_front ? start : from), c.step) : ceildiv(from - to, -c.step);
  slice.sizes[axis] = max(count, 0);
}

/// Returns a run-time bound of a slice, counted from the front and clamped as in slice_bound.
Expr bound_by_data(Expr given, Expr size, bool forwards) {
  Expr from_front = select(given < 0, given + size, given);
  return forwards ? min(max(from_front, 0), size) : min(max(from_front, -1), size - 1);
}

/// Sets starts, sizes and steps of axes for slices with run-time bounds.
void cut_by_data(const Builder& b, Slice& slice, const std::vector<Cut>& open) {
  Values computed;
  Dims most;
  auto data = [&](Value value, const std::optional<Dim>& known) {
    return value ? Expr{&b, value} : sizes(b, {known.value()});
  };
  for (const Cut& c : open) {
    const Dim& size = slice.sizes[c.axis];
    Expr n = sizes(b, {size});
    Expr from = bound_by_data(data(c.start_data, c.start), n, c.step > 0),
         to = bound_by_data(data(c.end_data, c.end), n, c.step > 0);
    if (c.step < 0 && c.clamps_start) from = min(max(from, 0), n - 1);
    Expr length = max(c.step > 0 ? to - from : from - to, 0);
    auto stride = static_cast<double>(c.step > 0 ? c.step : -c.step);
    computed.insert(computed.end(), {max(from, 0), (length + (stride - 1)) / stride});
    most.insert(most.end(), {size, size});
  }
  Dims found = b.sizes_or_bound(concat(b, computed, 0), std::vector<std::optional<Dim>>(most.size()), most);
  for (size_t k = 0; k < open.size(); ++k) {
    slice.starts[open[k].axis] = found[2 * k];
    slice.sizes[open[k].axis] = found[2 * k + 1];
    slice.steps[open[k].axis] = open[k].step;
  }
}

Slice whole(Expr x) {
  return {.starts = Dims(x.dims().size(), 0), .sizes = x.dims(), .steps = std::vector<int64_t>(x.dims().size(), 1)};
}

}  // namespace

Expr reshape_to(Expr x, Dims dims, bool zero_copies) {
  std::optional<size_t> open;
  Dim rest = 1, total = 1;  // products without copied axes, so that total / rest stays simple
  std::vector<bool> is_copied(x.dims().size());
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == Dim(-1)) {
      if (open) x.at->fail("E151", cat("has two sizes of -1 in ", dims));
      open = i;
    } else if (zero_copies && dims[i] == Dim(0)) {
      if (i >= x.dims().size()) x.at->fail("E151", cat("has a 0 at axis ", i, ", which ", x.value.shape(), " lacks"));
      dims[i] = x.dims()[i];
      is_copied[i] = true;
    } else {
      rest *= dims[i];
    }
  }
  for (size_t i = 0; i < is_copied.size(); ++i) {
    if (!is_copied[i]) total *= x.dims()[i];
  }
  if (open) {
    if (known_equal(rest, 0)) x.at->fail("E151", cat("cannot find the -1 of ", dims, " for ", x.value.shape()));
    auto exact = exact_divide(total, rest);
    dims[*open] = exact ? *exact : floordiv(total, rest);
  }
  return reshape(x, std::move(dims));
}

Dims sizes_by_data(Expr x, Value shape, bool zero_copies) {
  const Builder& b = *x.at;
  Expr wanted = convert({&b, shape}, DType::i64);
  auto known = partly_known_contents(shape);
  if (zero_copies) {
    Dims own(known.size(), 0);
    std::copy_n(x.dims().begin(), std::min(own.size(), x.dims().size()), own.begin());
    wanted = select(equal(wanted, 0), sizes(b, own), wanted);
  }
  bool has_open = std::ranges::any_of(known, [](const auto& dim) { return dim && *dim == Dim(-1); });
  if (!has_open) {
    Expr is_open = equal(wanted, -1);
    Expr others = reduce(ReduceFn::product, select(is_open, 1, wanted), {0});
    wanted = select(is_open, sizes(b, {x.value.shape().elements()}) / max(others, 1), wanted);
  }
  return b.sizes_or_bound(wanted, known);
}

Expr cut(Expr x, const std::vector<Cut>& cuts) {
  Slice slice = whole(x);
  std::vector<Cut> open;
  for (const Cut& c : cuts) {
    if (c.step == 0) x.at->fail("E145", "has a step of 0");
    if (c.start && c.end) cut_one(*x.at, slice, c);
    else open.push_back(c);
  }
  if (!open.empty()) cut_by_data(*x.at, slice, open);
  bool is_all = slice.sizes == x.dims() && std::ranges::all_of(slice.steps, [](int64_t s) { return s == 1; });
  return is_all ? x : Expr{x.at, x.at->emit(std::move(slice), {x})};
}

Expr replaced(Expr x, const Cut& part, Expr value) {
  const Builder& b = *x.at;
  Slice cut_out = whole(x);
  if (part.step < 1 || !part.start || !part.end) b.unsupported("writes to places known only in the run, or backwards");
  cut_one(b, cut_out, part);
  const Dim &start = cut_out.starts[part.axis], &count = cut_out.sizes[part.axis];
  value = broadcast(convert(value, x.dtype()), cut_out.sizes);
  if (part.step == 1) {
    Dim end = start + count;
    Values parts = {slice(x, part.axis, 0, start), value, slice(x, part.axis, end, x.dims()[part.axis] - end)};
    std::erase_if(parts, [&](Value each) { return known_equal(each.dims()[part.axis], 0); });
    return parts.empty() ? x : concat(b, parts, part.axis);
  }
  Expr places = iota(b, count) * static_cast<double>(part.step) + scalar(b, start);
  return scatter_elements(x, broadcast(along(places, part.axis, x.rank()), value.dims()), value, part.axis);
}

Values split(Expr x, int64_t axis, const Dims& parts) {
  Dim size = x.dims()[axis], start = 0, total = 0;
  for (const Dim& part : parts) total += part;
  if (known_different(total, size)) x.at->fail("E151", cat("splits ", size, " elements into parts of ", parts));
  x.at->require_same(total, size, "sum of the parts");
  Values results;
  for (const Dim& part : parts) {
    results.push_back(slice(x, axis, start, part));
    start += part;
  }
  return results;
}

Expr tile(Expr x, const Dims& repeats) {
  if (repeats.size() != x.dims().size())
    x.at->fail("E140", cat("has ", repeats.size(), " repeats for ", x.value.shape()));
  Dims apart, repeated, joined;
  for (size_t i = 0; i < repeats.size(); ++i) {
    apart.insert(apart.end(), {1, x.dims()[i]});
    repeated.insert(repeated.end(), {repeats[i], x.dims()[i]});
    joined.push_back(repeats[i] * x.dims()[i]);
  }
  return reshape(broadcast(reshape(x, apart), repeated), joined);
}

/// Cuts negative pads off an axis and sets them to 0. The terms max(pad, 0) cancel in the size after padding.
static Expr without_edges(Expr x, int64_t axis, Dim& before, Dim& after) {
  Dim added_before = max(before, 0), added_after = max(after, 0);
  Dim first = added_before - before, last = x.dims()[axis] - (added_after - after);
  before = added_before, after = added_after;
  return slice(x, axis, first, last - first);
}

Expr pad(Expr x, Dims before, Dims after, PadMode mode, Value fill) {
  const Builder& b = *x.at;
  for (size_t a = 0; a < before.size(); ++a) {
    if (mode == PadMode::wrap) x = without_edges(x, static_cast<int64_t>(a), before[a], after[a]);
    if (all_constant({before[a], after[a]})) continue;
    GuardCollector guards(b.module());
    require_less_equal(0, before[a] + x.dims()[a] + after[a], "Pad: a size after padding");
  }
  Pad op{.before = std::move(before), .after = std::move(after), .mode = mode};
  if (mode != PadMode::constant) return {&b, b.emit(std::move(op), {x})};
  return {&b, b.emit(std::move(op), {x, fill ? fill : number(b, x.dtype(), 0).value})};
}

Expr unfold(Expr x, int64_t axis, int64_t size, int64_t step) {
  const Builder& b = *x.at;
  if (size < 1 || step < 1) b.fail("E145", cat("size and step must be >=1, are ", size, " and ", step));
  Dim length = x.dims()[axis];
  GuardCollector guards(b.module());
  require_less_equal(size, length, cat(b.name(), ": a window and its axis"));
  Expr first = along(iota(b, floordiv(length - size, step) + 1), 0, 2) * static_cast<double>(step);
  Expr windows = gather(x, first + along(iota(b, size), 1, 2), axis);
  std::vector<int64_t> order(windows.rank());
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin() + axis + 1, order.begin() + axis + 2, order.end());
  return transpose(windows, order);
}

Expr depth_to_space(Expr x, int64_t block, bool depth_first) {
  Dim n = x.dims()[0], depth = floordiv(x.dims()[1], block * block), h = x.dims()[2], w = x.dims()[3];
  Expr y = depth_first ? transpose(reshape(x, {n, depth, block, block, h, w}), {0, 1, 4, 2, 5, 3})
                       : transpose(reshape(x, {n, block, block, depth, h, w}), {0, 3, 4, 1, 5, 2});
  return reshape(y, {n, depth, h * block, w * block});
}

Expr space_to_depth(Expr x, int64_t block, bool depth_first) {
  Dim n = x.dims()[0], depth = x.dims()[1], h = floordiv(x.dims()[2], block), w = floordiv(x.dims()[3], block);
  std::vector<int64_t> order = {0, 3, 5, 1, 2, 4};
  if (depth_first) order = {0, 1, 3, 5, 2, 4};
  return reshape(transpose(reshape(x, {n, depth, h, block, w, block}), order), {n, depth * (block * block), h, w});
}

Expr reverse_rows(Expr x, Expr lengths, int64_t batch, int64_t time) {
  Expr step = along(iota(*x.at, x.dims()[time]), time, x.rank());
  Expr length = along(convert(lengths, DType::i64), batch, x.rank());
  return gather_elements(x, broadcast(select(step < length, length - step - 1.0, step), x.dims()), time);
}

}  // namespace weft::frontend
