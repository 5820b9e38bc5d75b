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
  int threads = 0;                      ///< that compile at once; 0: as many as this process may run on
  KernelCache* cache = nullptr;         ///< null: the shared cache of the process; with a watch (base/watch.h) it must
                                        ///< live as long as the process
  const KernelPack* pack = nullptr;     ///< looked into after the cache
  std::vector<std::string> exported{};  ///< visible symbols of an x86 image; empty: all entries
  std::function<void(int done, int total)>
      progress{};  ///< called after each kernel, from any of the threads, one at a time
};

/// A kernel that the compiler refused (or crashed on); `index` is its place among the sources.
struct KernelFailure {
  size_t index = 0;
  std::string diagnostics;
};

/// The compiled and linked kernels of one program. The image is empty if one of them failed.
struct BuiltKernels {
  Bytes image{};
  std::vector<ResourceUse> kernels{};  ///< AMD only
  std::vector<KernelFailure> failures{};
};

/// Builds one loadable image from sources: looks up each distinct kernel in the cache, compiles missing ones in
/// parallel, links. A kernel that several threads request is compiled once. If everything is cached, the code generator
/// is not even opened. Refused kernels are listed in the result; a failing link is an internal error; a missing code
/// generator is E205. When the watch of this thread ends the work (E403, E404), kernels in compilation still enter the
/// cache; no further ones are started.
BuiltKernels build_kernels(std::span<const KernelSource> sources, const Chip& chip, const BuildOptions& options = {});

/// The same, but a refused kernel is an internal error with the compiler's messages and the place of the kept source.
BuiltKernels build_kernels_or_throw(std::span<const KernelSource> sources, const Chip& chip,
                                    const BuildOptions& options = {});

/// These kernels and their shared parts for a pack (kernel_build/kernel_pack.h), compiled for the chip as kernels see it
/// (base/chip_features.h). Refused kernels are left out. `options.pack` is not read.
std::vector<PackEntry> build_for_pack(std::span<const KernelSource> sources, const Chip& chip,
                                      const BuildOptions& options = {});

/// Counts of this process so far, for `--json` and for tests that require "nothing was compiled".
struct BuildCounts {
  int64_t compiles = 0, links = 0;
  int64_t kernel_hits = 0, image_hits = 0;  ///< found in the cache
  int64_t pack_hits = 0;
  double compile_ms = 0, link_ms = 0;  ///< summed over threads
};
BuildCounts build_counts();

}  // namespace weft
