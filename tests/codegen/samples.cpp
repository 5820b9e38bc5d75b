// SPDX-License-Identifier: Apache-2.0
// Sample kernels: elementwise functions, rows and reductions. test_chips.py compiles them for all chips; run_cpu.py,
// run_cuda.py and run_amd.py compare their results with numpy. All sizes are run-time values.
#include "fused.h"
#include "pointwise.h"
#include "reduce.h"
#include "row.h"

using namespace weft;
using namespace weft::kernel;

#ifdef WEFT_CPU
constexpr int lanes = 2 * native_lanes;
#else
constexpr int lanes = native_lanes;
#endif
using V = Vec<f32, lanes>;

// y[i, j] = gelu(a[i, j] * s[j] + b[i]) + t[j, i], with contiguous, broadcast, uniform and strided reads. sizes: rows,
// cols, then two strides for each buffer.
WEFT_KERNEL(sample_pointwise, 5, 256) {
  const auto a = WEFT_BUFFER(const f32, 0);
  const auto s = WEFT_BUFFER(const f16, 1);
  const auto b = WEFT_BUFFER(const bf16, 2);
  const auto t = WEFT_BUFFER(const f32, 3);
  const auto y = WEFT_BUFFER(f32, 4);
  pointwise<lanes>(WEFT_LAUNCH, Space<2>{{WEFT_SIZE(0), WEFT_SIZE(1)}}, [&](const Coords<2>& at, auto n) WEFT_LAMBDA {
    const auto row = [&](int buffer) WEFT_LAMBDA { return at[0] * WEFT_SIZE(2 + 2 * buffer); };
    const V x = load<lanes>(a + row(0) + at[1], n) * convert<f32>(load<lanes>(s + row(1) + at[1], n)) +
                convert<f32>(load_uniform<lanes>(b + row(2)));
    const V gelu = x * 0.5f * (1.0f + erf(x * 0.70710678f));
    const i64 step = WEFT_SIZE(9);
    store(y + row(4) + at[1], gelu + load_strided<lanes>(t + row(3) + at[1] * step, step, n), n);
  });
}

// Computes 14 elementary functions of x, one row of y[14, n] for each function; sizes: n.
WEFT_KERNEL(sample_math, 2, 256) {
  const auto x = WEFT_BUFFER(const f32, 0);
  const auto y = WEFT_BUFFER(f32, 1);
  const i64 n = WEFT_SIZE(0);
  pointwise<lanes>(WEFT_LAUNCH, Space<1>{{n}}, [&](const Coords<1>& at, auto part) WEFT_LAMBDA {
    const V v = load<lanes>(x + at[0], part);
    const V r[] = {exp(v),   log(v),   tanh(v),  erf(v),  sigmoid(v),        sin(v),          cos(v), exp2(v),
                   log1p(v), expm1(v), rsqrt(v), atan(v), pow(v, v * 0.25f), fmod(v, V(0.7f))};
    WEFT_UNROLL for (int f = 0; f < 14; f++) store(y + (f * n + at[0]), r[f], part);
  });
}

// Converts f32 to bf16, f16 and three types of 8 bits and back, one row of y[5, n] for each type; sizes: n.
WEFT_KERNEL(sample_convert, 2, 256) {
  const auto x = WEFT_BUFFER(const f32, 0);
  const auto y = WEFT_BUFFER(f32, 1);
  const i64 n = WEFT_SIZE(0);
  pointwise<lanes>(WEFT_LAUNCH, Space<1>{{n}}, [&](const Coords<1>& at, auto part) WEFT_LAMBDA {
    const V v = load<lanes>(x + at[0], part);
    const V r[] = {convert<f32>(convert<bf16>(v)), convert<f32>(convert<f16>(v)), convert<f32>(cast<f8e4m3fn>(v)),
                   convert<f32>(cast<f8e4m3fnuz>(v)), convert<f32>(cast<f8e5m2>(v))};
    WEFT_UNROLL for (int f = 0; f < 5; f++) store(y + (f * n + at[0]), r[f], part);
  });
}

