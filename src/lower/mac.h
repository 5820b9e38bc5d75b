// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "lower/lowering.h"

namespace weft {

/// The multiply-accumulate of a matrix kernel (kernels/micro.h): its names there and what it means for buffers.
struct Mac {
  std::string name;       ///< "MacF32"
  std::string tile_name;  ///< text of the tile
  tasks::GemmTile tile;
  DType direct;   ///< type of A that is read in place
  DType packed;   ///< type of packed B
  DType sum;      ///< type of the accumulators
  int group = 1;  ///< elements of k that are multiplied at once

  /// The address of elements of A, as text, as one of units.
  std::string units_at(const std::string& address) const;
};

/// Whether the operands are integers of at most 16 bits (u16 apart), for which the matrix kernels have sums in i32.
bool has_short_product(const Instruction& instruction);
/// For a dot or convolution, by the types of its operands. E131 for types without a matrix kernel.
Mac mac_for(const Lowering& lowering, const Instruction& instruction);

}  // namespace weft
