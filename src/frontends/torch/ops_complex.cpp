// SPDX-License-Identifier: Apache-2.0
// Imports operators on complex numbers and Fourier transforms.
#include <algorithm>
#include <cmath>

#include "frontends/common/complex.h"
#include "frontends/common/views.h"
#include "frontends/torch/complex.h"
#include "frontends/torch/importer.h"
#include "frontends/torch/promote.h"

namespace weft::torch {
namespace {

using frontend::Complex, frontend::pair_of, frontend::part, frontend::parts, frontend::product, frontend::quotient;
using frontend::transformed, frontend::Way, frontend::normalized;

Values one_complex(const Complex& z) { return one(pair_of(z)); }

/// Returns an argument (a complex or real tensor, or a number) as complex numbers with parts of type `type`.
Complex complex_of(Call& c, std::string_view argument, DType type) {
  if (c.is_complex(argument)) {
    Complex z = parts(c.pair(argument));
    return {convert(z.re, type), convert(z.im, type)};
  }
  Expr re = c.operand(argument).as(c, type);
  return {re, frontend::like(re, 0)};
}
DType float_part(Call& c, std::string_view argument) {
  return c.is_complex(argument) ? c.pair(argument).dtype() : float_of(c.tensor(argument).dtype());
}
Complex self_of(Call& c) { return complex_of(c, "self", float_part(c, "self")); }

/// Returns two operands as complex numbers with parts of the result's type.
std::array<Complex, 2> two(Call& c, std::string_view first, std::string_view second) {
  DType type = part_type(c.importer().declared_result(c, 0).value_or(DType::c64));
  return {complex_of(c, first, type), complex_of(c, second, type)};
}

Values complex_sum(Call& c, double sign) {
  auto [a, b] = two(c, "self", "other");
  Expr alpha = frontend::number(c, a.re.dtype(), sign);
  if (c.has("alpha")) alpha = alpha * c.operand("alpha").as(c, a.re.dtype());
  return one_complex({a.re + b.re * alpha, a.im + b.im * alpha});
}
Values multiply(Call& c) {
  auto [a, b] = two(c, "self", "other");
  return one_complex(product(a, b));
}
Values complex_divide(Call& c) {
  auto [a, b] = two(c, "self", "other");
  return one_complex(quotient(a, b));
}
Values complex_matrix_product(Call& c, std::string_view second) {
  auto [a, b] = two(c, "self", second);
  return one_complex({matmul(a.re, b.re) - matmul(a.im, b.im), matmul(a.re, b.im) + matmul(a.im, b.re)});
}

Values magnitude(Call& c) { return one(frontend::magnitude(self_of(c))); }
Values angle(Call& c) {
  Complex z = self_of(c);
  Expr y = frontend::apply(Fn::atan2, z.im, z.re);
  return one(c.is_complex("self") ? y : select(is_nan(z.re), z.re, y));
}
Values conjugate(Call& c) {
  Complex z = self_of(c);
  return one_complex({z.re, -z.im});
}
Values adjoint(Call& c) {
  Complex z = self_of(c);
  return one_complex({swap_last(z.re), -swap_last(z.im)});
}
Values complex_exponential(Call& c) {
  Complex z = self_of(c);
  Expr size = exp(z.re);
  return one_complex({size * cos(z.im), size * sin(z.im)});
}
Values from_polar(Call& c) {
  Expr size = c.tensor("abs"), angle = c.tensor("angle");
  return one_complex({size * cos(angle), size * sin(angle)});
}

/// Converts from or to a type of complex numbers.
Values complex_converted(Call& c) {
  c.ignore({"device", "layout", "pin_memory", "non_blocking", "copy", "memory_format"});
  DType type = c.element("dtype").value_or(float_part(c, "self"));
  Complex z = complex_of(c, "self", type);
  bool is_complex_result = weft::is_complex(c.importer().declared_result(c, 0).value_or(DType::c64));
  return is_complex_result ? one_complex(z) : one(z.re);
}

// ---- Fourier transforms ----

int64_t mode_of(Call& c, Way way) {
  std::string norm = c.text("norm", "backward");
  if (norm == "ortho") return 1;
  if (norm != "forward" && norm != "backward")
    c.fail("E145", cat("norm '", printable(norm), "' is not forward, backward or ortho"));
  return (norm == "forward") == (way == Way::forward) ? 2 : 0;
}

/// Returns an argument as pairs; real numbers get an imaginary part of 0.
Expr pairs_of(Call& c, std::string_view argument = "self") {
  return c.is_complex(argument) ? c.pair(argument) : pair_of(complex_of(c, argument, float_part(c, argument)));
}

/// The axes of a transform, and the number of elements along each (argument `s` or `n`; by default z's sizes).
struct Lines {
  std::vector<int64_t> axes;
  Dims sizes;
};
Lines lines_of(Call& c, Expr z, std::string_view sizes, std::vector<int64_t> fallback) {
  Lines lines{.axes = std::move(fallback), .sizes = c.sizes(sizes)};
  int64_t rank = z.rank() - 1;
  if (c.has("dim") || lines.axes.empty()) {
    lines.axes = c.has("dim") ? c.integers("dim") : frontend::axes_from(0, rank);
    if (!c.has("dim") && !lines.sizes.empty()) lines.axes = frontend::axes_from(rank - std::ssize(lines.sizes), rank);
  }
  for (size_t i = 0; i < lines.axes.size(); ++i) {
    lines.axes[i] = c.axis(lines.axes[i], rank);
    Dim have = z.dims()[lines.axes[i]];
    if (lines.sizes.size() <= i) lines.sizes.push_back(have);
    else if (known_equal(lines.sizes[i], -1)) lines.sizes[i] = have;
  }
  return lines;
}

/// The real side of a transform: none, the input, or the output. For n real elements the other side has n / 2 + 1 bins.
enum class Form : uint8_t { complex, from_real, to_real };

/// Imports the transforms of torch.fft. Those of Hermitian signals use the opposite transform and the conjugate.
Values fourier(Call& c, Way way, Form form, std::vector<int64_t> axes, bool hermitian = false) {
  Expr z = pairs_of(c);
  Lines lines = lines_of(c, z, axes.size() == 1 ? "n" : "s", axes);
  size_t last = lines.axes.size() - 1;
  if (lines.axes.empty()) return one(z);
  bool has_last = std::ssize(c.sizes(axes.size() == 1 ? "n" : "s")) == std::ssize(lines.axes);
  bool keeps_last = has_last && known_equal(c.sizes(axes.size() == 1 ? "n" : "s").back(), -1);
  if (form == Form::to_real && (!has_last || keeps_last)) lines.sizes[last] = (lines.sizes[last] - 1) * 2;
  auto others = [&] {
    for (size_t i = 0; i < last; ++i) z = transformed(z, lines.axes[i], lines.sizes[i], way);
  };
  auto conjugated = [&](Expr pair) {
    Complex of = parts(pair);
    return pair_of({of.re, -of.im});
  };
  Dim count = weft::product(lines.sizes);
  int64_t mode = mode_of(c, way), axis = lines.axes[last];
  if (form != Form::to_real && !hermitian) {
    z = form == Form::complex ? transformed(z, axis, lines.sizes[last], way)
                              : transformed(slice(z, z.rank() - 1, 0, 1), axis, lines.sizes[last], way, true);
    others();
    return one(normalized(z, count, mode));
  }
  if (form == Form::from_real) {  // the inverse transform of a Hermitian signal
    z = conjugated(transformed(slice(z, z.rank() - 1, 0, 1), axis, lines.sizes[last], Way::forward, true));
    others();
    return one(normalized(z, count, mode));
  }
  others();
  if (hermitian) z = conjugated(z);
  return one(normalized(part(transformed(z, axis, lines.sizes[last], Way::inverse, true), 0), count, mode));
}

/// Imports the operators to which torch lowers torch.fft (_fft_c2c and others), with the normalisation as a number.
Values lowered_fourier(Call& c, Form form) {
  Expr z = pairs_of(c);
  std::vector<int64_t> axes = c.integers("dim");
  for (int64_t& axis : axes) axis = c.axis(axis, z.rank() - 1);
  if (axes.empty()) return one(form == Form::to_real ? part(z, 0) : z);
  auto size = [&](int64_t axis) { return z.dims()[axis]; };
  Way way = form == Form::to_real || (form == Form::complex && !c.flag("forward")) ? Way::inverse : Way::forward;
  Dim last = form == Form::to_real ? c.size("last_dim_size") : size(axes.back()), count = last;
  bool onesided = form == Form::from_real && c.flag("onesided");
  if (form == Form::from_real)
    z = transformed(onesided ? slice(z, z.rank() - 1, 0, 1) : z, axes.back(), last, way, onesided);
  for (size_t i = 0; i + 1 < axes.size(); ++i)
    count = count * size(axes[i]), z = transformed(z, axes[i], size(axes[i]), way);
  if (form == Form::complex) z = transformed(z, axes.back(), last, way);
  if (form == Form::to_real) z = part(transformed(z, axes.back(), last, way, true), 0);
  return one(normalized(z, count, c.integer("normalization")));
}

// ---- Short-time Fourier transforms ----

frontend::Pieces pieces_of(Call& c, DType type) {
  int64_t size = c.integer("n_fft"), step = c.integer("hop_length", size / 4), length = c.integer("win_length", size);
  if (size < 1 || step < 1 || length < 1 || length > size)
    c.fail("E145", cat("has n_fft ", size, ", hop_length ", step, " and win_length ", length));
  Expr window = c.has("window") ? convert(c.tensor("window"), type) : frontend::full(c, type, {length}, 1);
  int64_t before = (size - length) / 2;
  return {size, step, frontend::pad(window, {before}, {size - length - before})};
}

/// Transforms windowed pieces of each signal: [batch, time] -> [batch, bins, pieces, 2].
Values short_time(Call& c) {
  Expr x = c.tensor("self");
  frontend::Pieces of = pieces_of(c, x.dtype());
  bool is_single = x.rank() == 1, onesided = c.flag("onesided", true);
  c.require_default("align_to_window", !c.flag("align_to_window"));
  c.require_default("center", !c.flag("center"));  // torch.stft has already padded x
  c.ignore({"return_complex", "pad_mode"});        // results are pairs in any case
  if (is_single) x = with_rank(x, 2);
  Expr y = normalized(frontend::short_time_transform(x, of, onesided), of.size, c.flag("normalized") ? 1 : 0);
  return one(is_single ? reshape(y, Dims(y.dims().begin() + 1, y.dims().end())) : y);
}

Values back_from_short_time(Call& c) {
  Expr z = c.pair("self");
  frontend::Pieces of = pieces_of(c, z.dtype());
  bool is_single = z.rank() == 3, is_normalized = c.flag("normalized");
  c.require_default("return_complex", !c.flag("return_complex"));
  if (is_single) z = with_rank(z, 4);
  Dim all = Dim(of.size) + (z.dims()[2] - 1) * of.step, start = c.flag("center", true) ? of.size / 2 : 0;
  Dim length = c.size("length", all - start * 2), have = min(length, all - start);
  Expr y = frontend::inverse_short_time_transform(z, of, c.flag("onesided", true));
  if (is_normalized) y = y * std::sqrt(static_cast<double>(of.size));
  y = frontend::pad(slice(y, 1, start, have), {0, 0}, {0, length - have});
  return one(is_single ? reshape(y, {length}) : y);
}

#define WEFT_FOURIER(name, ...) {"aten." name ".default", [](Call& c) { return fourier(c, __VA_ARGS__); }}

constexpr Operator complex_rows[] = {
    {"aten.view_as_complex.default", [](Call& c) { return one(c.tensor("self")); }},
    {"aten.view_as_real.default", [](Call& c) { return one(c.pair("self")); }},
    {"aten.complex.default", [](Call& c) { return one_complex({c.tensor("real"), c.tensor("imag")}); }},
    {"aten.polar.default", from_polar},
    {"aten.real.default", [](Call& c) { return one(self_of(c).re); }},
    {"aten.imag.default", [](Call& c) { return one(self_of(c).im); }},
    {"aten.angle.default", angle},
    {"aten.abs.default", magnitude},
    {"aten.conj.default", conjugate},
    {"aten._conj.default", conjugate},
    {"aten.conj_physical.default", conjugate},
    {"aten._conj_physical.default", conjugate},
    {"aten.exp.default", complex_exponential},
    {"aten.add.Tensor", [](Call& c) { return complex_sum(c, 1); }},
    {"aten.sub.Tensor", [](Call& c) { return complex_sum(c, -1); }},
    {"aten.mul.Tensor", multiply},
    {"aten.div.Tensor", complex_divide},
    {"aten.add.Scalar", [](Call& c) { return complex_sum(c, 1); }},
    {"aten.sub.Scalar", [](Call& c) { return complex_sum(c, -1); }},
    {"aten.mul.Scalar", multiply},
    {"aten.div.Scalar", complex_divide},
    {"aten.mm.default", [](Call& c) { return complex_matrix_product(c, "mat2"); }},
    {"aten.bmm.default", [](Call& c) { return complex_matrix_product(c, "mat2"); }},
    {"aten.matmul.default", [](Call& c) { return complex_matrix_product(c, "other"); }},
    {"aten.mH.default", adjoint},
    {"aten.matrix_H.default", adjoint},
    {"aten.adjoint.default", adjoint},
    {"aten._to_copy.default", complex_converted},
    {"aten.to.dtype", complex_converted},
    WEFT_FOURIER("fft_fft", Way::forward, Form::complex, {-1}),
    WEFT_FOURIER("fft_ifft", Way::inverse, Form::complex, {-1}),
    WEFT_FOURIER("fft_rfft", Way::forward, Form::from_real, {-1}),
    WEFT_FOURIER("fft_irfft", Way::inverse, Form::to_real, {-1}),
    WEFT_FOURIER("fft_hfft", Way::forward, Form::to_real, {-1}, true),
    WEFT_FOURIER("fft_ihfft", Way::inverse, Form::from_real, {-1}, true),
    WEFT_FOURIER("fft_fft2", Way::forward, Form::complex, {-2, -1}),
    WEFT_FOURIER("fft_ifft2", Way::inverse, Form::complex, {-2, -1}),
    WEFT_FOURIER("fft_rfft2", Way::forward, Form::from_real, {-2, -1}),
    WEFT_FOURIER("fft_irfft2", Way::inverse, Form::to_real, {-2, -1}),
    WEFT_FOURIER("fft_hfft2", Way::forward, Form::to_real, {-2, -1}, true),
    WEFT_FOURIER("fft_ihfft2", Way::inverse, Form::from_real, {-2, -1}, true),
    WEFT_FOURIER("fft_fftn", Way::forward, Form::complex, {}),
    WEFT_FOURIER("fft_ifftn", Way::inverse, Form::complex, {}),
    WEFT_FOURIER("fft_rfftn", Way::forward, Form::from_real, {}),
    WEFT_FOURIER("fft_irfftn", Way::inverse, Form::to_real, {}),
    WEFT_FOURIER("fft_hfftn", Way::forward, Form::to_real, {}, true),
    WEFT_FOURIER("fft_ihfftn", Way::inverse, Form::from_real, {}, true),
    {"aten._fft_r2c.default", [](Call& c) { return lowered_fourier(c, Form::from_real); }},
    {"aten._fft_c2c.default", [](Call& c) { return lowered_fourier(c, Form::complex); }},
    {"aten._fft_c2r.default", [](Call& c) { return lowered_fourier(c, Form::to_real); }},
    {"aten.stft.default", short_time},
    {"aten.stft.center", short_time},
    {"aten.istft.default", back_from_short_time},
};
#undef WEFT_FOURIER

}  // namespace

std::span<const Operator> complex_operators() { return complex_rows; }

const Operator* find_complex_operator(std::string_view name) {
  auto found = std::ranges::find(complex_rows, name, &Operator::name);
  return found == std::end(complex_rows) ? nullptr : found;
}

bool goes_by_parts(std::string_view name) {
  constexpr std::string_view names =
      " alias cat chunk clone concat contiguous cumsum detach diagonal empty empty_like expand expand_as"
      " fft_fftshift fft_ifftshift flatten flip gather index index_select lift_fresh_copy mT mean movedim"
      " narrow neg new_zeros permute ravel repeat reshape resolve_conj resolve_neg roll select slice split"
      " split_with_sizes squeeze stack sum swapaxes t transpose sym_size tril triu unbind unflatten"
      " unsqueeze view _unsafe_view where zeros zeros_like ";
  constexpr std::string_view prefix = "aten.";
  if (!name.starts_with(prefix)) return false;
  name.remove_prefix(prefix.size());
  return names.find(cat(" ", name.substr(0, name.find('.')), " ")) != names.npos;
}

}  // namespace weft::torch
