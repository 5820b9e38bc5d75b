// SPDX-License-Identifier: Apache-2.0
#include "driver/measure.h"

#include <algorithm>
#include <numeric>

#include "base/text.h"
#include "driver/on_device.h"
#include "driver/stats.h"

namespace weft::driver {
namespace {

using Clock = std::chrono::steady_clock;

double to_seconds(std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); }

double timed_run(Context& context, std::span<const Tensor> inputs) {
  auto start = Clock::now();
  context.run(inputs);
  return to_seconds(Clock::now() - start);
}

template <class Run>
void warm_up(double seconds, const Run& run) {
  auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (Clock::now() < end) run();
}

template <class Run>
void time_runs(Measurement& m, const MeasureOptions& options, const Run& run) {
  double cpu = cpu_seconds();
  auto end = Clock::now() + std::chrono::duration<double>(options.duration);
  do {
    m.seconds.push_back(run());
  } while (options.iterations > 0 ? static_cast<int64_t>(m.seconds.size()) < options.iterations : Clock::now() < end);
  m.cpu_seconds = (cpu_seconds() - cpu) / static_cast<double>(m.seconds.size());
}

/// Runs with a profile until 20 runs are done or a second is over. Returns the times of the steps of each run.
std::vector<std::vector<StepTime>> profiled_runs(Context& context, std::span<const Tensor> inputs) {
  std::vector<std::vector<StepTime>> runs;
  auto end = Clock::now() + std::chrono::seconds(1);
  do {
    std::vector<StepTime> profile;
    RunOptions options;
    options.profile = &profile;
    context.run(inputs, options);
    runs.push_back(std::move(profile));
  } while (runs.size() < 20 && Clock::now() < end);
  return runs;
}

double length(const std::vector<StepTime>& run) {
  return run.empty() ? 0 : to_seconds(run.back().end - run.front().begin);
}

std::vector<StepFigures> figures(const Executable& executable, const std::vector<std::vector<StepTime>>& runs) {
  auto infos = executable.steps();
  std::vector<std::vector<double>> seconds(infos.size());
  std::vector<StepFigures> steps(infos.size());
  for (size_t i = 0; i < steps.size(); ++i) steps[i].info = infos[i];
  for (const auto& run : runs) {
    for (const StepTime& time : run) {
      if (time.step >= steps.size()) continue;
      seconds[time.step].push_back(to_seconds(time.end - time.begin));
      steps[time.step].flops = time.flops;
      steps[time.step].bytes = time.bytes;
      if (!time.kernel.empty()) steps[time.step].info.kernel = time.kernel;
    }
  }
  double total = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    std::ranges::sort(seconds[i]);
    total += steps[i].seconds = percentile(seconds[i], 0.5);
  }
  for (StepFigures& step : steps) step.share = total > 0 ? step.seconds / total : 0;
  return steps;
}

nlohmann::ordered_json step_json(const StepFigures& step) {
  return {{"kernel", step.info.kernel},
          {"source", printable(step.info.source)},
          {"device", step.info.device},
          {"reason", step.info.reason},
          {"milliseconds", step.seconds * 1e3},
          {"share", step.share},
          {"flops", step.flops},
          {"bytes", step.bytes},
          {"peak_gflops", step.peak_gflops},
          {"roofline", step.roofline}};
}

nlohmann::ordered_json milliseconds_json(const Latency& l) {
  return {{"min", l.min * 1e3}, {"mean", l.mean * 1e3}, {"median", l.median * 1e3}, {"p90", l.p90 * 1e3},
          {"p95", l.p95 * 1e3}, {"p99", l.p99 * 1e3},   {"max", l.max * 1e3}};
}

nlohmann::ordered_json trace_event(const std::string& name, const char* category, int row, double begin,
                                   double seconds) {
  return {{"name", name}, {"cat", category},   {"ph", "X"},           {"pid", 1},
          {"tid", row},   {"ts", begin * 1e6}, {"dur", seconds * 1e6}};
}

nlohmann::ordered_json row_name(int row, const char* name) {
  return {{"name", "thread_name"}, {"ph", "M"}, {"pid", 1}, {"tid", row}, {"args", {{"name", name}}}};
}

std::string csv_cell(const std::string& text) {
  std::string out = "\"";
  for (char c : printable(text)) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

}  // namespace

