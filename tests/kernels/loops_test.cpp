// SPDX-License-Identifier: Apache-2.0
// Pointwise loops, row kernels and reductions of the kernel library on the host. Covers every rank, the sizes 0, 1 and
// odd sizes, permuted and broadcast strides, empty reductions, and uneven ranges of tasks.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/fused.h"
#include "kernels/pointwise.h"
#include "kernels/reduce.h"

namespace {

namespace k = weft::kernel;
using weft::i32;
using weft::i64;
using weft::u8;

constexpr int N = 8;

/// Runs body(launch) for all tasks, cut into ranges of uneven length.
template <class Body>
void run_in_pieces(i64 tasks, i64 scratch_bytes, const Body& body) {
  std::vector<char> scratch(size_t(scratch_bytes) + 64);
  void* aligned = scratch.data() + (64 - reinterpret_cast<size_t>(scratch.data()) % 64) % 64;
  const weft::LaunchArgs args{.scratch = aligned, .scratch_bytes = scratch_bytes};
  for (i64 at = 0, step = 1; at < tasks; at += step, step = step * 2 + 1) {
    body(k::Launch<>{&args, at, std::min(at + step, tasks)});
  }
}

/// A tensor seen through strides, in elements.
template <class T, int Rank>
struct Strided {
  T* base;
  i64 stride[Rank];

  T* at(const k::Coords<Rank>& c) const {
    T* place = base;
    for (int i = 0; i < Rank; i++) place += c[i] * stride[i];
    return place;
  }
};

/// Checks y = x + z over a space; x has permuted strides, and z is broadcast along every second dimension.
template <int Rank>
void check_pointwise(const k::Space<Rank>& s, int rotate) {
  i64 count = 1, step = 1;
  for (i64 n : s.size) count *= n;
  Strided<const float, Rank> x{}, z{};
  Strided<float, Rank> y{};
  for (int i = 0; i < Rank; i++) {  // x has its strides in another order of dimensions
    const int dim = (i + rotate) % Rank;
    x.stride[dim] = step, step *= s.size[dim];
  }
  for (int i = Rank - 1, odd = 0; i >= 0; i--, odd ^= 1) {
    i64 below = 1;
    for (int j = i + 1; j < Rank; j++) below *= s.size[j];
    y.stride[i] = below, z.stride[i] = odd ? 0 : below;
  }
  std::vector<float> in(count + 1), out(count + 1, -7), other(count + 1);
  for (i64 i = 0; i <= count; i++) in[i] = float(i), other[i] = float(i % 97);
  x.base = in.data(), y.base = out.data(), z.base = other.data();
  std::vector<int> visits(count, 0);
  run_in_pieces(weft::tasks::pointwise_tasks(k::row_count(s), s.size[Rank - 1], N), 0, [&](const auto& launch) {
    k::pointwise<N>(launch, s, [&](const k::Coords<Rank>& at, auto lanes) {
      const auto from = k::load_strided<N>(x.at(at), x.stride[Rank - 1], lanes);
      k::store(y.at(at), from + k::load<N>(z.at(at), lanes), lanes);
    });
  });
  int wrong = 0;
  for (i64 i = 0; i < count; i++) {
    i64 from = 0, with = 0, rest = i;
    for (int d = Rank - 1; d >= 0; d--) {
      const i64 c = rest % s.size[d];
      rest /= s.size[d], from += c * x.stride[d], with += c * z.stride[d];
    }
    wrong += out[i] != in[from] + other[with];
  }
  CHECK(wrong == 0);
  CHECK(out[count] == -7);
}

template <int Rank>
void check_rank() {
  std::mt19937 random(Rank);
  const i64 sizes[] = {1, 2, 3, 5, 8, 17};
  for (int round = 0; round < 20; round++) {
    k::Space<Rank> s;
    for (i64& n : s.size) n = sizes[random() % (Rank > 4 ? 4 : 6)];
    if (round == 7) s.size[random() % Rank] = 0;
    if (round == 8) s.size[Rank - 1] = 20011;
    const int rotate = int(random() % Rank);
    check_pointwise<Rank>(s, rotate);
  }
}

}  // namespace

TEST_CASE("kernel loops: pointwise over every rank") {
  check_rank<1>();
  check_rank<2>();
  check_rank<3>();
  check_rank<4>();
  check_rank<5>();
  check_rank<6>();
}

