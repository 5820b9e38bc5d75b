// SPDX-License-Identifier: Apache-2.0
#include "passes/byte_tables.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "ir/core_ops.h"
#include "ops/build.h"
#include "ops/lookup.h"
#include "ops/quantize.h"
#include "ops/wide.h"
#include "passes/match.h"

namespace weft {
namespace {

constexpr int64_t count = 256;

/// An elementwise function of the 8-bit value `of`, as its 256 results.
struct Function {
  Value of;
  Wide numbers;
  int work = 0;  ///< estimated number of machine instructions from `of` to the value
};

bool has_real_numbers(const Instruction& i) {
  return i.types.size() == 1 && i.types[0].is_tensor() && !is_complex(i.types[0].shape.dtype) &&
         i.types[0].shape.dtype != DType::string;
}

/// Estimates the machine instructions of `i`: 4 for quantize and lookup, 8 for functions such as exp, 1 for short
/// functions such as add and round, 0 for other operators.
int own_work(const Instruction& i) {
  if (i.is<Quantize>() || i.is<Lookup>()) return 4;
  const auto* op = i.as<Elementwise>();
  if (!op) return 0;
  bool is_short = info(op->fn).accepts != FnInfo::Accepts::real || op->fn == Fn::round || op->fn == Fn::reciprocal;
  return is_short ? 1 : 8;
}

class Tables {
 public:
  explicit Tables(Module& module) : module_(module) {}

  bool run() {
    constexpr int long_chain = 8;
    bool changed = false;
    for (Instruction& i : module_) {
      if (!has_real_numbers(i) || i.is<Constant>()) continue;
      auto found = function_of(i);
      bool is_new = found && is_byte(i.types[0].shape.dtype) && found->work >= long_chain && !i.is<Lookup>();
      if (!found && is_byte(i.types[0].shape.dtype)) found = Function{i.result(), all_bytes(i.types[0].shape.dtype)};
      if (found) functions_[&i] = *found;
      if (!is_new) continue;
      ReplaceScope scope(module_, i);
      Value table = module_.append(Lookup{}, {found->of, constant(module_, to_tensor(found->numbers))});
      functions_[table.def] = *found;
      module_.replace(i.result(), table);
      changed = true;
    }
    return changed;
  }

 private:
  static Wide all_bytes(DType type) {
    std::vector<int64_t> numbers(count);
    for (int64_t i = 0; i < count; ++i) numbers[i] = wrap(type, i);
    return make_wide(type, {count}, std::move(numbers));
  }

  /// Returns `number`, repeated for each element that an operand of `i` must have: 256 for Elementwise, else 1.
  static Wide known(const Instruction& i, DType type, double number) {
    int64_t elements = i.is<Elementwise>() ? count : 1;
    Wide one = to_wide(make_tensor(type, {1}, std::span<const double>(&number, 1)));
    return read_strided(one, {elements}, 0, std::vector<int64_t>{0});
  }

  /// Returns the numbers of a constant operand of `i`, or the 256 results of an operand that is a known function. Sets
  /// `result.of` to the function's 8-bit value; returns nothing if `result.of` is already another value.
  std::optional<Wide> operand(const Instruction& i, Value value, Function& result) const {
    if (auto number = value.type().is_tensor() ? splat_number(value) : std::nullopt)
      return known(i, value.dtype(), *number);
    if (i.is<Lookup>() && value == i.inputs[1]) {
      const auto* table = value.def->as<Constant>();
      return table ? std::optional(to_wide(table->tensor)) : std::nullopt;
    }
    auto found = functions_.find(value.def);
    if (found == functions_.end() || (result.of && result.of != found->second.of)) return std::nullopt;
    result.of = found->second.of;
    result.work = std::max(result.work, found->second.work);
    return found->second.numbers;
  }

  std::optional<Function> function_of(const Instruction& i) const {
    const auto* quantize = i.as<Quantize>();
    const auto* dequantize = i.as<Dequantize>();
    bool is_each = i.is<Elementwise>() || i.is<Convert>() || i.is<Bitcast>() || i.is<Lookup>() ||
                   (quantize && quantize->block == 0) || (dequantize && dequantize->block == 0);
    if (!is_each) return std::nullopt;
    Function result;
    std::vector<Wide> in;
    for (const Value& input : i.inputs) {
      auto numbers = operand(i, input, result);
      if (!numbers) return std::nullopt;
      in.push_back(std::move(*numbers));
    }
    if (!result.of) return std::nullopt;
    result.numbers = i.op.info().evaluate(i.op, in)[0];
    result.work += own_work(i);
    return result;
  }

  Module& module_;
  std::unordered_map<const Instruction*, Function> functions_;
};

}  // namespace

bool byte_tables(Module& module) { return Tables(module).run(); }

}  // namespace weft
