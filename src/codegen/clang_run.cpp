// SPDX-License-Identifier: Apache-2.0
#include "codegen/clang_run.h"

#include <clang/Frontend/CompilerInstance.h>
#include <clang/Frontend/CompilerInvocation.h>
#include <clang/Frontend/TextDiagnosticPrinter.h>

#include "base/chip_features.h"
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
  // Without -ffast-math, NaN and infinity keep their meaning. cc1 has errno, traps,
  // exceptions and unwind tables off by default. Integers wrap around, as in every framework.
  add(list, {"-x", "c++", "-std=c++20", "-O3", "-disable-llvm-passes", "-ffreestanding", "-fno-builtin", "-fwrapv"});
  add(list, {"-ffp-contract=fast", "-fno-rtti", "-fno-threadsafe-statics", "-nostdsysteminc", "-nobuiltininc"});
  add(list, {"-I/weft/kernels", "-I/weft", "-mrelocation-model", "pic", "-pic-level", "2", "-emit-llvm-only"});
  add(list, {"-disable-llvm-verifier"});  // the verifier would take 1 % of the time
  if (source.warnings) add(list, {"-Wall", "-Wextra"});
  else add(list, {"-w"});
  if (source.checked) add(list, {"-DWEFT_CHECKED=1"});
}

void add_target(Arguments& list, const KernelSource& source, const Chip& chip) {
  add(list, {"-triple", triple_of(chip.kind), "-target-cpu", processor_of(chip)});
  std::string features = features_of(chip);
  for (std::string_view feature : split(features, ',')) add(list, {"-target-feature", std::string(feature)});
  for (const std::string& macro : kernel_macros(chip)) add(list, {"-D" + macro});
  switch (chip.kind) {
    case ChipKind::x86:
      // Kernels choose their vector width by the chip's features; clang would split 512-bit vectors by default.
      add(list, {"-tune-cpu", chip.tune.empty() ? "generic" : chip.tune, "-mprefer-vector-width=512"});
      if (source.sanitizer == Sanitizer::address) add(list, {"-fsanitize=address"});
      if (source.sanitizer == Sanitizer::thread) add(list, {"-fsanitize=thread"});
      break;
    case ChipKind::arm: add(list, {"-target-feature", "+neon"}); break;
    case ChipKind::amd: add(list, {"-mcode-object-version=5"}); break;
    case ChipKind::nvidia: break;
  }
}

}  // namespace

Files embedded_file_system() {
  auto files = llvm::makeIntrusiveRefCnt<llvm::vfs::InMemoryFileSystem>();
  for (const EmbeddedFile& file : embedded_files()) {
    files->addFileNoOwn(cat("/weft/", file.name), 0, llvm::MemoryBufferRef(file.text, file.name));
  }
  return files;
}

std::vector<std::string> clang_arguments(const KernelSource& source, const Chip& chip) {
  Arguments list;
  add_target(list, source, chip);
  add_language(list, source);
  return list;
}

bool run_clang(clang::FrontendAction& action, const std::vector<std::string>& arguments, const std::string& input,
               const Files& files, std::string& diagnostics) {
  std::vector<const char*> pointers;
  for (const std::string& argument : arguments) pointers.push_back(argument.c_str());
  pointers.push_back(input.c_str());

  llvm::raw_string_ostream text(diagnostics);
  llvm::IntrusiveRefCntPtr<clang::DiagnosticOptions> options = new clang::DiagnosticOptions();
  clang::TextDiagnosticPrinter printer(text, options.get());
  clang::DiagnosticsEngine early(new clang::DiagnosticIDs(), options, &printer, false);
  auto invocation = std::make_shared<clang::CompilerInvocation>();
  if (!clang::CompilerInvocation::CreateFromArgs(*invocation, pointers, early)) return false;

  clang::CompilerInstance compiler;
  compiler.setInvocation(invocation);
  compiler.createDiagnostics(&printer, false);
  compiler.setVerboseOutputStream(llvm::nulls());
  compiler.createFileManager(files);
  return compiler.ExecuteAction(action);
}

}  // namespace weft::codegen