TEST_CASE("kernel loops: division bit by bit") {
  const i64 numbers[] = {0, 1, 2, 7, 4'294'967'295, 4'294'967'296, 1'000'000'000'007, INT64_MAX - 1, INT64_MAX};
  for (i64 a : numbers) {
    for (i64 b : numbers) {
      if (b == 0) continue;
      const k::Division d = k::divide_bitwise(weft::u64(a), weft::u64(b));
      CHECK(d.quotient == a / b);
      CHECK(d.rest == a % b);
    }
  }
}

namespace {

template <class T>
std::vector<T> random_values(i64 count, int seed) {
  std::mt19937 random(seed);
  std::vector<T> values(count);
  for (T& v : values) v = T(int(random() % 200) - (T(-1) < T(0) ? 100 : 0));
  return values;
}

template <class Op, class T>
T plain(const std::vector<T>& x, i64 first, i64 count, i64 step) {
  T total = k::neutral<Op, T>();
  for (i64 i = 0; i < count; i++) total = k::combine<Op>(total, x[first + i * step]);
  return total;
}

template <class Op, class T>
void check_reduce(i64 outer, i64 reduce, i64 inner) {
  const auto x = random_values<T>(outer * reduce * inner, 3);
  std::vector<T> y(outer * inner, T(77)), rows(outer * inner, T(77));
  run_in_pieces(weft::tasks::column_tasks(outer, reduce, inner, N), 0, [&](const auto& launch) {
    k::reduce_columns<Op, T, N>(
        launch, outer, reduce, inner,
        [&](i64 o, i64 r, i64 c, auto lanes) { return k::load<N>(x.data() + (o * reduce + r) * inner + c, lanes); },
        [&](i64 o, i64 c, auto v, auto lanes) { k::store(y.data() + o * inner + c, v, lanes); });
  });
  run_in_pieces(weft::tasks::row_tasks(outer * inner, reduce), 0, [&](const auto& launch) {
    k::reduce_rows<Op, T, N>(
        launch, outer * inner, reduce,
        [&](i64 row, i64 c, auto lanes) {
          const T* at = x.data() + row / inner * reduce * inner + row % inner;
          return k::load_strided<N>(at + c * inner, inner, lanes);
        },
        [&](i64 row, T v) { rows[row] = v; });
  });
  int wrong = 0;
  for (i64 o = 0; o < outer; o++) {
    for (i64 i = 0; i < inner; i++) {
      const T want = plain<Op>(x, o * reduce * inner + i, reduce, inner);
      wrong += y[o * inner + i] != want;
      wrong += rows[o * inner + i] != want;
    }
  }
  CHECK(wrong == 0);
}

template <class T>
void check_reductions() {
  const i64 shapes[][3] = {{1, 1, 1}, {3, 0, 5}, {0, 3, 3}, {2, 5, 17}, {3, 300, 9}, {1, 4001, 1}, {5, 33, 64}};
  for (const auto& s : shapes) {
    check_reduce<k::Sum, T>(s[0], s[1], s[2]);
    check_reduce<k::Max, T>(s[0], s[1], s[2]);
    check_reduce<k::Min, T>(s[0], s[1], s[2]);
  }
  check_reduce<k::Product, T>(2, 3, 5);
}

template <bool Largest, bool Last>
i64 best_of(const std::vector<float>& x) {
  i64 at = -1;
  const weft::LaunchArgs args{};
  k::arg_rows<k::Best<Largest, Last>, float, N>(
      k::Launch<>{&args, 0, 1}, 1, i64(x.size()),
      [&](i64, i64 c, auto lanes) { return k::load<N>(x.data() + c, lanes); }, [&](i64, i64 found) { at = found; });
  i64 column = -1;
  k::arg_columns<k::Best<Largest, Last>, float, 1>(
      k::Launch<>{&args, 0, 1}, 1, i64(x.size()), 1, [&](i64, i64 r, i64, auto) { return x[r]; },
      [&](i64, i64, i64 found, auto) { column = found; });
  CHECK(column == at);
  return at;
}

}  // namespace

TEST_CASE("kernel loops: reductions are exact where arithmetic is") {
  check_reductions<float>();
  check_reductions<double>();
  check_reductions<i32>();
  check_reductions<i64>();
  check_reductions<u8>();
}

