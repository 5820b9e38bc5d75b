// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <optional>

#include "kernels/macs.h"
#include "lower/lowering.h"

namespace weft {

/// A row of kernels/macs.h.
struct MacRow {
  const char* class_name;
  DType direct;  ///< type of A that is read in place
  DType packed;  ///< type of packed B
  DType sum;     ///< type of the accumulators
  int group;     ///< elements of k that are multiplied at once
  int header;    ///< units at the start of each panel that are no weights
};
namespace macs {
#define WEFT_MAC_ROW(row, name, direct, packed, sum, group, header) \
  inline constexpr MacRow row{name, DType::direct, DType::packed, DType::sum, group, header};
WEFT_FOR_MACS(WEFT_MAC_ROW)
#undef WEFT_MAC_ROW
}  // namespace macs

/// The multiply-accumulate of a matrix kernel: its names in kernels, and its requirements on buffers.
struct Mac : MacRow {
  Mac() : Mac(macs::MacF32, "native_tile", {}) {}
  /// `stored`: the type of B, for rows of the table that allow several.
  Mac(const MacRow& row, std::string tile_text, const tasks::GemmTile& tile_of, std::optional<DType> stored = {})
      : MacRow(row),
        name(stored ? cat(row.class_name, "<", *stored, ">") : row.class_name),
        tile_name(std::move(tile_text)),
        tile(tile_of) {
    packed = stored.value_or(packed);
  }

  std::string name;       ///< "MacF32", "MacInt16<i8>"
  std::string tile_name;  ///< text of the tile
  tasks::GemmTile tile;

  /// Bytes of a unit of A, and of the larger of it and a sum.
  int unit_bytes() const { return group * bits(direct) / 8; }
  int scratch_bytes() const { return std::max(unit_bytes(), bits(sum) / 8); }
  /// Declares the inner kernels as a part that all kernels of this Mac share.
  void share(KernelBuilder& kernel) const;
  /// The elements of `columns` columns of packed B with this many units of k.
  Dim packed_elements(const Dim& columns, const Dim& units) const;
  /// The name of the product in kernels/gemm.h for sums of k elements and an epilogue of so many instructions.
  std::string gemm(const Dim& k, size_t epilogue) const;
  /// The address of elements of A, as text, cast to units.
  std::string units_at(const std::string& address) const;
};

/// MacQuads instead of `direct`, a Mac of 16-bit integers, if that is faster and exact: `count` elements are summed,
/// and elements of A and B are at most `max_a` and `max_b`.
Mac with_quads(const Lowering& lowering, const Mac& direct, const Dim& count, double max_a, double max_b);
/// The Mac for attention with operands of this type.
Mac attention_mac(const Lowering& lowering, DType type);
/// Whether the operands are integers of at most 16 bits (u16 apart), for which the matrix kernels have sums in i32.
bool has_short_product(const Instruction& instruction);
/// The Mac for a dot or convolution, by the types of its operands. E149 for types without a matrix kernel.
Mac mac_for(const Lowering& lowering, const Instruction& instruction);

}  // namespace weft
