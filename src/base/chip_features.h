// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "base/chip.h"
#include "base/dtype.h"

/// What a chip's arithmetic units take.
namespace weft {

/// True if the CPU has products of this type with sums in f32; else values are widened first.
bool multiplies(DType type, const Chip& chip);
/// True if the CPU has products of u8 by i8 with sums in i32 (VNNI).
bool multiplies_bytes(const Chip& chip);
/// True if the CPU's matrix unit has them (AMX).
bool multiplies_tiles(const Chip& chip);

/// The name by which chip_named gives this chip, but for the processor that it is tuned for.
std::string chip_name(const Chip& chip);

}  // namespace weft
