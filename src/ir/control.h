// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

/// Control flow and run-time sizes. Bodies are modules of the program. A body sees only its parameters and the symbols
/// that have a value there, so a pass may work on one module at a time. docs/control_flow.md has the whole picture.
namespace weft {

/// Gives run-time symbols their values: `symbols[i]` (a plain symbol) is element i of the i64 vector, at least the
/// symbol's `min`, at most its `max` and `most[i]` (E314 otherwise). Afterwards the symbol is a size like any other. No
/// results.
struct Bind {
  static constexpr std::string_view name = "bind";
  Dims symbols = {};
  Dims most = {};  ///< one for each symbol, or none
  static auto fields() { return std::tuple{Field{"symbols", &Bind::symbols}, Field{"most", &Bind::most}}; }
  Types infer(Operands in) const;
  bool operator==(const Bind&) const = default;
};

/// One of two bodies: the first if operand 0 (bool[]) is true. Operands 1 to `first` are the parameters of the first
/// body, the others those of the second. Both give results of these types; where their sizes differ, the size in the
/// type is a plain symbol of `sets`, which gets its value here.
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

/// Runs its body trip after trip: at most `trips` times and, if `conditional`, only while the condition holds.
///
/// Operands: the condition before the first trip (bool[], if conditional), `carried` values, then values that the body
/// reads from outside. Parameters of the body: the carried values, then those from outside. Results of the body: the
/// condition for another trip (if conditional), the carried values, then rows. Results of the loop: the carried values
/// after the last trip, then the rows of all trips stacked along a new axis 0.
///
/// `counter` is the number of the trip inside the body, from 0. A carried size that changes from trip to trip is a
/// plain symbol of `carries` in the parameter's type, and one of `sets` in the result's. `count` is the number of trips
/// made: `trips` itself, or for a conditional loop a symbol of `sets`.
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

/// Instructions of a GPU's program that the processor runs (lower/cpu_parts.h): `part` numbers the programs that were
/// taken out. Operands and results are those of that program. If it sets sizes, its last result holds the values of
/// `sets`; `sizes` are the values of its other symbols.
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

/// Deeper nesting of bodies is refused (E152), because functions recurse over them.
constexpr int max_body_depth = 64;

/// Refuses bodies that are nested too deep or in themselves, or run by two instructions (E152, E158).
void check_nesting(const Program& program);

/// Operands of the instruction that are the parameters of its body number `body`.
std::span<const Value> body_operands(const Instruction& instruction, size_t body);

/// The symbols that an instruction gives values to, for those after it in its module.
const Dims& symbols_set_by(const Instruction& instruction);
/// The symbols that have a value inside its bodies only.
Dims symbols_of_bodies(const Instruction& instruction);
inline bool sets_symbols(const Instruction& i) { return i.is<Bind>() || i.is<If>() || i.is<Loop>() || i.is<CpuPart>(); }

using VisitSymbol = std::function<void(const Symbol&)>;
/// Calls `visit` for each symbol in the operator's fields, the types of the results and the bodies (with repetitions).
void visit_symbols(const Instruction& instruction, const VisitSymbol& visit);

/// Where the guards of a program are decided: when a module is entered, or after the instruction of that module that
/// sets the last of their symbols.
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
