// SPDX-License-Identifier: Apache-2.0
// Programs that are built by hand, operator by operator, on the cpu and on the reference.
#include <doctest/doctest.h>
#include <migraphx/migraphx.hpp>

#include <cmath>

namespace {

using Floats = std::vector<float>;
using Sizes = std::vector<size_t>;

struct Given {
  Sizes lengths;
  Floats values;
};

Floats run(const migraphx::program& program, const std::vector<Given>& inputs) {
  migraphx::program_parameters parameters;
  for (size_t i = 0; i < inputs.size(); ++i) {
    migraphx::shape shape(migraphx_shape_float_type, inputs[i].lengths);
    parameters.add(("x" + std::to_string(i)).c_str(), {shape, const_cast<float*>(inputs[i].values.data())});
  }
  return program.eval(parameters)[0].as_vector<float>();
}

/// Runs one operator over f32 inputs; returns the result as f32, which must be nearly equal on cpu and ref.
Floats apply(const char* op, const char* attributes, const std::vector<Given>& inputs) {
  Floats answers[2];
  for (int i = 0; i < 2; ++i) {
    migraphx::program program;
    migraphx::module main = program.get_main_module();
    std::vector<migraphx::instruction> x;
    for (size_t k = 0; k < inputs.size(); ++k)
      x.push_back(main.add_parameter("x" + std::to_string(k), {migraphx_shape_float_type, inputs[k].lengths}));
    migraphx::instructions args = x.size() == 1   ? migraphx::instructions(x[0])
                                  : x.size() == 2 ? migraphx::instructions(x[0], x[1])
                                                  : migraphx::instructions(x[0], x[1], x[2]);
    migraphx::instruction y = main.add_instruction(migraphx::operation(op, attributes), args);
    main.add_return(main.add_instruction(migraphx::operation("convert", "{target_type: float_type}"), y));
    program.compile(migraphx::target(i ? "ref" : "cpu"));
    answers[i] = run(program, inputs);
  }
  REQUIRE(answers[0].size() == answers[1].size());
  for (size_t i = 0; i < answers[0].size(); ++i) CHECK(answers[0][i] == doctest::Approx(answers[1][i]).epsilon(1e-5));
  return answers[0];
}

const Given row{{2, 3}, {-1, 0.5f, 2, 4, -3, 0}};

std::string error_of(const char* op, const char* attributes, const std::vector<Given>& inputs) {
  weft_migraphx_print_errors(false);
  std::string text = "no error";
  try {
    apply(op, attributes, inputs);
  } catch (const std::exception& error) {
    text = error.what();
  }
  weft_migraphx_print_errors(true);
  return text;
}

}  // namespace

TEST_CASE("migraphx: elementwise operators") {
  CHECK(apply("relu", nullptr, {row}) == Floats{0, 0.5f, 2, 4, 0, 0});
  CHECK(apply("add", nullptr, {row, row}) == Floats{-2, 1, 4, 8, -6, 0});
  CHECK(apply("sqdiff", nullptr, {row, {{2, 3}, {0, 0, 0, 1, 1, 1}}}) == Floats{1, 0.25f, 4, 9, 16, 1});
  CHECK(apply("leaky_relu", "{alpha: 0.5}", {row}) == Floats{-0.5f, 0.5f, 2, 4, -1.5f, 0});
  CHECK(apply("greater", nullptr, {row, {{2, 3}, {0, 0, 0, 0, 0, 0}}}) == Floats{0, 1, 1, 1, 0, 0});
  CHECK(apply("not", nullptr, {row}) == Floats{0, 0, 0, 0, 0, 1});
  CHECK(apply("where", nullptr, {{{3}, {1, 0, 1}}, {{3}, {1, 2, 3}}, {{3}, {4, 5, 6}}}) == Floats{1, 5, 3});
  CHECK(apply("clip", nullptr, {row, {{2, 3}, Floats(6, -1)}, {{2, 3}, Floats(6, 1)}}) ==
        Floats{-1, 0.5f, 1, 1, -1, 0});
  CHECK(apply("isinf", nullptr, {{{3}, {1, INFINITY, -INFINITY}}}) == Floats{0, 1, 1});
  CHECK(apply("elu", "{alpha: 2}", {{{2}, {-1, 3}}})[0] == doctest::Approx(2 * std::expm1(-1)));
  CHECK(apply("log2", nullptr, {{{2}, {8, 1}}})[0] == doctest::Approx(3));
  CHECK(apply("convert", "{target_type: 8}", {row}) == Floats{-1, 0, 2, 4, -3, 0});
}

