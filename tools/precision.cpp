// SPDX-License-Identifier: Apache-2.0
// weft-precision --device D --precision P FOLDER...: runs cases on a device in a precision and compares them with ref.
// weft-precision < LINES: the same for each line "DEVICE PRECISION FOLDER", for a caller with many requests.
//
// A case is a folder with model.onnx and input_N.pb, as in ONNX's test data; `other/input_N.pb` are inputs of other
// sizes for the same program. A file `random` marks a case with random operators, for which the values are not
// compared. Prints a line for each case: its name, then `right` and counts, or `wrong` or `refused` and the reason.
//
// The allowed error is measured. Ref runs the program that the passes make for the device, with its open sizes, several
// times. Each run rounds every value that the device may keep in 16 bits: to the nearest, all towards zero, all away
// from zero, or at random. The differences between these runs and the exact run show how rounding affects this program.
// The allowed error of a float element is `max_times` the largest difference among elements of about its size, plus the
// error of f32 arithmetic; that of an integer is the largest difference.
//
// Where that would allow more than a quarter of the largest element (for quantisation steps, for example), the elements
// with large differences are counted. An answer may have `max_times` the largest count of any run. If that would allow
// more than a quarter of all elements, or rounding decides the number of elements, every answer passes and the
// result counts as `unknown`. `widest` is the largest allowed error of an element, relative to the largest element of
// its tensor.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <numeric>
#include <random>
#include <sstream>

#include "api/c/options_text.h"
#include "base/chip_features.h"
#include "base/error.h"
#include "compile.h"
#include "compile/stages.h"
#include "frontends/onnx/file/reader.h"
#include "frontends/onnx/file/value_reader.h"
#include "frontends/onnx/import/import.h"
#include "frontends/onnx/import/importer.h"
#include "ir/core_ops.h"
#include "ops/block_dot.h"
#include "ops/dot.h"
#include "ops/indexed.h"
#include "ops/reduce.h"
#include "ops/wide.h"
#include "runtime/ref_executable.h"

namespace {

namespace fs = std::filesystem;
using namespace weft;

using Tensors = std::vector<Tensor>;

constexpr double max_times = 4, max_share = 0.25;
/// The error allowed for f32 arithmetic: a share of the largest element, plus a constant. tests/random_graphs allows
/// the same.
constexpr double f32_share = 2e-5, f32_least = 1e-7;
constexpr int random_runs = 8;

Tensors read_inputs(const fs::path& folder, const std::vector<onnx::ValueInfo>& ports) {
  Tensors values;
  for (fs::path file; fs::exists(file = folder / cat("input_", values.size(), ".pb"));)
    values.push_back(
        onnx::read_value(map_file(file), "input", onnx::Importer::declared_element(ports.at(values.size()).type)));
  return values;
}

// --- rounding --------------------------------------------------------------------------------------------------------

enum class Way { nearest, towards_zero, away, random };

/// Hooks of the reference interpreter that round the values that a device stores in 16 bits.
class Rounding {
 public:
  Rounding(Way way, DType storage, unsigned seed) : way_(way), storage_(storage), numbers_(seed) {}

  Between between() {
    return {.operands = [this](const Instruction& i, std::vector<Wide>& in) { round_operands(i, in); },
            .results = [this](const Instruction& i, std::vector<Wide>& out) { round_results(i, out); }};
  }

 private:
  /// Rounds the f32 operands of products. In random runs, also perturbs the operands of operators that add many
  /// numbers, because a device adds them in another order.
  void round_operands(const Instruction& i, std::vector<Wide>& in) {
    bool multiplies = i.is<Dot>() || i.is<GroupedDot>() || i.is<BlockDot>() || i.is<Convolution>() || i.is<Attention>();
    bool adds = multiplies || i.is<Reduce>() || i.is<Scan>() || i.is<Softmax>() || i.is<Normalize>() || i.is<Pool>() ||
                i.is<Resize>();
    for (Wide& x : in) {
      if (!x.is_real() || x.container) continue;
      auto nudged = [&](double v) { return v * (1 + 0x1p-23 * coin()); };
      // Winograd's transforms round even if the products and sums of the convolution itself would be exact.
      if (adds && way_ == Way::random) change(x, nudged, !i.is<Convolution>());
      if (multiplies && x.dtype == DType::f32) change(x, [&](double v) { return rounded(storage_, v); });
    }
    // Kernels also round the softmax weights of attention and the dequantised weights of BlockDot. To model this,
    // perturbs the other operand of these products (in[2] and in[0]) by the same relative amount.
    if (way_ != Way::random) return;
    if (i.is<Attention>()) nudge(in[2], in[2].dtype == DType::f32 ? storage_ : in[2].dtype);
    if (i.is<BlockDot>() && in[0].is_real()) nudge(in[0], storage_);
  }

