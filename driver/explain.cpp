// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "base/text.h"
#include "driver/embedded_texts.h"
#include "driver/model_options.h"
#include "driver/terminal.h"
#include "driver/verbs.h"

namespace weft::driver {
namespace {

bool is_code(const std::string& text) {
  return text.size() == 4 && (text[0] == 'E' || text[0] == 'W') &&
         std::all_of(text.begin() + 1, text.end(), [](unsigned char c) { return std::isdigit(c); });
}

/// Returns the cells of a code's row in docs/errors.md ("| E143 | an axis ... | what to do |"), one per line. Throws
/// E202 for an unknown code.
std::string explanation(const std::string& code) {
  std::string start = cat("| ", code, " |");
  for (std::string_view row : split(errors_text(), '\n')) {
    if (!row.starts_with(start)) continue;
    std::string text = code;
    for (std::string_view cell : split(row.substr(start.size()), '|'))
      if (!trim(cell).empty()) text += cat("\n  ", trim(cell));
    return text;
  }
  throw Error({.kind = ErrorKind::usage,
               .code = "E202",
               .what = cat("there is no error ", code),
               .hint = "docs/errors.md lists them"});
}

int explain_model(const ModelOptions& model) {
  auto executable = compile_model(model);
  print(cat("device: ", executable->device()));
  for (const std::string& note : executable->notes()) print(note);
  for (const StaticInput& input : executable->static_inputs())
    print(cat("--constant ", printable(executable->inputs()[input.input].name), "=VALUE shows what runs for a value"));
  auto steps = executable->steps();
  for (size_t i = 0; i < steps.size(); ++i) {
    const StepInfo& step = steps[i];
    print(cat(i, "  ", paint(step.kernel, Ink::bold), " on ", step.device));
    if (!step.source.empty()) print(cat("   from: ", printable(step.source)));
    if (!step.reason.empty()) print(cat("   why:  ", printable(step.reason)));
  }
  return exit_done;
}

}  // namespace

int explain_verb(Words words) {
  CommandLine line({.name = "explain",
                    .purpose = "Say why each kernel of a model was chosen; or what an error code means.",
                    .examples = {"weft explain examples/digits/digits.onnx", "weft explain E143"}});
  ModelOptions model;
  add_model_options(line, model);
  if (!line.parse(words)) return exit_done;
  if (is_code(model.model)) return print(explanation(model.model)), exit_done;
  return explain_model(model);
}

}  // namespace weft::driver
