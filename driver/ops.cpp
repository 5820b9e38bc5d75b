// SPDX-License-Identifier: Apache-2.0
#include "ops/registry.h"

#include "base/text.h"
#include "driver/options.h"
#include "driver/terminal.h"
#include "driver/verbs.h"
#include "frontends/onnx/import/call.h"
#include "frontends/torch/import.h"
#include "ops/elementwise.h"

namespace weft::driver {

/// Prints one line for each operator, tab-separated; tools/operators.py reads it.
static void list_onnx() {
  for (const onnx::Operator& op : onnx::all_operators())
    print(cat(op.domain.empty() ? "ai.onnx" : op.domain, "\t", op.name, "\t", op.limits));
}

int ops_verb(Words words) {
  CommandLine line(
      {.name = "ops",
       .purpose =
           "List the operators that programs are made of, as in the text form and in the graph builder, or those of "
           "model files.",
       .examples = {"weft ops", "weft ops --elementwise", "weft ops --onnx", "weft ops --torch"}});
  bool only_elementwise = false, of_models = false, of_torch = false;
  line.flag("--elementwise", only_elementwise, "only the elementwise functions, with their meaning");
  line.flag("--onnx", of_models, "the operators of ONNX files: domain, name, what is refused");
  line.flag("--torch", of_torch, "the operators of programs of torch.export (.pt2)");
  if (!line.parse(words)) return exit_done;
  for (const std::string& name : of_torch ? torch::supported_operators() : std::vector<std::string>()) print(name);
  if (of_torch) return exit_done;
  if (of_models) {
    list_onnx();
    return exit_done;
  }
  if (!only_elementwise) {
    std::vector<std::vector<std::string>> rows{{"operator"}};
    for (const OpInfo* op : all_ops()) rows.push_back({std::string(op->name)});
    print(table(rows));
    print("");
  }
  std::vector<std::vector<std::string>> rows{{"function", "operands", "ONNX", "meaning"}};
  for (const FnInfo& fn : all_fns())
    rows.push_back({std::string(fn.name), cat(fn.arity), std::string(fn.onnx), std::string(fn.meaning)});
  print(table(rows));
  return exit_done;
}

}  // namespace weft::driver