  void nudge(Wide& x, DType type) {
    double unit = std::ldexp(1, -digits(type));
    change(x, [&](double v) { return v * (1 + unit * coin()); });
  }

  static int digits(DType type) { return type == DType::bf16 ? 8 : type == DType::f16 ? 11 : 24; }

  /// Rounds f16 and bf16 results to their type, and f32 results to the storage type. Leaves f32 outputs of the program
  /// unrounded if no instruction reads them. Rounds constants too, because a device with open sizes does not fold them.
  void round_results(const Instruction& i, std::vector<Wide>& out) {
    bool is_result = i.users.empty() && i.parent == &i.parent->program().main();
    for (Wide& x : out) {
      if (!x.is_real() || x.container) continue;
      bool is_narrow = x.dtype == DType::f16 || x.dtype == DType::bf16;
      if (is_narrow) change(x, [&](double v) { return rounded(x.dtype, v); });
      else if (x.dtype == DType::f32 && !is_result) change(x, [&](double v) { return rounded(storage_, v); });
    }
  }

  /// Replaces each value v by f(v). `unless_exact`: keeps x if all values are multiples of 1/256 with a magnitude below
  /// 256, because their sums are exact in f32.
  template <class F>
  static void change(Wide& x, F f, bool unless_exact = false) {
    std::vector<double> values(x.reals->begin(), x.reals->end());
    auto is_exact = [](double v) { return std::fabs(v) < 256 && v * 256 == std::floor(v * 256); };
    if (unless_exact && std::ranges::all_of(values, is_exact)) return;
    for (double& v : values) v = f(v);
    x = make_wide(x.dtype, x.dims, std::move(values));
  }

  /// Rounds v to the type. Returns v if it is beyond the type's range, because a kernel keeps such a number in f32 if
  /// it is known while compiling.
  double rounded(DType type, double v) {
    int least = type == DType::f16 ? -14 : -126;
    double largest = type == DType::f16 ? 65504 : 0x1.fep127;
    if (v == 0 || !(std::fabs(v) < largest)) return v;
    double step = std::ldexp(1, std::max(std::ilogb(v), least) - digits(type) + 1), at = v / step, low = std::floor(at);
    if (at == low) return v;
    switch (way_) {
      case Way::nearest: return std::nearbyint(at) * step;
      case Way::towards_zero: return std::trunc(at) * step;
      case Way::away: return (v < 0 ? low : low + 1) * step;
      case Way::random: break;
    }
    return (low + (drawn() < at - low ? 1 : 0)) * step;
  }

  /// Returns a number in [0, 1). libstdc++'s distribution would compute two logarithms for each number.
  double drawn() { return numbers_() * 0x1p-32; }
  double coin() { return 2 * drawn() - 1; }

  Way way_;
  DType storage_;
  std::mt19937 numbers_;
};

// --- what is right ---------------------------------------------------------------------------------------------------

/// Imports the program for inputs of exactly these sizes.
std::unique_ptr<Program> imported(const onnx::Model& model, const Tensors& inputs, onnx::ImportOptions options) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::string name(model.graph.inputs.at(i).name);
    if (inputs[i].is_tensor() && !options.constants.contains(name))
      options.shapes[name] = Dims(inputs[i].dims.begin(), inputs[i].dims.end());
  }
  return onnx::import_model(model, options);
}

