// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "base/chip.h"
#include "base/error.h"
#include "base/text.h"
#include "driver/inputs.h"
#include "driver/measure.h"
#include "driver/model_options.h"
#include "driver/program_graph.h"
#include "driver/roofline.h"
#include "driver/terminal.h"
#include "driver/verbs.h"

namespace weft::driver {
namespace {

struct PerfSettings {
  ModelOptions model;
  InputOptions input;
  MeasureOptions measure;
  std::string json, trace, html, csv;
  int kernels = 8;
};

std::string milliseconds_text(double seconds) { return show_number(seconds * 1e3); }

/// Returns a text that says how many kernels were compiled or taken from the pack or the cache, or that the code was
/// ready to run. First-run times of two measurements are comparable only if their texts are equal.
std::string start_of(const CompileReport& report) {
  if (!is_cold(report)) return "warm: nothing was compiled or linked";
  return cat("cold: ", report.kernels_compiled, " kernels compiled, ", report.kernels_from_pack, " from the pack, ",
             report.kernels_from_cache, " from the cache, and linked");
}

void print_figures(const Measurement& m, const Executable& executable) {
  Latency l = latency_of(m);
  print(cat("device       ", executable.device()));
  print(cat("latency      ", paint(milliseconds_text(l.median) + " ms", Ink::bold), " median; min ",
            milliseconds_text(l.min), ", mean ", milliseconds_text(l.mean), ", p90 ", milliseconds_text(l.p90),
            ", p95 ", milliseconds_text(l.p95), ", p99 ", milliseconds_text(l.p99), ", max ", milliseconds_text(l.max),
            "; ", m.seconds.size(), " runs"));
  print(cat("throughput   ", show_number(1 / l.mean), " inferences/s",
            m.items == 1
                ? ""
                : cat(", ", show_number(static_cast<double>(m.items) / l.mean), " items/s (", m.items, " each)")));
  print(cat("processor    ", milliseconds_text(m.cpu_seconds), " ms CPU each (", show_number(m.cpu_seconds / l.mean, 2),
            " cores); load ", show_number(m.load_before), " before, ", show_number(m.load_after), " after"));
  print(cat("start        ", start_of(executable.report())));
  print(cat("first run    ", milliseconds_text(m.first_seconds), " ms"));
  print(cat("memory       ", show_bytes(static_cast<double>(m.peak_memory)), " peak of the process, ",
            show_bytes(static_cast<double>(m.arena)), " working memory, ",
            show_bytes(static_cast<double>(executable.report().constant_bytes)), " constants"));
  std::string phases;
  double total = 0;
  for (const auto& [phase, seconds] : executable.report().phase_seconds) {
    phases += cat(phases.empty() ? "" : ", ", phase, " ", show_seconds(seconds));
    total += seconds;
  }
  print(cat("compile      ", show_seconds(total), phases.empty() ? "" : cat(" (", phases, ")")));
}

void warn_about_noise(const Measurement& m) {
  Latency l = latency_of(m);
  if (m.seconds.size() >= 10 && l.p90 > 1.25 * l.median)
    note(cat("warning: the machine was noisy: p90 is ", show_number(l.p90 / l.median, 2),
             " times the median; CPU time is the surer figure"));
}

/// Sums over all steps with the same kernel name. `least_seconds`: the time of these steps at the peak rates.
struct KernelRow {
  double seconds = 0, share = 0, least_seconds = 0;
  int64_t calls = 0, flops = 0, bytes = 0;
};

std::string rate(int64_t work, double seconds) {
  return work > 0 && seconds > 0 ? show_number(static_cast<double>(work) * 1e-9 / seconds) : "";
}

void print_kernels(const Measurement& m, int most) {
  std::map<std::string, KernelRow> kernels;
  for (const StepFigures& step : m.steps) {
    KernelRow& row = kernels[step.info.kernel];
    row.seconds += step.seconds, row.share += step.share, row.flops += step.flops, row.bytes += step.bytes, ++row.calls;
    row.least_seconds += step.roofline * step.seconds;
  }
  std::vector<std::pair<std::string, KernelRow>> order(kernels.begin(), kernels.end());
  std::ranges::sort(order, std::greater(),
                    [](const auto& entry) { return std::pair(entry.second.seconds, entry.first); });
  std::vector<std::vector<std::string>> rows{{"share %", "ms", "calls", "GFLOP/s", "GB/s", "roofline %", "kernel"}};
  for (const auto& [name, row] : order) {
    if (most-- == 0) break;
    rows.push_back({show_number(row.share * 100), milliseconds_text(row.seconds), cat(row.calls),
                    rate(row.flops, row.seconds), rate(row.bytes, row.seconds),
                    row.least_seconds > 0 ? show_number(row.least_seconds / row.seconds * 100) : "", name});
  }
  if (rows.size() > 1) print(cat("\n", table(rows)));
}

int threads_of(const ModelOptions& model) {
  int most = std::max(describe_machine().processors, 1);
  return model.compile.threads > 0 ? std::min(model.compile.threads, most) : most;
}

/// Returns the member of `s` that stores the file name for the extension of `file`. Throws E203 for other extensions.
std::string* file_of_kind(PerfSettings& s, std::string_view file) {
  if (file.ends_with(".json")) return &s.json;
  if (file.ends_with(".csv")) return &s.csv;
  if (file.ends_with(".trace")) return &s.trace;
  if (file.ends_with(".html")) return &s.html;
  throw Error({.kind = ErrorKind::usage,
               .code = "E203",
               .what = cat("-o '", printable(file), "' ends in none of .json, .csv, .trace and .html"),
               .hint = "--json, --csv, --trace and --html take any name"});
}

void add_perf_options(CommandLine& line, PerfSettings& s) {
  line.group("Measuring");
  line.value("-n,--iterations", "N", s.measure.iterations, "number of timed runs; 0: as many as fit into --duration");
  line.value("--duration", "SECONDS", s.measure.duration, "seconds of timed runs (3)");
  line.value("--warmup", "SECONDS", s.measure.warmup, "seconds of runs before that (0.3)");
  line.flag("--on-device", s.measure.on_device,
            "GPUs: inputs and outputs stay on the device, whose clock measures the time");
  line.group("Results");
  line.value("--kernels", "N", s.kernels, "number of kernels to list, slowest first (8; -1: all)");
  line.value(
      "--output,-o", "FILE", [&](std::string_view file) { *file_of_kind(s, file) = file; },
      "one of the files below, by its extension: .json, .csv, .trace or .html; repeatable");
  line.value("--json", "FILE", s.json, "all figures as JSON (- is standard output)");
  line.value("--csv", "FILE", s.csv, "time of each step as CSV");
  line.value("--trace", "FILE", s.trace, "a timeline for Perfetto or chrome://tracing");
  line.value("--html", "FILE", s.html, "a page with timeline, roofline and graph, which needs no network");
}

}  // namespace

int perf_verb(Words words) {
  CommandLine line(
      {.name = "perf",
       .purpose = "Measure a model: latency, throughput, processor time, memory, and the time of each kernel.",
       .examples = {"weft perf examples/digits/digits.onnx --at batch=8 --threads 2",
                    "weft perf examples/digits/digits.onnx -n 100 --json - --html digits.html"}});
  PerfSettings s;
  add_model_options(line, s.model);
  add_input_options(line, s.input);
  add_perf_options(line, s);
  if (!line.parse(words)) return exit_done;
  if (s.measure.iterations < 0 || !(s.measure.duration >= 0) || s.measure.duration > 86'400)
    throw Error(
        {.kind = ErrorKind::usage, .code = "E203", .what = "-n and --duration must not be negative, nor above a day"});

  auto executable = compile_model(s.model);
  auto inputs = make_inputs(*executable, s.input, s.model.compile.shapes);
  s.measure.donations = s.model.compile.donate;
  Measurement m = measure(*executable, inputs, s.measure);
  m.peaks = peaks_of(*executable, threads_of(s.model));
  for (StepFigures& step : m.steps) compare_with_peaks(step, m.peaks, s.model.compile.precision);
  if (s.json != "-") {
    print_figures(m, *executable);
    print_kernels(m, s.kernels);
  }
  warn_about_noise(m);
  if (!s.json.empty()) write_result_file(s.json, to_json(m, *executable).dump(1) + "\n");
  if (!s.csv.empty()) write_result_file(s.csv, csv_text(m));
  if (!s.trace.empty()) write_result_file(s.trace, chrome_trace(m, *executable));
  if (!s.html.empty()) write_result_file(s.html, html_page(m, *executable, program_graph(s.model)));
  return exit_done;
}

}  // namespace weft::driver