TEST_CASE("kernel loops: a max over NaN is NaN, and the position is that of the first of equals") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> x(37, 1.0f);
  x[5] = x[20] = x[33] = 9, x[2] = x[18] = -4;
  CHECK(best_of<true, false>(x) == 5);
  CHECK(best_of<true, true>(x) == 33);
  CHECK(best_of<false, false>(x) == 2);
  CHECK(best_of<false, true>(x) == 18);
  x[11] = x[35] = nan;
  CHECK(best_of<true, false>(x) == 11);
  CHECK(best_of<true, true>(x) == 35);
  CHECK(best_of<false, false>(x) == 11);
  CHECK(best_of<true, false>({-std::numeric_limits<float>::infinity()}) == 0);
  CHECK(std::isnan(
      k::fold_row<k::Max, float, N, 2>(37, [&](i64 c, auto lanes) { return k::load<N>(x.data() + c, lanes); })));
}

TEST_CASE("kernel loops: long sums keep their accuracy") {
  const i64 n = 1 << 22;
  const double mean = 1.0 / 3;
  const float sum = k::fold_row<k::Sum, float, N, 2>(n, [&](i64, auto) { return k::splat<float, N>(float(mean)); });
  CHECK(std::fabs(sum / (n * double(float(mean))) - 1) < 1e-6);
  const float inf = std::numeric_limits<float>::infinity();
  CHECK(k::fold_row<k::Sum, float, N, 2>(5000, [&](i64 c, auto) { return k::splat<float, N>(c == 96 ? inf : 1.0f); }) ==
        inf);
}

namespace {

/// Checks rows with a large mean: layer norm must not lose small deviations.
void check_layer_norm(i64 rows, i64 cols) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal(1000.0f, 0.5f);
  std::vector<float> x(rows * cols), y(rows * cols), means(rows);
  for (float& v : x) v = normal(random);
  run_in_pieces(weft::tasks::row_tasks(rows, cols), weft::tasks::row_scratch(cols), [&](const auto& launch) {
    k::layer_norm<float, N>(
        launch, rows, cols, 1e-5f, [&](i64 r, i64 c, auto lanes) { return k::load<N>(x.data() + r * cols + c, lanes); },
        [&](i64 r, i64 c, auto v, auto lanes) { k::store(y.data() + r * cols + c, v, lanes); },
        [&](i64 r, float mean, float) { means[r] = mean; });
  });
  double worst = 0;
  for (i64 r = 0; r < rows; r++) {
    double mean = 0, square = 0;
    for (i64 c = 0; c < cols; c++) mean += x[r * cols + c];
    mean /= double(cols);
    for (i64 c = 0; c < cols; c++) square += (x[r * cols + c] - mean) * (x[r * cols + c] - mean);
    const double inverse = 1 / std::sqrt(square / double(cols) + 1e-5);
    for (i64 c = 0; c < cols; c++) {
      worst = std::max(worst, std::fabs((x[r * cols + c] - mean) * inverse - y[r * cols + c]));
    }
    CHECK(std::fabs(means[r] - mean) < 1e-7 * std::fabs(mean));
  }
  CHECK(worst < 3e-4);  // the spacing of f32 at 1000 is 6e-5, the deviation 0.5
}

}  // namespace

TEST_CASE("kernel loops: layer norm of rows far from zero") {
  check_layer_norm(1, 2);
  check_layer_norm(7, 33);
  check_layer_norm(300, 768);
}

TEST_CASE("kernel loops: softmax at the edges") {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> x = {-inf, 0, -inf, 1, 300, -300, 299, 0, -inf, -inf, -inf, -inf};
  std::vector<float> y(12);
  run_in_pieces(weft::tasks::row_tasks(3, 4), weft::tasks::row_scratch(4), [&](const auto& launch) {
    k::softmax<float, N>(
        launch, 3, 4, [&](i64 r, i64 c, auto lanes) { return k::load<N>(x.data() + r * 4 + c, lanes); },
        [&](i64 r, i64 c, auto v, auto lanes) { k::store(y.data() + r * 4 + c, v, lanes); });
  });
  const double e = std::exp(1.0), total = 1 + e;
  CHECK(y[0] == 0);
  CHECK(y[1] == doctest::Approx(1 / total));
  CHECK(y[3] == doctest::Approx(e / total));
  CHECK(y[4] == doctest::Approx(e / total));
  CHECK(y[5] == 0);
  CHECK(std::isnan(y[8]));  // the softmax of a row that is all -inf is NaN
}