// Computes the softmax of each row; sizes: rows, cols.
WEFT_KERNEL(sample_softmax, 2, 256) {
  const auto x = WEFT_BUFFER(const f32, 0);
  const auto y = WEFT_BUFFER(f32, 1);
  const i64 cols = WEFT_SIZE(1);
  softmax<f32, lanes, Team::block>(
      WEFT_LAUNCH, WEFT_SIZE(0), cols,
      [&](i64 row, i64 col, auto n) WEFT_LAMBDA { return load<lanes>(x + (row * cols + col), n); },
      [&](i64 row, i64 col, V v, auto n) WEFT_LAMBDA { store(y + (row * cols + col), v, n); });
}
WEFT_KERNEL(sample_log_softmax, 2, 256) {
  const auto x = WEFT_BUFFER(const f32, 0);
  const auto y = WEFT_BUFFER(f32, 1);
  const i64 cols = WEFT_SIZE(1);
  log_softmax<f32, lanes, Team::wave>(
      WEFT_LAUNCH, WEFT_SIZE(0), cols,
      [&](i64 row, i64 col, auto n) WEFT_LAMBDA { return load<lanes>(x + (row * cols + col), n); },
      [&](i64 row, i64 col, V v, auto n) WEFT_LAMBDA { store(y + (row * cols + col), v, n); });
}
// Computes y = layer_norm(x) * g + b in f16; buffers x, g, b, y.
WEFT_KERNEL(sample_layer_norm, 4, 256) {
  const auto x = WEFT_BUFFER(const f16, 0), g = WEFT_BUFFER(const f16, 1), b = WEFT_BUFFER(const f16, 2);
  const auto y = WEFT_BUFFER(f16, 3);
  const i64 cols = WEFT_SIZE(1);
  layer_norm<f32, lanes, Team::wave>(
      WEFT_LAUNCH, WEFT_SIZE(0), cols, 1e-5f,
      [&](i64 row, i64 col, auto n) WEFT_LAMBDA { return convert<f32>(load<lanes>(x + (row * cols + col), n)); },
      [&](i64 row, i64 col, V v, auto n) WEFT_LAMBDA {
        const V scaled = v * convert<f32>(load<lanes>(g + col, n)) + convert<f32>(load<lanes>(b + col, n));
        store(y + (row * cols + col), convert<f16>(scaled), n);
      });
}
WEFT_KERNEL(sample_rms_norm, 2, 256) {
  const auto x = WEFT_BUFFER(const f32, 0);
  const auto y = WEFT_BUFFER(f32, 1);
  const i64 cols = WEFT_SIZE(1);
  rms_norm<f32, lanes, Team::block>(
      WEFT_LAUNCH, WEFT_SIZE(0), cols, 1e-6f,
      [&](i64 row, i64 col, auto n) WEFT_LAMBDA { return load<lanes>(x + (row * cols + col), n); },
      [&](i64 row, i64 col, V v, auto n) WEFT_LAMBDA { store(y + (row * cols + col), v, n); });
}

// Computes the mean of each row and, in sample_arg_rows, the position of its largest element; sizes: rows, cols.
WEFT_KERNEL(sample_reduce_rows, 2, 256) {
  const auto x = WEFT_BUFFER(const f32, 0);
  const auto y = WEFT_BUFFER(f32, 1);
  const i64 cols = WEFT_SIZE(1);
  reduce_rows<Sum, f32, lanes>(
      WEFT_LAUNCH, WEFT_SIZE(0), cols,
      [&](i64 row, i64 col, auto n) WEFT_LAMBDA { return load<lanes>(x + (row * cols + col), n); },
      [&](i64 row, f32 sum) WEFT_LAMBDA { y[row] = sum / f32(cols); });
}
WEFT_KERNEL(sample_arg_rows, 2, 256) {
  const auto x = WEFT_BUFFER(const f32, 0);
  const auto y = WEFT_BUFFER(i64, 1);
  const i64 cols = WEFT_SIZE(1);
  arg_rows<Best<true, false>, f32, lanes>(
      WEFT_LAUNCH, WEFT_SIZE(0), cols,
      [&](i64 row, i64 col, auto n) WEFT_LAMBDA { return load<lanes>(x + (row * cols + col), n); },
      [&](i64 row, i64 at) WEFT_LAMBDA { y[row] = at; });
}
// Computes the maximum along the middle axis of x[outer, reduce, inner] and, in sample_arg_columns, the position of the
// last minimum; sizes: outer, reduce, inner.
WEFT_KERNEL(sample_reduce_columns, 2, 256) {
  const auto x = WEFT_BUFFER(const f32, 0);
  const auto y = WEFT_BUFFER(f32, 1);
  const i64 reduce = WEFT_SIZE(1), inner = WEFT_SIZE(2);
  reduce_columns<Max, f32, lanes>(
      WEFT_LAUNCH, WEFT_SIZE(0), reduce, inner,
      [&](i64 o, i64 r, i64 col, auto n) WEFT_LAMBDA { return load<lanes>(x + ((o * reduce + r) * inner + col), n); },
      [&](i64 o, i64 col, V v, auto n) WEFT_LAMBDA { store(y + (o * inner + col), v, n); });
}
WEFT_KERNEL(sample_arg_columns, 2, 256) {
  const auto x = WEFT_BUFFER(const f32, 0);
  const auto y = WEFT_BUFFER(i64, 1);
  const i64 reduce = WEFT_SIZE(1), inner = WEFT_SIZE(2);
  arg_columns<Best<false, true>, f32, lanes>(
      WEFT_LAUNCH, WEFT_SIZE(0), reduce, inner,
      [&](i64 o, i64 r, i64 col, auto n) WEFT_LAMBDA { return load<lanes>(x + ((o * reduce + r) * inner + col), n); },
      [&](i64 o, i64 col, auto v, auto n) WEFT_LAMBDA { store(y + (o * inner + col), v, n); });
}
