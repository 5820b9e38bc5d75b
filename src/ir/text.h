// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "ir/module.h"

/// The text form of programs, which parses back to the same program:
///
///     program "digits"
///     symbol batch min=1 max=64
///     module main {
///       %0 = parameter {name="x", type=f32[batch,64]} : f32[batch,64]
///       %1 = constant {value=f32[]{2}} : f32[]
///       %2 = broadcast %1 {dims=[batch, 64]} : f32[batch,64]
///       %3 = mul %0, %2 : f32[batch,64]  // from "node 0 'scale' (Mul)"
///       return "y"=%3
///     }
///
/// The second and third result of an instruction are `%4.1`, `%4.2`; bodies of control flow follow the operands as
/// `[module, ...]`. The parser accepts any word after `%`.
namespace weft {

std::string print(const Program& program, const PrintContext& context = {});
/// Prints one instruction; operands are named by their ids.
std::string print(const Instruction& instruction);

/// An operator in text form, "softmax {axis=1}"; the names point into the text.
struct OpText {
  std::string_view name;
  std::vector<Attribute> attributes;
};
OpText parse_op_text(std::string_view text);  ///< throws E191 if malformed

using OpFactory = std::function<Op(std::string_view name, std::span<const Attribute>, const ParseContext&)>;

/// Parses a program. Throws E191 with the line for malformed text, and the errors of the shape rules. `blob_of` returns
/// a large constant by the name that PrintContext::name_blob gave it.
std::unique_ptr<Program> parse_program(std::string_view text, const OpFactory& make_op,
                                       std::function<Tensor(std::string_view)> blob_of = {});

}  // namespace weft
