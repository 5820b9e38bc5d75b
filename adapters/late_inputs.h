// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "weft/weft.hpp"

/// Inputs of a model whose values decide what there is to compile: axes, scales, pads, conditions of branches. Whether
/// the model compiles at all is found with guesses; the program is made for the value of a run.
///
///     Guesses guesses([](LateInput& input) { return is_given_by_the_caller(input.name); });
///     for (auto values = guesses.next(error); values; values = guesses.next(error)) {
///       try { return compile(model, *values); } catch (const Error& again) { error = again; }
///     }
namespace weft::adapters {

/// Inputs by name, with what they are fixed to.
using Values = std::vector<std::pair<std::string, Tensor>>;

struct LateInput {
  std::string name;
  weft_dtype type = WEFT_I64;      ///< WEFT_BOOL: a condition one of whose branches does not compile
  std::vector<int64_t> dims = {};  ///< none, or one; -1 while it is open
  std::string op = {};             ///< of the node that wants to know it
  size_t operand = 0;              ///< of that node
};

/// The input that the compiler wanted to know, if it is a number or a list of them.
std::optional<LateInput> wanted_input(const Error& error);

/// Guesses for one input after another, as the compiler asks for them.
class Guesses {
 public:
  /// `may_wait`: whether the caller will know this input in a run; it may settle a length that is open.
  explicit Guesses(std::function<bool(LateInput&)> may_wait) : may_wait_(std::move(may_wait)) {}

  /// What to compile with next, after `error`; nothing when that is to be final.
  std::optional<Values> next(const Error& error);
  const std::vector<LateInput>& inputs() const { return inputs_; }

 private:
  enum class Guess { usual, ones, zeros };

  static std::vector<int64_t> numbers(const LateInput& input, Guess guess);
  Values values() const;

  std::function<bool(LateInput&)> may_wait_;
  std::vector<LateInput> inputs_ = {};
  Guess guess_ = Guess::usual;
};

/// The values as text: a key for what is compiled for them.
std::string key_of(const Values& values);

}  // namespace weft::adapters
