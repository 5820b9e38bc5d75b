// SPDX-License-Identifier: Apache-2.0
#include "ops/boxes.h"

#include <algorithm>

#include "ops/check.h"
#include "ops/wide.h"

namespace weft {

using namespace shape_rule;

Types NonMaxSuppression::infer(Operands in) const {
  operand_count(name, in, 4, 4);
  const Shape &boxes = tensor(name, in, 0), &scores = tensor(name, in, 1);
  if (boxes.rank() != 3 || scores.rank() != 3) refuse("E151", name, ": boxes ", boxes, " and scores ", scores);
  for (size_t i = 0; i < 4; ++i) {
    const Shape& x = tensor(name, in, i);
    if (x.dtype != DType::f32 || (i > 1 && x.rank() != 0)) refuse("E141", name, ": input ", i, " is ", x);
  }
  require_equal(boxes.dims[2], 4, "non_max_suppression: numbers of a box");
  require_equal(boxes.dims[0], scores.dims[0], "non_max_suppression: batches of boxes and scores");
  require_equal(boxes.dims[1], scores.dims[2], "non_max_suppression: boxes and their scores");
  return {Shape{DType::i64, {scores.dims[0], scores.dims[1], most}}};
}

namespace {

struct Box {
  double y1, x1, y2, x2;
  double area() const { return (y2 - y1) * (x2 - x1); }
};

Box box_at(std::span<const double> numbers, bool centers) {
  double a = numbers[0], b = numbers[1], c = numbers[2], d = numbers[3];
  if (centers) return {b - d / 2, a - c / 2, b + d / 2, a + c / 2};
  return {std::min(a, c), std::min(b, d), std::max(a, c), std::max(b, d)};
}

double overlap(const Box& a, const Box& b) {
  double height = std::min(a.y2, b.y2) - std::max(a.y1, b.y1), width = std::min(a.x2, b.x2) - std::max(a.x1, b.x1);
  if (height <= 0 || width <= 0) return 0;
  return height * width / (a.area() + b.area() - height * width);
}

}  // namespace

std::vector<Wide> NonMaxSuppression::evaluate(std::span<const Wide> in) const {
  auto boxes = in[0].as<double>(), scores = in[1].as<double>();
  int64_t rows = in[1].dims[0] * in[1].dims[1], n = in[1].dims[2], width = most.value();
  double greatest = in[2].as<double>()[0], least = in[3].as<double>()[0];
  std::vector<int64_t> out(rows * width, -1);
  for (int64_t row = 0; row < rows; ++row) {
    auto own = scores.subspan(row * n, n);
    auto box = [&](int64_t i) { return box_at(boxes.subspan((row / in[1].dims[1] * n + i) * 4, 4), centers); };
    std::vector<int64_t> order, taken;
    for (int64_t i = 0; i < n; ++i) {
      if (own[i] > least) order.push_back(i);
    }
    std::ranges::sort(order, [&](int64_t a, int64_t b) {
      double x = own[a], y = own[b];
      return x != y ? x > y : a < b;
    });
    for (int64_t i : order) {
      if (std::ssize(taken) == width) break;
      if (std::ranges::none_of(taken, [&](int64_t t) { return overlap(box(i), box(t)) > greatest; }))
        taken.push_back(i);
    }
    std::ranges::copy(taken, out.begin() + row * width);
  }
  return {make_wide(DType::i64, {in[1].dims[0], in[1].dims[1], width}, std::move(out))};
}

}  // namespace weft
