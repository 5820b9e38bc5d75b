// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compile.h"

/// Parses options from text, for the command line and for interfaces that pass options as text.
namespace weft {

/// Parses sizes of inputs in any of the forms below. `..` gives a range; `?` keeps the size of the model:
///
///     x=1,3,224,224      x=1..8,3,224,224      x=1..8:4,3,224,224 (min..max:usual)      x=?,128
///     x:1x3x224x224,mask:1x128
///     x[1,3,224,224],mask[1,128]
///
/// Throws E203.
std::vector<ShapeRequest> parse_shapes(std::string_view text);

/// Parses a symbol and its value: "batch=4". Throws E203.
std::pair<std::string, int64_t> parse_symbol(std::string_view text);

/// Parses the names of an input and an output: "past=present". Throws E203.
DonationRequest parse_donation(std::string_view text);

/// Parses "f32", "fp32", "float32", "bf16", "bfloat16", "f16", "fp16", "float16" or "half". Throws E203.
Precision parse_precision(std::string_view text);
std::string_view name(Precision precision);

/// Parses a number of bytes: "4GiB", "512 MB", "64k", "1048576". The units k, K, M, G and KiB to TiB are powers of
/// 1024; kB, KB, MB, GB and TB are powers of 1000. `what` names the option in the error. Throws E203.
int64_t parse_bytes(std::string_view text, std::string_view what);

/// Parses a whole number; `what` names the option in the error. Throws E203.
int64_t parse_number(std::string_view text, std::string_view what);

}  // namespace weft
