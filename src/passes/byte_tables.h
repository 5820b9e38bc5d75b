// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

namespace weft {

/// Replaces long chains of elementwise functions from a byte to a byte by lookups in tables of 256 bytes. The tables
/// are computed as the reference computes the functions.
///
///     quantize (sigmoid (dequantize %x)), %s, %z          ->   lookup %x, %table
///     quantize (mul (dequantize %x), (dequantize %y)), %s, %z where %y = lookup %x, %table
///     ->
///     lookup %x, %other
bool byte_tables(Module& module);

}  // namespace weft
