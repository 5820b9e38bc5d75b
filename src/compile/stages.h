// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <memory>

#include "base/codegen.h"
#include "compile.h"
#include "compile/places.h"
#include "passes/pipeline.h"
#include "runtime/saved.h"

/// The stages that compile.cpp calls in order, for callers that start at a later one.
namespace weft {

namespace onnx {
struct Model;
struct NodeFault;
struct SizeDecisions;
struct StaticNeeds;
}  // namespace onnx

/// A model -> the program that it means. With `faults` the nodes that cannot be translated are listed there and left
/// out.
std::unique_ptr<Program> import(const onnx::Model& model, const CompileOptions& options,
                                std::vector<onnx::NodeFault>* faults = nullptr,
                                onnx::SizeDecisions* decisions = nullptr, onnx::StaticNeeds* needs = nullptr);

/// A model's name in messages, and the folder of its further files; empty: there are none.
struct ModelPlace {
  std::string source;
  std::filesystem::path folder = {};
};
ModelPlace place_of(const std::filesystem::path& file);
/// For a folder, the saved_model.pb in it (E106 if there is none); any other path as it is.
std::filesystem::path model_file(const std::filesystem::path& path);

/// The program of a model of another framework than ONNX, recognised by its first bytes; null for any other file. With
/// `nodes`, nodes that cannot be translated are listed there instead of thrown. E310 for a signature, a tag or outputs
/// that the model does not have.
std::unique_ptr<Program> import_other(const Bytes& file, const ModelPlace& place, const CompileOptions& options,
                                      std::vector<NodeSupport>* nodes = nullptr);

/// The same for a program of torch.export. E310 for sizes, values and inputs that it does not have.
std::unique_ptr<Program> import_exported(Bytes file, const std::string& source, const CompileOptions& options,
                                         std::vector<NodeSupport>* nodes = nullptr);

/// Copies constants that lie in memory of the caller's, for models that are read again.
void own_constants(CompileOptions& options);

/// Compiles a frontend's program for the device of the options.
std::shared_ptr<Executable> compile_program(std::unique_ptr<Program> program, const CompileOptions& options,
                                            CompileReport report);

/// The same where the import of `model` depended on sizes, so that other sizes need other programs.
std::shared_ptr<Executable> compile_decided(std::shared_ptr<const onnx::Model> model, std::unique_ptr<Program> program,
                                            onnx::SizeDecisions decisions, const CompileOptions& options,
                                            CompileReport report);

/// The same on several devices, which compute each run together.
std::shared_ptr<Executable> compile_ranks(std::unique_ptr<Program> program, const CompileOptions& options,
                                          CompileReport report);
/// The same from the source that every chip starts from.
std::shared_ptr<Executable> compile_ranks(std::shared_ptr<const ProgramSource> source, const CompileOptions& options,
                                          CompileReport report);

/// The context of the passes for this chip.
PassContext context_of(const Chip& chip, const CompileOptions& options);
/// The passes that every chip shares.
void run_shared_passes(Program& program, const CompileOptions& options, CompileReport& report);
/// The passes for one chip, after the shared ones.
void run_chip_passes(Program& program, const PassContext& context, const CompileOptions& options,
                     CompileReport& report);

/// The program after the shared passes, as text that refers to its large constants; every chip starts from it.
std::shared_ptr<const ProgramSource> source_of(const Program& program, const CompileOptions& options);

/// A program after the passes that every chip shares -> kernel calls for one chip, chosen by `options.choose` or else
/// by the cost model. `asked` gives the precision.
Plan make_plan(Program& program, const Chip& chip, const ProgramSource& asked, const CompileOptions& options,
               CompileReport& report);

/// The vendor's libraries on this machine for the place's device, if the options allow them.
VendorLibraries find_libraries(const Place& place, const CompileOptions& options);

/// The device's name in tunings (kernel_build/tunings.h).
std::string tuning_key(const Place& place);

/// Sets options.choose, unless it is set, to choose by measurements of the place's device; measures first if the
/// options say so. The vendor's libraries are opened only if they are to be measured or were measured, because opening
/// takes long.
void decide_by_tunings(const ProgramSource& source, const Place& place, CompileOptions& options);
/// The same by the measurements kept for a chip, present or not.
CompileOptions decided_by_tunings(const Chip& chip, CompileOptions options);

/// The input of the code generator for each kernel of a plan.
std::vector<KernelSource> kernel_sources(const Plan& plan);
/// Kernel sources -> machine code.
Bytes build_image(Plan& plan, const CompileOptions& options, CompileReport& report);

/// A program as text -> kernel calls and machine code for one chip.
ChipProgram compile_source(const ProgramSource& source, const Chip& chip, const CompileOptions& options,
                           CompileReport& report);

/// The reference. Without passes it runs the program of the frontend, in f32 only. After the passes of a chip, which it
/// then checks, it may run another precision. E502 for options that it does not support.
std::shared_ptr<Executable> make_reference_for(std::unique_ptr<Program> program, const Place& place,
                                               const CompileOptions& options, CompileReport report);

/// Returns `make(place)`. For the device `auto`, a program that the GPU cannot run is made for the CPU, with a warning.
std::shared_ptr<Executable> make_at(const Place& place, const CompileOptions& options,
                                    const std::function<std::shared_ptr<Executable>(const Place&)>& make);

std::shared_ptr<Executable> run_on(const Runner& runner, ChipProgram program, Origin origin, CompileReport report);

/// Loads a saved program: the code in it for the chip that runs here best, else compiled from the program in it.
std::shared_ptr<Executable> load_saved(Bytes file, const CompileOptions& options, const std::string& name);

}  // namespace weft
