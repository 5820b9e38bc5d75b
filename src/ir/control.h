// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

/// Control flow and run-time sizes. Bodies are modules of the program. A body reads only its parameters and symbols
/// that already have values, so passes may work on one module at a time (docs/control_flow.md).
namespace weft {

/// Gives run-time symbols their values: `symbols[i]` becomes element i of the operand, an i64 vector. A run ends with
/// E314 if the element is below the symbol's `min`, or above its `max` or `most[i]`. Has no results.
struct Bind {
  static constexpr std::string_view name = "bind";
  Dims symbols = {};
  Dims most = {};  ///< empty, or one upper limit for each symbol
  static auto fields() { return std::tuple{Field{"symbols", &Bind::symbols}, Field{"most", &Bind::most}}; }
  Types infer(Operands in) const;
  bool operator==(const Bind&) const = default;
};

/// Runs the first of two bodies if operand 0 (bool[]) is true, else the second. Operands 1 to `first` (inclusive) are
/// the arguments of the first body, the other operands the arguments of the second. Both bodies have results of
/// `types`. A size that differs between the bodies is a symbol of `sets` in `types`; the symbol gets the size from the
/// body that ran.
struct If {
  static constexpr std::string_view name = "if";
  int64_t first = 0;
  Types types = {};
  Dims sets = {};
  static auto fields() {
    return std::tuple{Field{"first", &If::first}, Field{"types", &If::types}, Field{"sets", &If::sets}};
  }
  Types infer(Operands in) const;
  bool operator==(const If&) const = default;
};

/// Runs its body up to `trips` times; if `conditional`, only while the condition is true.
///
/// Operands: the condition for the first trip (bool[], if conditional), `carried` values, then values from outside.
/// Parameters of the body: the carried values, the values from outside. Results of the body: the condition for the next
/// trip (if conditional), the carried values, then scan outputs. Results of the loop: the carried values after the last
/// trip, then for each scan output its values from all trips, stacked along a new axis 0.
///
/// `counter` is the symbol for the trip's number inside the body, from 0. A carried size that changes between trips is
/// a symbol of `carries` in the parameter's type and a symbol of `sets` in the result's type. `count` is the number of
/// trips made: `trips`, or for a conditional loop a symbol of `sets`.
struct Loop {
  static constexpr std::string_view name = "loop";
  Dim counter = 0;
  Dim trips = INT64_MAX;
  Dim count = 0;
  bool conditional = false;
  int64_t carried = 0;
  Types types = {};
  Dims carries = {};
  Dims sets = {};
  static auto fields() {
    return std::tuple{Field{"counter", &Loop::counter}, Field{"trips", &Loop::trips},
                      Field{"count", &Loop::count},     Field{"conditional", &Loop::conditional},
                      Field{"carried", &Loop::carried}, Field{"types", &Loop::types},
                      Field{"carries", &Loop::carries}, Field{"sets", &Loop::sets}};
  }
  Types infer(Operands in) const;
  bool operator==(const Loop&) const = default;
};

/// A part of a GPU's program that runs on the CPU (lower/cpu_parts.h). `part` is the index of the part's own program:
/// its parameters are this instruction's operands, its results this instruction's results. If the part sets sizes, the
/// program has one more result: the values of `sets`. `sizes` are the values of the part's other symbols.
struct CpuPart {
  static constexpr std::string_view name = "cpu_part";
  int64_t part = 0;
  std::string why = {};
  Dims sizes = {};
  Types types = {};
  Dims sets = {};
  static auto fields() {
    return std::tuple{Field{"part", &CpuPart::part}, Field{"why", &CpuPart::why}, Field{"sizes", &CpuPart::sizes},
                      Field{"types", &CpuPart::types}, Field{"sets", &CpuPart::sets}};
  }
  Types infer(Operands in) const;
  bool operator==(const CpuPart&) const = default;
};

/// Limit on the nesting of bodies (E152), because functions recurse over them.
constexpr int max_body_depth = 64;

/// Throws E152 for bodies nested too deep, E158 for a body that runs itself or that several instructions run.
void check_nesting(const Program& program);

/// Returns the operands that are the arguments of body number `body`.
std::span<const Value> body_operands(const Instruction& instruction, size_t body);

/// Returns the symbols that an instruction sets for the instructions after it.
const Dims& symbols_set_by(const Instruction& instruction);
/// Returns the symbols that have a value only inside the instruction's bodies.
Dims symbols_of_bodies(const Instruction& instruction);
inline bool sets_symbols(const Instruction& i) { return i.is<Bind>() || i.is<If>() || i.is<Loop>() || i.is<CpuPart>(); }

using VisitSymbol = std::function<void(const Symbol&)>;
/// Calls `visit` for each symbol in the operator's fields, the result types and the bodies, at each occurrence.
void visit_symbols(const Instruction& instruction, const VisitSymbol& visit);

/// The places where guards are checked: on entry to a module, or after the instruction that sets a guard's last symbol.
class GuardPlaces {
 public:
  explicit GuardPlaces(const Program& program);
  using Guards = std::vector<const Guard*>;
  const Guards& on_entry(const Module& module) const { return find(&module); }
  const Guards& after(const Instruction& instruction) const { return find(&instruction); }

 private:
  const Guards& find(const void* place) const;
  std::unordered_map<const void*, Guards> places_;
};

}  // namespace weft
