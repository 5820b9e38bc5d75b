// SPDX-License-Identifier: Apache-2.0
#include "quantise/search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "base/text.h"

namespace weft::quantise {
namespace {

constexpr size_t max_evaluations = 20, max_places = 6, max_kinds = 5, max_items = 32;

/// The distance between two results, the largest over all outputs. For floats, the root mean square of the differences
/// divided by the root mean square of the right values; for integers, the share of different elements.
class Difference {
 public:
  void add(const std::vector<Tensor>& right, const std::vector<Tensor>& got) {
    sums_.resize(right.size());
    for (size_t i = 0; i < right.size(); ++i)
      if (right[i].is_tensor() && right[i].dtype != DType::string && !is_complex(right[i].dtype))
        add(i, right[i], got[i]);
  }
  double value() const {
    double worst = 0;
    for (const Sum& sum : sums_) {
      double share = sum.all > 0 ? sum.apart / sum.all : sum.apart > 0 ? 1 : 0;
      worst = std::max(worst, sum.is_integer ? share : std::sqrt(share));
    }
    return worst;
  }

 private:
  struct Sum {
    double apart = 0, all = 0;
    bool is_integer = false;
  };

  void add(size_t output, const Tensor& right, const Tensor& got) {
    Sum& sum = sums_[output];
    sum.is_integer = !is_float(right.dtype);
    std::vector<double> a = to_doubles(right), b = to_doubles(got);
    // Outputs with sizes that depend on data may differ in size.
    sum.apart += static_cast<double>(a.size() == b.size() ? 0 : std::max(a.size(), b.size()));
    for (size_t k = 0; k < std::min(a.size(), b.size()); ++k) {
      bool is_equal = a[k] == b[k] || (std::isnan(a[k]) && std::isnan(b[k]));
      double error = sum.is_integer || !std::isfinite(a[k] - b[k]) ? 1 : a[k] - b[k];
      if (!is_equal) sum.apart += error * error;
      sum.all += sum.is_integer ? 1 : std::isfinite(a[k]) ? a[k] * a[k] : 0;
    }
  }

  std::vector<Sum> sums_;
};

class Search {
 public:
  Search(const Work& work, std::filesystem::path trial) : work_(work), trial_(std::move(trial)) {
    const Settings& settings = work.settings();
    if (settings.metric) base_ = metric(work.original());
    else if (work.samples()) floats_.emplace(work.original(), settings.threads);
  }

  bool can_evaluate() const { return work_.settings().metric || work_.samples(); }

  Choice run() {
    choice_.shares = noise_ = estimate();
    choice_.loss = can_evaluate() ? loss({}) : std::numeric_limits<double>::quiet_NaN();
    const auto& budget = work_.settings().budget;
    bool is_coarse = is_fp8(work_.settings().to) || work_.settings().to == Target::int4;
    if (!budget && can_evaluate() && is_coarse) spare_few();
    if (!budget || choice_.loss <= *budget) return std::move(choice_);
    measure(neighbours());
    measure(alike());
    cut(*budget);
    return std::move(choice_);
  }

 private:
  size_t count() const { return work_.layers().size(); }

  /// Returns each layer's share of the rounding noise of all layers (inputs and weights); the shares sum to 1.
  std::vector<double> estimate() const {
    std::vector<double> noise;
    for (const Prepared& made : work_.prepared()) noise.push_back(made.input_noise + made.weight_noise);
    double sum = std::accumulate(noise.begin(), noise.end(), 0.0);
    for (double& x : noise) x /= sum > 0 ? sum : 1;
    return noise;
  }

  double metric(const ModelEdit& edit) const {
    struct Removal {
      const std::filesystem::path& trial;
      ~Removal() {
        std::error_code ignored;
        for (const char* end : {"", ".data"}) std::filesystem::remove(trial.string() + end, ignored);
      }
    } removal{trial_};
    edit.write(trial_);
    double figure = work_.settings().metric(trial_);
    if (!std::isfinite(figure)) quantise::refuse("E220", cat("the metric gives ", figure, ", not a number"));
    return figure;
  }

  double loss(const std::set<size_t>& floats) {
    if (work_.settings().progress)
      work_.settings().progress({.phase = cat("evaluation ", choice_.evaluations.size() + 1)});
    double lost = work_.settings().metric ? metric_loss(floats) : output_loss(floats);
    choice_.evaluations.push_back({.floats = floats.size(), .loss = lost});
    return lost;
  }

  double metric_loss(const std::set<size_t>& floats) const {
    double now = metric(work_.quantised(floats));
    return (base_ - now) / (base_ != 0 ? std::abs(base_) : 1);
  }

  /// Returns those inputs of the float model that `model` has too, in the order of `model`.
  std::vector<Tensor> inputs_for(const Executable& model, const std::vector<Tensor>& inputs) const {
    const std::vector<Port>& all = floats_->model().inputs();
    std::vector<Tensor> found;
    for (const Port& port : model.inputs())
      found.push_back(inputs[std::ranges::find(all, port.name, &Port::name) - all.begin()]);
    return found;
  }