/// Returns the inputs that may be static (axes, for example): all tensors of numbers. If there are several inputs, the
/// first is left out if it has several float elements.
std::map<std::string, Tensor> numbers_among(const onnx::Model& model, const Tensors& inputs) {
  std::map<std::string, Tensor> numbers;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& x = inputs[i];
    bool is_data = !x.is_tensor() || x.dtype == DType::string ||
                   (i == 0 && inputs.size() > 1 && is_float(x.dtype) && x.elements() > 1);
    if (!is_data) numbers[std::string(model.graph.inputs.at(i).name)] = x;
  }
  return numbers;
}

/// Returns the inputs without those that became constants.
Tensors without(const std::map<std::string, Tensor>& constants, const onnx::Model& model, const Tensors& inputs) {
  Tensors rest;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!constants.contains(std::string(model.graph.inputs.at(i).name))) rest.push_back(inputs[i]);
  }
  return rest;
}

bool is_known_late(const Error& error) { return error.info().code == "E159" || error.info().code == "E122"; }

/// Calls `f` without constants. If that fails because values must be known before the run, calls it with the numbers
/// among the inputs as constants.
template <class F>
auto with_constants(const onnx::Model& model, const Tensors& inputs, F f) {
  try {
    return f(std::map<std::string, Tensor>());
  } catch (const Error& error) {
    if (!is_known_late(error)) throw;
  }
  return f(numbers_among(model, inputs));
}

struct Answers {
  Tensors right;              ///< answers of the imported program, unrounded
  std::vector<Tensors> runs;  ///< answers of the imported program, with rounding to the model's own types
  Tensors base;               ///< answers after the device's passes, unrounded
  std::vector<Tensors> narrow_runs;
};

std::unique_ptr<Program> prepared(std::unique_ptr<Program> program, const Chip& chip, Precision precision) {
  CompileOptions options{.precision = precision};
  CompileReport report;
  run_shared_passes(*program, options, report);
  run_chip_passes(*program, context_of(chip, options), options, report);
  return program;
}

std::vector<Tensors> rounded_runs(const Program& program, const Tensors& inputs, DType storage) {
  std::vector<Tensors> runs;
  auto run = [&](Way way, unsigned seed) {
    Rounding rounding(way, storage, seed);
    runs.push_back(evaluate(program.main(), inputs, rounding.between()));
  };
  for (Way way : {Way::nearest, Way::towards_zero, Way::away}) run(way, 0);
  for (unsigned seed = 0; seed < random_runs; ++seed) run(Way::random, seed);
  return runs;
}

/// Returns the options with which the device's program was imported: with the values of its static inputs, or with the
/// length of an input if only the length matters.
onnx::ImportOptions reading(const onnx::Model& model, const Executable& executable, const Tensors& all,
                            const std::map<std::string, Tensor>& constants) {
  onnx::ImportOptions options{.constants = constants};
  Tensors inputs = without(constants, model, all);
  for (const StaticInput& known : executable.static_inputs()) {
    const std::string& name = executable.inputs().at(known.input).name;
    const Tensor& x = inputs.at(known.input);
    if (known.is_length) options.shapes[name] = {x.dims.at(0)};
    else options.constants[name] = x;
  }
  return options;
}

Answers answers_of(const onnx::Model& model, const Tensors& all, const onnx::ImportOptions& known,
                   const CompileOptions& asked) {
  Tensors inputs = without(known.constants, model, all);
  Chip chip = find_place(asked).chip;
  DType precision = context_of(chip, asked).precision;
  DType storage = !is_cpu(chip.kind) || multiplies(precision, chip) ? precision : DType::f32;
  auto program = imported(model, all, known);
  // The model's open sizes stay open. With known sizes, passes would fold values that the device computes and rounds.
  auto read = [&] { return onnx::import_model(model, known); };
  return {.right = evaluate(program->main(), inputs),
          .runs = rounded_runs(*program, inputs, DType::f32),
          .base = evaluate(prepared(read(), chip, Precision::f32)->main(), inputs),
          .narrow_runs = rounded_runs(*prepared(read(), chip, asked.precision), inputs, storage)};
}

// --- comparing -------------------------------------------------------------------------------------------------------

struct Verdict {
  int known = 0, unknown = 0;
  double widest = 0;  ///< allowed error relative to the largest element
  std::string wrong;

  void add(const Verdict& other) {
    known += other.known;
    unknown += other.unknown;
    widest = std::max(widest, other.widest);
  }
};

