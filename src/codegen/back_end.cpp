// SPDX-License-Identifier: Apache-2.0
#include "codegen/back_end.h"

#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Transforms/Instrumentation/AddressSanitizer.h>
#include <llvm/Transforms/Instrumentation/ThreadSanitizer.h>

#include <algorithm>

#include "base/text.h"

namespace weft::codegen {
namespace {

/// Returns the kernels of a module. For NVIDIA, clang 19 marks them in metadata, later versions by calling convention.
std::vector<llvm::Function*> kernels_of(llvm::Module& module) {
  std::vector<llvm::Function*> kernels;
  for (llvm::Function& function : module) {
    auto convention = function.getCallingConv();
    bool is_kernel = convention == llvm::CallingConv::AMDGPU_KERNEL || convention == llvm::CallingConv::PTX_Kernel;
    if (is_kernel && !function.isDeclaration()) kernels.push_back(&function);
  }
  auto* notes = module.getNamedMetadata("nvvm.annotations");
  if (!notes) return kernels;
  for (llvm::MDNode* note : notes->operands()) {
    auto* function = llvm::mdconst::dyn_extract_or_null<llvm::Function>(note->getOperand(0));
    auto* key = llvm::dyn_cast<llvm::MDString>(note->getOperand(1));
    if (function && key && key->getString() == "kernel") kernels.push_back(function);
  }
  return kernels;
}

void set_amd_launch(llvm::Function& kernel, const KernelSource& source) {
  kernel.addFnAttr("amdgpu-flat-work-group-size", cat(source.work_group, ",", source.work_group));
  kernel.addFnAttr("uniform-work-group-size", "true");
  // If a SIMD held only one wave, LLVM would keep CDNA's accumulators in AGPRs and copy them, so ask for two waves.
  kernel.addFnAttr("amdgpu-waves-per-eu", cat(std::max(source.occupancy, 2)));
}

void annotate(llvm::Function& kernel, const char* key, int value) {
  auto& context = kernel.getContext();
  auto* number = llvm::ConstantInt::get(llvm::Type::getInt32Ty(context), static_cast<uint64_t>(value));
  llvm::Metadata* parts[] = {llvm::ConstantAsMetadata::get(&kernel), llvm::MDString::get(context, key),
                             llvm::ConstantAsMetadata::get(number)};
  kernel.getParent()->getOrInsertNamedMetadata("nvvm.annotations")->addOperand(llvm::MDNode::get(context, parts));
}

void set_nvidia_launch(llvm::Function& kernel, const KernelSource& source) {
#if LLVM_VERSION_MAJOR >= 21
  kernel.addFnAttr("nvvm.reqntid", cat(source.work_group));
  if (source.occupancy > 0) kernel.addFnAttr("nvvm.minctasm", cat(source.occupancy));
#else
  annotate(kernel, "reqntidx", source.work_group);
  annotate(kernel, "reqntidy", 1);
  annotate(kernel, "reqntidz", 1);
  if (source.occupancy > 0) annotate(kernel, "minctasm", source.occupancy);
#endif
}

void set_launch(llvm::Module& module, const KernelSource& source, ChipKind kind) {
  for (llvm::Function* kernel : kernels_of(module)) {
    if (kind == ChipKind::amd) set_amd_launch(*kernel, source);
    if (kind == ChipKind::nvidia) set_nvidia_launch(*kernel, source);
  }
}

bool is_ours_alone(const llvm::GlobalValue& value) {
  return !value.isDeclaration() && !value.hasAppendingLinkage() && value.isDiscardableIfUnused();
}

/// If only this module uses a symbol, gives it internal linkage and appends `suffix` to its name, because symbols of
/// merged PTX share a namespace.
void make_private(llvm::GlobalValue& value, const std::string& suffix) {
  if (!is_ours_alone(value)) return;
  if (auto* object = llvm::dyn_cast<llvm::GlobalObject>(&value)) object->setComdat(nullptr);
  value.setLinkage(llvm::GlobalValue::InternalLinkage);
  value.setVisibility(llvm::GlobalValue::DefaultVisibility);
  if (!suffix.empty()) value.setName(value.getName() + suffix);
}

bool is_cpu(const llvm::TargetMachine& machine) {
  return machine.getTargetTriple().isX86() || machine.getTargetTriple().isAArch64();
}

/// Returns the library functions that LLVM may call: libc's memory functions on CPUs, none on GPUs.
llvm::TargetLibraryInfoImpl library_calls(const llvm::TargetMachine& machine) {
  llvm::TargetLibraryInfoImpl info(machine.getTargetTriple());
  info.disableAllFunctions();
  if (is_cpu(machine)) {
    for (auto call : {llvm::LibFunc_memcpy, llvm::LibFunc_memmove, llvm::LibFunc_memset}) info.setAvailable(call);
  }
  return info;
}

/// Passes for CPU kernels, which already use vectors and mark functions to inline and loops to unroll. The passes take
/// about half the time of O3, and the code spills less: O3's early LICM and IndVars lengthen live ranges of addresses.
constexpr const char* short_pipeline =
    "function(sroa,early-cse,simplifycfg),always-inline,globaldce,cgscc(inline),globaldce,"
    "function(sroa,early-cse<memssa>,simplifycfg,instcombine<no-verify-fixpoint>,"
    "loop(loop-rotate,loop-deletion,loop-unroll-full),sroa<modify-cfg>,early-cse<memssa>,gvn,"
    "instcombine<no-verify-fixpoint>,dse,loop-mssa(licm),adce,simplifycfg<hoist-common-insts;sink-common-insts>,"
    "instcombine<no-verify-fixpoint>,div-rem-pairs,simplifycfg)";

void add_sanitizer(llvm::ModulePassManager& passes, Sanitizer sanitizer) {
  if (sanitizer == Sanitizer::address) passes.addPass(llvm::AddressSanitizerPass(llvm::AddressSanitizerOptions{}));
  if (sanitizer != Sanitizer::thread) return;
  passes.addPass(llvm::ModuleThreadSanitizerPass());
  passes.addPass(llvm::createModuleToFunctionPassAdaptor(llvm::ThreadSanitizerPass()));
}

llvm::ModulePassManager pipeline(llvm::PassBuilder& builder, const KernelSource& source,
                                 const llvm::TargetMachine& machine) {
  llvm::ModulePassManager passes;
  if (!is_cpu(machine) || source.vectorize) {
    passes = builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3);
  } else if (llvm::Error error = builder.parsePassPipeline(passes, short_pipeline)) {
    llvm::report_fatal_error(std::move(error));  // a pass has another name in this LLVM
  }
  if (machine.getTargetTriple().isX86()) add_sanitizer(passes, source.sanitizer);
  return passes;
}

}  // namespace

