// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <span>
#include <string>
#include <vector>

#include "runtime/executable.h"

/// From the inputs of a request to the values of the symbolic sizes. Knows only ports and sizes, so every target's
/// runtime shares it:
///
///     std::vector<Tensor> full = with_defaults(ports, inputs);
///     SymbolValues values = bind_symbols(ports, full);       // E310, E311, E312
///     check_sizes(checks, values);                           // E312
///     std::vector<int64_t> dims = values.dims(shape.dims);
namespace weft {

/// The number that each symbol stands for in one request.
class SymbolValues {
 public:
  void set(const std::string& name, int64_t value) { values_[name] = value; }
  const int64_t* find(const std::string& name) const;
  /// E312 for a symbol that no input binds.
  int64_t operator()(const Symbol& symbol) const;
  int64_t evaluate(const Dim& dim) const;
  std::vector<int64_t> dims(const Dims& dims) const;
  bool operator==(const SymbolValues&) const = default;
  const std::map<std::string, int64_t, std::less<>>& all() const { return values_; }

 private:
  std::map<std::string, int64_t, std::less<>> values_;
};

/// The inputs with the defaults of those that were left out: a tensor without memory (`Tensor{}`), or none at the end.
/// E310 when too many or too few are given.
std::vector<Tensor> with_defaults(std::span<const Port> ports, std::span<const Tensor> inputs);

/// Solves the sizes of the ports for their symbols. Throws E310 for a wrong type or rank, E311 for a size outside its
/// range, E312 for sizes that contradict each other; each names the input.
/// With `known`, these are the symbols' values, and the sizes only have to fit.
SymbolValues bind_symbols(std::span<const Port> ports, std::span<const Tensor> inputs,
                          const SymbolValues* known = nullptr);

/// The sizes of an output for these inputs; -1 for run-time sizes. Throws as
/// bind_symbols does.
std::vector<int64_t> output_sizes(std::span<const Port> inputs, const Port& output, std::span<const Tensor> given);

/// True for plans with random operators that have no seed of their own: each run gives `run_seed` another number.
bool is_random(const Plan& plan);

/// E312 with the node and both values for a condition that does not hold.
void check_sizes(std::span<const SizeCheck> checks, const SymbolValues& values);

}  // namespace weft
