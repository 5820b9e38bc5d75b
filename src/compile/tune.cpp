// SPDX-License-Identifier: Apache-2.0
#include "compile/tune.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "kernel_build/codegen_loader.h"
#include "runtime/bind.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;

/// The greatest number of candidates that are tried for a decision, in the order of Tuner::rank.
constexpr size_t max_candidates = 12;

double median(std::vector<double> values) {
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// A compiled program that uses one candidate for each problem, and a context to run it.
struct Trial {
  Table<Decision> decisions;
  std::vector<DecisionId> decision_of;  // the decision that each step belongs to
  std::shared_ptr<Executable> executable;
  std::unique_ptr<Context> context;
};

/// A decision between kernels. Its candidates are in the order in which they are tried, the favourite first.
struct Problem {
  std::vector<std::string> candidates;
  int places = 0;
  double nanoseconds = 0;               // time of one occurrence with the cost model's choice
  std::map<std::string, double> times;  // time of one occurrence with each measured candidate
};

/// Chooses numbers for symbolic sizes: the numbers that decisions assume, else 16 or the nearest bound.
SymbolValues assumed_sizes(const std::vector<Port>& ports, const Table<Decision>& decisions) {
  SymbolValues values;
  for (const Decision& decision : decisions) {
    for (const auto& [size, number] : decision.assumed) {
      if (const Symbol* symbol = size.as_symbol(); symbol && !values.find(symbol->name))
        values.set(symbol->name, number);
    }
  }
  for (const Port& port : ports) {
    for (const Dim& dim : port.type.shape.dims) {
      dim.visit_symbols([&](const Symbol& s) {
        constexpr int64_t typical = 16;
        if (!values.find(s.name)) values.set(s.name, std::clamp(typical, std::max<int64_t>(s.min, 1), s.max));
      });
    }
  }
  return values;
}

/// Makes an input of floats in [-1, 1], or of ones for other types.
Tensor made_up(const Port& port, const SymbolValues& values) {
  if (!port.type.is_tensor() || port.type.shape.dtype == DType::string) {
    throw Error(
        {.kind = ErrorKind::unsupported,
         .code = "E149",
         .what = cat("input '", printable(port.name), "' is ", to_string(port.type), ", which tuning cannot generate"),
         .hint = "weft tune takes inputs from files"});
  }
  std::vector<int64_t> dims = values.dims(port.type.shape.dims);
  std::vector<double> numbers(element_count(dims), 1);
  if (is_float(port.type.shape.dtype)) {
    uint32_t state = 1;
    for (double& number : numbers) number = static_cast<double>(state = state * 1664525 + 1013904223) * 0x1p-31 - 1;
  }
  return make_tensor(port.type.shape.dtype, std::move(dims), numbers);
}

class Tuner {
 public:
  Tuner(const ProgramSource& source, const Place& place, const CompileOptions& options)
      : source_(source), place_(place), options_(options), key_(tuning_key(place)), library_(codegen_build()) {
    auto seconds = std::chrono::duration<double>(options.tune);
    deadline_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(seconds);
  }

  TuneReport run() {
    recall();
    base_ = build({});
    inputs_ = options_.tune_inputs ? options_.tune_inputs(*base_.executable) : made_up_inputs();
    find_problems();
    if (!problems_.empty()) measure_base();
    size_t rank = 1;
    auto begin = Clock::now();
    for (Clock::duration last{}; rank <= last_rank(); ++rank) {
      if (rank > 1 && Clock::now() + last > deadline_) break;
      auto start = Clock::now();
      round(rank);
      last = Clock::now() - start;
    }
    log(LogLevel::info, "tuned for ", std::chrono::duration<double>(Clock::now() - begin).count(), " s");
    report_.is_complete = rank > last_rank();
    return finish();
  }

 private:
  /// Loads stored measurements, so that candidates with a stored time are not measured again.
  void recall() {
    if (!options_.cache) return;
    for (Tuning& tuning : TuningStore(TuningStore::default_file()).known_for(key_, library_)) {
      if (tuning.chip == key_) known_[tuning.problem][tuning.candidate] = tuning.nanoseconds;
    }
  }

  Trial build(Chooser choose) {
    CompileOptions options = options_;
    options.choose = choose ? std::move(choose) : [](const Decision& d) { return Choice{favourite(d)}; };
    std::unique_ptr<Program> program = read_source(source_);
    CompileReport report;
    Plan plan = make_plan(*program, place_.chip, source_, options, report);
    program.reset();
    Trial trial;
    trial.decisions = plan.decisions;
    for (const PlanStep& step : plan.steps) trial.decision_of.push_back(step.decision);
    Bytes image = build_image(plan, options, report);
    trial.executable = run_on(place_.runner, {std::move(plan), std::move(image)}, {}, std::move(report));
    trial.context = trial.executable->new_context();
    return trial;
  }

  std::vector<Tensor> made_up_inputs() const {
    const std::vector<Port>& ports = base_.executable->inputs();
    SymbolValues values = assumed_sizes(ports, base_.decisions);
    std::vector<Tensor> inputs;
    for (const Port& port : ports) inputs.push_back(port.default_value ? *port.default_value : made_up(port, values));
    return inputs;
  }

  /// True if the run has the sizes that a decision assumes; decisions with other sizes are not measured.
  static bool fits(const Decision& decision, const SymbolValues& values) {
    return std::ranges::all_of(decision.assumed, [&](const auto& assumed) {
      bool is_bound = true;
      assumed.first.visit_symbols([&](const Symbol& symbol) { is_bound &= values.find(symbol.name) != nullptr; });
      return is_bound && values.evaluate(assumed.first) == assumed.second;
    });
  }

  void find_problems() {
    std::set<DecisionId> timed(base_.decision_of.begin(), base_.decision_of.end());
    SymbolValues values = bind_symbols(base_.executable->inputs(), with_defaults(base_.executable->inputs(), inputs_));
    std::set<std::string> open;
    for (DecisionId i : base_.decisions.ids()) {
      const Decision& decision = base_.decisions[i];
      if (decision.candidates.size() < 2 || !timed.contains(i)) continue;
      if (!fits(decision, values)) {
        open.insert(decision.problem);
        continue;
      }
      Problem& problem = problems_[decision.problem];
      if (problem.places++ == 0) rank(decision, problem);
    }
    if (!open.empty())
      report_.notes.push_back(cat(open.size(),
                                  " kernels have open sizes and were chosen for other sizes than "
                                  "those of this run; fix them with --symbol or --shape"));
  }

  /// Lists the candidates to measure: the favourite, those that need a measurement, the others; each group by estimate.
  void rank(const Decision& decision, Problem& problem) const {
    std::vector<size_t> order(decision.candidates.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    size_t liked = favourite(decision);
    std::ranges::sort(order, {}, [&](size_t i) {
      const Candidate& candidate = decision.candidates[i];
      return std::tuple(i != liked, !candidate.needs_measurement, candidate.estimate, i);
    });
    auto known = known_.find(decision.problem);
    if (known != known_.end() && known->second.contains(decision.candidates[liked].name)) problem.times = known->second;
    for (size_t i : order) {
      const std::string& name = decision.candidates[i].name;
      bool is_wanted = i == liked || !problem.times.contains(name);
      if (is_wanted && problem.candidates.size() < max_candidates) problem.candidates.push_back(name);
    }
  }

  size_t last_rank() const {
    size_t last = 0;
    for (const auto& [text, problem] : problems_) last = std::max(last, problem.candidates.size() - 1);
    return last;
  }

  /// Runs once and returns the nanoseconds of each problem's steps, summed over all occurrences.
  std::map<std::string, double> time(Trial& trial) const {
    std::vector<StepTime> profile;
    trial.context->run(inputs_, {.profile = &profile});
    std::map<std::string, double> times;
    for (const StepTime& step : profile) {
      DecisionId decision = trial.decision_of[step.step];
      if (!decision) continue;
      std::chrono::duration<double, std::nano> taken = step.end - step.begin;
      times[trial.decisions[decision].problem] += taken.count();
    }
    return times;
  }

  void measure_base() {
    constexpr int runs = 5;
    time(base_);
    std::map<std::string, std::vector<double>> all;
    for (int i = 0; i < runs; ++i) {
      for (const auto& [problem, taken] : time(base_)) all[problem].push_back(taken);
    }
    for (auto& [text, problem] : problems_) {
      problem.nanoseconds = median(all.at(text)) / problem.places;
      double& favourite_time = problem.times[problem.candidates[0]];
      if (favourite_time > 0) {  // the machine's speed may have been different when the stored times were measured
        double scale = problem.nanoseconds / favourite_time;
        for (auto& [candidate, time] : problem.times) time *= scale;
      }
      favourite_time = problem.nanoseconds;
    }
  }

  /// Measures candidate number `rank` of every problem with more than `rank` candidates.
  void round(size_t rank) {
    ++report_.rounds;
    if (options_.progress) options_.progress({"tune", rank, last_rank()});
    auto tried = [&](const Problem& problem) { return rank < problem.candidates.size(); };
    try {
      Trial trial = build([&](const Decision& decision) {
        auto problem = problems_.find(decision.problem);
        bool is_tried = problem != problems_.end() && tried(problem->second);
        return Choice{is_tried ? number_of(decision, problem->second.candidates[rank]) : favourite(decision)};
      });
      compare(trial, rank);
    } catch (const Error& error) {
      report_.notes.push_back(cat("round ", rank, " failed: ", error.info().what));
    }
    keep();
  }

  static size_t number_of(const Decision& decision, const std::string& name) {
    auto found = std::ranges::find(decision.candidates, name, &Candidate::name);
    return found == decision.candidates.end() ? favourite(decision) : found - decision.candidates.begin();
  }

  /// True if the trial uses this candidate. False, for example, for a library that cannot compute the call.
  static bool took(const Trial& trial, const std::string& problem, const std::string& candidate) {
    return std::ranges::any_of(trial.decisions, [&](const Decision& decision) {
      return decision.problem == problem && decision.candidates[decision.chosen].name == candidate;
    });
  }

  /// Alternates runs of the trial and of the program with all favourites. A candidate's time is the favourite's
  /// time multiplied by a ratio: the median, over all pairs of runs, of the trial's time / the favourite's time.
  void compare(Trial& trial, size_t rank) {
    constexpr int fewest = 5, most = 25;
    constexpr auto enough = std::chrono::milliseconds(400);
    time(trial);
    std::map<std::string, std::vector<double>> ratios;
    auto begin = Clock::now();
    for (int i = 0; i < most && (i < fewest || Clock::now() - begin < enough); ++i) {
      std::map<std::string, double> before = time(base_), after = time(trial);
      for (const auto& [problem, taken] : after) {
        if (double base = before[problem]; base > 0) ratios[problem].push_back(taken / base);
      }
    }
    for (auto& [text, problem] : problems_) {
      auto measured = ratios.find(text);
      if (rank < problem.candidates.size() && measured != ratios.end() && took(trial, text, problem.candidates[rank]))
        problem.times[problem.candidates[rank]] = problem.nanoseconds * median(measured->second);
    }
  }

  std::vector<Tuning> tunings() const {
    std::vector<Tuning> all;
    for (const auto& [text, problem] : problems_) {
      for (const auto& [candidate, time] : problem.times) all.push_back({key_, library_, text, candidate, time});
    }
    return all;
  }

  void keep() const {
    if (options_.cache) TuningStore(TuningStore::default_file()).put(tunings());
  }

  TuneReport finish() {
    report_.tunings = tunings();
    for (const auto& [text, problem] : problems_) {
      auto best = std::ranges::min_element(problem.times, {}, [](const auto& entry) { return entry.second; });
      report_.problems.push_back({.problem = text,
                                  .places = problem.places,
                                  .nanoseconds = problem.nanoseconds,
                                  .favourite = problem.candidates[0],
                                  .fastest = best->first,
                                  .gain = problem.nanoseconds / best->second,
                                  .measured = static_cast<int>(problem.times.size())});
    }
    return std::move(report_);
  }

  const ProgramSource& source_;
  const Place& place_;
  const CompileOptions& options_;
  std::string key_, library_;
  Clock::time_point deadline_;
  std::map<std::string, std::map<std::string, double>> known_;
  std::map<std::string, Problem> problems_;
  Trial base_;
  std::vector<Tensor> inputs_;
  TuneReport report_;
};

}  // namespace

TuneReport tune(const ProgramSource& source, const Place& place, const CompileOptions& options) {
  bool is_here = is_cpu(place.chip.kind) ? runs_code_for(host_chip(), place.chip) : place.runner.gpu != nullptr;
  if (place.reference || !is_here) {
    throw Error(
        {.kind = ErrorKind::unsupported,
         .code = "E501",
         .what = place.reference ? std::string("the reference has nothing to tune")
                                 : cat("tuning runs kernels on the chip; ", place.chip, " is not here"),
         .hint =
             "tune on a machine with the chip, and copy the result: weft tune --export FILE, weft tune --import FILE"});
  }
  return Tuner(source, place, options).run();
}

}  // namespace weft