TEST_CASE("migraphx: products, convolution and pooling") {
  CHECK(apply("dot", nullptr, {row, {{3, 1}, {1, 2, 3}}}) == Floats{6, -2});
  Given image{{1, 1, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9}};
  CHECK(apply("convolution", "{padding: [0, 0], stride: [1, 1], dilation: [1, 1], group: 1}",
              {image, {{1, 1, 2, 2}, {1, 0, 0, 1}}}) == Floats{6, 8, 12, 14});
  CHECK(apply("convolution_backwards", "{stride: [2, 2]}", {{{1, 1, 1, 2}, {1, 2}}, {{1, 1, 1, 1}, {3}}}) ==
        Floats{3, 0, 6});
  CHECK(apply("pooling", "{mode: max, lengths: [2, 2], stride: [1, 1]}", {image}) == Floats{5, 6, 8, 9});
  CHECK(apply("pooling", "{mode: 0, lengths: [2, 2], padding: [1, 1], count_include_pad: true, stride: [2, 2]}",
              {image}) == Floats{0.25f, 1.25f, 2.75f, 7});
}

TEST_CASE("migraphx: along axes") {
  CHECK(apply("reduce_sum", "{axes: [1]}", {row}) == Floats{1.5f, 1});
  CHECK(apply("reduce_max", "{axes: [-2]}", {row}) == Floats{4, 0.5f, 2});
  CHECK(apply("reduce_mean", nullptr, {row})[0] == doctest::Approx(2.5 / 6));
  CHECK(apply("argmax", "{axis: 1}", {row}) == Floats{2, 0});
  CHECK(apply("argmin", "{axis: 0, select_last_index: 1}", {row}) == Floats{0, 1, 1});
  CHECK(apply("prefix_scan_sum", "{axis: 1, exclusive: true, reverse: false}", {row}) == Floats{0, -1, -0.5f, 0, 4, 1});
  Floats soft = apply("softmax", "{axis: 1}", {row});
  CHECK(soft[0] + soft[1] + soft[2] == doctest::Approx(1));
}

TEST_CASE("migraphx: views") {
  CHECK(apply("reshape", "{dims: [3, -1]}", {row}) == row.values);
  CHECK(apply("transpose", "{permutation: [1, 0]}", {row}) == Floats{-1, 4, 0.5f, -3, 2, 0});
  CHECK(apply("slice", "{axes: [1], starts: [-2], ends: [100]}", {row}) == Floats{0.5f, 2, -3, 0});
  CHECK(apply("step", "{axes: [1], steps: [2]}", {row}) == Floats{-1, 2, 4, 0});
  CHECK(apply("reverse", "{axes: [0]}", {row}) == Floats{4, -3, 0, -1, 0.5f, 2});
  CHECK(apply("concat", "{axis: 0}", {row, {{1, 3}, {7, 8, 9}}}) == Floats{-1, 0.5f, 2, 4, -3, 0, 7, 8, 9});
  CHECK(apply("broadcast", "{axis: 0, out_lens: [2, 2]}", {{{2}, {1, 2}}}) == Floats{1, 1, 2, 2});
  CHECK(apply("multibroadcast", "{out_lens: [2, 2]}", {{{2}, {1, 2}}}) == Floats{1, 2, 1, 2});
  CHECK(apply("pad", "{pads: [0, 1, 0, 0], value: 5}", {{{1, 2}, {1, 2}}}) == Floats{5, 1, 2});
  CHECK(apply("pad", "{pads: [1, 1], mode: edge}", {{{2}, {1, 2}}}) == Floats{1, 1, 2, 2});
  for (const char* op : {"flatten", "contiguous", "identity"}) CHECK(apply(op, nullptr, {row}) == row.values);
  CHECK(apply("unsqueeze", "{axes: [0, 2]}", {row}) == row.values);
  CHECK(apply("squeeze", "{axes: [0]}", {{{1, 2}, {1, 2}}}) == Floats{1, 2});
}

