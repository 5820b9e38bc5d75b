// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <memory>

#include "base/codegen.h"
#include "compile.h"
#include "compile/places.h"
#include "passes/pipeline.h"
#include "runtime/saved.h"

/// The stages that compile.cpp strings together, for those who come in at a later one.
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

/// What messages call a model, and the folder with the files that belong to it; an empty one has none.
struct ModelPlace {
  std::string source;
  std::filesystem::path folder = {};
};
ModelPlace place_of(const std::filesystem::path& file);
/// The file of a model: that in the folder of a SavedModel, any other path as it is. E106 for another folder.
std::filesystem::path model_file(const std::filesystem::path& path);

/// The program of a model of another framework than ONNX, told by its first bytes; null for any other file. With
/// `nodes` nothing is thrown for a node that cannot be translated: they are listed there. E310 for a signature, a tag
/// or outputs that were chosen of a model that has none.
std::unique_ptr<Program> import_other(const Bytes& file, const ModelPlace& place, const CompileOptions& options,
                                      std::vector<NodeSupport>* nodes = nullptr);

/// The same for a program of torch.export. E310 for sizes, values and inputs that it does not have.
std::unique_ptr<Program> import_exported(Bytes file, const std::string& source, const CompileOptions& options,
                                         std::vector<NodeSupport>* nodes = nullptr);

/// Copies constants that lie in memory of the caller's, for models that are read again.
void own_constants(CompileOptions& options);

/// A program as the frontend gives it -> something that runs where the options say.
std::shared_ptr<Executable> compile_program(std::unique_ptr<Program> program, const CompileOptions& options,
                                            CompileReport report);

/// The same where sizes decided what the program of `model` is, so that other sizes have other programs.
std::shared_ptr<Executable> compile_decided(std::shared_ptr<const onnx::Model> model, std::unique_ptr<Program> program,
                                            onnx::SizeDecisions decisions, const CompileOptions& options,
                                            CompileReport report);

/// The same on several devices, which compute each run together.
std::shared_ptr<Executable> compile_ranks(std::unique_ptr<Program> program, const CompileOptions& options,
                                          CompileReport report);
/// The same from what every chip starts from.
std::shared_ptr<Executable> compile_ranks(std::shared_ptr<const ProgramSource> source, const CompileOptions& options,
                                          CompileReport report);

/// What the passes for this chip may ask.
PassContext context_of(const Chip& chip, const CompileOptions& options);
/// The passes that every chip shares.
void run_shared_passes(Program& program, const CompileOptions& options, CompileReport& report);
/// The passes for one chip, after the shared ones.
void run_chip_passes(Program& program, const PassContext& context, const CompileOptions& options,
                     CompileReport& report);

/// The program after the shared passes as text that refers to its large constants: what every chip starts from.
std::shared_ptr<const ProgramSource> source_of(const Program& program, const CompileOptions& options);

/// A program after the passes that every chip shares -> kernel calls for one chip, chosen by `options.choose` or else
/// by the cost model. `asked` says with what precision.
Plan make_plan(Program& program, const Chip& chip, const ProgramSource& asked, const CompileOptions& options,
               CompileReport& report);

/// The vendor's libraries that are here for the place's device and that the options allow.
VendorLibraries find_libraries(const Place& place, const CompileOptions& options);

/// What the device is called in tunings (runtime/tunings.h).
std::string tuning_key(const Place& place);

/// Lets tunings of the place's device choose (options.choose) where nothing does yet, after measuring them if the
/// options say so. The vendor's libraries are only opened when they are to be measured, or were: that takes long.
void decide_by_tunings(const ProgramSource& source, const Place& place, CompileOptions& options);
/// The same by what is kept for a chip, here or not.
CompileOptions decided_by_tunings(const Chip& chip, CompileOptions options);

/// What the code generator is given for each kernel of a plan.
std::vector<KernelSource> kernel_sources(const Plan& plan);
/// Kernel sources -> machine code.
Bytes build_image(Plan& plan, const CompileOptions& options, CompileReport& report);

/// A program as text -> kernel calls and machine code for one chip.
ChipProgram compile_source(const ProgramSource& source, const Chip& chip, const CompileOptions& options,
                           CompileReport& report);

/// The reference, which judges the passes too: without passes it runs the program as the frontend gave it, and then
/// takes f32 only; after the passes of a chip it may be of another precision. E502 for what it does not do.
std::shared_ptr<Executable> make_reference_for(std::unique_ptr<Program> program, const Place& place,
                                               const CompileOptions& options, CompileReport report);

/// What `make(place)` gives; for the device `auto`, the CPU takes a program that the GPU cannot, with a warning.
std::shared_ptr<Executable> make_at(const Place& place, const CompileOptions& options,
                                    const std::function<std::shared_ptr<Executable>(const Place&)>& make);

std::shared_ptr<Executable> run_on(const Runner& runner, ChipProgram program, Origin origin, CompileReport report);

/// Loads a saved program: the code in it for the chip that runs here best, else compiled from the program in it.
std::shared_ptr<Executable> load_saved(Bytes file, const CompileOptions& options, const std::string& name);

}  // namespace weft
