// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "ir/module.h"
#include "ops/custom.h"
#include "passes/pipeline.h"
#include "runtime/executable.h"

/// The main functions of Weft: a model in, an executable out.
///
///     auto model = compile_file("model.onnx", {.device = "cpu"});
///     auto outputs = model->new_context()->run(inputs);
namespace weft {

struct ProgramSource;

enum class Precision : uint8_t { f32, bf16, f16 };

/// The sizes of an input as the caller knows them: each entry fixes or bounds one size.
struct ShapeRequest {
  std::string input;
  struct Size {
    int64_t min = 0, max = INT64_MAX;  ///< equal bounds fix the size
    int64_t best = -1;                 ///< the usual size, with which tools measure; -1: none given
  };
  std::vector<Size> sizes;
};

struct Progress {
  std::string phase;  ///< such as "kernels" or "tune"
  size_t done = 0, total = 0;
};

/// The C++ types of the kinds of options in compile/options.def.
namespace option {
using text = std::string;
using path = std::filesystem::path;
using number = int;
using bytes = int64_t;
using seconds = double;
using flag = bool;
using cache = bool;
using borrow = bool;
using texts = std::vector<std::string>;
using shapes = std::vector<ShapeRequest>;
using symbols = std::map<std::string, int64_t>;
using constants = std::map<std::string, Tensor>;
using donations = std::vector<DonationRequest>;
using operators = std::vector<CustomOperator>;
using static_inputs = std::optional<std::vector<std::string>>;
using precision = Precision;
using allocator = HostAllocator;
using executor = HostExecutor;
using progress = std::function<void(const Progress&)>;
using stop = std::function<bool()>;
using deadline = std::optional<std::chrono::steady_clock::time_point>;
}  // namespace option

/// All options of a compile: the options of every interface (compile/options.def) and options of the compiler itself.
///
/// A device may also be a chip to compile for ("amd:gfx942"). For "ref:cpu" or "ref:amd:gfx942" the reference runs the
/// program after that chip's passes, to check the passes. Several devices ("cpu,cpu") split products (passes/shard.h).
struct CompileOptions {
#define OPTION(kind, name, initial, ...) option::kind name = initial;
#include "compile/options.def"
  /// Constants as numbers, which are converted to the input's type.
  std::map<std::string, std::vector<double>> constant_numbers = {};
  /// Returns the inputs of the runs that tuning measures. If not set: default values, or random floats, or ones.
  std::function<std::vector<Tensor>(const Executable&)> tune_inputs = {};
  /// GPUs: vendors' libraries may replace slower kernels. A program that calls a library cannot be saved.
  bool vendor_libraries = true;
  VendorLibraries libraries = {};  ///< of this machine, found by compile and tune
  int compute_units = 0;           ///< of the target GPU, found by compile and tune; 0: of the chip's usual model
  Chooser choose = {};             ///< chooses among kernels for the same work; empty: by stored measurements
  Ranks ranks = {};                ///< the rank of a split program to compile, set by compile_ranks
  int64_t max_nodes = 0;  ///< limit on nodes after functions are expanded (E153); 0: 50,000 + 16 * nodes in the file
  int64_t max_nesting = 256;  ///< limit on graphs within graphs and functions calling functions (E152)
  bool recompile = true;      ///< false: a saved program for another chip is refused (E172) rather than compiled again
};

/// Reads a model (a file, or the folder of a SavedModel) and compiles it, or loads a saved program (.weft, recognised
/// by its first bytes). Throws E502 for a saved program with options of the stage `compiling`.
std::shared_ptr<Executable> compile_file(const std::filesystem::path& path, const CompileOptions& options = {});
/// Compiles or loads the bytes of a file. Reads external data from `options.folder`; without a folder, refuses it.
std::shared_ptr<Executable> compile_bytes(Bytes model, const CompileOptions& options = {});
/// Compiles a program that is in the IR already.
std::shared_ptr<Executable> compile(std::unique_ptr<Program> program, const CompileOptions& options = {});

/// Writes a saved program: the executable's code (all chips' code if it was loaded from a file), and code for each of
/// `targets` ("cpu:x86-64-v4", "nvidia:sm_90a", "amd:all") that is missing, compiled now. Throws E406 as
/// Executable::save does, E501 for an unknown target. Returns the counts of kernels of these compiles.
CompileReport save(const Executable& executable, const std::filesystem::path& path,
                   std::span<const std::string> targets, const CompileOptions& options = {});

/// Returns the program in the source of a saved program.
std::unique_ptr<Program> read_source(const ProgramSource& source);

/// A node of a model's main graph and whether a device runs it.
struct NodeSupport {
  std::string node;  ///< "node 12 'cat_3' (Concat)"
  std::string op;    ///< "Concat", "com.microsoft:Gelu"
  std::string why;   ///< why the node does not run or was not checked; empty if the node runs
};
/// Returns for each node of a model whether the device of the options supports it, by the frontend, the passes and the
/// rules of lowering; compiles no kernel. A node that reads an unsupported node is reported as not checked.
std::vector<NodeSupport> find_support(const std::filesystem::path& path, const CompileOptions& options = {});

/// Returns the program that the frontend makes from a model, before any pass.
std::unique_ptr<Program> import_file(const std::filesystem::path& path, const CompileOptions& options = {});
/// Returns the program after the shared passes (`stage` empty), after the pass called `stage`, or after all passes for
/// the device of the options ("final"). Throws E503 if there is no such pass.
std::unique_ptr<Program> optimised(std::unique_ptr<Program> program, const CompileOptions& options,
                                   std::string_view stage = {});

}  // namespace weft
