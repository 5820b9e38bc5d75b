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

/// The result of compiling. An executable is immutable and shared by any number of threads; each request runs in a
/// context of its own:
///
///     std::shared_ptr<Executable> model = compile(...);
///     std::unique_ptr<Context> context = model->new_context();
///     std::vector<Tensor> outputs = context->run({inputs});
namespace weft {

struct SavedProgram;
class SymbolValues;
class Rank;

/// A step of the plan, for `explain`, profiles and `verify --bisect`.
struct StepInfo {
  std::string kernel;  ///< readable kernel name: "conv_relu_f32"
  std::string source;  ///< node(s) of the model: "node 3 '/conv1/Conv' (Conv) .. node 4 (Relu)"
  std::string device;  ///< "cpu", "ref"
  std::string reason;  ///< why this kernel, and why the others were refused
};

/// The time that one step took in one run.
struct StepTime {
  size_t step = 0;
  std::chrono::nanoseconds begin{}, end{};  ///< since the start of the run
  int64_t flops = 0, bytes = 0;             ///< work of the step at these sizes; 0: unknown
  std::string kernel = {};                  ///< the kernel that the sizes chose, if it is not that of StepInfo
};

/// Counts and times of a compilation, for `--json` and for tests that count compiles.
struct CompileReport {
  std::vector<std::pair<std::string, double>> phase_seconds;  ///< "import", "simplify", "lower", "kernels" ...
  int64_t kernels = 0, kernels_compiled = 0, kernels_from_cache = 0, kernels_from_pack = 0;
  int64_t constant_bytes = 0;
  std::map<std::string, int64_t> pass_changes = {};  ///< how often each pass changed something
};

struct RunOptions {
  /// For each output, memory to write it to (at least its size); an empty entry, or no list: the library allocates.
  std::span<const std::span<std::byte>> output_memory = {};
  /// Allocates `bytes` bytes for an output without an entry above; null throws E400. If empty, the library allocates.
  std::function<std::byte*(size_t output, std::span<const int64_t> dims, size_t bytes)> allocate_output = {};
  /// GPUs: the inputs and `output_memory` lie in memory of the device.
  bool on_device = false;
  /// GPUs: the caller's stream that the work is queued on (CUstream, hipStream_t; null: the driver's default stream);
  /// needs on_device, and `run` returns at once. Without one the context uses its own stream, and `run` waits.
  std::optional<void*> stream = {};
  std::optional<std::chrono::steady_clock::time_point> deadline = {};  ///< E403 when it passes
  /// The run throws E404 once this returns true. Any of its threads may call it, between steps and pieces of steps.
  std::function<bool()> stop = {};
  /// CPUs: the values of all symbols, for a program that is a part of another one. If null, the inputs determine them.
  const SymbolValues* sizes = nullptr;
  Rank* rank = nullptr;                    ///< of a program that is one of several (runtime/ranks.h)
  const HostExecutor* executor = nullptr;  ///< runs the kernels of this run instead of the program's threads
  std::vector<StepTime>* profile = nullptr;
  /// Called after each step for each value that it wrote (name of the value, tensor), for `verify --per-instruction`.
  std::function<void(size_t step, const std::string& value, const Tensor&)> observe = {};
};

/// The bytes of memory that a context holds.
struct MemoryUse {
  int64_t arena = 0, scratch = 0;  ///< held now, by this context
  int64_t peak = 0;                ///< the most that this context has held
  int64_t weights = 0;             ///< packed weights, shared by all contexts of the program
  /// copies of constants that runs read; other constants stay in the file or in the caller's memory
  int64_t constants = 0;
};

/// The working memory of one request at a time. Two threads must not use a context at once.
class Context {
 public:
  virtual ~Context() = default;
  /// Runs the program. `inputs`: in the order of Executable::inputs(), in host memory, row-major, of the port's type;
  /// their sizes set the symbols. Throws E310 (type, rank), E311 (size out of range), E312 (contradicting sizes).
  virtual std::vector<Tensor> run(std::span<const Tensor> inputs, const RunOptions& options = {}) = 0;
  /// Returns the bytes of working memory held now, and the most held since creation.
  virtual int64_t memory_bytes() const = 0;
  virtual int64_t peak_memory_bytes() const = 0;
  virtual MemoryUse memory() const { return {.arena = memory_bytes(), .peak = peak_memory_bytes()}; }
};

/// A static input: for each new value the program is compiled again (compile/specialise.h).
struct StaticInput {
  size_t input = 0;        ///< its number
  std::string op = {};     ///< the operator that reads it or a value computed from it
  size_t operand = 0;      ///< which operand of `op` that is
  bool is_length = false;  ///< only the length of the list decides, not its values
  Tensor likely = {};      ///< a value that it may have
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
  /// Returns a host tensor of the kind that runs read and write fastest: pinned memory for a GPU.
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
  /// Releases the caller's memory that holds the constants. Call it before the first context. Constants that runs read
  /// are copied, the others dropped; the program can no longer be saved. E406 on targets without this.
  virtual void detach();
  /// Returns the contents of a saved program; E406 on targets that cannot be saved.
  virtual SavedProgram saved() const = 0;
  /// Writes `saved()` to a file.
  void save(const std::filesystem::path& path) const;
};

}  // namespace weft
