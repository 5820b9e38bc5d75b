// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weft/weft.hpp"

/// Joins several requests of one program into one run, and splits the outputs of that run:
///
///     BatchRule rule = find_batch_rule(program);           // which sizes may differ
///     Joiner joiner(program);
///     auto answers = split(rule, context.run(joiner.join(requests)), requests);
namespace weft::serve {

/// One axis of one input or output.
struct Axis {
  size_t port = 0, axis = 0;
};

/// The rule by which requests of a program may share a run. The first axis of every output, and of every input without
/// a default, counts rows.
struct BatchRule {
  bool joins = false;       ///< rows of several requests go into one run
  std::string reason = {};  ///< why rows are not joined, or sequences not padded; else ""
  int64_t max_rows = 0;     ///< the most rows that the program accepts
  std::string length = {};  ///< the symbol of the padded size; "": no padding, different sizes do not share a run
  std::vector<Axis> inputs = {}, outputs = {};  ///< the axes that have the size `length`
};

/// The inputs of a request; an input that is left out is a Tensor without memory.
using Inputs = std::vector<Tensor>;

/// Returns the number of rows of a request: the first size of its first input with memory.
int64_t rows_of(const Inputs& request);
/// Returns the length of the request's sequences; 0 if `rule` pads nothing.
int64_t length_of(const BatchRule& rule, const Inputs& request);
/// True if two requests of the rule's program can share a run. Their lengths may differ by a factor of two at most,
/// because padding costs time.
bool fit_together(const BatchRule& rule, const Inputs& a, const Inputs& b);

/// Concatenates the rows of requests in memory that the program's device reads fastest. Memory is reused once no tensor
/// uses it, because fresh memory costs a page fault for each 4 KiB.
class Joiner {
 public:
  /// Memory that tensors share. `data` is its address; null before the first use.
  struct Memory {
    std::shared_ptr<Tensor> tensor = {};  // u8[size of the memory in bytes]
    std::byte* data = nullptr;
  };

  explicit Joiner(Program program) : program_(std::move(program)) {}
  /// Returns one batch with the rows of all requests; shorter sequences are padded with zeros at their end.
  Inputs join(std::span<const Inputs* const> requests);

 private:
  Program program_;
  std::vector<Memory> memory_;  // for each input
};

/// Returns the part of the outputs that belongs to each request, without padding.
std::vector<std::vector<Tensor>> split(const BatchRule& rule, std::span<const Tensor> outputs,
                                       std::span<const Inputs* const> requests);

}  // namespace weft::serve
