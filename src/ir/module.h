// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/op.h"

/// The program, Weft's intermediate representation of a model:
///
///     Program program;
///     Module& main = program.main();
///     Value x = main.parameter("x", {DType::f32, {batch, 64}});
///     Value y = main.append(Softmax{.axis = 1}, {x});      // shapes are inferred, sources inherited
///     main.set_results({{"y", y}});
///
/// A program holds modules: main and the bodies of control flow. A module is an ordered list of instructions, each
/// after all instructions that it reads. Instructions live in an arena: addresses are stable and ids dense.
namespace weft {

struct Instruction;

/// One result of an instruction.
struct Value {
  Instruction* def = nullptr;
  uint32_t index = 0;

  explicit operator bool() const { return def != nullptr; }
  bool operator==(const Value&) const = default;
  const Type& type() const;
  const Shape& shape() const;  ///< shape of a tensor; E141 for other kinds
  DType dtype() const { return shape().dtype; }
  const Dims& dims() const { return shape().dims; }
  int64_t rank() const { return shape().rank(); }
  const std::string& source() const;
};
/// Returns "%12" or "%12.1" and the source: the value's name in profiles and reports, which is the same on all targets.
std::string value_name(Value value);

struct ValueHash {
  size_t operator()(const Value& value) const {
    return std::hash<const void*>()(value.def) ^ size_t { value.index } * 0x9e3779b97f4a7c15;
  }
};

struct Instruction {
  uint32_t id = 0;  ///< dense within the module
  Op op;
  std::vector<Value> inputs;
  std::vector<Module*> modules;  ///< bodies of control flow
  Types types;                   ///< of the results
  std::string source;            ///< "node 12 'cat_3' (Concat)": the place in the model

  // Maintained by Module.
  Module* parent = nullptr;
  Instruction *previous = nullptr, *next = nullptr;
  int64_t order = 0;
  std::vector<Instruction*> users = {};  ///< instructions that read a result, once for each such operand

  bool before(const Instruction* other) const { return order < other->order; }
  Value result(uint32_t index = 0) { return {this, index}; }
  /// Returns the operator if its type is T, else null.
  template <class T>
  const T* as() const {
    return op.as<T>();
  }
  template <class T>
  bool is() const {
    return op.is<T>();
  }
};

class Module;

/// A condition on sizes that cannot be proved while compiling. A run checks it as soon as the sizes have values.
struct Guard {
  enum class Kind : uint8_t { equal, less_equal };
  Kind kind = Kind::equal;
  Dim a, b;
  std::string source;              ///< the node that needs it
  std::string what;                ///< "MatMul: inner sizes"
  const Module* module = nullptr;  ///< the module that needs it; null: main
};

struct Result {
  std::string name;
  Value value;
};

class Program;

class Module {
 public:
  Module(Program& program, std::string name) : program_(program), name_(std::move(name)) {}
  Module(const Module&) = delete;

  Program& program() const { return program_; }
  const std::string& name() const { return name_; }

  /// An iterator in program order: `for (Instruction& i : module)`. The loop body may erase the current instruction.
  class iterator {
   public:
    explicit iterator(Instruction* at) : at_(at), next_(at ? at->next : nullptr) {}
    Instruction& operator*() const { return *at_; }
    iterator& operator++() {
      at_ = next_;
      next_ = at_ ? at_->next : nullptr;
      return *this;
    }
    bool operator==(const iterator& other) const { return at_ == other.at_; }

   private:
    Instruction *at_, *next_;
  };
  iterator begin() const { return iterator(first_); }
  iterator end() const { return iterator(nullptr); }
  size_t size() const { return size_; }
  uint32_t id_limit() const { return static_cast<uint32_t>(arena_.size()); }  ///< all ids are smaller
  Instruction* last() const { return last_; }

  Value parameter(std::string name, Type type);
  const std::vector<Value>& parameters() const { return parameters_; }
  const std::vector<Result>& results() const { return results_; }
  void set_results(std::vector<Result> results);

  /// Appends an instruction at the current place (the end, unless set_place set another), or inserts it before `place`.
  /// Infers its types; if the shape rule throws, adds the current source to the error.
  Value append(Op op, std::vector<Value> inputs, std::vector<Module*> modules = {});
  Value insert_before(Instruction* place, Op op, std::vector<Value> inputs, std::vector<Module*> modules = {});

  /// Replaces `old` in the module's results and in all operands, except operands of the definition of `replacement`.
  void replace(Value old, Value replacement);
  void set_input(Instruction& user, size_t operand, Value value);
  /// Removes an instruction without readers.
  void erase(Instruction& instruction);
  /// Removes instructions if nothing uses their results or the symbols that they set, except parameters and
  /// instructions with side effects. Returns how many.
  size_t remove_dead();
  bool is_result(Value value) const { return result_places_.contains(value); }
  void move_before(Instruction& instruction, Instruction* place);

