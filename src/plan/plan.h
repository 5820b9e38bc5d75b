// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/chip.h"
#include "base/decision.h"
#include "base/hash.h"
#include "base/host_call.h"
#include "base/library_call.h"
#include "base/port.h"
#include "base/shape.h"
#include "base/tensor.h"

/// A compiled program as plain data. Lowering and planning produce it, saved programs hold it, and the runtime executes
/// it. Sizes are expressions; a context evaluates them when its inputs arrive.
namespace weft {

/// A condition on sizes that could not be proved while compiling.
struct SizeCheck {
  bool equal = true;  ///< a == b, else a <= b
  Dim a = 0, b = 0;
  std::string source = {};  ///< the node of the model that needs it
  std::string what = {};    ///< "matmul: inner sizes of f32[a,2] and f32[b,3]"
};

enum class BufferKind : uint8_t {
  input,       ///< the caller's, number `index` of the inputs
  output,      ///< the caller's or the library's, number `index` of the outputs
  constant,    ///< number `index` of the constants
  persistent,  ///< computed once when the program is loaded (packed weights), shared by all contexts
  arena,       ///< working memory of a context, placed before the run starts
  dynamic,     ///< working memory whose size is only known during the run: taken when a step writes it
  value,       ///< a sequence, optional or map between steps of the host, on GPUs strings too: no memory to place
  mailbox,     ///< GPUs: the context's memory through which ranks exchange values (kernels/mailbox.h)
};

struct PlanBuffer {
  BufferKind kind = BufferKind::arena;
  int index = 0;
  Shape shape = {};  ///< logical contents, for observers; packed layouts have one axis
  Dim bytes = 0;
  std::string value = {};  ///< the value's source, "node 3 '/conv1/Conv' (Conv)"
  /// Working memory and outputs: the first step that writes the buffer and the last that reads it, in the order of
  /// Plan::steps. A buffer that a loop reads again on its next trip lives until the loop is left.
  int first_step = 0, last_step = 0;
  /// Working memory: the buffer whose place in the arena this one takes over. That buffer's last step is this one's
  /// first (plan/in_place.h). -1: none.
  int shares = -1;
};

/// Whose code a kernel runs.
enum class KernelKind : uint8_t {
  own,            ///< Weft's
  custom,         ///< source that the embedding program gave
  host_function,  ///< calls a function of this process: the program cannot be saved
};

/// A distinct kernel. The entry is `name`. On a CPU `name`_plan(sizes, out) gives out[0] = tasks, out[1] = scratch
/// bytes; on a GPU the step says how many blocks there are.
struct PlanKernel {
  std::string name;
  std::string code;
  int threads = 256;     ///< GPU: of a block
  int shared_bytes = 0;  ///< GPU: dynamic shared memory of a block
  int occupancy = 0;     ///< GPU: blocks that should fit on a compute unit at once; 0: as many as do
  int cluster = 1;       ///< GPU: blocks that run together and read each other's shared memory (NVIDIA from sm_90)
  KernelKind kind = KernelKind::own;
  bool notes_faults = false;  ///< may find an index out of range, which it writes to the KernelFault of its launch
};

/// Where a run-time symbol gets its value: an element of a buffer, or an expression over symbols that have theirs.
struct SizeSetting {
  Symbol symbol = {};
  int buffer = -1;  ///< of i64; -1: `value`
  int element = 0;
  Dim value = 0;
  Dim most = INT64_MAX;  ///< an upper limit beside the symbol's own; a greater value is an error (E314)
};

/// Another kernel for the buffers of a step, launched in place of its own where LaunchStep::work is at least `from`.
struct StepVariant {
  int kernel = 0;
  std::vector<int> sizes = {};
  Dim blocks = 0;
  int64_t from = 0;
};

/// One launch of a kernel on the step's buffers and sizes.
struct LaunchStep {
  int kernel = 0;
  Dim blocks = 0;                          ///< GPU: blocks that have work at these sizes; any other number is right too
  Dim work = 0;                            ///< GPU: an amount that grows with the sizes and selects the variant
  std::vector<StepVariant> variants = {};  ///< ordered by `from`
  bool is_spare = false;  ///< GPU: launched only if the library does not do the work of the step before
};

/// Sets run-time symbols to their values, in order, then checks the conditions that depend on them.
struct SizesStep {
  static constexpr std::string_view name = "sizes";
  std::vector<SizeSetting> settings = {};
  std::vector<SizeCheck> checks = {};
};

/// Continues at step `target` unless the step's only buffer (a bool) is true; without a buffer, unless `amount` > 0.
struct BranchStep {
  static constexpr std::string_view name = "branch";
  Dim amount = 0;
  int target = 0;
};

/// Continues at step `target`; backwards only to a branch that may leave the loop.
struct JumpStep {
  static constexpr std::string_view name = "jump";
  int target = 0;
};

/// Buffers 0 and 1 of the step are exchanged, then 2 and 3 ...: values that a loop carries to its next trip.
struct SwapStep {
  static constexpr std::string_view name = "swap";
};

/// The step's buffer gets room for `bytes` bytes and keeps its contents.
struct GrowStep {
  static constexpr std::string_view name = "grow";
  Dim bytes = 0;
};

/// A function over strings or containers on the host. It reads the buffers that are no outputs and writes the outputs.
/// The step's sizes are the rank and then the sizes of each operand and result.
struct HostStep {
  HostCall call = {};
};

/// GPU: the CPU runs Plan::parts[part]. The step's sizes are the values of PlanPart::names, then the rank and sizes of
/// each operand. The part returns its sizes itself: the last output holds those that `settings` read.
struct PartStep {
  static constexpr std::string_view name = "cpu_part";
  int part = 0;
  std::vector<SizeSetting> settings = {};
};

/// GPU: a vendor's library works on all buffers of the step but the last, which is the library's working memory. Such a
/// plan cannot be saved.
struct LibraryStep {
  LibraryCall call = {};
  std::vector<int64_t> offsets = {};  ///< of the operands in their buffers, in bytes
};

/// `elements` values go from buffer 0 of the step through all ranks to buffer 1. Such a plan cannot be saved.
struct CollectiveStep {
  CollectiveFn fn = CollectiveFn::sum;
  Dim elements = 0;
};

using StepAction = std::variant<LaunchStep, SizesStep, BranchStep, JumpStep, SwapStep, GrowStep, HostStep, PartStep,
                                LibraryStep, CollectiveStep>;

/// Steps run in order but for branches and jumps, which nest as the model's own control flow does.
struct PlanStep {
  StepAction action = LaunchStep{};
  std::vector<int> buffers = {};  ///< operands and results; of a launch in the order of the kernel's arguments
  std::vector<int> sizes = {};    ///< arguments of the kernel or function: indexes into Plan::sizes
  std::vector<int> outputs = {};  ///< buffers that it writes
  std::string source = {};        ///< node(s) of the model
  std::string reason = {};        ///< reason for this step
  Dim flops = 0, bytes = 0;       ///< work, for profiles and the roofline
  /// Operands that may share the result's memory: each task reads an element before it writes the same place.
  std::vector<int> in_place = {};
  /// The operand that the step copies to the same places of its result; if both share their memory, there is nothing to
  /// do.
  int moves = -1;
  bool moves_apart = false;  ///< it copies the whole operand, and no other step writes to those places
  /// While lowering: writes elements that no other step writes, and reads nothing of these buffers.
  bool writes_apart = false;
  int decision = -1;  ///< the entry of Plan::decisions that led to this step

