// SPDX-License-Identifier: Apache-2.0
#include "ops/registry.h"

#include "base/text.h"
#include "driver/options.h"
#include "driver/terminal.h"
#include "driver/verbs.h"
#include "ops/elementwise.h"

namespace weft::driver {

int ops_verb(Words words) {
  CommandLine line(
      {.name = "ops",
       .purpose = "List the operators that programs are made of, as in the text form and in the graph builder.",
       .examples = {"weft ops", "weft ops --elementwise"}});
  bool only_elementwise = false;
  line.flag("--elementwise", only_elementwise, "only the elementwise functions, with their meaning");
  if (!line.parse(words)) return exit_done;
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
