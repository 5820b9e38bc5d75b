// SPDX-License-Identifier: Apache-2.0
#include "codegen/prelude.h"

#include <clang/Frontend/CompilerInstance.h>
#include <clang/Lex/Preprocessor.h>
#include <clang/Serialization/ASTWriter.h>
#include <clang/Serialization/PCHContainerOperations.h>

#include <map>
#include <mutex>

#include "base/text.h"
#include "codegen/embedded.h"
#include "codegen/guard.h"

namespace weft::codegen {
namespace {

constexpr const char* source_path = "/weft/prelude.h";
constexpr const char* compiled_path = "/weft/prelude.pch";

/// Returns an `#include` of each kernel header; headers guard their chip-specific parts themselves.
const std::string& source_text() {
  static const std::string text = [] {
    std::string lines;
    for (const EmbeddedFile& file : embedded_files()) {
      if (file.name.ends_with(".h")) lines += cat("#include \"", file.name, "\"\n");
    }
    return lines;
  }();
  return text;
}

Files with_source() {
  Files files = embedded_file_system();
  files->addFileNoOwn(source_path, 0, llvm::MemoryBufferRef(source_text(), source_path));
  return files;
}

class WritePrelude : public clang::ASTFrontendAction {
 public:
  std::shared_ptr<clang::PCHBuffer> buffer = std::make_shared<clang::PCHBuffer>();

 protected:
  std::unique_ptr<clang::ASTConsumer> CreateASTConsumer(clang::CompilerInstance& compiler, llvm::StringRef) override {
    return std::make_unique<clang::PCHGenerator>(compiler.getPreprocessor(), compiler.getModuleCache(), compiled_path,
                                                 "", buffer, compiler.getFrontendOpts().ModuleFileExtensions, false,
                                                 false);
  }
  clang::TranslationUnitKind getTranslationUnitKind() override { return clang::TU_Prefix; }
  bool hasASTFileSupport() const override { return false; }
};

struct Entry {
  std::once_flag once;
  Prelude prelude;
  std::string why;
};

void make(const std::vector<std::string>& arguments, Entry& entry) {
  std::string crash;
  bool alive = run_guarded(
      [&] {
        WritePrelude action;
        bool good = run_clang(action, arguments, source_path, with_source(), entry.why);
        if (!good || !action.buffer->IsComplete) return;
        const auto& data = action.buffer->Data;
        entry.prelude = Bytes(std::as_bytes(std::span(data.data(), data.size())), action.buffer);
      },
      crash);
  if (!alive) entry.why += crash;
}

void fill(const std::vector<std::string>& arguments, Entry& entry, HeaderStore* store) {
  std::string name;
  for (const std::string& argument : arguments) name += cat(argument, "\n");
  if (store) entry.prelude = Bytes::copy(store->get(name));  // a copy: Weft may be unloaded before this library
  if (!entry.prelude.empty()) return;
  make(arguments, entry);
  if (store && !entry.prelude.empty()) store->put(name, entry.prelude);
}

Entry& entry_for(const std::vector<std::string>& arguments) {
  static std::mutex mutex;
  static std::map<std::vector<std::string>, Entry> entries;
  std::scoped_lock lock(mutex);
  return entries[arguments];
}

}  // namespace

Prelude prelude_for(const std::vector<std::string>& arguments, HeaderStore* store, std::string& why) {
  Entry& entry = entry_for(arguments);
  std::call_once(entry.once, [&] { fill(arguments, entry, store); });
  why = entry.why;
  return entry.prelude;
}

std::vector<std::string> use_prelude(const Prelude& prelude, Files& files) {
  files->addFileNoOwn(source_path, 0, llvm::MemoryBufferRef(source_text(), source_path));
  files->addFileNoOwn(compiled_path, 0, llvm::MemoryBufferRef(as_text(prelude), compiled_path));
  return {"-include-pch", compiled_path};
}

}  // namespace weft::codegen