/// One output: `got` is the device's answer, the other members are ref's answers (members of Answers).
struct Judged {
  const Tensor &got, &right, &base;
  std::vector<const Tensor*> runs, narrow_runs;
};

/// Returns the comparison of one part of an output, such as an item of a sequence; `part` selects it in each run.
template <class Part>
Judged part_of(const Judged& j, const Tensor& got, const Tensor& right, const Tensor& base, Part part) {
  Judged item{got, right, base, {}, {}};
  for (const Tensor* run : j.runs) item.runs.push_back(&part(*run));
  for (const Tensor* run : j.narrow_runs) item.narrow_runs.push_back(&part(*run));
  return item;
}

bool is_alike(const Tensor& a, const Tensor& b) { return a.kind == b.kind && a.dtype == b.dtype && a.dims == b.dims; }

/// Returns the distance of two elements. It is 0 for two NaN or equal infinities, else infinity unless both are finite.
double distance(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  return std::isfinite(a) && std::isfinite(b) ? std::fabs(a - b) : HUGE_VAL;
}

/// Raises `most` to the largest change of each element of `from` over the runs.
void add_moves(const Tensor& from, std::span<const Tensor* const> runs, std::vector<double>& most) {
  std::vector<double> begin = to_doubles(from);
  for (const Tensor* run : runs) {
    std::vector<double> end = to_doubles(*run);
    for (size_t i = 0; i < end.size(); ++i) most[i] = std::max(most[i], distance(end[i], begin[i]));
  }
}

/// Returns the largest change of each element by rounding.
std::vector<double> moves(const Judged& j) {
  std::vector<double> most(to_doubles(j.right).size(), 0.0);
  add_moves(j.right, j.runs, most);
  add_moves(j.base, j.narrow_runs, most);
  return most;
}

double largest_of(std::span<const double> values) {
  double largest = 0;
  for (double v : values) largest = std::max(largest, std::isfinite(v) ? std::fabs(v) : 0.0);
  return largest;
}

/// Returns for each element the largest of the changes `most` among the elements of at most four times its size and
/// among the 16 smallest elements.
std::vector<double> moved_nearby(std::span<const double> right, std::span<const double> most) {
  std::vector<size_t> order(right.size());
  std::iota(order.begin(), order.end(), size_t{0});
  auto size = [&](size_t i) { return std::isfinite(right[i]) ? std::fabs(right[i]) : HUGE_VAL; };
  std::ranges::sort(order, {}, size);
  std::vector<double> result(right.size());
  double farthest = 0;
  size_t next = 0;
  for (size_t i : order) {
    while (next < order.size() && (next < 16 || size(order[next]) <= 4 * size(i)))
      farthest = std::max(farthest, most[order[next++]]);
    result[i] = farthest;
  }
  return result;
}

/// True if a change is so large compared with the largest element that any answer would pass.
bool is_free(double change, double largest) { return !(change <= max_share * std::max(largest, f32_least)); }

/// Returns the factor for the measured changes of elements: `max_times` for floats, 1 for other types.
double times_of(const Judged& j) { return is_float(j.right.dtype) ? max_times : 1; }

double f32_error(const Judged& j, double largest) {
  return is_float(j.right.dtype) ? f32_share * largest + f32_least : 0;
}

/// Returns the error allowed for each element; nullopt if rounding changes some elements so much that any answer would
/// pass.
std::optional<std::vector<double>> allowed(const Judged& j, std::span<const double> right,
                                           std::span<const double> most) {
  double largest = largest_of(right);
  if (!most.empty() && is_free(times_of(j) * std::ranges::max(most), largest)) return {};
  std::vector<double> result = moved_nearby(right, most);
  for (double& v : result) v = times_of(j) * v + f32_error(j, largest);
  return result;
}

size_t count_beyond(const Tensor& from, const Tensor& to, double apart) {
  std::vector<double> begin = to_doubles(from), end = to_doubles(to);
  size_t count = 0;
  for (size_t i = 0; i < begin.size(); ++i) count += distance(begin[i], end[i]) > apart;
  return count;
}

/// The allowed jumps: at most `most` elements may have an error above `apart`.
struct Jumps {
  double apart;
  double most;
};

