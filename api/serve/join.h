// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weft/weft.hpp"

/// Joins several requests of one program into one run, and splits its answers:
///
///     BatchRule rule = find_batch_rule(program, {});       // which sizes may differ
///     Joiner joiner(program);
///     auto answers = split(rule, context.run(joiner.join(requests)), requests);
namespace weft::serve {

/// One axis of one input or output.
struct Axis {
  size_t port = 0, axis = 0;
};

/// Which requests of a program may be computed in one run. Rows lie along the first axis of every input and output.
struct BatchRule {
  bool joins = false;       ///< rows of several requests go into one run
  std::string reason = {};  ///< why not, or why sequences are not padded; "" when there is nothing to say
  int64_t most_rows = 0;    ///< that the program takes
  std::string length = {};  ///< the size that is padded behind a mask; "": requests of other sizes run apart
  std::vector<Axis> inputs = {}, outputs = {};  ///< the axes that have this length
};

/// The inputs of a request; an input that is left out is a Tensor without memory.
using Inputs = std::vector<Tensor>;

/// Rows of a request that `rule` joins.
int64_t rows_of(const Inputs& request);
/// The length of its sequences; 0 where nothing is padded.
int64_t length_of(const BatchRule& rule, const Inputs& request);
/// Whether two requests of the rule's program can share a run. Of two lengths the greater is at most twice the other,
/// so that padding never costs more than the work itself.
bool fit_together(const BatchRule& rule, const Inputs& a, const Inputs& b);

/// Concatenates the rows of requests, in memory that runs of the program read fastest. It serves the next call when
/// nobody uses it any more: fresh memory would cost a page fault for each 4 KiB.
class Joiner {
 public:
  /// Memory that tensors share; `data` is null before its first use.
  struct Memory {
    std::shared_ptr<Tensor> tensor = {};  // u8[size]
    std::byte* data = nullptr;
  };

  explicit Joiner(Program program) : program_(std::move(program)) {}
  /// One batch with the rows of all requests; shorter sequences are padded with zeros at their end.
  Inputs join(std::span<const Inputs* const> requests);

 private:
  Program program_;
  std::vector<Memory> memory_;  // of each input
};

/// The part of the outputs that belongs to each request, without padding.
std::vector<std::vector<Tensor>> split(const BatchRule& rule, std::span<const Tensor> outputs,
                                       std::span<const Inputs* const> requests);

}  // namespace weft::serve
