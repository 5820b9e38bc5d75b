// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <memory>

#include "base/codegen.h"
#include "compile.h"
#include "compile/places.h"
#include "passes/pipeline.h"
#include "runtime/saved.h"

/// The stages of compiling, which compile.cpp calls in order; other callers start at a later stage.
namespace weft {

namespace onnx {
struct Model;
struct NodeFault;
struct SizeDecisions;
struct StaticNeeds;
}  // namespace onnx

/// Translates a model into a program. With `faults`, nodes that cannot be translated go to `faults` and are left out.
std::unique_ptr<Program> import(const onnx::Model& model, const CompileOptions& options,
                                std::vector<onnx::NodeFault>* faults = nullptr,
                                onnx::SizeDecisions* decisions = nullptr, onnx::StaticNeeds* needs = nullptr);

/// The model's name in messages, and the folder of its external files (empty: none allowed).
struct ModelPlace {
  std::string source;
  std::filesystem::path folder = {};
};
ModelPlace place_of(const std::filesystem::path& file);
/// Returns saved_model.pb in a folder (E106 if there is none), and any other path unchanged.
std::filesystem::path model_file(const std::filesystem::path& path);

/// Translates a model of another framework than ONNX, recognised by its first bytes; returns null for any other file.
/// If `nodes` is set, adds each node, with a reason where translation fails, instead of throwing. Throws E310 for a
/// signature, a tag or outputs that the model does not have.
std::unique_ptr<Program> import_other(const Bytes& file, const ModelPlace& place, const CompileOptions& options,
                                      std::vector<NodeSupport>* nodes = nullptr);

/// Translates a program of torch.export. Throws E310 for requests about inputs that the program does not have, and for
/// sizes or values that do not fit an input.
std::unique_ptr<Program> import_exported(Bytes file, const std::string& source, const CompileOptions& options,
                                         std::vector<NodeSupport>* nodes = nullptr);

/// Copies the options' constants, except those in mappings of map_kept, for models that are translated again later.
void own_constants(CompileOptions& options);

/// Compiles a frontend's program for the device of the options.
std::shared_ptr<Executable> compile_program(std::unique_ptr<Program> program, const CompileOptions& options,
                                            CompileReport report);

/// Compiles a program that is valid for some sizes only (`decisions`). For other sizes, runs compile the model again.
std::shared_ptr<Executable> compile_decided(std::shared_ptr<const onnx::Model> model, std::unique_ptr<Program> program,
                                            onnx::SizeDecisions decisions, const CompileOptions& options,
                                            CompileReport report);

/// Compiles a frontend's program for several devices, which compute each run together.
std::shared_ptr<Executable> compile_ranks(std::unique_ptr<Program> program, const CompileOptions& options,
                                          CompileReport report);
/// Compiles a program that is given as text, after the shared passes, for several devices.
std::shared_ptr<Executable> compile_ranks(std::shared_ptr<const ProgramSource> source, const CompileOptions& options,
                                          CompileReport report);

PassContext context_of(const Chip& chip, const CompileOptions& options);
void run_shared_passes(Program& program, const CompileOptions& options, CompileReport& report);
/// Runs the passes for one chip on a program after the shared passes.
void run_chip_passes(Program& program, const PassContext& context, const CompileOptions& options,
                     CompileReport& report);

/// Returns a program after the shared passes as text and large constants, from which it is compiled for each chip.
std::shared_ptr<const ProgramSource> source_of(const Program& program, const CompileOptions& options);

/// Runs the chip's passes on a program (after the shared passes) and lowers it to kernel calls. `options.choose`, or
/// else the cost model, chooses kernels; `asked` gives the precision, keep_f32 and the donations.
Plan make_plan(Program& program, const Chip& chip, const ProgramSource& asked, const CompileOptions& options,
               CompileReport& report);

/// Returns the vendor's libraries for the place's device, if they are installed and the options allow them.
VendorLibraries find_libraries(const Place& place, const CompileOptions& options);

/// Returns the device's name in the store of tunings (kernel_build/tunings.h).
std::string tuning_key(const Place& place);

/// Makes options.choose choose by measurements of this device: tunes if the options ask for tuning, else uses stored
/// measurements unless options.choose is set. Opens the vendor's libraries only if tuning or a measurement needs them.
void decide_by_tunings(const ProgramSource& source, const Place& place, CompileOptions& options);
/// Returns the options, with `choose` set by stored measurements of a chip if it was not set. The chip may be absent.
CompileOptions decided_by_tunings(const Chip& chip, CompileOptions options);

/// Returns the C++ source of each kernel of a plan, for the code generator.
std::vector<KernelSource> kernel_sources(const Plan& plan);
/// Compiles the kernels of a plan to machine code.
Bytes build_image(Plan& plan, const CompileOptions& options, CompileReport& report);

/// Compiles a program given as text to kernel calls and machine code for one chip.
ChipProgram compile_source(const ProgramSource& source, const Chip& chip, const CompileOptions& options,
                           CompileReport& report);

/// Makes a reference executable. It interprets the frontend's program (precision f32 only) or, to check the passes of a
/// chip, the program after these passes. Throws E502 for options that the reference does not support.
std::shared_ptr<Executable> make_reference_for(std::unique_ptr<Program> program, const Place& place,
                                               const CompileOptions& options, CompileReport report);

/// Returns `make(place)`. For the device `auto`, a program that the GPU cannot run is made for the CPU, with a warning.
std::shared_ptr<Executable> make_at(const Place& place, const CompileOptions& options,
                                    const std::function<std::shared_ptr<Executable>(const Place&)>& make);

std::shared_ptr<Executable> run_on(const Runner& runner, ChipProgram program, Origin origin, CompileReport report);

/// Loads a saved program: uses the file's best code that runs on this device, else compiles the program in the file.
std::shared_ptr<Executable> load_saved(Bytes file, const CompileOptions& options, const std::string& name);

}  // namespace weft
