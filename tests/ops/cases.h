// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ir/module.h"

/// Operator cases as text, one file for each family of operators:
///
///     # anything after a hash
///     softmax {axis=1}                      the operator and its fields; T stands for the type
///       types f32 f16                       each case runs with each of these
///       x [2,257] [1,1] [n=4,0]             one-operand cases; n is a symbolic size that is 4 when run
///     gather {axis=0}
///       types f32
///       shapes [5,3] i64[2]{-1, 0}          one case with several operands; a type of its own, given elements
///       fill 0.1 2                          elements are in this range, not in -2 to 2 (integers: -4 to 7, unsigned
///                                           0 to 7); booleans and integers of 4 bits have their whole range
///       tolerance 1e-3                      instead of the type's usual tolerance
namespace weft::cases {

struct Operand {
  std::string type;  ///< of the parameter: "f32[n,8]"
  Tensor value;
};

/// One program and its inputs.
struct Case {
  std::string name;  ///< "softmax {axis=1} f32[2,257]"
  std::string op;
  DType type = DType::f32;
  std::string program;  ///< in the text form
  std::vector<Operand> operands;
  double tolerance = 0;
};

using Wanted = std::function<bool(const std::string& name)>;

/// Returns the wanted cases of a file, in order. Inputs are drawn with a seed from the case's name. Each case is
/// returned once.
std::vector<Case> read_cases(const std::filesystem::path& path, const Wanted& wanted);

}  // namespace weft::cases
