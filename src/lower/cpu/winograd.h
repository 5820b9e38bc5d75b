// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "lower/cpu/mac.h"
#include "lower/window.h"

namespace weft {

class Lowering;
struct Instruction;
struct View;

/// Whether a convolution uses minimal filtering (kernels/winograd.h), and how.
struct WinogradChoice {
  int out = 0;            ///< side of a tile of results; 0: not used
  std::string form = {};  ///< the kernel's Form
  Mac mac = {};           ///< multiplies the transformed values
  std::string why = {};   ///< the reason for the choice or the refusal; empty for other kinds of convolutions
};

/// Chooses between tiles of 4 x 4, of 2 x 2 and the direct kernel, by estimates or by measurements. Floats must be f32.
/// Integers are taken if the bounds of pixels and weights prove the result exact. `x`: the layout of the pixels.
WinogradChoice choose_winograd(Lowering& lowering, const Instruction& convolution, const Window& window,
                               const Mac& direct, const View& x);

}  // namespace weft
