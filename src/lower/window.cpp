// SPDX-License-Identifier: Apache-2.0
#include "lower/window.h"

#include <algorithm>

#include "base/error.h"
#include "lower/lowering.h"

namespace weft {

Dim pixel_stride(const View& x) {
  size_t channels = x.dims.size() - 1;
  bool is_one = known_equal(product({x.dims.begin(), x.dims.end() - 1}), 1);
  return is_one ? x.dims[channels] : *even_stride(x, 0, channels);
}

void check_spatial_rank(size_t spatial, std::string_view op) {
  if (spatial <= 3) return;
  throw Error({.kind = ErrorKind::unsupported,
               .code = "E402",
               .what = cat(op, " over ", spatial, " spatial axes has no kernel; at most 3")});
}

std::string triple(KernelBuilder& kernel, const Dims& sizes, const char* fill) {
  std::string text = "{";
  for (size_t i = 0; i < 3; ++i) {
    size_t missing = 3 - sizes.size();
    text += cat(i ? ", " : "", i < missing ? fill : kernel.number(sizes[i - missing]));
  }
  return text + "}";
}

std::string window_text(KernelBuilder& kernel, const Window& w) {
  bool is_dense = std::ranges::all_of(w.dilation, [](const Dim& dim) { return known_equal(dim, 1); });
  return cat("{.batch = ", kernel.number(w.batch), ", .groups = ", kernel.size(w.groups),
             ", .channels_in = ", kernel.number(w.channels_in), ", .channels_out = ", kernel.number(w.channels_out),
             ", .in = ", triple(kernel, w.in), ", .out = ", triple(kernel, w.out),
             ", .kernel = ", triple(kernel, w.kernel), ", .stride = ", triple(kernel, w.stride),
             ", .dilation = ", is_dense ? "{1, 1, 1}" : triple(kernel, w.dilation),
             ", .pad = ", triple(kernel, w.pad, "0"), ", .pixel = ", kernel.number(w.pixel),
             ", .transposed = ", w.transposed, "}");
}

static std::string product_text(KernelBuilder& kernel, std::string text, const Dims& sizes) {
  for (const Dim& size : sizes) text += cat(" * ", kernel.number(size));
  return text;
}

std::string rows_text(KernelBuilder& kernel, const Window& window) {
  return product_text(kernel, kernel.number(window.batch), window.out);
}

std::string taps_text(KernelBuilder& kernel, const Window& window) {
  return product_text(kernel, "i64(1)", window.kernel);
}

void set_pixel_grid(const Lowering& lowering, KernelBuilder& kernel, const Window& w, const Dim& channels,
                    int gpu_lanes) {
  constexpr int threads = tasks::block_threads;
  if (lowering.on_gpu()) return kernel.set_grid(ceildiv(w.rows() * ceildiv(channels, gpu_lanes), threads), threads);
  kernel.set_tasks(cat("tasks::window_tasks(", rows_text(kernel, w), ", ", kernel.number(w.out.back()), ", ",
                       kernel.number(channels), ", ", taps_text(kernel, w), ")"));
}

}  // namespace weft
