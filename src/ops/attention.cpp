// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/check.h"
#include "ops/dot.h"
#include "ops/wide.h"

namespace weft {

using namespace shape_rule;

Types Attention::infer(Operands in) const {
  size_t needed = 3u + ranged + sinks;
  operand_count(name, in, needed, needed + 1);
  const Shape &q = tensor(name, in, 0), &k = tensor(name, in, 1), &v = tensor(name, in, 2);
  for (const Shape* s : {&q, &k, &v}) {
    if (s->rank() != 4) refuse("E151", "attention: ", *s, " must have the axes batch, head, row, column");
  }
  real(name, q);
  same_type(name, q, k);
  same_type(name, q, v);
  require_equal(q.dims[0], k.dims[0], "attention: batch of q and k");
  require_equal(q.dims[0], v.dims[0], "attention: batch of q and v");
  require_equal(k.dims[1], v.dims[1], "attention: heads of k and v");
  require_equal(q.dims[3], k.dims[3], "attention: head size of q and k");
  require_equal(k.dims[2], v.dims[2], "attention: rows of k and v");
  if (!exact_divide(q.dims[1], k.dims[1]))
    refuse("E151", "attention: ", q.dims[1], " heads are not a multiple of ", k.dims[1], " key heads");
  if (has_mask(in.size())) broadcasts_to(name, tensor(name, in, 3), Dims{q.dims[0], q.dims[1], q.dims[2], k.dims[2]});
  if (sinks) {
    const Shape& scores = tensor(name, in, sinks_at(in.size()));
    same_type(name, q, scores);
    same_dims(name, Shape{q.dtype, {q.dims[1]}}, scores);
  }
  if (ranged) same_dims(name, Shape{DType::i64, {q.dims[0], q.dims[2], 2}}, tensor(name, in, in.size() - 1));
  return {Shape{q.dtype, {q.dims[0], q.dims[1], q.dims[2], v.dims[3]}}};
}

namespace {

constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

/// Returns the mask's strides along batch, head, row and column; 0 where it is broadcast.
std::vector<int64_t> mask_steps(const Wide& mask) {
  std::vector<int64_t> steps = row_major_steps(mask.dims);
  for (size_t a = 0; a < steps.size(); ++a) steps[a] = mask.dims[a] == 1 ? 0 : steps[a];
  steps.insert(steps.begin(), 4 - steps.size(), 0);
  return steps;
}

/// Adds one row of a float mask to a row of scores; of a bool mask, sets the scores of false elements to `hidden`.
void add_mask(const Wide& mask, int64_t start, int64_t step, double hidden, std::span<double> scores) {
  for (size_t j = 0; j < scores.size(); ++j) {
    size_t at = start + j * step;
    if (mask.is_real()) scores[j] += mask.as<double>()[at];
    else if (mask.as<int64_t>()[at] == 0) scores[j] = hidden;
  }
}

/// The range of keys that a row may see.
struct KeyRange {
  int64_t begin, end;
  KeyRange(int64_t first, int64_t last) : begin(first), end(last) {}
  KeyRange(const Wide& ranges, int64_t row, int64_t keys) {
    const int64_t* at = ranges.as<int64_t>().data() + row * 2;
    begin = std::clamp<int64_t>(at[0], 0, keys), end = std::clamp(at[1], begin, keys);
  }
  int64_t count() const { return end - begin; }
};

/// Computes exp(score - max) / sum in place, over the sink and the keys that the row sees. If all these scores are
/// -inf, gives zeros, or NaN with nan_rows.
void softmax(std::span<double> row, KeyRange seen, double sink, bool nan_rows) {
  auto scores = row.subspan(seen.begin, seen.count());
  double highest = sink;
  for (double s : scores) highest = s > highest || std::isnan(s) ? s : highest;
  double sum = highest == minus_infinity ? 0 : std::exp(sink - highest);
  for (double& s : scores) sum += s = highest == minus_infinity ? 0 : std::exp(s - highest);
  double none = nan_rows ? std::numeric_limits<double>::quiet_NaN() : 0;
  for (double& s : scores) s = sum == 0 ? none : s / sum;
}

std::vector<double> transposed(const double* k, int64_t rows, int64_t columns) {
  std::vector<double> out(rows * columns);
  for (int64_t i = 0; i < rows * columns; ++i) out[i % columns * rows + i / columns] = k[i];
  return out;
}

}  // namespace

std::vector<Wide> Attention::evaluate(std::span<const Wide> in) const {
  const Wide &q = in[0], &k = in[1], &v = in[2];
  int64_t heads = q.dims[1], m = q.dims[2], d = q.dims[3], n = k.dims[2], width = v.dims[3];
  int64_t shared = k.dims[1] == 0 ? 1 : heads / k.dims[1];
  bool masked = has_mask(in.size());
  std::vector<int64_t> steps = masked ? mask_steps(in[3]) : std::vector<int64_t>(4, 0);
  std::vector<double> out(q.dims[0] * heads * m * width, 0.0);
  parallel_parts(q.dims[0] * heads, 2 * m * n * (d + width), [&](int64_t begin, int64_t end) {
    for (int64_t head = begin; head < end; ++head) {
      int64_t from = head / shared;
      std::vector<double> keys = transposed(k.as<double>().data() + from * n * d, n, d);
      std::vector<double> scores(m * n, 0.0);
      multiply_add(q.as<double>().data() + head * m * d, keys.data(), scores.data(), m, d, n);
      for (int64_t i = 0; i < m; ++i) {
        std::span<double> row(scores.data() + i * n, n);
        for (double& s : row) s = softcap > 0 ? softcap * std::tanh(s * scale / softcap) : s * scale;
        int64_t start = head / heads * steps[0] + head % heads * steps[1] + i * steps[2];
        if (masked) add_mask(in[3], start, steps[3], hidden, row);
        for (int64_t j = std::max<int64_t>(i + offset.value() + 1, 0); causal && j < n; ++j) row[j] = minus_infinity;
        KeyRange seen = ranged ? KeyRange(in.back(), head / heads * m + i, n) : KeyRange{0, n};
        double sink = sinks ? in[sinks_at(in.size())].as<double>()[head % heads] : minus_infinity;
        softmax(row, seen, sink, nan_rows);
      }
      const double* values = v.as<double>().data() + from * n * width;
      double* y = out.data() + head * m * width;
      if (!ranged) multiply_add(scores.data(), values, y, m, n, width);
      for (int64_t i = 0; ranged && i < m; ++i) {
        KeyRange seen(in.back(), head / heads * m + i, n);
        multiply_add(scores.data() + i * n + seen.begin, values + seen.begin * width, y + i * width, 1, seen.count(),
                     width);
        if (nan_rows && n > 0 && seen.count() == 0 && !sinks)
          std::fill_n(y + i * width, width, std::numeric_limits<double>::quiet_NaN());
      }
    }
  });
  return {make_wide(q.dtype, {q.dims[0], heads, m, width}, std::move(out))};
}

}  // namespace weft
