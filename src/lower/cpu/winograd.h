// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "lower/cpu/mac.h"
#include "lower/window.h"

namespace weft {

class Lowering;
struct Instruction;
struct View;

/// Whether a convolution is computed by minimal filtering (kernels/winograd.h), and how.
struct WinogradChoice {
  int out = 0;            ///< side of a tile of results; 0: not at all
  std::string form = {};  ///< the kernel's Form
  Mac mac = {};           ///< what multiplies the transformed values
  std::string why = {};   ///< of the choice or of the refusal; empty for convolutions of another kind
};

/// Compares tiles of 4 x 4 and of 2 x 2 with the direct kernel by an estimate of their time, or by measurements. Floats
/// are f32; integers are taken where the bounds of pixels and weights prove the result exact. `x` is how the pixels
/// lie.
WinogradChoice choose_winograd(Lowering& lowering, const Instruction& convolution, const Window& window,
                               const Mac& direct, const View& x);

}  // namespace weft
