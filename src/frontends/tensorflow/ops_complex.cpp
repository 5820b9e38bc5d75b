// SPDX-License-Identifier: Apache-2.0
#include "frontends/common/fourier.h"
#include "frontends/tensorflow/call.h"
#include "frontends/tensorflow/complex.h"

namespace weft::tensorflow {

using namespace frontend;

Expr part_of(Expr x, int64_t part) {
  Dims dims = x.dims();
  dims.pop_back();
  return reshape(slice(x, x.rank() - 1, part, 1), dims);
}

Expr joined_parts(Expr real, Expr imaginary) {
  Dims dims = real.dims();
  dims.push_back(1);
  return concat(*real.at, {reshape(real, dims), reshape(imaginary, dims)}, real.rank());
}

namespace {

/// x[..., height, width] -> [..., height, width / 2 + 1], after x is cut or filled to the sizes in input 1.
Values rfft_2d(Call& c) {
  c.expect_inputs(2, 2);
  Expr x = c.input(0);
  Dims size = c.sizes(1), dims = x.dims();
  if (size.size() != 2 || x.rank() < 2) c.fail("E151", cat("has ", x.value.shape(), " and sizes ", size));
  dims.push_back(1);
  Expr rows = fourier_transform(reshape(x, dims), size[1], false, true);
  std::vector<int64_t> turned;
  for (int64_t a = 0; a < rows.rank(); ++a) turned.push_back(a);
  std::swap(turned[turned.size() - 2], turned[turned.size() - 3]);
  return {transpose(fourier_transform(transpose(rows, turned), size[0], false, false), turned)};
}

void expect_parts(Call& c) {
  c.expect_inputs(1, 1);
  if (!c.has_parts(0)) c.fail("E141", cat("needs complex numbers, has ", c.input(0).value.shape()));
}

template <int64_t part>
Values one_part(Call& c) {
  expect_parts(c);
  return {part_of(c.input(0), part)};
}

Values complex_abs(Call& c) {
  expect_parts(c);
  Expr real = abs(part_of(c.input(0), 0)), imaginary = abs(part_of(c.input(0), 1));
  Expr most = max(real, imaginary), scale = select(equal(most, 0), 1, most);  // so that squares overflow nowhere
  real = real / scale, imaginary = imaginary / scale;
  return {sqrt(real * real + imaginary * imaginary) * most};
}

constexpr Operator table[] = {
    {"RFFT2D", "", rfft_2d, "", Steps::counted, true},
    {"REAL", "", one_part<0>, "", Steps::counted, true},
    {"IMAG", "", one_part<1>, "", Steps::counted, true},
    {"COMPLEX_ABS", "", complex_abs, "", Steps::counted, true},
};

}  // namespace

std::span<const Operator> complex_operators() { return table; }

}  // namespace weft::tensorflow
