// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <optional>

#include "kernels/macs.h"
#include "lower/lowering.h"

namespace weft {

/// A multiply-accumulate: one row of the table in kernels/macs.h.
struct MacRow {
  const char* class_name;
  DType direct;  ///< type of A if the kernel reads it in place
  DType packed;  ///< type of B after packing
  DType sum;     ///< type of the accumulators
  int group;     ///< elements of k that one instruction multiplies: a unit
  int header;    ///< units at the start of each panel that hold initial values of sums
};
namespace macs {
#define WEFT_MAC_ROW(row, name, direct, packed, sum, group, header) \
  inline constexpr MacRow row{name, DType::direct, DType::packed, DType::sum, group, header};
WEFT_FOR_MACS(WEFT_MAC_ROW)
#undef WEFT_MAC_ROW
}  // namespace macs

/// A multiply-accumulate with the tile of its matrix kernel.
struct Mac : MacRow {
  Mac() : Mac(macs::MacF32, "native_tile", {}) {}
  /// `stored`: the type of packed B, if the table's row allows several.
  Mac(const MacRow& row, std::string tile_text, const tasks::GemmTile& tile_of, std::optional<DType> stored = {})
      : MacRow(row),
        name(stored ? cat(row.class_name, "<", *stored, ">") : row.class_name),
        tile_name(std::move(tile_text)),
        tile(tile_of) {
    packed = stored.value_or(packed);
  }

  std::string name;       ///< "MacF32", "MacInt16<i8>"
  std::string tile_name;  ///< C++ text of the tile
  tasks::GemmTile tile;

  /// Return the bytes of a unit of A, and the larger of the bytes of a unit and of a sum.
  int unit_bytes() const { return group * bits(direct) / 8; }
  int scratch_bytes() const { return std::max(unit_bytes(), bits(sum) / 8); }
  /// Declares the inner kernels as a part that is compiled once for all kernels with this Mac.
  void share(KernelBuilder& kernel) const;
  /// Returns the number of elements of B when it is packed into panels, for `columns` columns and `units` units of k.
  Dim packed_elements(const Dim& columns, const Dim& units) const;
  /// True if k and the number of `epilogue` instructions allow the template argument `is_short` (kernels/gemm.h).
  bool is_short(const Dim& k, size_t epilogue) const;
  /// Returns the text of an address of A cast to a pointer to units.
  std::string units_at(const std::string& address) const;
};

/// Returns an upper bound of |a| for the elements a of an integer product's first operand and for the padding value.
double largest_of_a(const Instruction& instruction);
/// Returns MacQuads instead of `direct` (16-bit integers) if it is faster, exact for |a| <= `max_a` and |b| <= `max_b`,
/// and `count` (the products of a sum) fills whole quads.
Mac with_quads(const Lowering& lowering, const Mac& direct, const Dim& count, double max_a, double max_b);
Mac attention_mac(const Lowering& lowering, DType type);
/// True if both operands are u8, i8 or i16; matrix kernels sum their products in i32.
bool has_short_product(const Instruction& instruction);
/// Returns the Mac for the operand types of a dot or convolution; E149 for types without a matrix kernel.
Mac mac_for(const Lowering& lowering, const Instruction& instruction);

}  // namespace weft
