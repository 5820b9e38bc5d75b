// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compile.h"
#include "quantise/range.h"

/// Quantises a float model to 8 or 4 bits and writes an ONNX file for any engine.
namespace weft::quantise {

/// The number format of the quantised layers.
enum class Target : uint8_t {
  int8,          ///< inputs and weights; sample data give the ranges of inputs
  fp8,           ///< as int8, in f8e4m3fn; without sample data, each run computes the ranges
  int8_dynamic,  ///< inputs and weights; each run computes the ranges of its inputs
  int8_weights,  ///< only weights, in blocks
  int4,          ///< only weights, in blocks
  fp8_fnuz,      ///< as fp8, in f8e4m3fnuz, the format of AMD's gfx942
};
Target parse_target(std::string_view name);  ///< E203 for an unknown name
std::string_view name(Target target);
inline bool is_fp8(Target target) { return target == Target::fp8 || target == Target::fp8_fnuz; }

/// The methods of rounding weights. hqq and awq are for weights in blocks; gptq is for blocks, int8 and fp8.
enum class WeightMethod : uint8_t { nearest, hqq, gptq, awq };
WeightMethod parse_weight_method(std::string_view name);
std::string_view name(WeightMethod method);

/// Calibration data. It is read several times, each time from its first item.
class Samples {
 public:
  virtual ~Samples() = default;
  /// Called first, with the names of the inputs of the model to quantise.
  virtual void open(std::vector<std::string>) {}
  virtual void rewind() = 0;
  /// Returns the next item: all inputs of `model`, in its order; nothing after the last item. `model` may have fewer
  /// inputs than the float model, because weights that callers could replace are removed.
  virtual std::optional<std::vector<Tensor>> next(const Executable& model) = 0;
};

struct Settings {
  Target to = Target::int8;
  RangeMethod method = RangeMethod::mse;  ///< fp8 always uses minmax, since floats have a wide range
  double percentile = 99.99;
  bool is_symmetric = false;   ///< int8: inputs are i8 with zero point 0, not u8; blocks: the middle is the zero point
  bool is_per_tensor = false;  ///< one scale for a whole weight, not one for each channel
  /// int8: weights have 7 bits, so that the sum of two products by u8 fits i16, as some engines need without VNNI.
  bool is_range_reduced = false;
  /// If not set: gptq for int4 and fp8 if there are samples, else nearest.
  std::optional<WeightMethod> weights;
  int64_t block = 32;        ///< int4, int8_weights: number of weights with a common scale, a power of two, 16 to 256
  bool correct_bias = true;  ///< int8, fp8: corrects biases for the mean error of rounded weights
  bool is_qdq = false;       ///< weights in blocks: as DequantizeLinear and MatMul, not as MatMulNBits
  /// The strength (below 1) of SmoothQuant, which moves outliers of inputs into weights. If not set, int8 and
  /// int8_dynamic with data choose one for each input where another operator absorbs the division at no cost.
  std::optional<double> smooth;
  std::vector<std::string> keep;  ///< names (* and ?) of nodes that stay in floats
  std::optional<double> budget;   ///< allowed loss; as many layers stay in floats as it requires
  /// Returns the quality of a model (the path of an ONNX file); greater is better, and the loss is its relative drop.
  /// Without a metric, the loss is the relative error of the outputs (root mean square), or for integer outputs the
  /// share of different elements.
  std::function<double(const std::filesystem::path&)> metric;
  std::map<std::string, Range> ranges;                ///< name of a value -> range that replaces the observed one
  bool has_products = true, has_convolutions = true;  ///< which kinds of layers are quantised
  int threads = 0;
  std::function<void(const Progress&)> progress;
};

/// Writes the quantised model to `output` atomically and returns the report (JSON). `samples` may be null if no data is
/// needed. Throws E203 (invalid settings), E222 (a model that cannot be quantised), E220 (unusable data), E221 (a
/// budget that cannot be met), and the errors of compiling and running the model.
std::string quantise(const std::filesystem::path& model, const std::filesystem::path& output, const Settings& settings,
                     Samples* samples);

struct Quantised {
  std::string model, report;
};
/// Quantises the bytes of an ONNX file; its external weights are in `folder`. `settings` must have no metric.
Quantised quantise_bytes(Bytes model, const std::filesystem::path& folder, const Settings& settings, Samples* samples);

}  // namespace weft::quantise