/// Returns the allowed jumps; nullopt if rounding changes so many elements by large amounts that any answer would pass.
std::optional<Jumps> allowed_jumps(const Judged& j, std::span<const double> right, std::vector<double> most) {
  auto elements = double(most.size());
  auto quarter = most.begin() + int64_t(elements * (1 - max_share));
  std::ranges::nth_element(most, quarter);
  Jumps jumps{times_of(j) * *quarter + f32_error(j, largest_of(right)), 0};
  if (is_free(jumps.apart, largest_of(right))) return {};
  size_t count = 0;
  for (const Tensor* run : j.runs) count = std::max(count, count_beyond(j.right, *run, jumps.apart));
  for (const Tensor* run : j.narrow_runs) count = std::max(count, count_beyond(j.base, *run, jumps.apart));
  jumps.most = max_times * double(count);
  return jumps.most > max_share * elements ? std::nullopt : std::optional(jumps);
}

/// Describes the first wrong element of `got`; empty if all are right.
std::string difference(const Tensor& got, std::span<const double> right, std::span<const double> most) {
  std::vector<double> values = to_doubles(got);
  for (size_t i = 0; i < values.size(); ++i) {
    if (distance(values[i], right[i]) <= most[i]) continue;
    return cat("[", i, "] is ", values[i], " where ", right[i], " is right and ", most[i], " may be off");
  }
  return {};
}

/// Judges a tensor in which rounding changes some elements by large amounts.
void judge_jumps(const Judged& j, const Jumps& jumps, const std::string& name, Verdict& verdict) {
  for (const Tensor* answer : {&j.base, &j.got}) {
    size_t count = count_beyond(j.right, *answer, jumps.apart);
    if (double(count) <= jumps.most) continue;
    verdict.wrong = cat(name, " has ", count, " elements that are more than ", jumps.apart, " off where ", jumps.most,
                        " may be", answer == &j.base ? " after the passes" : "");
    return;
  }
}

void judge_tensor(const Judged& j, const std::string& name, Verdict& verdict) {
  std::vector<double> right = to_doubles(j.right), moved = moves(j);
  auto most = allowed(j, right, moved);
  auto jumps = most ? std::nullopt : allowed_jumps(j, right, moved);
  ++(most || jumps ? verdict.known : verdict.unknown);
  if (jumps) judge_jumps(j, *jumps, name, verdict);
  if (!most) return;
  verdict.widest = std::max(verdict.widest, largest_of(*most) / std::max(largest_of(right), f32_least));
  std::string text = difference(j.base, right, *most);
  if (!text.empty()) text += " after the passes";
  else text = difference(j.got, right, *most);
  if (!text.empty()) verdict.wrong = name + text;
}

size_t items_of(const Tensor& value) { return value.is_tensor() ? 0 : value.items->size(); }

/// True if types and sizes agree; strings must be equal.
bool is_as_said(const Tensor& got, const Tensor& right) {
  if (right.is_tensor() && right.dtype == DType::string) return got == right;
  return is_alike(got, right) && items_of(got) == items_of(right);
}

void judge(const Judged& j, const std::string& name, Verdict& verdict) {
  auto differs = [&](const Tensor* run) {
    return run->kind != j.right.kind || items_of(*run) != items_of(j.right) || run->dims != j.right.dims;
  };
  if (std::ranges::any_of(j.runs, differs) || std::ranges::any_of(j.narrow_runs, differs)) {
    ++verdict.unknown;  // the number of elements depends on rounding
    return;
  }
  for (const Tensor* value : {&j.base, &j.got}) {
    if (is_as_said(*value, j.right)) continue;
    verdict.wrong = cat(name, " is ", describe(*value, 0), " where ", describe(j.right, 0), " is right");
    return;
  }
  if (j.right.is_tensor() && j.right.dtype == DType::string) ++verdict.known;
  else if (j.right.is_tensor()) judge_tensor(j, name, verdict);
  for (size_t k = 0; k < items_of(j.right) && verdict.wrong.empty(); ++k) {
    auto item = [k](const Tensor& value) -> const Tensor& { return (*value.items)[k]; };
    judge(part_of(j, item(j.got), item(j.right), item(j.base), item), cat(name, " item ", k), verdict);
  }
}

