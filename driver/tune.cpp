// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "compile/tune.h"
#include "driver/inputs.h"
#include "driver/model_options.h"
#include "driver/terminal.h"
#include "driver/verbs.h"

namespace weft::driver {
namespace {

std::string microseconds(double nanoseconds) { return show_number(nanoseconds / 1e3); }

void show_problems(const TuneReport& report) {
  std::vector<std::vector<std::string>> rows{{"problem", "places", "us", "fastest", "us", "measured"}};
  double before = 0, after = 0;
  for (const TunedProblem& p : report.problems) {
    rows.push_back({p.problem, cat(p.places), microseconds(p.nanoseconds),
                    p.fastest == p.favourite ? "as the cost model says" : p.fastest,
                    microseconds(p.nanoseconds / p.gain), cat(p.measured)});
    before += p.places * p.nanoseconds;
    after += p.places * p.nanoseconds / p.gain;
  }
  if (rows.size() > 1) print(table(rows));
  print(cat(report.problems.size(), " problems, ", report.rounds, " rounds", report.is_complete ? "" : " (time is up)",
            report.problems.empty() ? ""
                                    : cat(": ", microseconds(before), " us by the cost model's choices, ",
                                          microseconds(after), " us by the fastest")));
  for (const std::string& text : report.notes) note(cat("note: ", printable(text)));
}

int tune_model(ModelOptions& model, const InputOptions& inputs) {
  bool are_given = !inputs.files.empty() || !inputs.fills.empty() || !inputs.at.empty();
  if (are_given)
    model.compile.tune_inputs = [&](const Executable& executable) { return make_inputs(executable, inputs); };
  ProgressLine line;
  model.compile.progress = [&](const Progress& progress) { line.show(progress); };
  show_problems(tune_file(model.model, model.compile));
  return exit_done;
}

void list(const std::vector<Tuning>& tunings) {
  std::vector<std::vector<std::string>> rows{{"problem", "candidate", "us", "chip"}};
  for (const Tuning& t : tunings) rows.push_back({t.problem, t.candidate, microseconds(t.nanoseconds), t.chip});
  if (rows.size() > 1) print(printable(table(rows)));
  print(cat(tunings.size(), " tunings in ", printable(TuningStore::default_file().string())));
}

}  // namespace

int tune_verb(Words words) {
  CommandLine line(
      {.name = "tune",
       .purpose = "Measure which of several kernels is fastest on this chip, for the choices of later compiles.",
       .examples = {"weft tune examples/digits/digits.onnx --seconds 5", "weft tune --list",
                    "weft tune --export tunings.json"}});
  ModelOptions model;
  InputOptions inputs;
  std::string exported, imported;
  bool lists = false, clears = false;
  model.compile.tune = 30;
  add_model_options(line, model, false);
  add_input_options(line, inputs);
  line.group("Tuning");
  line.value("--seconds", "S", model.compile.tune, "measure for at most S seconds (30); a second call continues");
  line.flag("--list", lists, "list the measurements");
  line.value("--export,-o", "FILE", exported, "write the measurements (JSON; - is standard output)");
  line.value("--import", "FILE", imported, "import the measurements of another machine with such a chip");
  line.flag("--clear", clears, "delete the measurements");
  if (!line.parse(words)) return exit_done;

  TuningStore store(TuningStore::default_file());
  if (clears) print(cat("removed ", store.clear(), " tunings"));
  if (!imported.empty()) {
    std::vector<Tuning> tunings = parse_tunings(as_text(map_file(imported)));
    store.put(tunings);
    print(cat("took in ", tunings.size(), " tunings"));
  }
  if (!model.model.empty()) tune_model(model, inputs);
  if (lists) list(store.all());
  if (!exported.empty()) write_result_file(exported, tunings_text(store.all()));
  bool does_nothing = model.model.empty() && imported.empty() && exported.empty() && !lists && !clears;
  if (!does_nothing) return exit_done;
  throw Error({.kind = ErrorKind::usage,
               .code = "E202",
               .what = "weft tune has nothing to do",
               .hint = "name a model, or --list, --export, --import or --clear"});
}

}  // namespace weft::driver
