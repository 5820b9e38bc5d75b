// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/host.h"
#include "plan/plan.h"

/// The result of compiling. An executable is immutable, and any number of threads may share it. Each request needs a
/// context of its own while it runs:
///
///     std::shared_ptr<Executable> model = compile(...);
///     std::unique_ptr<Context> context = model->new_context();
///     std::vector<Tensor> outputs = context->run({inputs});
namespace weft {

struct SavedProgram;
class SymbolValues;
class Rank;

/// The description of a step of the plan, for `explain`, profiles and `verify --bisect`.
struct StepInfo {
  std::string kernel;  ///< readable kernel name: "conv_relu_f32"
  std::string source;  ///< node(s) of the model: "node 3 '/conv1/Conv' (Conv) .. node 4 (Relu)"
  std::string device;  ///< "cpu", "ref", "nvidia:0"
  std::string reason;  ///< why this kernel was chosen, and why other kernels were refused
};

/// The time that one step took in one run.
struct StepTime {
  size_t step = 0;
  std::chrono::nanoseconds begin{}, end{};  ///< since the start of the run
  int64_t flops = 0, bytes = 0;             ///< operations and memory traffic at these sizes; 0: unknown
  std::string kernel = {};                  ///< the kernel for these sizes, if it differs from StepInfo::kernel
};

/// Counts and times of a compilation, for `--json` and for tests that count compiles.
struct CompileReport {
  std::vector<std::pair<std::string, double>> phase_seconds;  ///< "import", "normalise", "lower", "kernels" ...
  int64_t kernels = 0, kernels_compiled = 0, kernels_from_cache = 0, kernels_from_pack = 0;
  int64_t constant_bytes = 0;
  std::map<std::string, int64_t> pass_changes = {};  ///< how often each pass changed something
};

struct RunOptions {
  /// The memory for each output, at least as large as the output. An empty or missing entry: see allocate_output.
  std::span<const std::span<std::byte>> output_memory = {};
  /// Returns memory for an output without an entry above; null: the run throws E400. If not set, the library allocates.
  std::function<std::byte*(size_t output, std::span<const int64_t> dims, size_t bytes)> allocate_output = {};
  /// GPUs: the inputs and `output_memory` are in the device's memory.
  bool on_device = false;
  /// GPUs: the caller's stream for the work (CUstream, hipStream_t; null: the driver's default stream), with on_device
  /// only; `run` does not wait for the work's end. Without a value, the context uses its own stream, and `run` waits.
  std::optional<void*> stream = {};
  std::optional<std::chrono::steady_clock::time_point> deadline = {};  ///< E403 when it passes
  /// The run throws E404 once this returns true. Any thread of the run may call it, between steps and pieces of steps.
  std::function<bool()> stop = {};
  /// CPUs: the values of all symbols, for a program that is a part of another program. Null: the inputs determine them.
  const SymbolValues* sizes = nullptr;
  Rank* rank = nullptr;                    ///< for the program of one rank of several (runtime/ranks.h)
  const HostExecutor* executor = nullptr;  ///< runs the kernels of this run instead of the program's threads
  std::vector<StepTime>* profile = nullptr;
  /// Called after each step with each value that the step completed, and its name, for `verify --per-instruction`.
  std::function<void(size_t step, const std::string& value, const Tensor&)> observe = {};
};

/// The memory of a context and its program, in bytes.
struct MemoryUse {
  int64_t arena = 0, scratch = 0;  ///< held now, by this context
  int64_t peak = 0;                ///< the most that this context has held
  int64_t weights = 0;             ///< packed weights, shared by all contexts of the program
  /// The constants that runs read: on a GPU their copies in device memory.
  int64_t constants = 0;
};

/// The working memory of one request at a time. Two threads must not use a context at once.
class Context {
 public:
  virtual ~Context() = default;
  /// Runs the program. `inputs`: in the order of Executable::inputs(), row-major, of the port's type, in host memory
  /// unless options.on_device is set. Throws E310 (type, rank), E311 (size out of range), E312 (contradicting sizes).
  virtual std::vector<Tensor> run(std::span<const Tensor> inputs, const RunOptions& options = {}) = 0;
  /// Returns the bytes of working memory held now, and the most held since creation.
  virtual int64_t memory_bytes() const = 0;
  virtual int64_t peak_memory_bytes() const = 0;
  virtual MemoryUse memory() const { return {.arena = memory_bytes(), .peak = peak_memory_bytes()}; }
};

/// A static input: for each new value the program is compiled again (compile/specialise.h).
struct StaticInput {
  size_t input = 0;        ///< index of the input
  std::string op = {};     ///< the operator that reads the input or a value computed from the input
  size_t operand = 0;      ///< index of the operand of `op` that depends on the input
  bool is_length = false;  ///< true: only the length of the list matters, not its values
  Tensor likely = {};      ///< a value that the input may have
};

class Executable {
 public:
  virtual ~Executable() = default;
  virtual const std::vector<Port>& inputs() const = 0;
  virtual const std::vector<StaticInput>& static_inputs() const {
    static const std::vector<StaticInput> none;
    return none;
  }
  virtual const std::vector<Port>& outputs() const = 0;
  virtual std::unique_ptr<Context> new_context() const = 0;
  /// Returns a tensor in the host memory that runs read and write fastest: pinned memory for a GPU.
  virtual MutableTensor host_tensor(DType type, std::vector<int64_t> dims) const {
    return allocate_tensor(type, std::move(dims));
  }
  virtual std::vector<StepInfo> steps() const = 0;
  virtual const CompileReport& report() const = 0;
  /// Returns further notes on the program, a sentence each, such as the outcome of donations.
  virtual std::vector<std::string> notes() const { return {}; }
  /// Returns a description such as "cpu (x86-64, avx2 fma), 2 threads".
  virtual std::string device() const = 0;
  virtual const std::map<std::string, std::string>& metadata() const = 0;
  /// Stops using the caller's memory with the constants: copies those that runs read, drops the others. Must be called
  /// before the first context; afterwards the program cannot be saved. Throws E406 on targets that do not support this.
  virtual void detach();
  /// Returns the contents of a saved program. Throws E406 if this program cannot be saved.
  virtual SavedProgram saved() const = 0;
  void save(const std::filesystem::path& path) const;
};

}  // namespace weft