Verdict judged(const Tensors& got, const Answers& answers, const std::vector<Port>& ports) {
  Verdict verdict;
  for (size_t k = 0; k < got.size() && verdict.wrong.empty(); ++k) {
    Judged j{got[k], answers.right.at(k), answers.base.at(k), {}, {}};
    for (const Tensors& run : answers.runs) j.runs.push_back(&run.at(k));
    for (const Tensors& run : answers.narrow_runs) j.narrow_runs.push_back(&run.at(k));
    judge(j, ports.at(k).name, verdict);
  }
  return verdict;
}

// --- cases -----------------------------------------------------------------------------------------------------------

/// Runs one set of inputs and judges the answers.
Verdict check_inputs(const onnx::Model& model, const Executable& executable, const Tensors& inputs,
                     const std::map<std::string, Tensor>& constants, const CompileOptions& options) {
  Tensors got = executable.new_context()->run(without(constants, model, inputs));
  onnx::ImportOptions known = reading(model, executable, inputs, constants);
  return judged(got, answers_of(model, inputs, known, options), executable.outputs());
}

/// Checks a run at other sizes. The verdict is empty if the model refuses these sizes with an error of usage or of the
/// model.
Verdict check_other(const onnx::Model& model, const Executable& executable, const Tensors& inputs,
                    const CompileOptions& options) {
  try {
    return check_inputs(model, executable, inputs, {}, options);
  } catch (const Error& error) {
    if (error.info().kind != ErrorKind::usage && error.info().kind != ErrorKind::model) throw;
    return {};
  }
}

std::string check_case(const fs::path& folder, const CompileOptions& options) {
  auto model = onnx::read_model(folder / "model.onnx");
  Tensors inputs = read_inputs(folder, model.graph.inputs);
  bool has_other = fs::exists(folder / "other");
  std::map<std::string, Tensor> constants;
  auto compiled = [&](const std::map<std::string, Tensor>& fixed) {
    CompileOptions with = options;
    constants = with.constants = fixed;
    return compile_file(folder / "model.onnx", with);
  };
  auto executable = has_other ? compiled({}) : with_constants(model, inputs, compiled);
  if (fs::exists(folder / "random")) {  // random operators: no two engines draw the same numbers
    executable->new_context()->run(without(constants, model, inputs));
    return "right 0 known 0 unknown 0 widest";
  }
  Verdict sum = check_inputs(model, *executable, inputs, constants, options);
  if (!sum.wrong.empty()) return cat("wrong: ", sum.wrong);
  if (has_other) {
    Verdict found = check_other(model, *executable, read_inputs(folder / "other", model.graph.inputs), options);
    if (!found.wrong.empty()) return cat("wrong: other sizes: ", found.wrong);
    sum.add(found);
  }
  return cat("right ", sum.known, " known ", sum.unknown, " unknown ", sum.widest, " widest");
}

void answer(const fs::path& folder, const CompileOptions& options) {
  std::string result;
  try {
    result = check_case(folder, options);
  } catch (const Error& error) {
    const ErrorInfo& info = error.info();
    result = cat(info.kind == ErrorKind::unsupported ? "refused: " : "wrong: ", info.code, " ", info.what);
  }
  std::ranges::replace(result, '\n', ' ');
  std::cout << folder.filename().string() << " " << result << std::endl;
}

CompileOptions options_for(const std::string& device, const std::string& precision) {
  return {.device = device, .threads = 2, .precision = parse_precision(precision)};
}

}  // namespace

int main(int count, char** arguments) {
  std::vector<std::string> words(arguments + 1, arguments + count);
  if (words.size() > 4 && words[0] == "--device" && words[2] == "--precision") {
    for (size_t i = 4; i < words.size(); ++i) answer(words[i], options_for(words[1], words[3]));
    return 0;
  }
  for (std::string line, device, precision, folder; words.empty() && std::getline(std::cin, line);) {
    std::istringstream parts(line);
    std::getline(parts >> device >> precision >> std::ws, folder);
    answer(folder, options_for(device, precision));
  }
  return words.empty() ? 0 : 2;
}
