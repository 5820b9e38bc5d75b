// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

namespace weft {

/// Long chains of elementwise functions between bytes become tables of 256 bytes, whose entries are as exact as the
/// reference.
///
///     quantize (sigmoid (dequantize %x)), %s, %z          ->   lookup %x, %table
///     quantize (mul (dequantize %x), (dequantize %y)), %s, %z where %y is a table of %x
///     ->
///     lookup %x, %other
bool byte_tables(Module& module);

}  // namespace weft