  /// Returns the instruction before which append inserts; null: append at the end.
  Instruction* place() const { return place_; }
  void set_place(Instruction* place) { place_ = place; }

  const std::string& current_source() const { return source_; }
  void set_current_source(std::string source) { source_ = std::move(source); }

 private:
  void link(Instruction& instruction, Instruction* place);
  void unlink(Instruction& instruction);
  void renumber();
  void replace_result(Value old, Value replacement);
  void remove_unused_sizes(const std::vector<Instruction*>& setters);

  Program& program_;
  std::string name_;
  std::string source_;
  Instruction* place_ = nullptr;
  std::deque<Instruction> arena_;
  Instruction *first_ = nullptr, *last_ = nullptr;
  size_t size_ = 0;
  std::vector<Value> parameters_;
  std::vector<Result> results_;
  std::unordered_map<Value, std::vector<size_t>, ValueHash> result_places_;  // indices of each value among the results
};

/// A scope in which new instructions of `module` get this source.
class SourceScope {
 public:
  SourceScope(Module& module, std::string source) : module_(module), old_(module.current_source()) {
    module.set_current_source(std::move(source));
  }
  ~SourceScope() { module_.set_current_source(std::move(old_)); }
  SourceScope(const SourceScope&) = delete;

 private:
  Module& module_;
  std::string old_;
};

/// A scope in which new instructions of `module` are inserted before `place` and get the source of `place`.
class ReplaceScope {
 public:
  ReplaceScope(Module& module, Instruction& place)
      : module_(module), old_(module.place()), source_(module, place.source) {
    module.set_place(&place);
  }
  ~ReplaceScope() { module_.set_place(old_); }
  ReplaceScope(const ReplaceScope&) = delete;

 private:
  Module& module_;
  Instruction* old_;
  SourceScope source_;
};

class Program {
 public:
  Program();
  Program(Program&&) = delete;

  Module& main() { return *modules_.front(); }
  const Module& main() const { return *modules_.front(); }
  Module& add_module(std::string name);  ///< adds a number if the name is taken
  /// Removes bodies that no instruction runs, and their guards.
  void remove_unused_modules();
  const std::vector<std::unique_ptr<Module>>& modules() const { return modules_; }

  /// Returns the program's symbol with the name of `symbol`; declares `symbol` if there is none.
  Dim symbol(Symbol symbol);
  /// Declares a symbol with an unused name: "d", "d_0", "d_1" ... for the stem "d".
  Dim fresh_symbol(std::string_view stem, int64_t min = 0, int64_t max = INT64_MAX);
  const std::map<std::string, Symbol, std::less<>>& symbols() const { return symbols_; }

  const std::vector<Guard>& guards() const { return guards_; }
  void add_guard(Guard guard);

  /// Replaces symbols by size expressions in all operators, types and guards.
  void replace_symbols(const std::function<Dim(const Symbol&)>& replace);

  struct Mark {
    size_t modules = 0, guards = 0;
  };
  Mark mark() const { return {modules_.size(), guards_.size()}; }
  /// Drops modules and guards added after the mark; nothing else may refer to them.
  void forget_since(Mark mark);

  std::string name;                             ///< model name for messages
  std::map<std::string, Tensor> defaults;       ///< default values of main's parameters; a run may override them
  std::map<std::string, std::string> metadata;  ///< of the model

 private:
  std::vector<std::unique_ptr<Module>> modules_;
  std::map<std::string, Symbol, std::less<>> symbols_;
  std::vector<Guard> guards_;
};

/// A scope in which conditions that shape rules on this thread cannot prove become guards of `module`. The innermost of
/// nested scopes counts. Module::append opens a scope; outside of any scope, such a condition is an error.
class GuardCollector {
 public:
  explicit GuardCollector(Module& module);
  ~GuardCollector();
  GuardCollector(const GuardCollector&) = delete;

  Module& module;

 private:
  GuardCollector* outer_;
};
void require_equal(const Dim& a, const Dim& b, std::string_view what);
void require_less_equal(const Dim& a, const Dim& b, std::string_view what);

/// A scope in which the answers of `assume` on this thread come from `answer`: from a frontend that translates a model
/// again if the sizes of a run need another answer. `module` is that of the innermost GuardCollector.
class AssumptionScope {
 public:
  using Answer =
      std::function<bool(Module& module, Guard::Kind kind, const Dim& a, const Dim& b, std::string_view what)>;
  explicit AssumptionScope(Answer answer);
  ~AssumptionScope();
  AssumptionScope(const AssumptionScope&) = delete;

  Answer answer;

 private:
  AssumptionScope* outer_;
};
/// Returns whether the program may assume that a is equal to b, or at most b. Guards check the answer. Outside of
/// AssumptionScopes it is true, and the condition is required.
bool assume(Guard::Kind kind, const Dim& a, const Dim& b, std::string_view what);

}  // namespace weft
