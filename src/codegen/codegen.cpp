// SPDX-License-Identifier: Apache-2.0
#include "base/codegen.h"

#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <zstd.h>

#include <algorithm>
#include <ctime>

#include "base/text.h"
#include "codegen/back_end.h"
#include "codegen/embedded.h"
#include "codegen/front_end.h"
#include "codegen/guard.h"
#include "codegen/inspect.h"
#include "codegen/link.h"
#include "codegen/prelude.h"
#include "codegen/targets.h"

namespace weft::codegen {
namespace {

/// A stopwatch for the CPU time of this thread: a compilation runs on one thread, and the machine may be shared.
class Stopwatch {
 public:
  /// Returns the milliseconds since the last call or construction.
  double lap() {
    double before = last_;
    last_ = now();
    return last_ - before;
  }

 private:
  static double now() {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
  }
  double last_ = now();
};

/// A collector of messages of the back end; LLVM's own handler would end the process on an error.
class Reports : public llvm::DiagnosticHandler {
 public:
  explicit Reports(std::string& text) : text_(text) {}
  bool handleDiagnostics(const llvm::DiagnosticInfo& info) override {
    bool error = info.getSeverity() == llvm::DS_Error;
    failed = failed || error;
    if (!error && info.getSeverity() != llvm::DS_Warning) return true;
    llvm::raw_string_ostream out(text_);
    llvm::DiagnosticPrinterRawOStream printer(out);
    out << (error ? "error: " : "warning: ");
    info.print(printer);
    out << '\n';
    return true;
  }
  bool failed = false;

 private:
  std::string& text_;
};

std::string check_symbols(const CodegenResult& result, const KernelSource& source, const Chip& chip) {
  if (chip.kind == ChipKind::nvidia) return "";
  auto missing = missing_functions(result.bytes, chip.kind);
  if (missing.empty()) return "";
  return cat("kernel ", source.name, " uses ", missing, ", which a kernel cannot reach: it has neither libc nor libm");
}

void compile_here(const KernelSource& source, const Chip& chip, const Prelude& prelude, CodegenResult& result) {
  Stopwatch watch;
  llvm::LLVMContext context;
  auto module = parse(source, chip, prelude, context, result.diagnostics);
  result.times.front_end_ms = watch.lap();
  if (!module) return;

  auto handler = std::make_unique<Reports>(result.diagnostics);
  Reports& reports = *handler;
  context.setDiagnosticHandler(std::move(handler));
  std::string why;
  auto machine = make_target_machine(chip, why);
  if (!machine) {
    result.diagnostics = why;
    return;
  }
  prepare(*module, source, chip);
  optimise(*module, *machine, source);
  result.times.optimise_ms = watch.lap();
  result.bytes = emit(*module, *machine, chip.kind);
  result.kernels = amd_resources(result.bytes);
  std::string problem = check_symbols(result, source, chip);
  result.diagnostics += problem;
  result.ok = !reports.failed && problem.empty() && !result.bytes.empty();
  result.times.emit_ms = watch.lap();
}

void join_resources(std::span<const std::span<const std::byte>> objects, CodegenResult& result) {
  for (auto object : objects) {
    for (auto& kernel : amd_resources(object)) result.kernels.push_back(std::move(kernel));
  }
}

/// Returns a source's prelude. Returns none if the source has no includes, or if warnings are wanted: with a prelude,
/// clang would warn about headers only when it builds the prelude.
Prelude prelude_of(const KernelSource& source, const Chip& chip, HeaderStore* store, std::string& why) {
  if (source.warnings || source.code.find("#include") == source.code.npos) return {};
  return prelude_for(clang_arguments(source, chip), store, why);
}

class Clang : public Codegen {
 public:
  Clang() {
    install_fatal_error_handler();
    initialise_targets();
  }

  CodegenResult compile(const KernelSource& source, const Chip& chip, HeaderStore* store) noexcept override {
    std::string why;
    Prelude prelude = prelude_of(source, chip, store, why);
    CodegenResult result = guarded([&](CodegenResult& made) { compile_here(source, chip, prelude, made); });
    result.diagnostics = why + result.diagnostics;
    return result;
  }

  CodegenResult link(std::span<const std::span<const std::byte>> objects, const Chip& chip,
                     std::span<const std::string> exported) noexcept override {
    if (chip.kind == ChipKind::nvidia) return guarded([&](CodegenResult& result) { result = join_ptx(objects); });
    CodegenResult result = chip.kind == ChipKind::amd ? link_each(objects, chip) : link_elf(objects, chip, exported);
    if (result.ok) join_resources(objects, result);
    return result;
  }

  std::string disassemble(std::span<const std::byte> object, const Chip& chip) noexcept override {
    std::string text, message;
    if (chip.kind == ChipKind::nvidia) {
      text.assign(reinterpret_cast<const char*>(object.data()), object.size());
      std::ranges::replace(text, '\0', '\n');  // NUL ends each PTX module
      return text;
    }
    if (!run_guarded([&] { text = disassemble_object(object, chip); }, message)) return message;
    return text;
  }

  std::vector<ResourceUse> resources(std::span<const std::byte> object) noexcept override {
    return amd_resources(object);
  }

  std::vector<std::byte> compress(std::span<const std::byte> data) noexcept override {
    std::vector<std::byte> packed(ZSTD_compressBound(data.size()));
    size_t size = ZSTD_compress(packed.data(), packed.size(), data.data(), data.size(), ZSTD_maxCLevel());
    packed.resize(ZSTD_isError(size) ? 0 : size);
    return packed;
  }

  bool decompress(std::span<const std::byte> data, std::span<std::byte> out) noexcept override {
    return ZSTD_decompress(out.data(), out.size(), data.data(), data.size()) == out.size();
  }

 private:
  template <class Work>
  static CodegenResult guarded(Work work) {
    CodegenResult result;
    std::string message;
    bool alive = run_guarded([&] { work(result); }, message);
    if (!alive) result.diagnostics += message;
    result.ok = result.ok && alive;
    if (!result.ok) result.bytes.clear();
    return result;
  }
};

}  // namespace
}  // namespace weft::codegen

extern "C" __attribute__((visibility("default"))) weft::Codegen* weft_codegen_create() {
  static weft::codegen::Clang* instance = new weft::codegen::Clang();
  return instance;
}
