// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/chip.h"
#include "base/file.h"

/// The interface between Weft and its code generator (libweft-codegen.so: clang, LLVM and lld). No exception leaves the
/// library, and a crash inside LLVM becomes a result with diagnostics.
namespace weft {

enum class Sanitizer : uint8_t { none, address, thread };

/// Returns the sanitizer that this build of Weft is instrumented with: x86 kernels are compiled to match it.
constexpr Sanitizer build_sanitizer() {
#if defined(__SANITIZE_ADDRESS__)
  return Sanitizer::address;
#elif defined(__SANITIZE_THREAD__)
  return Sanitizer::thread;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
  return Sanitizer::address;
#elif __has_feature(thread_sanitizer)
  return Sanitizer::thread;
#else
  return Sanitizer::none;
#endif
#else
  return Sanitizer::none;
#endif
}

/// One C++ translation unit that calls the functions of src/kernels/. It includes the kernel headers by bare name
/// ("pointwise.h"); nothing is read from disk.
struct KernelSource {
  std::string name{};    ///< for messages, and the stem of the file that diagnostics name
  std::string code{};    ///< C++20 without standard headers; entries are extern "C"
  int work_group = 256;  ///< GPU: the exact number of threads of a work group, fixed at compile time
  int occupancy = 0;     ///< GPU: wanted waves per SIMD (AMD, at least 2) or work groups per SM (NVIDIA; 0: any number)
  bool vectorize = false;  ///< also run LLVM's loop and SLP vectorisers; Weft's kernels use vectors already
  bool checked = false;    ///< defines WEFT_CHECKED: kernels check bounds, races and unwritten bytes
  bool warnings = false;   ///< clang's -Wall -Wextra go into `diagnostics` (costs time)
  Sanitizer sanitizer = build_sanitizer();  ///< x86 only
};

/// The registers (per lane) and memory that a GPU kernel uses, read from the notes of an AMD code object.
struct ResourceUse {
  std::string kernel{};
  int vgprs = 0;  ///< vector registers; on CDNA 2 and 3 including `agprs`
  int agprs = 0;  ///< accumulation registers of CDNA
  int sgprs = 0;
  int vgpr_spills = 0, sgpr_spills = 0;
  int lds_bytes = 0;      ///< static shared memory of a work group
  int scratch_bytes = 0;  ///< private memory of a lane
  int work_group = 0;     ///< largest work group for a launch of the kernel
  int wave = 0;           ///< lanes of a wave: 32 or 64
  int kernarg_bytes = 0;
};

/// The processor time (not wall time) of each phase of a compile.
struct CompileTimes {
  double front_end_ms = 0, optimise_ms = 0, emit_ms = 0;
};

/// The result of a compile or a link. After a compile, `bytes` holds a relocatable ELF object (CPU, AMD) or PTX text
/// (NVIDIA). After a link, `bytes` holds a shared object (CPU), the PTX texts (NVIDIA), or code objects of version 5
/// for hipModuleLoadData (AMD): one per input, at offsets that are multiples of 64 bytes.
struct CodegenResult {
  bool ok = false;
  std::vector<std::byte> bytes{};      ///< empty unless ok
  std::string diagnostics{};           ///< the reasons of a failure, or warnings: lines in clang's format
  std::vector<ResourceUse> kernels{};  ///< AMD only
  CompileTimes times{};
};

/// A cache of parsed kernel headers that several processes share. `name` is a key made from the options of the parse.
class HeaderStore {
 public:
  virtual ~HeaderStore() = default;
  /// Returns the headers that the same build of the code generator stored under `name` with `put`; empty if none.
  virtual Bytes get(std::string_view name) noexcept = 0;
  virtual void put(std::string_view name, Bytes headers) noexcept = 0;
};

/// The code generator. All methods are thread-safe; concurrent links for CPUs and AMD run one after another (lld).
class Codegen {
 public:
  virtual ~Codegen() = default;
  /// Compiles one kernel; takes about 10 ms for a pointwise kernel. The first kernel for a chip that includes headers
  /// waits until all kernel headers are parsed (about 200 ms) or read from `store`. If the headers do not compile
  /// together for this chip, the diagnostics say why, and each kernel parses its own headers.
  virtual CodegenResult compile(const KernelSource& source, const Chip& chip,
                                HeaderStore* store = nullptr) noexcept = 0;
  /// Links results of `compile` into one loadable image. A CPU image exports only the symbols in `exported` (if empty:
  /// all entries). An NVIDIA image is the PTX modules in order, each ended by a zero byte.
  virtual CodegenResult link(std::span<const std::span<const std::byte>> objects, const Chip& chip,
                             std::span<const std::string> exported) noexcept = 0;
  /// Returns the assembly text of an object or image (PTX unchanged). Errors are reported in the text.
  virtual std::string disassemble(std::span<const std::byte> object, const Chip& chip) noexcept = 0;
  /// Returns the resource use of each kernel of an AMD object or image; empty for other chips.
  virtual std::vector<ResourceUse> resources(std::span<const std::byte> object) noexcept = 0;
  /// Compresses data with zstd at its highest level, which takes seconds for a few megabytes.
  virtual std::vector<std::byte> compress(std::span<const std::byte> data) noexcept = 0;
  /// Reverses `compress`. Returns false if `data` is damaged or `out` does not have the size of the original data.
  virtual bool decompress(std::span<const std::byte> data, std::span<std::byte> out) noexcept = 0;
};

}  // namespace weft

/// The only function that libweft-codegen exports. Returns the code generator of the process, which is never freed.
extern "C" weft::Codegen* weft_codegen_create();
