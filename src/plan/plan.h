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
#include "base/ids.h"
#include "base/library_call.h"
#include "base/port.h"
#include "base/shape.h"
#include "base/tensor.h"

/// A compiled program as plain data: lowering and planning produce it, saved programs contain it, the runtime executes
/// it. Sizes are expressions, which a context evaluates when it gets its inputs.
namespace weft {

using BufferId = Id<struct PlanBuffer>;
using DecisionId = Id<Decision>;
using KernelId = Id<struct PlanKernel>;
using PartId = Id<struct PlanPart>;
using SizeId = Id<Dim>;
using StepId = Id<struct PlanStep>;
using VariantId = Id<struct StepVariant>;

template <class T>
using PerBuffer = Table<T, BufferId>;
template <class T>
using PerStep = Table<T, StepId>;

/// A condition on sizes that could not be proved while compiling.
struct SizeCheck {
  bool equal = true;  ///< a == b, else a <= b
  Dim a = 0, b = 0;
  std::string source = {};  ///< the node of the model that needs the condition
  std::string what = {};    ///< the condition in words: "matmul: inner sizes of f32[a,2] and f32[b,3]"
};

enum class BufferKind : uint8_t {
  input,       ///< memory of the caller: input number `index`
  output,      ///< memory of the caller or the library: output number `index`
  constant,    ///< constant number `index`
  persistent,  ///< computed once when the program is loaded (packed weights), shared by all contexts
  arena,       ///< working memory of a context, placed before the run starts
  dynamic,     ///< working memory of a size known only in the run; allocated when a step writes it
  value,       ///< no memory: a sequence, optional or map between host steps; on GPUs also a tensor of strings
  mailbox,     ///< GPUs: the context's memory through which ranks exchange values (kernels/mailbox.h)
};

struct PlanBuffer {
  BufferKind kind = BufferKind::arena;
  int index = 0;
  Shape shape = {};  ///< logical sizes, for observers; a packed layout has one axis
  Dim bytes = 0;
  std::string value = {};  ///< the node that computes the value: "node 3 '/conv1/Conv' (Conv)"
  /// The first and the last step that use the buffer. A buffer that the next trip of a loop reads again lives until the
  /// loop ends.
  StepId first_step = StepId(0), last_step = StepId(0);
  /// Working memory: this buffer reuses the arena memory of the buffer `shares`, and starts at that buffer's last step
  /// (plan/in_place.h).
  BufferId shares = {};
};

/// Where the code of a kernel comes from.
enum class KernelKind : uint8_t {
  own,            ///< Weft's
  custom,         ///< source from the embedding program
  host_function,  ///< calls a function of this process, so the program cannot be saved
};

/// A distinct kernel with the entry `name`. On a CPU, `name`_plan(sizes, out) sets out[0] to the number of tasks and
/// out[1] to the scratch bytes; on a GPU the step holds the number of blocks.
struct PlanKernel {
  std::string name;
  std::string code;
  int threads = 256;     ///< GPU: threads of a block
  int shared_bytes = 0;  ///< GPU: dynamic shared memory of a block
  int occupancy = 0;     ///< GPU: as KernelSource::occupancy (base/codegen.h)
  int cluster = 1;       ///< GPU: blocks that run together and read each other's shared memory (NVIDIA from sm_90)
  KernelKind kind = KernelKind::own;
  bool notes_faults = false;  ///< may report an error, such as an index out of range, in the launch's KernelFault
  bool operator==(const PlanKernel&) const = default;
};

/// The value of a run-time symbol: an element of a buffer, or an expression over symbols with known values.
struct SizeSetting {
  Symbol symbol = {};
  BufferId buffer = {};  ///< of i64, for a GPU's input also i32; none: use `value`
  int element = 0;
  Dim value = 0;
  Dim most = INT64_MAX;  ///< upper limit besides the symbol's own; greater values are an error (E314)
};

/// Another kernel for the step's buffers, launched instead if LaunchStep::work is at least `from`.
struct StepVariant {
  KernelId kernel = {};
  std::vector<SizeId> sizes = {};
  Dim blocks = 0;
  int64_t from = 0;
};

/// One launch of a kernel on the step's buffers and sizes.
struct LaunchStep {
  KernelId kernel = {};
  Dim blocks = 0;                    ///< GPU: number of blocks with work; most kernels allow any number
  Dim work = 0;                      ///< GPU: an amount of work that grows with the sizes; it selects the variant
  Table<StepVariant> variants = {};  ///< ordered by `from`
  bool is_spare = false;             ///< GPU: launched only if the run skips the library call or collective before it
};

/// Sets run-time symbols in order, then checks the conditions that depend on them.
struct SizesStep {
  static constexpr std::string_view name = "sizes";
  std::vector<SizeSetting> settings = {};
  std::vector<SizeCheck> checks = {};
};

/// Jumps to step `target` if the step's only buffer (a bool) is false; without a buffer, if `amount` <= 0.
struct BranchStep {
  static constexpr std::string_view name = "branch";
  Dim amount = 0;
  StepId target = {};
};

/// Jumps to step `target`. A backward jump goes to a branch that may leave the loop.
struct JumpStep {
  static constexpr std::string_view name = "jump";
  StepId target = {};
};

/// Swaps buffers 0 and 1 of the step, then 2 and 3 ...: values that a loop carries to its next trip.
struct SwapStep {
  static constexpr std::string_view name = "swap";
};

/// Grows the step's buffer to at least `bytes` bytes; keeps its contents.
struct GrowStep {
  static constexpr std::string_view name = "grow";
  Dim bytes = 0;
};

/// Calls a host function on strings or containers. Reads the buffers that are not outputs and writes the outputs.
/// The step's sizes are the rank and then the sizes of each operand and result.
struct HostStep {
  HostCall call = {};
};

/// GPU: runs Plan::parts[part] on the CPU. The step's sizes are the values of PlanPart::names, then the rank and sizes
/// of each operand. The part writes the sizes that it computes to the last output, from which `settings` read them.
struct PartStep {
  static constexpr std::string_view name = "cpu_part";
  PartId part = {};
  std::vector<SizeSetting> settings = {};
};

/// GPU: calls a vendor's library on all buffers of the step but the last, which is the library's working memory. A plan
/// with this step cannot be saved.
struct LibraryStep {
  LibraryCall call = {};
  std::vector<int64_t> offsets = {};  ///< byte offset of each operand in its buffer
};

/// Sums or gathers `elements` values of buffer 0 of all ranks into buffer 1. A plan with this step cannot be saved.
struct CollectiveStep {
  CollectiveFn fn = CollectiveFn::sum;
  Dim elements = 0;
};

using StepAction = std::variant<LaunchStep, SizesStep, BranchStep, JumpStep, SwapStep, GrowStep, HostStep, PartStep,
                                LibraryStep, CollectiveStep>;

/// One step of a plan. Steps run in order except for branches and jumps, which nest like the model's control flow.
struct PlanStep {
  StepAction action = LaunchStep{};
  std::vector<BufferId> buffers = {};  ///< operands and results; for a launch, in the order of the kernel's arguments
  std::vector<SizeId> sizes = {};      ///< arguments of the kernel or function
  std::vector<BufferId> outputs = {};  ///< those of `buffers` that the step writes
  std::string source = {};             ///< node(s) of the model
  std::string reason = {};             ///< why the step exists or its kernel was chosen
  Dim flops = 0, bytes = 0;            ///< work, for profiles and the roofline model
  /// Operands that share memory with the result if possible: each task reads an element before it writes to that place.
  std::vector<BufferId> in_place = {};
  /// The operand that the step copies to the same offsets of its result; a no-op if both have the same address.
  BufferId moves = {};
  bool moves_apart = false;  ///< the step copies the whole operand to offsets that no other step writes
  /// Only while lowering: the step writes elements that no other step writes, and reads none of its outputs.
  bool writes_apart = false;
  DecisionId decision = {};  ///< the decision that led to this step, if any

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
  /// Returns the target of a branch or jump, else null.
  const StepId* target() const {
    if (const auto* branch = as<BranchStep>()) return &branch->target;
    const auto* jump = as<JumpStep>();
    return jump ? &jump->target : nullptr;
  }
  StepId* target() { return const_cast<StepId*>(std::as_const(*this).target()); }
  /// Returns the run-time symbols that the step sets, with their values.
  std::span<const SizeSetting> settings() const {
    if (const auto* sizes_step = as<SizesStep>()) return sizes_step->settings;
    const auto* part = as<PartStep>();
    return part ? std::span<const SizeSetting>(part->settings) : std::span<const SizeSetting>();
  }
};

/// Returns the launch of a step. The step must be a launch; every load step is a launch.
inline const LaunchStep& launch_of(const PlanStep& step) { return std::get<LaunchStep>(step.action); }
inline LaunchStep& launch_of(PlanStep& step) { return std::get<LaunchStep>(step.action); }

/// An output that may reuse the memory of an input.
struct InPlace {
  int input = 0, output = 0;
  bool operator==(const InPlace&) const = default;
};

struct Plan;

/// A program that a GPU's plan runs on the CPU. The sizes of its PartStep begin with the values of the symbols `names`.
struct PlanPart {
  std::shared_ptr<Plan> plan = {};
  std::vector<std::string> names = {};
  Tensor image = {};  ///< u8[bytes]: the machine code of the plan's kernels
};

struct Plan {
  Chip chip = {};
  std::string program = {};
  std::map<std::string, std::string> metadata = {};
  std::vector<Port> inputs = {}, outputs = {};
  std::vector<SizeCheck> checks = {};     ///< conditions that depend only on the sizes of inputs
  Table<Dim> sizes = {};                  ///< every distinct size that steps pass to kernels and functions
  Table<PlanBuffer> buffers = {};         ///< a string is stored as its number, an i64 (base/strings.h)
  std::vector<std::string> strings = {};  ///< strings of constants; the index is the string's number
  std::vector<Tensor> constants = {};
  Table<PlanKernel> kernels = {};
  Table<PlanStep> load_steps = {};  ///< run once when the program is loaded, to fill persistent buffers
  Table<PlanStep> steps = {};
  Table<PlanPart> parts = {};  ///< GPUs: programs that the CPU runs (lower/cpu_parts.h)
  std::vector<InPlace> in_place = {};
  std::vector<Donation> donations = {};
  /// The code generator's build; kernels with equal source text and build compute the same.
  std::string compiler = {};
  Table<Decision> decisions = {};             ///< choices among kernels; not saved
  std::vector<Hash128> constant_hashes = {};  ///< hashes of `constants`, if the plan was loaded from a file; else empty
};

/// Returns the variant to launch for this amount of work; none for the launch's own kernel.
VariantId variant_for(const LaunchStep& launch, int64_t work);

/// True if the host decides something between two steps of a GPU's plan, which then runs step by step.
bool is_led_by_host(const Plan& plan);

/// Returns the name of a step for profiles and reports: the name of its kernel, or of its action.
std::string step_name(const Plan& plan, const PlanStep& step);

}  // namespace weft
