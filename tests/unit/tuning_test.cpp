// SPDX-License-Identifier: Apache-2.0
// Tuning: the choice by measured times, the database, and a small program on this processor.
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "base/error.h"
#include "compile/tune.h"
#include "ir/text.h"
#include "ops/registry.h"
#include "scratch.h"

using namespace weft;
using test::Scratch;
namespace fs = std::filesystem;

namespace {

/// Returns a decision among three candidates; the candidate "library" has no estimated cost.
Decision three_candidates() {
  return decision_about("dot m", {{"m", 7, 7}},
                        {{.name = "large", .estimate = 2},
                         {.name = "small", .estimate = 1},
                         {.name = "library", .estimate = 0, .needs_measurement = true}});
}

std::string chosen(const std::vector<Tuning>& tunings) {
  Decision decision = three_candidates();
  return decision.candidates[choose_by(tunings)(decision).candidate].name;
}

Tuning timed(const char* candidate, double nanoseconds, const char* problem = "dot m m=7") {
  return {"chip", "build", problem, candidate, nanoseconds};
}

/// Returns a program of two 3x3 convolutions of one size, and one of another size.
std::string convolutions() {
  std::string weights = "f32[32,32,3,3]{";
  for (int i = 0; i < 32 * 32 * 9; ++i) weights += cat(i ? "," : "", i % 7 - 3);
  weights += "}";
  std::string attributes =
      "{strides=[1, 1], dilations=[1, 1], pads_begin=[1, 1], pads_end=[1, 1], groups=1, layout=channels_last}";
  return cat("program \"p\"\nmodule main {\n  %x = parameter {name=\"x\", type=f32[1,24,24,32]}\n",
             "  %u = parameter {name=\"u\", type=f32[1,12,12,32]}\n  %w = constant {value=", weights, "}\n",
             "  %a = convolution %x, %w ", attributes, "\n  %b = convolution %a, %w ", attributes,
             "\n  %c = convolution %u, %w ", attributes, "\n  return \"b\"=%b, \"c\"=%c\n}\n");
}

std::shared_ptr<Executable> compiled(const std::string& text, Chooser choose) {
  return compile(parse_program(text, make_op), {.device = "cpu", .threads = 1, .choose = std::move(choose)});
}

int64_t kernels_called(const Executable& executable, std::string_view beginning) {
  auto steps = executable.steps();
  return std::ranges::count_if(steps, [&](const StepInfo& step) { return step.kernel.starts_with(beginning); });
}

}  // namespace

TEST_CASE("tuning: a measurement decides if it was compared with the cost model's choice") {
  CHECK(three_candidates().problem == "dot m m=7");
  CHECK(chosen({}) == "small");
  CHECK(chosen({timed("large", 50)}) == "small");
  CHECK(chosen({timed("large", 50), timed("small", 100)}) == "large");
  CHECK(chosen({timed("large", 98), timed("small", 100)}) == "small");
  CHECK(chosen({timed("library", 40), timed("large", 50), timed("small", 100)}) == "library");
  CHECK(chosen({timed("of an older version", 1), timed("small", 100)}) == "small");
  CHECK(chosen({timed("large", 50, "dot m m=8"), timed("small", 100, "dot m m=8")}) == "small");
}

TEST_CASE("tuning: a problem with open sizes is kept with the sizes that were assumed") {
  Dim batch = Dim::symbol({.name = "batch"});
  Decision decision = decision_about("dot", {{"m", batch * Dim(8), 128}, {"n", 64, 64}}, {{.name = "only"}});
  CHECK(decision.problem == "dot m=128 n=64");
  REQUIRE(decision.assumed.size() == 1);
  CHECK(decision.assumed[0].second == 128);
}

TEST_CASE("tuning: a store keeps the newest time, tells chips and builds apart, and goes through text") {
  Scratch folder;
  TuningStore store(folder.path / "a" / "t.db");
  CHECK(store.all().empty());
  store.put(std::vector{timed("x", 10), timed("y", 5), timed("x", 7)});
  REQUIRE(store.all().size() == 2);
  CHECK(store.all()[1].nanoseconds == 7);
  CHECK(store.known_for("chip", "build").size() == 2);
  CHECK(store.known_for("chip", "another build").empty());
  CHECK(store.known_for("chi", "build").empty());

  std::vector<Tuning> models{{"sm_90a, One", "build", "p", "x", 1},
                             {"sm_90a, Two", "build", "p", "x", 2},
                             {"sm_90a, Two", "build", "p", "y", 3}};
  store.put(models);
  CHECK(store.known_for("sm_90a, One", "build").size() == 1);
  CHECK(store.known_for("sm_90a", "build") == std::vector(models.begin() + 1, models.end()));

  std::vector<Tuning> all = store.all();
  CHECK(parse_tunings(tunings_text(all)) == all);
  CHECK_THROWS_AS(parse_tunings("{}"), Error);
  CHECK_THROWS_AS(parse_tunings("[]"), Error);
  CHECK_THROWS_AS(parse_tunings(R"({"schema": "weft.tunings.1", "tunings": [{"chip": 1}]})"), Error);
  CHECK(store.clear() == 5);
  CHECK(store.all().empty());
}

TEST_CASE("tuning: a file that is not a database is an error that names it") {
  Scratch folder;
  fs::path file = folder.path / "t.db";
  std::ofstream(file) << std::string(4096, 'x');
  CHECK_THROWS_WITH_AS(TuningStore(file).all(), doctest::Contains("t.db"), Error);
}

TEST_CASE("tuning: convolutions are measured each way, and later compiles take the fastest") {
  auto source = compiled(convolutions(), {})->saved().source;
  CompileOptions options{.device = "cpu", .threads = 1, .cache = false, .tune = 60};
  TuneReport report = tune(*source, find_place(options), options);
  CHECK(report.is_complete);
  CHECK(report.rounds == 2);
  CHECK(report.notes.empty());
  REQUIRE(report.problems.size() == 2);
  CHECK(report.problems[0].places + report.problems[1].places == 3);
  for (const TunedProblem& problem : report.problems) {
    CHECK(problem.measured == 3);
    CHECK(problem.gain >= 1);
  }
  REQUIRE(report.tunings.size() == 6);

  for (const char* wanted : {"direct", "winograd2", "winograd4"}) {
    std::vector<Tuning> times = report.tunings;
    for (Tuning& t : times) t.nanoseconds = t.candidate == wanted ? 1 : 100;
    std::string kernel = wanted == std::string("direct") ? "conv_f32" : cat(wanted, "_f32");
    CHECK(kernels_called(*compiled(convolutions(), choose_by(times)), kernel) == 3);
  }
}

TEST_CASE("tuning: a chip that is not here cannot be measured") {
  auto source = compiled(convolutions(), {})->saved().source;
  CompileOptions options{.device = "amd:gfx942", .tune = 1};
  CHECK_THROWS_WITH_AS(tune(*source, find_place(options), options), doctest::Contains("gfx942"), Error);
}
