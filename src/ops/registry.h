// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/op.h"

namespace weft {

/// Returns the function tables of all operators. To add an operator, add a struct to ops/ and a line to registry.cpp.
std::span<const OpInfo* const> all_ops();

/// Makes an operator from its name (or the name of an elementwise function) and fields. Throws E120 with similar names
/// for an unknown name.
Op make_op(std::string_view name, std::span<const Attribute> attributes, const ParseContext& context);

}  // namespace weft
