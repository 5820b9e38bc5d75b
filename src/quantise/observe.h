// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "quantise/histogram.h"
#include "quantise/layers.h"
#include "quantise/quantise.h"

namespace weft::quantise {

/// The model compiled for the CPU, and a context to run it.
class Runner {
 public:
  Runner(const ModelEdit& edit, int threads);
  const Executable& model() const { return *executable_; }
  std::vector<Tensor> run(std::span<const Tensor> inputs) const { return context_->run(inputs); }

 private:
  std::shared_ptr<Executable> executable_;
  std::unique_ptr<Context> context_;
};

/// Calls `visit` with each of the first `most` items of the data; errors name the item. Throws E220 if there are no
/// items, and for an item with a NaN or an infinity.
void for_each_item(const Runner& runner, Samples& samples,
                   const std::function<void(size_t item, const std::vector<Tensor>& inputs)>& visit,
                   size_t most = SIZE_MAX);

/// The statistics of one layer's input.
struct Observed {
  Histogram histogram = {};
  std::vector<double> sums = {};     ///< sum of each input channel
  std::vector<double> squares = {};  ///< sum of the squares of each input channel
  std::vector<float> greatest = {};  ///< greatest absolute value of each input channel
  int64_t rows = 0;                  ///< number of rows summed
  std::string why_not = {};          ///< why the layer cannot be quantised; empty: it can

  std::vector<double> means() const;  ///< mean of each input channel
};

/// The statistics of each observed value, by its name.
using Observation = std::map<std::string, Observed>;

/// Runs the model on all items and returns the statistics of the layers' inputs. Keeps the values of one run at a time.
Observation observe(const ModelEdit& edit, const std::vector<Layer>& layers, Samples& samples,
                    const Settings& settings);

}  // namespace weft::quantise
