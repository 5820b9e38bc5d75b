// SPDX-License-Identifier: Apache-2.0
#include "codegen/front_end.h"

#include <clang/CodeGen/CodeGenAction.h>

#include "base/text.h"
#include "codegen/clang_run.h"

namespace weft::codegen {

std::unique_ptr<llvm::Module> parse(const KernelSource& source, const Chip& chip, const Prelude& prelude,
                                    llvm::LLVMContext& context, std::string& diagnostics) {
  Files files = embedded_file_system();
  std::string path = cat("/weft/", source.name, ".cpp");
  files->addFileNoOwn(path, 0, llvm::MemoryBufferRef(source.code, source.name));
  auto arguments = clang_arguments(source, chip);
  if (!prelude.empty()) {
    for (auto& argument : use_prelude(prelude, files)) arguments.push_back(std::move(argument));
  }
  clang::EmitLLVMOnlyAction action(&context);
  if (!run_clang(action, arguments, path, files, diagnostics)) return nullptr;
  return action.takeModule();
}

}  // namespace weft::codegen