void prepare(llvm::Module& module, const KernelSource& source, const Chip& chip) {
  std::string suffix = chip.kind == ChipKind::nvidia ? "_" + source.name : "";
  for (llvm::GlobalVariable& variable : module.globals()) make_private(variable, suffix);
  for (llvm::Function& function : module) make_private(function, suffix);
  set_launch(module, source, chip.kind);
}

void optimise(llvm::Module& module, llvm::TargetMachine& machine, const KernelSource& source) {
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = source.vectorize;
  tuning.SLPVectorization = source.vectorize;
  tuning.LoopInterleaving = source.vectorize;
  llvm::PassBuilder builder(&machine, tuning);

  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager calls;
  llvm::ModuleAnalysisManager modules;
  auto library = library_calls(machine);
  functions.registerPass([&] { return llvm::TargetLibraryAnalysis(library); });
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(calls);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, calls, modules);
  pipeline(builder, source, machine).run(module, modules);
}

std::vector<std::byte> emit(llvm::Module& module, llvm::TargetMachine& machine, ChipKind kind) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream out(bytes);
  llvm::legacy::PassManager passes;
  passes.add(new llvm::TargetLibraryInfoWrapperPass(library_calls(machine)));
  auto form = kind == ChipKind::nvidia ? llvm::CodeGenFileType::AssemblyFile : llvm::CodeGenFileType::ObjectFile;
  if (machine.addPassesToEmitFile(passes, out, nullptr, form)) return {};
  passes.run(module);
  auto* first = reinterpret_cast<const std::byte*>(bytes.data());
  return {first, first + bytes.size()};
}

}  // namespace weft::codegen
