// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <span>
#include <string>
#include <vector>

#include "runtime/executable.h"

/// Functions that compute the values of the symbolic sizes from the inputs of a run. All targets use them:
///
///     std::vector<Tensor> full = with_defaults(ports, inputs);
///     SymbolValues values = bind_symbols(ports, full);       // E310, E311, E312
///     check_sizes(checks, values);                           // E312
///     std::vector<int64_t> dims = values.dims(shape.dims);
namespace weft {

/// The number of each symbol in one run.
class SymbolValues {
 public:
  void set(const std::string& name, int64_t value) { values_[name] = value; }
  const int64_t* find(const std::string& name) const;
  /// Returns a symbol's number; throws E312 if the symbol has none.
  int64_t operator()(const Symbol& symbol) const;
  int64_t evaluate(const Dim& dim) const;
  std::vector<int64_t> dims(const Dims& dims) const;
  bool operator==(const SymbolValues&) const = default;
  const std::map<std::string, int64_t, std::less<>>& all() const { return values_; }

 private:
  std::map<std::string, int64_t, std::less<>> values_;
};

/// Returns the inputs with default values for those that the caller left out (an empty `Tensor{}`, or missing at the
/// end). Throws E310 for too many inputs, and for a missing input without a default value.
std::vector<Tensor> with_defaults(std::span<const Port> ports, std::span<const Tensor> inputs);

/// Solves the sizes of the ports for their symbols. Throws E310 for a wrong type or rank, E311 for a size outside its
/// range, E312 for sizes that contradict each other; the errors name the input. Symbols in `known` keep their values,
/// with which the sizes must agree.
SymbolValues bind_symbols(std::span<const Port> ports, std::span<const Tensor> inputs,
                          const SymbolValues* known = nullptr);

/// Returns the sizes of an output for these inputs; -1 for sizes that the run computes. Throws as bind_symbols does.
std::vector<int64_t> output_sizes(std::span<const Port> inputs, const Port& output, std::span<const Tensor> given);

/// True if the plan uses the symbol `run_seed`, to which each run gives another number (base/random.h).
bool is_random(const Plan& plan);

/// Throws E312, with the node and both values, if one of the conditions does not hold.
void check_sizes(std::span<const SizeCheck> checks, const SymbolValues& values);

}  // namespace weft
