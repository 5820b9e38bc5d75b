// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ops/dot.h"

/// Helpers of convolution and pooling for windows that move over the spatial axes.
namespace weft::window {

/// Return the index of spatial axis i, and of the channel axis.
inline size_t spatial_axis(Layout layout, size_t i) { return layout == Layout::channels_first ? i + 2 : i + 1; }
inline size_t channel_axis(Layout layout, size_t rank) { return layout == Layout::channels_first ? 1 : rank - 1; }

/// Throws unless each list has one entry per spatial axis; refuses strides and dilations below 1 (E145).
void check(std::string_view op, size_t spatial, const std::vector<int64_t>& strides,
           const std::vector<int64_t>& dilations, const Dims& pads_begin, const Dims& pads_end);
/// Throws E144 if a size is negative for all values of its symbols.
void check_output(std::string_view op, size_t axis, const Dim& size);

/// Transpose x to channels-first order, and back.
Wide channels_first(const Wide& x, Layout layout);
Wide from_channels_first(const Wide& x, Layout layout);

/// The elements that windows read. In `table`, entry [tap][position] is the flat spatial offset; -1: padding; -2: after
/// the padding (the last window of a pool that rounds up).
struct Taps {
  std::vector<int64_t> in, out, kernel, strides, dilations, pads_begin, pads_end;

  int64_t taps() const;
  int64_t positions() const;
  std::vector<int64_t> table() const;
};

}  // namespace weft::window
