// SPDX-License-Identifier: Apache-2.0
#pragma once
/// The multiply-accumulates of the CPU's matrix kernels. micro.h computes them; the host packs operands and chooses by
/// the same table.
///
/// MAC(class, its name, element type of A that is read in place, stored element type of B, type of sums, elements of k
/// in a unit, units in the header of each panel). The header holds initial values of sums.
///
/// MacInt16 and MacQuads also take B stored as i8. MacBf16 is like MacBf16Pairs if the processor multiplies bf16 pairs.
#define WEFT_FOR_MACS(MAC)                            \
  MAC(MacF32, "MacF32", f32, f32, f32, 1, 0)          \
  MAC(MacF64, "MacF64", f64, f64, f64, 1, 0)          \
  MAC(MacF16, "MacF16", f32, f16, f32, 1, 0)          \
  MAC(MacBf16, "MacBf16", f32, bf16, f32, 1, 0)       \
  MAC(MacBf16Pairs, "MacBf16", bf16, bf16, f32, 2, 0) \
  MAC(MacInt16, "MacInt16", i16, i16, i32, 2, 0)      \
  MAC(MacQuads, "MacQuads", i16, i16, i32, 4, 1)      \
  MAC(MacInt8, "MacInt8", u8, i8, i32, 4, 0)
