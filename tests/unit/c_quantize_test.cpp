// SPDX-License-Identifier: Apache-2.0
// Quantising models and writing models as ONNX, through the C interface.
#include <doctest/doctest.h>

#include <array>
#include <vector>

#include "answers.h"
#include "weft/weft.hpp"

using weft::test::code_of;

namespace {

/// Returns an ONNX file of y = x w, where w has 16 columns.
weft::Tensor product() {
  weft::Graph graph("product");
  graph.symbol("n", 1, 64);
  std::vector<float> weights(64 * 16);
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>((i * 37) % 101) / 50 - 1;
  weft_value x = graph.input("x", "f32[n,64]");
  weft_value w = graph.constant(weft::view<float>(weights, {64, 16}));
  graph.output("y", graph.append("dot", {x, w}));
  return graph.to_onnx();
}

std::vector<float> row(size_t item) {
  std::vector<float> x(64);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>((i * 13 + item * 29) % 17) / 8 - 1;
  return x;
}

struct Data {
  size_t items = 4;
  int passes = 0;

  static int32_t give(void* user, size_t index, weft_tensor** inputs) {
    auto& self = *static_cast<Data*>(user);
    self.passes += index == 0;
    if (index >= self.items) return 0;
    const int64_t dims[] = {1, 64};
    std::vector<float> x = row(index);
    weft_status_free(weft_tensor_copy(WEFT_F32, dims, 2, x.data(), x.size() * sizeof(float), inputs));
    return 1;
  }
};

weft_quantize_options options_for(Data& data) {
  weft_quantize_options options = WEFT_QUANTIZE_OPTIONS_INIT;
  options.item = Data::give, options.user = &data;
  return options;
}

std::vector<float> run(const weft::Tensor& model) {
  weft::Program program = weft::compile(model.bytes(), {.device = "cpu"});
  std::vector<float> x = row(2);
  weft::Tensor y = program.new_context().run({weft::view<float>(x, {1, 64})}).at(0);
  return {y.as<float>().begin(), y.as<float>().end()};
}

}  // namespace

TEST_CASE("weft_quantize_bytes: a graph becomes int8, by data that a function gives") {
  Data data;
  weft_quantize_options options = options_for(data);
  weft::Tensor floats = product(), bytes = weft::quantize(floats.bytes(), options);
  CHECK(data.passes >= 1);
  std::vector<float> right = run(floats), got = run(bytes);
  double apart = 0, all = 0;
  for (size_t i = 0; i < right.size(); ++i)
    apart += (right[i] - got[i]) * (right[i] - got[i]), all += right[i] * right[i];
  CHECK(apart > 0);
  CHECK(apart < 0.02 * 0.02 * all);
  weft::Tensor again = weft::quantize(floats.bytes(), options);
  CHECK(std::ranges::equal(bytes.bytes(), again.bytes()));
  CHECK(code_of([&] { weft::quantize(bytes.bytes(), options); }) == "E222");
}

TEST_CASE("weft_quantize_bytes refuses unknown choices") {
  weft::Tensor floats = product();
  Data data{.items = 0};
  weft_quantize_options none = options_for(data);
  CHECK(code_of([&] { weft::quantize(floats.bytes(), none); }) == "E220");
  weft_quantize_options options = WEFT_QUANTIZE_OPTIONS_INIT;
  CHECK(code_of([&] { weft::quantize(floats.bytes(), options); }) == "E220");
  options.products = 4;
  CHECK(code_of([&] { weft::quantize(floats.bytes(), options); }) == "E210");
  options.products = 0, options.metric = [](void*, const char*) { return 1.0; };
  CHECK(code_of([&] { weft::quantize(floats.bytes(), options); }) == "E210");
  options.metric = nullptr, options.ranges = "there is no such table";
  CHECK(code_of([&] { weft::quantize(floats.bytes(), options); }) == "E106");
  Data some;
  weft_quantize_options convolutions = options_for(some);
  convolutions.products = 2;
  CHECK(code_of([&] { weft::quantize(floats.bytes(), convolutions); }) == "E222");
}
