// SPDX-License-Identifier: Apache-2.0
// weft-gpu-checked DEVICE FAULT: runs a program with one checked kernel on a GPU. The kernel is right or has the named
// fault. Prints the result's last number, or the error. WEFT_CHECKED=1 must be set, as for any checked run.
#include <cstdio>
#include <map>
#include <numeric>

#include "base/error.h"
#include "kernel_build/kernel_build.h"
#include "runtime/gpu_executable.h"
#include "targets/gpu/device.h"

using namespace weft;

namespace {

constexpr int64_t n = 40;
constexpr int threads = 8;

const std::map<std::string, const char*> bodies = {
    {"none", "to[i] = from[i];"},
    {"store", "to[i + 1] = from[i];"},
    {"load", "to[i] = from[i - 1];"},
    {"lanes", "if (i % 8 == 0) store(to + i, load<8>(from + i + 1, Full{}), Full{});"},
    {"race", "to[i % 8] = from[i];"},
    {"unwritten", "store(to + i, i == 7 ? load<1>(to + i, Full{}) : load<1>(from + i, Full{}), Full{});"},
    {"index", "to[i] = from[checked_index(WEFT_LAUNCH, i + 1, n)];"},
};

Plan plan_for(const Chip& chip) {
  Type type = Shape{DType::f32, {n}};
  Plan plan{.chip = chip, .program = "planted", .inputs = {{.name = "x", .type = type}}};
  plan.outputs = {{.name = "y", .type = type}};
  plan.sizes = {n};
  plan.buffers = {{.kind = BufferKind::input, .shape = {DType::f32, {n}}, .bytes = n * 4, .value = "x"},
                  {.kind = BufferKind::output, .shape = {DType::f32, {n}}, .bytes = n * 4, .value = "y"}};
  plan.kernels = {{.name = "planted", .code = {}, .threads = threads}};
  plan.steps = {{.action = LaunchStep{.kernel = KernelId(0), .blocks = n / threads},
                 .buffers = {BufferId(0), BufferId(1)},
                 .sizes = {SizeId(0)},
                 .outputs = {BufferId(1)},
                 .source = "node 0 'plant' (Planted)"}};
  return plan;
}

Bytes image_of(const char* body, const Chip& chip) {
  std::string code = cat(
      "#include \"fused.h\"\nusing namespace weft;\nusing namespace weft::kernel;\nWEFT_KERNEL(planted, 2, ", threads,
      ") {\nauto from = WEFT_BUFFER(const f32, 0);\nauto to = WEFT_BUFFER(f32, 1);\nconst i64 n = WEFT_SIZE(0);\n",
      "for_items(WEFT_LAUNCH, n, [&](i64 i) WEFT_LAMBDA { ", body, " });\n}\n");
  KernelSource source{.name = "planted", .code = code, .work_group = threads, .checked = true};
  return build_kernels_or_throw(std::span(&source, 1), chip).image;
}

float last_number(const char* device_name, const char* fault) {
  auto device = gpu::open_device(device_name);
  const Chip& chip = device->info().chip;
  auto program = make_gpu_executable({plan_for(chip), image_of(bodies.at(fault), chip)}, device, {}, {});
  std::vector<double> numbers(n);
  std::iota(numbers.begin(), numbers.end(), 1.0);
  std::vector<Tensor> outputs = program->new_context()->run(std::vector{make_tensor(DType::f32, {n}, numbers)});
  return static_cast<float>(to_doubles(outputs[0]).back());
}

}  // namespace

int main(int, char** words) {
  try {
    std::printf("%g\n", static_cast<double>(last_number(words[1], words[2])));
    return 0;
  } catch (const Error& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
}
