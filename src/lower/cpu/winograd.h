// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "lower/cpu/mac.h"
#include "lower/window.h"

namespace weft {

class Lowering;
struct Instruction;
struct View;

/// Whether and how a convolution uses Winograd's minimal filtering (kernels/winograd.h).
struct WinogradChoice {
  int out = 0;            ///< side of an output tile: 4 or 2; 0: Winograd is not used
  std::string form = {};  ///< template argument `Form` of the kernel
  Mac mac = {};           ///< multiplies the transformed values
  std::string why = {};   ///< why Winograd was chosen or refused; empty if it does not apply
};

/// Chooses between Winograd F(4x4,3x3), F(2x2,3x3) and the direct kernel, by estimates or measurements. Floats need f32
/// sums. Integers need bounds of pixels and weights that prove the result exact. `x`: the view of the pixels.
WinogradChoice choose_winograd(Lowering& lowering, const Instruction& convolution, const Window& window,
                               const Mac& direct, const View& x);

}  // namespace weft
