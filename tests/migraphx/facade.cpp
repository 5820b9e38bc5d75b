// SPDX-License-Identifier: Apache-2.0
// Tests the HIP facade, and a program for a GPU that allocates its memory from the facade, as programs for MIGraphX do.
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <migraphx/migraphx.hpp>

#include <cstring>

extern "C" {
int hipGetDeviceCount(int*);
int hipSetDevice(int);
int hipGetDevicePropertiesR0600(void*, int);
int hipMalloc(void**, size_t);
int hipFree(void*);
int hipMemcpy(void*, const void*, size_t, int);
int hipMemset(void*, int, size_t);
int hipPointerGetAttributes(void*, const void*);
int hipGetLastError();
const char* hipGetErrorName(int);
int hipStreamCreateWithFlags(void**, unsigned);
int hipStreamDestroy(void*);
int hipEventCreateWithFlags(void**, unsigned);
int hipEventRecord(void*, void*);
int hipEventElapsedTime(float*, void*, void*);
int hipEventDestroy(void*);
int hipLaunchHostFunc(void*, void (*)(void*), void*);
}

TEST_CASE("migraphx: a program for gpu runs on memory of the HIP facade") {
  int devices = 0;
  REQUIRE(hipGetDeviceCount(&devices) == 0);
  CHECK(devices == 1);
  migraphx::onnx_options options;
  options.set_input_parameter_shape("image", {2, 1, 8, 8});
  migraphx::program program = migraphx::parse_onnx(DIGITS, options);
  program.compile(migraphx::target("gpu"));
  migraphx::program_parameters parameters;
  migraphx::program_parameter_shapes shapes = program.get_parameter_shapes();
  std::vector<void*> memory;
  for (const char* name : shapes.names()) {
    void* data = nullptr;
    REQUIRE(hipMalloc(&data, shapes[name].bytes()) == 0);
    migraphx::argument host = migraphx::argument::generate(shapes[name], 3);
    CHECK(hipMemcpy(data, host.data(), shapes[name].bytes(), 1) == 0);
    parameters.add(name, migraphx::argument(shapes[name], data));
    memory.push_back(data);
  }
  void* stream = nullptr;
  REQUIRE(hipStreamCreateWithFlags(&stream, 1) == 0);
  migraphx::argument result = program.run_async(parameters, stream)[0];
  float sum = 0;
  for (float p : result.as_vector<float>()) sum += p;
  CHECK(sum == doctest::Approx(2));
  CHECK(hipStreamDestroy(stream) == 0);
  for (void* data : memory) CHECK(hipFree(data) == 0);
}

TEST_CASE("migraphx: the facade names itself, and returns errors instead of crashing") {
  char properties[1472];
  REQUIRE(hipGetDevicePropertiesR0600(properties, 0) == 0);
  CHECK(std::strstr(properties, "facade"));
  CHECK(std::string(properties + 1160) == "weft-cpu");
  CHECK(dlsym(RTLD_DEFAULT, "weft_hip_facade"));
  CHECK(!dlsym(RTLD_DEFAULT, "hipModuleLoadData"));  // otherwise libraries would take the facade for a GPU

  CHECK(hipSetDevice(1) == 101);
  CHECK(hipGetLastError() == 101);
  CHECK(hipGetLastError() == 0);
  CHECK(std::string(hipGetErrorName(101)) == "hipErrorInvalidDevice");
  int local = 0;
  CHECK(hipFree(&local) == 1);
  CHECK(hipMemcpy(nullptr, &local, 4, 1) == 1);
  void* none = &local;
  CHECK(hipMalloc(&none, SIZE_MAX) == 2);
  CHECK(none == nullptr);
  CHECK(hipMalloc(&none, 0) == 0);
  CHECK(hipFree(none) == 0);
}

TEST_CASE("migraphx: addresses, events and functions in the facade's streams") {
  void* data = nullptr;
  REQUIRE(hipMalloc(&data, 100) == 0);
  struct {
    int kind, device;
    void *on_device, *on_host;
    int is_managed;
    unsigned flags;
  } about = {};
  CHECK(hipPointerGetAttributes(&about, static_cast<char*>(data) + 99) == 0);
  CHECK(about.kind == 2);
  CHECK(hipPointerGetAttributes(&about, static_cast<char*>(data) + 100) == 1);
  CHECK(hipMemset(data, 7, 100) == 0);
  CHECK(static_cast<char*>(data)[99] == 7);
  CHECK(hipFree(data) == 0);
  CHECK(hipFree(data) == 1);

  void *begin = nullptr, *end = nullptr;
  REQUIRE((hipEventCreateWithFlags(&begin, 0) == 0 && hipEventCreateWithFlags(&end, 0) == 0));
  bool was_called = false;
  CHECK(hipEventRecord(begin, nullptr) == 0);
  CHECK(hipLaunchHostFunc(nullptr, [](void* called) { *static_cast<bool*>(called) = true; }, &was_called) == 0);
  CHECK(was_called);
  CHECK(hipEventRecord(end, nullptr) == 0);
  float milliseconds = -1;
  CHECK(hipEventElapsedTime(&milliseconds, begin, end) == 0);
  CHECK(milliseconds >= 0);
  CHECK((hipEventDestroy(begin) == 0 && hipEventDestroy(end) == 0));
}
