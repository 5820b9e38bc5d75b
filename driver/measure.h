// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "driver/machine.h"
#include "runtime/executable.h"

/// Measures a program and formats the figures.
namespace weft::driver {

struct MeasureOptions {
  int64_t iterations = 0;  ///< 0: as many as fit into `duration`
  double duration = 3;     ///< seconds
  double warmup = 0.3;     ///< seconds
  bool on_device = false;  ///< GPUs: inputs and outputs stay on the device, and its clock measures the time
  std::vector<DonationRequest> donations = {};
};

/// The figures of one step over all profiled runs.
struct StepFigures {
  StepInfo info;
  double seconds = 0;  ///< median over the runs
  double share = 0;    ///< fraction of the time of all steps, 0 to 1
  int64_t flops = 0, bytes = 0;
  double peak_gflops = 0;  ///< peak rate of the device for the step's type
  double roofline = 0;     ///< roofline time of this device / measured time; 0: not known
};

struct Measurement {
  std::vector<double> seconds;  ///< of each run, in order
  double first_seconds = 0;     ///< of the first run, with page faults and lazy initialisation
  double cpu_seconds = 0;       ///< of one run, summed over all threads
  double load_before = 0, load_after = 0;
  int64_t peak_memory = 0;      ///< of the process, in bytes
  int64_t arena = 0;            ///< working memory of the context, in bytes
  int64_t items = 1;            ///< first size of the first input
  std::vector<StepTime> trace;  ///< of the fastest profiled run
  std::vector<StepFigures> steps;
  Peaks peaks;
};

Measurement measure(const Executable& executable, std::span<const Tensor> inputs, const MeasureOptions& options);

/// Statistics of the measured latencies, in seconds.
struct Latency {
  double min, mean, median, p90, p95, p99, max;
};
Latency latency_of(const Measurement& measurement);

/// True if kernels were compiled, or taken from the pack or the cache and then linked. False if the code was ready to
/// run (a warm start).
bool is_cold(const CompileReport& report);

/// Returns all figures and the program's own report as JSON; the schema is "weft.perf.1".
nlohmann::ordered_json to_json(const Measurement& measurement, const Executable& executable);
/// Returns events for chrome://tracing and Perfetto: the phases of compiling, then the steps of one run.
std::string chrome_trace(const Measurement& measurement, const Executable& executable);
/// Returns CSV text with one row for each step: "kernel,source,device,microseconds,share,flops,bytes".
std::string csv_text(const Measurement& measurement);
/// Returns a self-contained HTML page: figures, timeline, roofline, steps, graph.
std::string html_page(const Measurement& measurement, const Executable& executable,
                      const nlohmann::ordered_json& graph);

}  // namespace weft::driver
