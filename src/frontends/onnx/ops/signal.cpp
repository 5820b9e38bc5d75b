// SPDX-License-Identifier: Apache-2.0
// Signals: windows, Fourier transforms (as matrix products), mel filters.
#include <algorithm>
#include <cmath>

#include "base/numeric.h"
#include "frontends/common/fourier.h"
#include "frontends/common/indexing.h"
#include "frontends/onnx/import/expr.h"

namespace weft::onnx {
namespace {

/// Computes a0 + a1 cos(2 pi n / N) + a2 cos(4 pi n / N) for n < size. N is the size, less 1 for a symmetric window.
Values cosine_window(Call& c, double a0, double a1, double a2) {
  Dim size = c.size(0);
  bool periodic = c.flag("periodic", true);
  DType type = c.element("output_datatype", DType::f32);
  Expr whole = scalar(c, periodic ? size : size - 1, DType::f64);
  Expr angle = convert(iota(c, size), DType::f64) * (2 * M_PI) / whole;
  Expr w = cos(angle) * a1 + a0;
  if (a2 != 0) w = w + cos(angle * 2) * a2;
  return {convert(w, type)};
}

Values dft(Call& c) {
  Expr x = arg(c, 0);
  int64_t axis = c.opset() < 20 ? c.integer("axis", 1) : c.has_input(2) ? c.integer_input(2) : -2;
  axis = c.axis(axis, x.rank());
  int64_t last = x.rank() - 1;
  if (axis == last) c.fail("E143", cat("axis ", axis, " is the one of the real and imaginary parts"));
  bool inverse = c.flag("inverse"), onesided = c.flag("onesided");
  Dim size = x.dims()[axis];
  Dim n = c.has_input(1) ? c.size(1) : inverse && onesided ? (size - 1) * 2 : size;
  auto order = axes_from(0, last + 1);
  std::rotate(order.begin() + axis, order.begin() + axis + 1, order.end() - 1);
  return {transpose(fourier_transform(transpose(x, order), n, inverse, onesided), inverse_of(order))};
}

Values stft(Call& c) {
  Expr x = arg(c, 0);
  if (x.rank() == 2) x = reshape(x, {x.dims()[0], x.dims()[1], 1});
  Dim step = c.size(1, 1);
  if (step.upper_bound() < 1) c.fail("E145", cat("frame_step must be >=1, is ", step));
  Dim length = c.has_input(3) ? c.size(3) : c.has_input(2) ? c.input(2).dims()[0] : x.dims()[1];
  Dim frames = floordiv(x.dims()[1] - length, step) + 1;
  Expr start = iota(c, frames) * scalar(c, step);
  Expr position = along(start, 0, 2) + along(iota(c, length), 1, 2);
  Expr windows = gather(x, position, 1);
  if (c.has_input(2)) windows = windows * along(arg(c, 2), 2, 4);
  return {fourier_transform(windows, length, false, c.flag("onesided", true))};
}

double hertz_to_mel(double f) { return 2595 * std::log10(1 + f / 700); }
double mel_to_hertz(double m) { return 700 * (std::pow(10, m / 2595) - 1); }

/// Returns triangular filters, evenly spaced on the mel scale: [spectrum bins, mel bins].
Values mel_weight_matrix(Call& c) {
  auto bins = to_int64(c.number_input(0, "num_mel_bins")), length = to_int64(c.number_input(1, "dft_length"));
  double rate = c.number_input(2, "sample_rate");
  double low = hertz_to_mel(c.number_input(3, "lower_edge_hertz")),
         high = hertz_to_mel(c.number_input(4, "upper_edge_hertz"));
  DType type = c.element("output_datatype", DType::f32);
  constexpr int64_t max_bins = 1 << 12, most = 1 << 26;
  if (bins < 1 || length < 1 || !(rate > 0))
    c.fail("E145", cat("needs num_mel_bins, dft_length and sample_rate >0, has ", bins, ", ", length, " and ", rate));
  if (bins > max_bins || length > most) c.fail("E401", cat("of ", length, " x ", bins, " > ", most, " x ", max_bins));
  int64_t spectrum = length / 2 + 1;
  std::vector<int64_t> edges;
  for (int64_t i = 0; i < bins + 2; ++i) {
    double hertz = mel_to_hertz(low + static_cast<double>(i) * (high - low) / static_cast<double>(bins + 2));
    edges.push_back(
        std::clamp<int64_t>(to_int64(std::floor(static_cast<double>(length + 1) * hertz / rate)), 0, spectrum - 1));
  }
  auto edge = [&](int64_t first) {
    std::span<const int64_t> part = std::span(edges).subspan(first, bins);
    return convert(along({&c, constant(c.module(), make_i64_tensor(part))}, 1, 2), DType::f64);
  };
  Expr at = convert(along(iota(c, spectrum), 0, 2), DType::f64), from = edge(0), top = edge(1), to = edge(2);
  Expr rises = select(top > from, (at - from) / max(top - from, 1), 1), falls = (to - at) / max(to - top, 1);
  Expr weights = select((at >= top) & (at < to), falls, select((at >= from) & (at <= top), rises, 0));
  return {convert(weights, type)};
}

constexpr Operator signal_table[] = {
    {"", "HannWindow", [](Call& c) { return cosine_window(c, 0.5, -0.5, 0); }},
    {"", "HammingWindow", [](Call& c) { return cosine_window(c, 25.0 / 46, -21.0 / 46, 0); }},
    {"", "BlackmanWindow", [](Call& c) { return cosine_window(c, 0.42, -0.5, 0.08); }},
    {"", "DFT", dft, "no inverse of a real input that is onesided"},
    {"", "STFT", stft},
    {"", "MelWeightMatrix", mel_weight_matrix},
};

}  // namespace

std::span<const Operator> signal_operators() { return signal_table; }

}  // namespace weft::onnx