Measurement measure(const Executable& executable, std::span<const Tensor> inputs, const MeasureOptions& options) {
  Measurement m;
  auto context = executable.new_context();
  m.first_seconds = timed_run(*context, inputs);
  m.load_before = load_average();
  if (options.on_device) {
    OnDevice device(executable, inputs, options.donations);
    warm_up(options.warmup, [&] { device.timed_run(); });
    time_runs(m, options, [&] { return device.timed_run(); });
  } else {
    warm_up(options.warmup, [&] { context->run(inputs); });
    time_runs(m, options, [&] { return timed_run(*context, inputs); });
  }
  m.load_after = load_average();
  m.peak_memory = peak_memory_bytes();
  m.arena = context->peak_memory_bytes();
  if (!inputs.empty() && !inputs[0].dims.empty()) m.items = inputs[0].dims[0];
  auto runs = profiled_runs(*context, inputs);
  m.steps = figures(executable, runs);
  m.trace = *std::ranges::min_element(runs, {}, length);
  return m;
}

Latency latency_of(const Measurement& measurement) {
  std::vector<double> sorted = measurement.seconds;
  std::ranges::sort(sorted);
  double mean = std::reduce(sorted.begin(), sorted.end()) / static_cast<double>(std::max<size_t>(sorted.size(), 1));
  return {sorted.front(),
          mean,
          percentile(sorted, 0.5),
          percentile(sorted, 0.9),
          percentile(sorted, 0.95),
          percentile(sorted, 0.99),
          sorted.back()};
}

bool is_cold(const CompileReport& report) {
  return report.kernels_compiled + report.kernels_from_pack + report.kernels_from_cache > 0;
}

nlohmann::ordered_json to_json(const Measurement& m, const Executable& executable) {
  Latency latency = latency_of(m);
  nlohmann::ordered_json phases = nlohmann::ordered_json::array(), steps = phases;
  for (const auto& [phase, seconds] : executable.report().phase_seconds)
    phases.push_back({{"phase", phase}, {"seconds", seconds}});
  for (const StepFigures& step : m.steps) steps.push_back(step_json(step));
  const CompileReport& report = executable.report();
  return {{"schema", "weft.perf.1"},
          {"device", executable.device()},
          {"runs", m.seconds.size()},
          {"latency_ms", milliseconds_json(latency)},
          {"start", is_cold(report) ? "cold" : "warm"},
          {"first_ms", m.first_seconds * 1e3},
          {"cpu_ms", m.cpu_seconds * 1e3},
          {"inferences_per_second", 1 / latency.mean},
          {"items_per_second", static_cast<double>(m.items) / latency.mean},
          {"peak_memory_bytes", m.peak_memory},
          {"arena_bytes", m.arena},
          {"constant_bytes", report.constant_bytes},
          {"load_before", m.load_before},
          {"load_after", m.load_after},
          {"peak_gflops", {{"f64", m.peaks.f64}, {"f32", m.peaks.f32}, {"f16", m.peaks.f16}, {"i8", m.peaks.i8}}},
          {"peak_gbytes_per_second", m.peaks.gbytes},
          {"compile",
           {{"phases", phases},
            {"kernels", report.kernels},
            {"kernels_compiled", report.kernels_compiled},
            {"kernels_from_cache", report.kernels_from_cache},
            {"kernels_from_pack", report.kernels_from_pack}}},
          {"steps", steps}};
}

std::string chrome_trace(const Measurement& m, const Executable& executable) {
  nlohmann::ordered_json events = {row_name(1, "compile"), row_name(2, "run")};
  double at = 0;
  for (const auto& [phase, seconds] : executable.report().phase_seconds) {
    events.push_back(trace_event(phase, "compile", 1, at, seconds));
    at += seconds;
  }
  for (const StepTime& time : m.trace) {
    const StepInfo& info = m.steps.at(time.step).info;
    auto event = trace_event(info.kernel, "step", 2, at + to_seconds(time.begin), to_seconds(time.end - time.begin));
    event["args"] = {
        {"step", time.step}, {"source", printable(info.source)}, {"flops", time.flops}, {"bytes", time.bytes}};
    events.push_back(std::move(event));
  }
  return nlohmann::ordered_json{{"displayTimeUnit", "ms"}, {"traceEvents", events}}.dump() + "\n";
}

std::string csv_text(const Measurement& m) {
  std::string text = "kernel,source,device,microseconds,share,flops,bytes\n";
  for (const StepFigures& step : m.steps)
    text += cat(csv_cell(step.info.kernel), ",", csv_cell(step.info.source), ",", csv_cell(step.info.device), ",",
                step.seconds * 1e6, ",", step.share, ",", step.flops, ",", step.bytes, "\n");
  return text;
}

}  // namespace weft::driver
