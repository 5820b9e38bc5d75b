// SPDX-License-Identifier: Apache-2.0
// The reference target: binding of sizes, guards, defaults, observers.
#include <doctest/doctest.h>

#include "base/error.h"
#include "ir/text.h"
#include "ops/build.h"
#include "ops/registry.h"
#include "runtime/ref_executable.h"

using namespace weft;

namespace {

std::shared_ptr<Executable> reference(std::string_view text) { return make_reference(parse_program(text, make_op)); }

Tensor zeros(std::vector<int64_t> dims) {
  std::vector<double> values(static_cast<size_t>(element_count(dims)), 0.0);
  return make_tensor(DType::f32, dims, values);
}

std::string error_of(const Executable& model, std::vector<Tensor> inputs, const RunOptions& options = {}) {
  try {
    model.new_context()->run(inputs, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}
bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

constexpr std::string_view sum = R"--(
program "sum"
symbol batch min=1 max=8 multiple_of=2
symbol seq min=0
module main {
  %x = parameter {name="x", type=f32[batch,2*seq]}
  %y = parameter {name="y", type=f32[batch,2*seq]}
  %r = reshape %y {dims=[batch, seq, 2]}
  %s = add %x, %y // from "node 0 'plus' (Add)"
  return "sum"=%s, "pairs"=%r
}
)--";

}  // namespace

TEST_CASE("sizes are bound from the inputs and checked") {
  auto model = reference(sum);
  auto outputs = model->new_context()->run(std::vector{zeros({2, 6}), zeros({2, 6})});
  CHECK(outputs[0].dims == std::vector<int64_t>{2, 6});
  CHECK(outputs[1].dims == std::vector<int64_t>{2, 3, 2});
  CHECK(model->new_context()->run(std::vector{zeros({2, 0}), zeros({2, 0})})[1].dims == std::vector<int64_t>{2, 0, 2});
  CHECK(has(error_of(*model, {zeros({2, 6})}), "E310"));
  CHECK(has(error_of(*model, {zeros({2, 6}), zeros({2})}), "E310"));
  CHECK(has(error_of(*model, {zeros({2, 6}), make_i64_tensor({})}), "element type i64 is not f32"));
  CHECK(has(error_of(*model, {zeros({10, 6}), zeros({10, 6})}), "E311"));
  CHECK(has(error_of(*model, {zeros({3, 6}), zeros({3, 6})}), "multiple of 2"));
  CHECK(has(error_of(*model, {zeros({2, 6}), zeros({4, 6})}), "E312"));
  CHECK(has(error_of(*model, {zeros({2, 5}), zeros({2, 5})}), "E312"));
}

TEST_CASE("guards are checked with the node and both values") {
  auto model = reference(R"--(
symbol a min=1
symbol b min=1
guard a == b ; "add: axis 0" "node 7 'mix' (Add)"
guard a <= 4 ; "top_k: k" "node 8"
module main {
  %x = parameter {name="x", type=f32[a]}
  %y = parameter {name="y", type=f32[b]}
  %s = add %x, %y
  return "s"=%s
}
)--");
  CHECK(error_of(*model, {zeros({2}), zeros({2})}).empty());
  std::string message = error_of(*model, {zeros({2}), zeros({3})});
  CHECK(has(message, "E312"));
  CHECK(has(message, "2 is not 3"));
  CHECK(has(message, "node 7 'mix' (Add)"));
  CHECK(has(error_of(*model, {zeros({5}), zeros({5})}), "5 is more than 4"));
}

TEST_CASE("parameters with defaults may be left out") {
  std::string text = R"--(
default "w" f32[2]{3, 4}
module main {
  %x = parameter {name="x", type=f32[2]}
  %w = parameter {name="w", type=f32[2]}
  %s = mul %x, %w
  return "s"=%s
}
)--";
  auto program = parse_program(text, make_op);
  CHECK(print(*parse_program(print(*program), make_op)) == print(*program));
  auto model = make_reference(std::move(program));
  REQUIRE(model->inputs()[1].default_value.has_value());
  Tensor x = make_tensor(DType::f32, {2}, std::vector<double>{1, 2});
  CHECK(to_doubles(model->new_context()->run(std::vector{x})[0]) == std::vector<double>{3, 8});
  CHECK(to_doubles(model->new_context()->run(std::vector{x, x})[0]) == std::vector<double>{1, 4});
}

TEST_CASE("values are observed by name, steps are profiled, the deadline holds, memory is the caller's") {
  auto model = reference(sum);
  std::vector<std::string> seen;
  std::vector<StepTime> profile;
  std::vector<std::byte> memory(2 * 2 * 4);
  std::vector<std::span<std::byte>> memories = {memory};
  RunOptions options{.output_memory = memories, .profile = &profile};
  options.observe = [&](size_t, const std::string& value, const Tensor&) { seen.push_back(value); };
  auto outputs = model->new_context()->run(std::vector{zeros({2, 2}), zeros({2, 2})}, options);
  CHECK(outputs[0].data.data() == memory.data());
  CHECK(seen == std::vector<std::string>{"%2", "%3 of node 0 'plus' (Add)"});
  CHECK(profile.size() == model->steps().size());
  CHECK(has(error_of(*model, {zeros({2, 2}), zeros({2, 2})}, {.deadline = std::chrono::steady_clock::time_point()}),
            "E403"));
  memories[0] = std::span(memory).first(3);
  CHECK(has(error_of(*model, {zeros({2, 2}), zeros({2, 2})}, {.output_memory = memories}), "E313"));
}

TEST_CASE("reals are not rounded between operators") {
  auto model = reference(R"--(
module main {
  %x = parameter {name="x", type=f32[1]}
  %tiny = constant {value=f32[1]{1e-30}}
  %a = add %x, %tiny
  %b = sub %a, %x
  return "b"=%b
}
)--");
  Tensor x = make_tensor(DType::f32, {1}, std::vector<double>{1e-20});
  CHECK(to_doubles(model->new_context()->run(std::vector{x})[0])[0] == doctest::Approx(1e-30));
}

TEST_CASE("a sum near half a step is quantised by its exact value, not by its f32 rounding") {
  auto model = reference(R"--(
program "half"
module main {
  %a = parameter {name="a", type=f32[1]}
  %b = parameter {name="b", type=f32[1]}
  %s = constant {value=f32[1]{1}}
  %p = mul %a, %b
  %q = quantize %p, %s {to=i8, axis=0, block=0, saturate=true}
  %half = quantize %a, %s {to=i8, axis=0, block=0, saturate=true}
  return "q"=%q, "half"=%half
}
)--");
  auto of = [](double x) { return make_tensor(DType::f32, {1}, std::vector<double>{x}); };
  // The exact product is 3.5 (1 - 2^-40).
  auto close = model->new_context()->run(std::vector{of(3.5 * (1 + 0x1p-20)), of(1 - 0x1p-20)});
  CHECK(close[0].as<int8_t>()[0] == 3);
  auto half = model->new_context()->run(std::vector{of(3.5), of(1)});
  CHECK(half[0].as<int8_t>()[0] == 4);
  CHECK(half[1].as<int8_t>()[0] == 4);
}
