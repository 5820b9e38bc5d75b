// SPDX-License-Identifier: Apache-2.0
#include "codegen/front_end.h"

#include <clang/CodeGen/CodeGenAction.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Frontend/CompilerInvocation.h>
#include <clang/Frontend/TextDiagnosticPrinter.h>
#include <llvm/Support/VirtualFileSystem.h>

#include "base/text.h"
#include "codegen/embedded.h"
#include "codegen/targets.h"

namespace weft::codegen {
namespace {

using Arguments = std::vector<std::string>;

void add(Arguments& list, std::initializer_list<std::string> more) {
  list.insert(list.end(), more.begin(), more.end());
}

void add_language(Arguments& list, const KernelSource& source) {
  // What we leave out matters: no -ffast-math, so NaN and infinity keep their meaning; cc1 has errno, traps,
  // exceptions and unwind tables off unless asked.
  add(list, {"-x", "c++", "-std=c++20", "-O3", "-disable-llvm-passes", "-ffreestanding", "-fno-builtin"});
  add(list, {"-ffp-contract=fast", "-fno-rtti", "-fno-threadsafe-statics", "-nostdsysteminc", "-nobuiltininc"});
  add(list, {"-I/weft/kernels", "-I/weft", "-mrelocation-model", "pic", "-pic-level", "2"});
  if (source.warnings) add(list, {"-Wall", "-Wextra"});
  else add(list, {"-w"});
  if (source.checked) add(list, {"-DWEFT_CHECKED=1"});
}

void add_target(Arguments& list, const KernelSource& source, const Chip& chip) {
  add(list, {"-triple", triple_of(chip.kind), "-target-cpu", chip.arch});
  std::string features = features_of(chip);
  for (std::string_view feature : split(features, ',')) add(list, {"-target-feature", std::string(feature)});
  switch (chip.kind) {
    case ChipKind::x86:
      // Kernels choose their vector width by the features; clang's own caution about 512 bits would split them.
      add(list, {"-tune-cpu", chip.tune.empty() ? "generic" : chip.tune, "-mprefer-vector-width=512"});
      if (source.sanitizer == Sanitizer::address) add(list, {"-fsanitize=address"});
      if (source.sanitizer == Sanitizer::thread) add(list, {"-fsanitize=thread"});
      break;
    case ChipKind::amd: add(list, {"-mcode-object-version=5", cat("-DWEFT_WORK_GROUP=", source.work_group)}); break;
    case ChipKind::nvidia: add(list, {cat("-DWEFT_WORK_GROUP=", source.work_group)}); break;
  }
}

std::string file_name(const KernelSource& source) { return cat("/weft/", source.name, ".cpp"); }

Arguments command_line(const KernelSource& source, const Chip& chip) {
  Arguments list;
  add_target(list, source, chip);
  add_language(list, source);
  add(list, {"-emit-llvm-only", file_name(source)});
  return list;
}

llvm::IntrusiveRefCntPtr<llvm::vfs::InMemoryFileSystem> file_system(const KernelSource& source) {
  auto files = llvm::makeIntrusiveRefCnt<llvm::vfs::InMemoryFileSystem>();
  for (const EmbeddedFile& file : embedded_files()) {
    files->addFileNoOwn(cat("/weft/", file.name), 0, llvm::MemoryBufferRef(file.text, file.name));
  }
  files->addFileNoOwn(file_name(source), 0, llvm::MemoryBufferRef(source.code, source.name));
  return files;
}

}  // namespace

std::unique_ptr<llvm::Module> parse(const KernelSource& source, const Chip& chip, llvm::LLVMContext& context,
                                    std::string& diagnostics) {
  Arguments list = command_line(source, chip);
  std::vector<const char*> pointers;  // the invocation keeps pointers into these strings
  for (const std::string& argument : list) pointers.push_back(argument.c_str());

  llvm::raw_string_ostream text(diagnostics);
  llvm::IntrusiveRefCntPtr<clang::DiagnosticOptions> options = new clang::DiagnosticOptions();
  clang::TextDiagnosticPrinter printer(text, options.get());
  clang::DiagnosticsEngine early(new clang::DiagnosticIDs(), options, &printer, false);
  auto invocation = std::make_shared<clang::CompilerInvocation>();
  if (!clang::CompilerInvocation::CreateFromArgs(*invocation, pointers, early)) return nullptr;

  clang::CompilerInstance compiler;
  compiler.setInvocation(invocation);
  compiler.createDiagnostics(&printer, false);
  compiler.setVerboseOutputStream(llvm::nulls());
  compiler.createFileManager(file_system(source));
  clang::EmitLLVMOnlyAction action(&context);
  if (!compiler.ExecuteAction(action)) return nullptr;
  return action.takeModule();
}

}  // namespace weft::codegen