TEST_CASE("migraphx: indices, tuples and literals") {
  migraphx::program program;
  migraphx::module main = program.get_main_module();
  migraphx::instruction x = main.add_parameter("x0", {migraphx_shape_float_type, {2, 3}});
  int64_t order[] = {1, 0};
  migraphx::instruction indices = main.add_literal(migraphx::shape(migraphx_shape_int64_type, {2}), order);
  migraphx::instruction turned = main.add_instruction(migraphx::operation("gather", "{axis: %d}", 0), {x, indices});
  migraphx::instruction top = main.add_instruction(migraphx::operation("topk", "{k: 1, axis: 1, largest: 1}"), turned);
  migraphx::instruction best = main.add_instruction(migraphx::operation("get_tuple_elem", "{index: 0}"), top);
  migraphx::instruction where = main.add_instruction(migraphx::operation("get_tuple_elem", "{index: 1}"), top);
  float two = 2;
  migraphx::instruction factor = main.add_literal(migraphx::shape(migraphx_shape_float_type), &two);
  factor = main.add_instruction(migraphx::operation("multibroadcast", "{out_lens: [2, 1]}"), factor);
  main.add_return({main.add_instruction(migraphx::operation("mul"), {best, factor}), where});
  CHECK(migraphx::operation("topk").name() == "topk");
  migraphx::shapes shapes = program.get_output_shapes();
  CHECK(shapes[0] == migraphx::shape(migraphx_shape_float_type, {2, 1}));
  CHECK(shapes[1] == migraphx::shape(migraphx_shape_int64_type, {2, 1}));
  program.compile(migraphx::target("cpu"));
  CHECK(run(program, {row}) == Floats{8, 4});
}

TEST_CASE("migraphx: quantised operators") {
  migraphx::program program;
  migraphx::module main = program.get_main_module();
  migraphx::instruction x = main.add_parameter("x0", {migraphx_shape_float_type, {2, 3}});
  Floats half(6, 0.5f);
  migraphx::instruction scale = main.add_literal(migraphx::shape(migraphx_shape_float_type, {2, 3}), half.data());
  migraphx::instruction q = main.add_instruction(migraphx::operation("quantizelinear"), {x, scale});
  migraphx::instruction turned = main.add_instruction(migraphx::operation("transpose", "{permutation: [1, 0]}"), q);
  migraphx::instruction product = main.add_instruction(migraphx::operation("quant_dot"), {q, turned});
  main.add_instruction(migraphx::operation("convert", "{target_type: float_type}"), product);
  program.compile(migraphx::target("cpu"));
  CHECK(run(program, {row}) == Floats{21, -22, -22, 100});
}

TEST_CASE("migraphx: parameters may have a range of sizes") {
  migraphx::program program;
  migraphx::module main = program.get_main_module();
  migraphx::dynamic_dimensions range(migraphx::dynamic_dimension{1, 8}, migraphx::dynamic_dimension{3, 3});
  migraphx::instruction x = main.add_parameter("x0", {migraphx_shape_float_type, range});
  main.add_instruction(migraphx::operation("reduce_sum", "{axes: [1]}"), x);
  CHECK(program.get_output_shapes()[0].dyn_dims()[0] == migraphx::dynamic_dimension(1, 8));
  program.compile(migraphx::target("cpu"));
  CHECK(run(program, {row}) == Floats{1.5f, 1});
  CHECK(run(program, {{{1, 3}, {1, 2, 3}}}) == Floats{6});
}

TEST_CASE("migraphx: instructions that cannot be built are refused when they are added") {
  CHECK(error_of("lstm", nullptr, {row}).find("'lstm'") != std::string::npos);
  CHECK(error_of("dot", nullptr, {row, row}).find("2,3") != std::string::npos);
  CHECK(error_of("relu", nullptr, {row, row}).find("takes 1 operands") != std::string::npos);
  CHECK(error_of("softmax", "{axis: 2}", {row}).find("rank 2") != std::string::npos);
  CHECK(error_of("softmax", "{axes: 1}", {row}).find("'axes'") != std::string::npos);
  CHECK(error_of("softmax", "{axis: ]", {row}).find("attributes") != std::string::npos);
  CHECK(error_of("softmax", "{axis: one}", {row}).find("whole number") != std::string::npos);
}