  double output_loss(const std::set<size_t>& floats) const {
    Runner runner(work_.quantised(floats), work_.settings().threads);
    Difference difference;
    auto compare = [&](size_t, const std::vector<Tensor>& inputs) {
      difference.add(floats_->run(inputs), runner.run(inputs_for(runner.model(), inputs)));
    };
    for_each_item(*floats_, *work_.samples(), compare, max_items);
    return difference.value();
  }

  /// Measures, for each group of layers, the loss if only this group is quantised. Multiplies the shares of the group's
  /// layers by this loss (squared without a metric) divided by the group's noise.
  void measure(const std::vector<size_t>& part_of) {
    std::vector<double> found(std::ranges::max(part_of) + 1);
    for (size_t part = 0; part < found.size(); ++part) {
      std::set<size_t> floats;
      double noise = 0;
      for (size_t i = 0; i < count(); ++i) {
        if (part_of[i] != part) floats.insert(i);
        else noise += noise_[i];
      }
      double lost = std::max(loss(floats), 0.0);
      // A metric's loss grows with the noise power; the relative error of outputs, with the square root of that power.
      found[part] = (work_.settings().metric ? lost : lost * lost) / std::max(noise, 1e-12);
    }
    for (size_t i = 0; i < count(); ++i) choice_.shares[i] *= found[part_of[i]];
    double sum = std::accumulate(choice_.shares.begin(), choice_.shares.end(), 0.0);
    for (double& share : choice_.shares) share /= sum > 0 ? sum : 1;
  }

  std::vector<size_t> neighbours() const {
    std::vector<size_t> part_of(count());
    for (size_t i = 0; i < count(); ++i) part_of[i] = i * std::min(max_places, count()) / count();
    return part_of;
  }

  /// Groups layers of equal operator and sizes, because they have similar roles. Layers with rare sizes form one group.
  std::vector<size_t> alike() const {
    std::map<std::pair<std::string, std::vector<int64_t>>, std::vector<size_t>> kinds;
    for (size_t i = 0; i < count(); ++i) kinds[{work_.layers()[i].op, work_.layers()[i].values.dims}].push_back(i);
    std::vector<std::vector<size_t>> groups;
    for (auto& [kind, layers] : kinds) groups.push_back(std::move(layers));
    std::ranges::sort(groups, {}, [](const auto& group) { return std::pair(-std::ssize(group), group[0]); });
    std::vector<size_t> part_of(count());
    for (size_t group = 0; group < groups.size(); ++group)
      for (size_t layer : groups[group]) part_of[layer] = std::min(group, max_kinds - 1);
    return part_of;
  }

  /// Returns the number of multiplications of a layer on the data or, if that is unknown, the number of its weights.
  double size(size_t i) const {
    const Layer& layer = work_.layers()[i];
    auto seen = work_.seen().find(layer.input);
    return static_cast<double>(layer.values.elements() * (seen == work_.seen().end() ? 1 : seen->second.rows));
  }

  /// Returns the layers in descending order of loss divided by size.
  std::vector<size_t> costly() const {
    std::vector<size_t> order(count());
    std::iota(order.begin(), order.end(), 0);
    auto key = [&](size_t i) { return std::pair(-choice_.shares[i] / size(i), i); };
    std::ranges::sort(order, {}, key);
    return order;
  }

  /// Keeps the layers with the greatest loss per size in floats, up to a fifth of the size of all layers.
  void spare_few() {
    double left = 0, least = HUGE_VAL;
    for (size_t i = 0; i < count(); ++i) left += size(i) / 5, least = std::min(least, size(i));
    if (least > left) return;
    measure(alike());
    for (size_t i : costly())
      if (size(i) <= left) left -= size(i), choice_.floats.insert(i);
    choice_.loss = loss(choice_.floats);
  }

  /// Keeps the costliest layers in floats: the fewest that a bisection of at most max_evaluations evaluations finds.
  void cut(double budget) {
    std::vector<size_t> order = costly();
    auto worst = [&](size_t some) {
      return std::set<size_t>(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(some));
    };
    size_t too_few = 0, enough = count();
    double least = choice_.loss;
    while (enough - too_few > 1 && choice_.evaluations.size() < max_evaluations) {
      size_t middle = (too_few + enough) / 2;
      double lost = loss(worst(middle));
      least = std::min(least, lost);
      if (lost <= budget) enough = middle, choice_.loss = lost;
      else too_few = middle;
    }
    if (enough == count()) refuse(budget, least);
    choice_.floats = worst(enough);
  }

  [[noreturn]] void refuse(double budget, double least) const {
    quantise::refuse("E221",
                     cat("no choice of layers meets the budget of ", budget * 100, " %: the least loss found is ",
                         least * 100, " %, after ", choice_.evaluations.size(), " evaluations"),
                     "allow more, give more data, or take another method; nothing was written");
  }

  const Work& work_;
  std::filesystem::path trial_;
  std::optional<Runner> floats_;
  double base_ = 0;
  std::vector<double> noise_;
  Choice choice_;
};

}  // namespace

Choice choose_layers(const Work& work, const std::filesystem::path& output) {
  const Settings& settings = work.settings();
  Search search(work, output.string() + ".trial.onnx");
  if (settings.budget && !search.can_evaluate())
    refuse("E220", "a budget needs data, or a metric", "give examples of the model's inputs");
  return search.run();
}

}  // namespace weft::quantise
