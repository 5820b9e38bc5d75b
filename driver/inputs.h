// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <span>
#include <string>
#include <vector>

#include "compile.h"
#include "driver/image.h"
#include "driver/options.h"
#include "runtime/executable.h"

/// What goes into a model: files, pictures, or made-up numbers.
namespace weft::driver {

struct InputOptions {
  std::vector<std::string> files;     ///< "x=f.npy", "f.npz", "picture.png", "input_0.pb"
  std::vector<std::string> fills;     ///< "x=rand", "rand"
  std::map<std::string, int64_t> at;  ///< symbols of sizes that stay open
  int64_t seed = 0;
  bool cast = false;
  ImageOptions image;
};

void add_input_options(CommandLine& line, InputOptions& options);

/// A tensor for every input of the program: from the files first, then by the fills; what is left takes its default,
/// else random numbers, and that is noted. Open sizes are those of given files, of --at, the usual ones of `shapes`,
/// else the least. Throws E203, E212, E213 and E310.
std::vector<Tensor> make_inputs(const Executable& executable, const InputOptions& options,
                                std::span<const ShapeRequest> shapes = {});

/// A fill: rand (floats in [-1, 1), integers 0 or 1), rand:0..999, zeros, ones, range. Throws E203.
Tensor filled(const std::string& kind, DType type, std::vector<int64_t> dims, uint64_t seed);

}  // namespace weft::driver
