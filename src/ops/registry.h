// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/op.h"

namespace weft {

/// Every operator of the IR, by name. Adding one: its struct in ops/ and its line in registry.cpp.
std::span<const OpInfo* const> all_ops();

/// An operator from its text form: name (or an elementwise function's) and fields. E120 with the nearest names when
/// unknown.
Op make_op(std::string_view name, std::span<const Attribute> attributes, const ParseContext& context);

}  // namespace weft
