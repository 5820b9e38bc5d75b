// SPDX-License-Identifier: Apache-2.0
// Typical programs of MIGraphX's users: read a model, compile it for a target, run it; precision; files; ranges of
// sizes; errors.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
#include <unistd.h>
#include <migraphx/migraphx.hpp>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <string>
#include <thread>

namespace {

using Floats = std::vector<float>;

/// Uses an empty tuning database, because measurements of this machine may choose other kernels for a range of sizes.
struct OwnTunings {
  std::string file = (std::filesystem::temp_directory_path() / ("weft_migraphx_" + std::to_string(getpid()))).string();
  OwnTunings() { setenv("WEFT_TUNINGS", file.c_str(), 1); }
  ~OwnTunings() { std::filesystem::remove(file); }
} const own_tunings;

migraphx::program digits(size_t batch = 1) {
  migraphx::onnx_options options;
  options.set_input_parameter_shape("image", {batch, 1, 8, 8});
  return migraphx::parse_onnx(DIGITS, options);
}

migraphx::program compiled(const migraphx::program& program, const char* target = "cpu") {
  migraphx::compile_options options;
  options.set_offload_copy();
  program.compile(migraphx::target(target), options);
  return program;
}

migraphx::program_parameters inputs(const migraphx::program& program, size_t seed = 1) {
  migraphx::program_parameters parameters;
  migraphx::program_parameter_shapes shapes = program.get_parameter_shapes();
  for (const char* name : shapes.names()) parameters.add(name, migraphx::argument::generate(shapes[name], seed));
  return parameters;
}

Floats answer(const migraphx::program& program, size_t seed = 1) {
  return program.eval(inputs(program, seed))[0].as_vector<float>();
}

double difference(const Floats& a, const Floats& b) {
  REQUIRE(a.size() == b.size());
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) most = std::max<double>(most, std::fabs(a[i] - b[i]));
  return most;
}

struct Quiet {
  Quiet() { weft_migraphx_print_errors(false); }
  ~Quiet() { weft_migraphx_print_errors(true); }
};

