// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "base/text.h"
#include "driver/difference_table.h"
#include "driver/tensor_files.h"
#include "driver/terminal.h"
#include "driver/verbs.h"

namespace weft::driver {
namespace {

const Tensor* find(const NamedTensors& tensors, const std::string& name) {
  for (const auto& [own, tensor] : tensors) {
    if (own == name) return &tensor;
  }
  return nullptr;
}

}  // namespace

int compare_verb(Words words) {
  CommandLine line({.name = "compare",
                    .purpose = "Compare the tensors of two files (.npy, .npz, .pb). Exit code 1 when they differ.",
                    .examples = {"weft compare mine.npz reference.npz",
                                 "weft compare examples/digits/ten.npy examples/digits/ten.npy --atol 1e-5"}});
  std::string file, reference;
  Tolerance tolerance;
  line.positional("FILE", file, "the tensors to compare");
  line.positional("REFERENCE", reference, "the tensors that are taken as correct");
  add_tolerance_options(line, tolerance);
  if (!line.parse(words)) return exit_done;

  auto values = read_tensors(file), references = read_tensors(reference);
  bool is_single = values.size() == 1 && references.size() == 1;  // then names may differ
  DifferenceTable rows;
  for (const auto& [name, tensor] : references) {
    const Tensor* value = is_single ? &values[0].second : find(values, name);
    if (!value)
      throw Error({.kind = ErrorKind::usage,
                   .code = "E212",
                   .what = cat(printable(file), " has no tensor '", printable(name), "'")});
    rows.add(name, *value, tensor, tolerance);
  }
  print(rows.text());
  return rows.is_equal() ? exit_done : exit_differs;
}

}  // namespace weft::driver
