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

/// Makes inputs of a model from files, from pictures or by a fill rule.
namespace weft::driver {

struct InputOptions {
  std::vector<std::string> files;     ///< "x=f.npy", "f.npz", "picture.png", "test_data_set_0"
  std::vector<std::string> fills;     ///< "x=rand", "rand"
  std::map<std::string, int64_t> at;  ///< values for symbols that the program leaves open
  int64_t seed = 0;
  bool cast = false;
  bool is_complete = false;  ///< an input without file, fill and default is an error (E310), not random numbers
  ImageOptions image;
};

void add_input_options(CommandLine& line, InputOptions& options);

/// Makes a tensor for every input of the program, first from files, then by fills. Remaining inputs take their default,
/// else (with a note) the likely values of a static input, else random numbers. Open sizes come from --at, else from the
/// given files, else from the usual sizes in `shapes`; else they are the smallest allowed.
std::vector<Tensor> make_inputs(const Executable& executable, const InputOptions& options,
                                std::span<const ShapeRequest> shapes = {});

}  // namespace weft::driver
