// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/codegen.h"
#include "base/file.h"

namespace weft {

class KernelCache;
class KernelPack;
struct PackEntry;

struct BuildOptions {
  int threads = 0;  ///< compiler threads; 0: one for each CPU that this process may use
  /// Null: the shared cache of the process. With a watch (base/watch.h), the cache must live as long as the process.
  KernelCache* cache = nullptr;
  const KernelPack* pack = nullptr;     ///< searched after the cache
  std::vector<std::string> exported{};  ///< symbols that a CPU image exports; empty: all entries
  std::function<void(int done, int total)>
      progress{};  ///< called after each kernel by the thread that compiled it; calls never overlap
};

/// A source that the compiler refused or crashed on. `index`: its index among the sources.
struct KernelFailure {
  size_t index = 0;
  std::string diagnostics;
};

/// The compiled and linked kernels of a program; `image` is empty if a kernel failed.
struct BuiltKernels {
  Bytes image{};
  std::vector<ResourceUse> kernels{};  ///< AMD only
  std::vector<KernelFailure> failures{};
};

/// Builds one loadable image: looks up each distinct source in the cache, compiles the missing ones in parallel, and
/// links. A kernel that several threads request is compiled once. If the image is cached, the code generator is not
/// opened. Refused sources are listed in the result; a failed link is an internal error; a missing code generator is
/// E205. If the thread's watch ends the work (E403, E404), running compilations finish and are cached, but no new
/// compilations start.
BuiltKernels build_kernels(std::span<const KernelSource> sources, const Chip& chip, const BuildOptions& options = {});

/// Builds kernels. A refused source is an internal error with the compiler's messages and the source.
BuiltKernels build_kernels_or_throw(std::span<const KernelSource> sources, const Chip& chip,
                                    const BuildOptions& options = {});

/// Compiles kernels and the classes that they share for a pack (kernel_pack.h). The target is plain_chip(chip), without
/// the features that no kernel tests. Leaves out refused kernels. Does not read `options.pack`.
std::vector<PackEntry> build_for_pack(std::span<const KernelSource> sources, const Chip& chip,
                                      const BuildOptions& options = {});

/// Counters of this process, for `--json` and for tests that require that nothing was compiled.
struct BuildCounts {
  int64_t compiles = 0, links = 0;
  int64_t kernel_hits = 0, image_hits = 0;  ///< hits in the cache
  int64_t pack_hits = 0;
  double compile_ms = 0, link_ms = 0;  ///< summed over threads
};
BuildCounts build_counts();

}  // namespace weft