  /// The action if it is a T, else null.
  template <class T>
  const T* as() const {
    return std::get_if<T>(&action);
  }
  template <class T>
  T* as() {
    return std::get_if<T>(&action);
  }
  template <class T>
  bool is() const {
    return std::holds_alternative<T>(action);
  }
  /// The step that a branch or a jump names, else null.
  const int* target() const {
    if (const auto* branch = as<BranchStep>()) return &branch->target;
    const auto* jump = as<JumpStep>();
    return jump ? &jump->target : nullptr;
  }
  int* target() { return const_cast<int*>(std::as_const(*this).target()); }
  /// The run-time symbols that the step sets.
  std::span<const SizeSetting> settings() const {
    if (const auto* sizes_step = as<SizesStep>()) return sizes_step->settings;
    const auto* part = as<PartStep>();
    return part ? std::span<const SizeSetting>(part->settings) : std::span<const SizeSetting>();
  }
};

/// The launch of a step that is known to be one: all load steps are.
inline const LaunchStep& launch_of(const PlanStep& step) { return std::get<LaunchStep>(step.action); }
inline LaunchStep& launch_of(PlanStep& step) { return std::get<LaunchStep>(step.action); }

/// An output that may be the same memory as an input.
struct InPlace {
  int input = 0, output = 0;
  bool operator==(const InPlace&) const = default;
};

struct Plan;

/// A separate program that runs on the CPU. The first sizes of the step that runs it are the values of its symbols
/// `names`.
struct PlanPart {
  std::shared_ptr<Plan> plan = {};
  std::vector<std::string> names = {};
  Tensor image = {};  ///< of u8: the machine code of its kernels
};

struct Plan {
  Chip chip = {};
  std::string program = {};
  std::map<std::string, std::string> metadata = {};
  std::vector<Port> inputs = {}, outputs = {};
  std::vector<SizeCheck> checks = {};     ///< those that the sizes of the inputs decide
  std::vector<Dim> sizes = {};            ///< every distinct size that a step passes to its kernel
  std::vector<PlanBuffer> buffers = {};   ///< strings lie in them as their numbers: i64, see base/strings.h
  std::vector<std::string> strings = {};  ///< strings of constants; a string's number is its index here
  std::vector<Tensor> constants = {};
  std::vector<PlanKernel> kernels = {};
  std::vector<PlanStep> load_steps = {};  ///< run once when the program is loaded: they fill persistent buffers
  std::vector<PlanStep> steps = {};
  std::vector<PlanPart> parts = {};  ///< GPUs: programs that the processor runs (lower/cpu_parts.h)
  std::vector<InPlace> in_place = {};
  std::vector<Donation> donations = {};
  /// build of the code generator: equal kernels of the same build compute the same
  std::string compiler = {};
  std::vector<Decision> decisions = {};       ///< the choices among kernels; not in saved programs
  std::vector<Hash128> constant_hashes = {};  ///< hashes of the constants' contents, if a saved program has them
};

/// True for a plan of a GPU in which the host decides something between two steps: it runs step by step.
bool is_led_by_host(const Plan& plan);

/// The name of a step in profiles and reports: its kernel's name, or what it does.
std::string step_name(const Plan& plan, const PlanStep& step);

}  // namespace weft
