// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>

#include "lower/lowering.h"

namespace weft {

/// The multiply-accumulate of a matrix kernel (kernels/micro.h): its names there and what it means for buffers.
struct Mac {
  std::string name;       ///< "MacF32"
  std::string tile_name;  ///< text of the tile
  tasks::GemmTile tile;
  DType direct;    ///< type of A that is read in place
  DType packed;    ///< type of packed B
  DType sum;       ///< type of the accumulators
  int group = 1;   ///< elements of k that are multiplied at once
  int header = 0;  ///< units that each panel begins with for other things

  /// Bytes of a unit of A, and of the larger of it and a sum.
  int unit_bytes() const { return group * bits(direct) / 8; }
  int scratch_bytes() const { return std::max(unit_bytes(), bits(sum) / 8); }
  /// Leaves the inner kernels to a part that all kernels of this Mac share.
  void share(KernelBuilder& kernel) const;
  /// Elements of `columns` columns of packed B with this many units of k.
  Dim packed_elements(const Dim& columns, const Dim& units) const;
  /// The address of elements of A, as text, as one of units.
  std::string units_at(const std::string& address) const;
};

/// `direct`, a Mac of 16-bit integers, as MacQuads where that is faster and exact: `count` elements are summed, and
/// those of A and B are at most `most_a` and `most_b` in size.
Mac with_quads(const Lowering& lowering, const Mac& direct, const Dim& count, double most_a, double most_b);
/// For attention of operands of this type.
Mac attention_mac(const Lowering& lowering, DType type);
/// Whether the operands are integers of at most 16 bits (u16 apart), for which the matrix kernels have sums in i32.
bool has_short_product(const Instruction& instruction);
/// For a dot or convolution, by the types of its operands. E131 for types without a matrix kernel.
Mac mac_for(const Lowering& lowering, const Instruction& instruction);

}  // namespace weft
