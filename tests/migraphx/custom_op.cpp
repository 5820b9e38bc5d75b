// SPDX-License-Identifier: Apache-2.0
// Operators that the user's program defines.
#include <doctest/doctest.h>
#include <migraphx/migraphx.hpp>

#include <cstring>

namespace {

/// An operator that writes its result into the memory of its second operand.
struct Cube final : migraphx::experimental_custom_op_base {
  std::string name() const override { return "test_cube"; }
  bool runs_on_offload_target() const override { return false; }
  std::vector<size_t> output_alias(migraphx::shapes) const override { return {1}; }
  migraphx::shape compute_shape(migraphx::shapes inputs) const override {
    if (inputs.size() != 2) throw std::runtime_error("test_cube takes a value and an allocation");
    return inputs.back();
  }
  migraphx::argument compute(migraphx::context, migraphx::shape output, migraphx::arguments inputs) const override {
    const float* x = reinterpret_cast<const float*>(inputs[0].data());
    float* y = reinterpret_cast<float*>(inputs[1].data());
    for (size_t i = 0; i < output.elements(); ++i) y[i] = x[i] * x[i] * x[i];
    return inputs[1];
  }
};

/// An operator that allocates its result; fails on request.
struct Negate final : migraphx::experimental_custom_op_base {
  bool fails = false;
  std::string name() const override { return fails ? "test_fails" : "test_negate"; }
  bool runs_on_offload_target() const override { return false; }
  migraphx::shape compute_shape(migraphx::shapes inputs) const override { return inputs[0]; }
  migraphx::argument compute(migraphx::context, migraphx::shape output, migraphx::arguments inputs) const override {
    if (fails) throw std::runtime_error("out of luck");
    migraphx::argument result(output);
    for (size_t i = 0; i < output.elements(); ++i)
      reinterpret_cast<float*>(result.data())[i] = -reinterpret_cast<const float*>(inputs[0].data())[i];
    return result;
  }
};

const migraphx::shape three{migraphx_shape_float_type, {3}};

}  // namespace

TEST_CASE("migraphx: an operator of the program's own runs between the others") {
  Cube cube;
  Negate negate;
  migraphx::register_experimental_custom_op(cube);
  migraphx::register_experimental_custom_op(negate);
  migraphx::program program;
  migraphx::module main = program.get_main_module();
  migraphx::instruction x = main.add_parameter("x", three);
  migraphx::instruction y = main.add_instruction(migraphx::operation("test_cube"), {x, main.add_allocation(three)});
  migraphx::instruction z = main.add_instruction(migraphx::operation("test_negate"), {y});
  main.add_return({main.add_instruction(migraphx::operation("add"), {x, z})});
  program.compile(migraphx::target("cpu"));
  float values[] = {1, 2, -3};
  migraphx::arguments results = program.eval({{"x", migraphx::argument(three, values)}});
  CHECK(results[0].as_vector<float>() == std::vector<float>{0, -6, 24});
}

TEST_CASE("migraphx: the error is the message of the operator that failed") {
  Negate fails;
  fails.fails = true;
  migraphx::register_experimental_custom_op(fails);
  migraphx::program program;
  migraphx::module main = program.get_main_module();
  main.add_instruction(migraphx::operation("test_fails"), {main.add_parameter("x", three)});
  program.compile(migraphx::target("cpu"));
  weft_migraphx_print_errors(false);
  float values[3] = {};
  CHECK_THROWS(program.eval({{"x", migraphx::argument(three, values)}}));
  migraphx::module other = migraphx::program().get_main_module();
  CHECK_THROWS(other.add_instruction(migraphx::operation("test_cube"), {other.add_parameter("x", three)}));
  CHECK(std::strstr(weft_migraphx_error(), "takes a value and an allocation"));
  weft_migraphx_print_errors(true);
}