template <class Body>
std::string error_of(const Body& body) {
  Quiet quiet;
  try {
    body();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("migraphx: the element types have the numbers that programs were compiled with") {
  CHECK(migraphx_shape_tuple_type == 0);
  CHECK(migraphx_shape_bool_type == 2);
  CHECK(migraphx_shape_float_type == 4);
  CHECK(migraphx_shape_int64_type == 11);
  CHECK(migraphx_shape_bf16_type == 17);
  CHECK(migraphx_status_unknown_target == 3);
  CHECK(sizeof(migraphx_shape_datatype_t) == 4);
}

TEST_CASE("migraphx: every target gives the reference's answer") {
  Floats wanted = answer(compiled(digits(3), "ref"));
  CHECK(std::accumulate(wanted.begin(), wanted.end(), 0.0f) == doctest::Approx(3));
  CHECK(difference(answer(compiled(digits(3), "cpu")), wanted) < 1e-5);
  CHECK(difference(answer(compiled(digits(3), "gpu")), wanted) < 1e-5);
}

TEST_CASE("migraphx: parameters are known before compiling; a size that nobody gives is 1") {
  migraphx::program program = migraphx::parse_onnx(DIGITS);
  CHECK(program.get_parameter_shapes()["image"].lengths() == std::vector<size_t>{1, 1, 8, 8});
  CHECK(program.get_output_shapes()[0].lengths() == std::vector<size_t>{1, 10});
  migraphx::onnx_options options;
  options.set_default_dim_value(4);
  CHECK(migraphx::parse_onnx(DIGITS, options).get_output_shapes()[0].lengths() == std::vector<size_t>{4, 10});
}

TEST_CASE("migraphx: without offload_copy a program for gpu writes to memory that it is given") {
  migraphx::program program = digits(2);
  program.compile(migraphx::target("gpu"));
  migraphx::program_parameter_shapes shapes = program.get_parameter_shapes();
  REQUIRE(shapes.size() == 2);
  CHECK(shapes["main:#output_0"] == program.get_output_shapes()[0]);
  migraphx::program_parameters parameters = inputs(program);
  Floats result(20);
  parameters.add("main:#output_0", migraphx::argument(shapes["main:#output_0"], result.data()));
  migraphx::arguments results = program.run_async(parameters, static_cast<int*>(nullptr));
  CHECK(results[0].data() == reinterpret_cast<char*>(result.data()));
  CHECK(result == answer(compiled(digits(2), "cpu")));
}

TEST_CASE("migraphx: half precision, int8, fp8 and int4 are close to f32, and not the same") {
  Floats wanted = answer(compiled(digits(8)));
  migraphx::program half = digits(8), bf16 = digits(8), int8 = digits(8), fp8 = digits(8), int4 = digits(8);
  migraphx::quantize_fp16(half);
  migraphx::quantize_bf16(bf16);
  migraphx::quantize_int8_options options;
  options.add_op_name("dot");
  options.add_op_name("convolution");
  migraphx::quantize_fp8_options fp8_options;
  for (size_t seed = 1; seed <= 3; ++seed) {
    options.add_calibration_data(inputs(int8, seed));
    fp8_options.add_calibration_data(inputs(fp8, seed));
  }
  migraphx::quantize_int8(int8, migraphx::target("cpu"), options);
  migraphx::quantize_fp8(fp8, migraphx::target("cpu"), fp8_options);
  migraphx::quantize_int4_weights(int4);
  for (auto& [program, limit] : {std::pair{half, 5e-3}, {bf16, 5e-2}, {int8, 1e-1}, {fp8, 3e-1}, {int4, 1.0}}) {
    double error = difference(answer(compiled(program)), wanted);
    CHECK(error > 0);
    CHECK(error < limit);
  }
}

TEST_CASE("migraphx: programs that cannot be quantised are refused") {
  CHECK(error_of([] { migraphx::quantize_int8(digits(), "cpu", {}); }).find("calibration data") != std::string::npos);
  CHECK(error_of([] { migraphx::quantize_fp8(digits(), "cpu", {}); }).find("calibration data") != std::string::npos);
  CHECK(error_of([] {
          migraphx::quantize_op_names names;
          names.add("dot");
          migraphx::quantize_fp16(digits(), names);
        }).find("together") != std::string::npos);
  CHECK(error_of([] {
          migraphx::program program = digits();
          migraphx::quantize_fp16(program);
          migraphx::quantize_bf16(program);
        }).find("cannot be combined") != std::string::npos);
}

TEST_CASE("migraphx: a saved program gives the same answer") {
  migraphx::program program = compiled(digits(2), "gpu");
  const char* path = "weft_migraphx_test.mxr";
  migraphx::file_options options;
  options.set_file_format("msgpack");
  migraphx::save(program, path, options);
  migraphx::program again = migraphx::load(path);
  std::remove(path);
  CHECK(again.get_parameter_shapes()["image"] == program.get_parameter_shapes()["image"]);
  CHECK(answer(again) == answer(program));
  CHECK(error_of([&] { options.set_file_format("json"); }).find("json") != std::string::npos);
  CHECK(error_of([] { migraphx::load("/none.mxr"); }).find("/none.mxr") != std::string::npos);
}

TEST_CASE("migraphx: one compilation serves a range of sizes") {
  migraphx::onnx_options options;
  options.set_dyn_input_parameter_shape(
      "image", migraphx::dynamic_dimensions(migraphx::dynamic_dimension{1, 16, {std::set<size_t>{4, 8}}},
                                            migraphx::dynamic_dimension{1, 1}, migraphx::dynamic_dimension{8, 8},
                                            migraphx::dynamic_dimension{8, 8}));
  migraphx::program program = compiled(migraphx::parse_onnx(DIGITS, options));
  migraphx::shape shape = program.get_parameter_shapes()["image"];
  REQUIRE(shape.dynamic());
  CHECK(shape.dyn_dims()[0] == migraphx::dynamic_dimension(1, 16));
  for (size_t batch : {1, 3, 16}) {
    migraphx::shape now(migraphx_shape_float_type, {batch, 1, 8, 8});
    migraphx::arguments results = program.eval({{"image", migraphx::argument::generate(now, 1)}});
    CHECK(results[0].get_shape().lengths() == std::vector<size_t>{batch, 10});
    CHECK(difference(results[0].as_vector<float>(), answer(compiled(digits(batch)))) < 1e-6);
  }
  migraphx::shape large(migraphx_shape_float_type, {17, 1, 8, 8});
  CHECK(error_of([&] { program.eval({{"image", migraphx::argument::generate(large)}}); }).find("17") !=
        std::string::npos);
}

TEST_CASE("migraphx: a model in memory, threads, strides") {
  std::ifstream file(DIGITS, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  migraphx::onnx_options options;
  options.set_input_parameter_shape("image", {2, 1, 8, 8});
  migraphx::program program = compiled(migraphx::parse_onnx_buffer(bytes, options));
  bytes.assign(bytes.size(), 'x');  // the model keeps a copy
  Floats wanted = answer(program);
  std::vector<std::thread> threads;
  std::vector<Floats> answers(4);
  for (Floats& mine : answers) threads.emplace_back([&] { mine = answer(program); });
  for (std::thread& thread : threads) thread.join();
  for (const Floats& mine : answers) CHECK(mine == wanted);

  migraphx::argument image = migraphx::argument::generate({migraphx_shape_float_type, {2, 1, 8, 8}}, 1);
  Floats dense = image.as_vector<float>(), turned(128);
  for (size_t n = 0; n < 2; ++n)
    for (size_t i = 0; i < 64; ++i) turned[n * 64 + i % 8 * 8 + i / 8] = dense[n * 64 + i];
  migraphx::shape strided(migraphx_shape_float_type, {2, 1, 8, 8}, {64, 64, 1, 8});
  CHECK(!strided.standard());
  CHECK(strided.index(1) == 8);
  CHECK(program.eval({{"image", migraphx::argument(strided, turned.data())}})[0].as_vector<float>() == wanted);
}

TEST_CASE("migraphx: arguments go to files and back") {
  migraphx::argument image = migraphx::argument::generate({migraphx_shape_float_type, {2, 3}}, 7);
  image.save("weft_migraphx_test.npy");
  CHECK(migraphx::argument::load("weft_migraphx_test.npy") == image);
  CHECK(migraphx::argument::generate({migraphx_shape_float_type, {2, 3}}, 8) != image);
  std::remove("weft_migraphx_test.npy");
  CHECK(error_of([] { migraphx::argument::load(DIGITS); }).find(".npy") != std::string::npos);
  for (migraphx_shape_datatype_t type : {migraphx_shape_half_type, migraphx_shape_int64_type, migraphx_shape_bool_type})
    CHECK(migraphx::argument::generate({type, {5}}).get_shape().type() == type);
}

TEST_CASE("migraphx: errors say what is wrong, and have the status of their kind") {
  Quiet quiet;
  migraphx_target_t target = nullptr;
  CHECK(migraphx_target_create(&target, "fpga") == migraphx_status_unknown_target);
  CHECK(std::string(weft_migraphx_error()).find("gpu, cpu, ref") != std::string::npos);
  CHECK(migraphx_target_create(nullptr, "gpu") == migraphx_status_bad_param);
  migraphx_program_t program = nullptr;
  CHECK(migraphx_parse_onnx_buffer(&program, "no model", 8, nullptr) == migraphx_status_unknown_error);
  CHECK(migraphx_parse_tf(&program, "graph.pb", nullptr) == migraphx_status_bad_param);
  migraphx_tf_options_t options = nullptr;
  REQUIRE(migraphx_tf_options_create(&options) == migraphx_status_success);
  CHECK(migraphx_parse_tf(&program, "no graph.pb", options) == migraphx_status_bad_param);
  CHECK(std::string(weft_migraphx_error()).find("no graph.pb") != std::string::npos);
  migraphx_tf_options_destroy(options);
  CHECK(program == nullptr);
  CHECK(error_of([] { digits().eval({}); }).find("not compiled") != std::string::npos);
  CHECK(error_of([] { compiled(digits()).eval({}); }).find("'image' is missing") != std::string::npos);
  CHECK(error_of([] { migraphx::program().compile(migraphx::target("ref")); }).find("empty") != std::string::npos);
  CHECK(error_of([] { compiled(compiled(digits())); }).find("already") != std::string::npos);
  CHECK(error_of([] {
          migraphx::shape wrong(migraphx_shape_float_type, {1, 1, 8, 9});
          compiled(digits()).eval({{"image", migraphx::argument::generate(wrong)}});
        }).find("9") != std::string::npos);
}

TEST_CASE("migraphx: programs are compared, copied and traced") {
  CHECK(digits(2) == digits(2));
  CHECK(digits(2) != digits(3));
  migraphx::program program = digits(2), copy;
  REQUIRE(migraphx_program_assign_to(copy.get_handle_ptr(), program.get_handle_ptr()) == migraphx_status_success);
  compiled(program);
  CHECK(copy != program);
  CHECK(answer(compiled(copy)) == answer(program));
  std::string seen;
  program.run_trace(inputs(program), [&](const migraphx::trace_info& info) {
    seen += info.get_name() + std::to_string(info.get_result().get_shape().elements());
  });
  CHECK(seen == "probability20");
}

TEST_CASE("migraphx: the operators of ONNX are listed") {
  std::vector<std::string> names = migraphx::get_onnx_operators();
  CHECK(names.size() > 150);
  for (const char* bare : {"Conv", "GroupQueryAttention", "MatMulNBits"})
    CHECK(std::count(names.begin(), names.end(), bare) == 1);
}

namespace {

template <class... A>
migraphx_status with_nothing(migraphx_status (*call)(A...)) {
  return call(A{}...);
}
template <class... A>
migraphx_status with_nothing(migraphx_status (*call)(A..., ...)) {
  return call(A{}...);
}

}  // namespace

TEST_CASE("migraphx: every call refuses NULL for every argument") {
  Quiet quiet;
  const std::pair<const char*, migraphx_status> answers[] = {
#define CALL(name) {#name, with_nothing(name)},
#include "migraphx_calls.def"
#undef CALL
  };
  CHECK(std::size(answers) > 150);
  for (const auto& [name, status] : answers) {
    const std::string call = name;
    INFO(call);
    CHECK(status == (call.ends_with("_destroy") ? migraphx_status_success  // NULL may be destroyed
                                                : migraphx_status_bad_param));
  }
}

TEST_CASE("migraphx: impossible sizes are refused before memory is allocated") {
  Quiet quiet;
  auto create = [](std::vector<size_t> lengths, std::vector<size_t> strides) {
    migraphx_shape_t shape = nullptr;
    migraphx_argument_t argument = nullptr;
    migraphx_status status = migraphx_shape_create_with_strides(&shape, migraphx_shape_double_type, lengths.data(),
                                                                lengths.size(), strides.data(), strides.size());
    if (status == migraphx_status_success) status = migraphx_argument_create_empty(&argument, shape);
    migraphx_argument_destroy(argument);
    migraphx_shape_destroy(shape);
    return status;
  };
  const size_t huge = size_t{1} << 61;
  CHECK(create({2, 3}, {3, 1}) == migraphx_status_success);
  CHECK(create({huge}, {1}) == migraphx_status_bad_param);  // 2^64 bytes
  CHECK(create({huge, huge}, {huge, 1}) == migraphx_status_bad_param);
  CHECK(create({2, 2}, {SIZE_MAX, SIZE_MAX}) == migraphx_status_bad_param);
  migraphx::dynamic_dimensions sizes(migraphx::dynamic_dimension(1, 4));
  migraphx::shape open(migraphx_shape_float_type, sizes);
  float memory[4] = {};
  migraphx::argument argument(open, memory);
  bool is_equal = false;
  CHECK(migraphx_argument_equal(&is_equal, argument.get_handle_ptr(), argument.get_handle_ptr()) ==
        migraphx_status_bad_param);
  CHECK(error_of([&] { compiled(digits()).eval({{"image", argument}}); }).find("not fixed") != std::string::npos);
}
