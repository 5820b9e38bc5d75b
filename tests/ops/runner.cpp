// SPDX-License-Identifier: Apache-2.0
// weft-ops: one program for three questions about every operator case of tests/ops/*.test.
//
//   weft-ops test    [TEXT] [--device cpu]    is a device right? compared with ref
//   weft-ops perf    [TEXT] [--device cpu]    microseconds a run, best of many
//   weft-ops support [TEXT] [--device cpu]    which cases are refused, and why
//
// TEXT selects the cases whose names contain it, --part 1/3 every third case from the second on. The exit code is 1 if
// a case is wrong.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/error.h"
#include "cases.h"
#include "compile.h"
#include "ir/text.h"
#include "ops/registry.h"
#include "ops/wide.h"

using namespace weft;
using cases::Case;

namespace {

enum class Verdict { right, wrong, refused };
struct Outcome {
  Verdict verdict = Verdict::right;
  std::string text;
};

std::shared_ptr<Executable> compiled(const Case& c, const std::string& device) {
  return compile(parse_program(c.program, make_op), {.device = device});
}

std::vector<Tensor> inputs_of(const Case& c) {
  std::vector<Tensor> inputs;
  for (const auto& operand : c.operands) inputs.push_back(operand.value);
  return inputs;
}

/// Returns the largest difference relative to the tensor's largest element; infinity if types or sizes differ, or if
/// only one of two elements is NaN or infinite.
double difference(const Tensor& got, const Tensor& wanted) {
  if (got.dtype != wanted.dtype || got.dims != wanted.dims) return INFINITY;
  std::vector<double> a = to_doubles(got), b = to_doubles(wanted);
  double largest = 0, worst = 0;
  for (double value : b) largest = std::isfinite(value) ? std::max(largest, std::fabs(value)) : largest;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    double apart = std::fabs(a[i] - b[i]);
    worst = std::max(worst, std::isfinite(apart) ? apart / std::max(largest, 1e-30) : INFINITY);
  }
  return worst;
}

Outcome compare(const Case& c, const std::vector<Tensor>& got, const std::vector<Tensor>& wanted) {
  for (size_t i = 0; i < wanted.size(); ++i) {
    double apart = difference(got[i], wanted[i]);
    double allowed = is_float(wanted[i].dtype) ? c.tolerance : 0;
    if (apart <= allowed) continue;
    return {Verdict::wrong, cat("result ", i, " differs by ", apart, " (", allowed, " allowed): ", describe(got[i]),
                                " instead of ", describe(wanted[i]))};
  }
  return {};
}

Outcome test(const Case& c, const std::string& device) {
  try {
    std::vector<Tensor> inputs = inputs_of(c);
    auto model = compiled(c, device);
    return compare(c, model->new_context()->run(inputs), compiled(c, "ref")->new_context()->run(inputs));
  } catch (const Error& error) {
    bool is_refusal = error.info().kind == ErrorKind::unsupported;
    return {is_refusal ? Verdict::refused : Verdict::wrong, error.what()};
  }
}

/// Returns the time of the fastest run; runs repeat for at least 50 ms.
double microseconds(const Case& c, const std::string& device) {
  using Clock = std::chrono::steady_clock;
  std::vector<Tensor> inputs = inputs_of(c);
  auto model = compiled(c, device);
  auto context = model->new_context();
  double best = INFINITY;
  auto end = Clock::now() + std::chrono::milliseconds(50);
  for (int round = 0; round < 3 || Clock::now() < end; ++round) {
    auto begin = Clock::now();
    context->run(inputs);
    best = std::min(best, std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  }
  return best;
}

struct Arguments {
  std::string question = "test", text, device = "cpu";
  size_t part = 0, parts = 1;
};

/// Parses the words of --part, such as "1/3".
void read_part(const std::string& word, Arguments& arguments) {
  if (std::sscanf(word.c_str(), "%zu/%zu", &arguments.part, &arguments.parts) == 2 && arguments.part < arguments.parts)
    return;
  std::fprintf(stderr, "--part wants K/N with K below N, not %s\n", word.c_str());
  std::exit(2);
}

Arguments read_arguments(int count, char** list) {
  Arguments arguments;
  if (count > 1) arguments.question = list[1];
  for (int i = 2; i < count; ++i) {
    std::string word = list[i];
    if (word == "--device" && i + 1 < count) arguments.device = list[++i];
    else if (word == "--part" && i + 1 < count) read_part(list[++i], arguments);
    else arguments.text = word;
  }
  return arguments;
}

std::vector<Case> chosen_cases(const Arguments& arguments) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(WEFT_SOURCE_DIR "/tests/ops")) {
    if (entry.path().extension() == ".test") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  std::vector<Case> list;
  size_t seen = 0;
  for (const auto& file : files) {
    auto found = cases::read_cases(file, [&](const std::string& name) {
      return name.find(arguments.text) != std::string::npos && seen++ % arguments.parts == arguments.part;
    });
    std::ranges::move(found, std::back_inserter(list));
  }
  return list;
}

void show(const char* mark, const std::string& name, const std::string& text) {
  std::printf("%-8s %s%s%s\n", mark, name.c_str(), text.empty() ? "" : "\n         ", text.c_str());
}

int judge(const Arguments& arguments, const std::vector<Case>& list) {
  size_t counts[3] = {};
  for (const Case& c : list) {
    Outcome outcome = test(c, arguments.device);
    ++counts[static_cast<size_t>(outcome.verdict)];
    if (outcome.verdict == Verdict::wrong) show("wrong", c.name, outcome.text);
    if (arguments.question != "support") continue;
    std::string reason = outcome.text.substr(0, outcome.text.find('\n'));
    if (outcome.verdict != Verdict::wrong) show(outcome.verdict == Verdict::right ? "ok" : "refused", c.name, reason);
  }
  std::printf("%zu operator cases on %s: %zu right, %zu wrong, %zu refused\n", list.size(), arguments.device.c_str(),
              counts[0], counts[1], counts[2]);
  return counts[1] == 0 && counts[0] > 0 ? 0 : 1;
}

int measure(const Arguments& arguments, const std::vector<Case>& list) {
  for (const Case& c : list) {
    try {
      std::printf("%12.1f us  %s\n", microseconds(c, arguments.device), c.name.c_str());
    } catch (const Error& error) {
      show("refused", c.name, error.info().what);
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    Arguments arguments = read_arguments(argc, argv);
    std::vector<Case> list = chosen_cases(arguments);
    return arguments.question == "perf" ? measure(arguments, list) : judge(arguments, list);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.info().kind);
  }
}
