// SPDX-License-Identifier: Apache-2.0
// The parts of the gpu target that work without a GPU: names of devices, code for absent chips, buckets of sizes.
#include <doctest/doctest.h>

#include <filesystem>

#include "base/chip_features.h"
#include "base/error.h"
#include "base/log.h"
#include "compile.h"
#include "compile/places.h"
#include "errors.h"
#include "ids.h"
#include "ir/text.h"
#include "lower/cpu_parts.h"
#include "lower/gpu/constant_sizes.h"
#include "lower/gpu/merge_launches.h"
#include "lower/kernel_builder.h"
#include "lower/lower.h"
#include "ops/registry.h"
#include "runtime/buckets.h"
#include "targets/gpu/device.h"

namespace weft {
namespace {

std::string digits_code(const CompileOptions& options) {
  return test::code_of(
      [&] { compile_file(std::filesystem::path(WEFT_SOURCE_DIR) / "examples/digits/digits.onnx", options); });
}

TEST_CASE("gpu: names of devices") {
  for (const char* name : {"gpu", "nvidia", "amd", "nvidia:0", "amd:12", "gpu:1"}) CHECK(gpu::is_device_name(name));
  for (const char* name : {"", "cpu", "nvidia:", "amd:gfx942", "intel:0"}) CHECK_FALSE(gpu::is_device_name(name));
}

TEST_CASE("gpu: all chips of a vendor as targets") {
  CHECK(target_names("amd:all").size() == 19);
  CHECK(target_names("amd:gfx942") == std::vector<std::string>{"amd:gfx942"});
  for (const char* all : {"amd:all", "nvidia:all", "cpu:all"}) {
    for (const std::string& name : target_names(all)) CHECK(find_target(name).arch == name.substr(name.find(':') + 1));
  }
  CHECK_THROWS_AS(find_target("intel:all"), Error);
}

TEST_CASE("gpu: an unknown chip is refused, and the error lists the known ones") {
  for (const char* name : {"amd:gfx950", "amd:gfx1153", "amd:gfx9999", "amd:gfx11-generic", "amd:gfx803"}) {
    INFO(name);
    std::string text = test::message_of([&] { find_target(name); });
    CHECK(text.starts_with("error[E204]: chip '" + std::string(name + 4) + "' is not one that Weft compiles for"));
    CHECK(text.find("it compiles for gfx900, ") != std::string::npos);
    CHECK(text.find("sm_") == std::string::npos);
  }
  for (const char* name : {"nvidia:sm_75", "nvidia:sm_120"})
    CHECK(test::message_of([&] { find_target(name); }).find("it compiles for sm_80, ") != std::string::npos);
}

TEST_CASE("gpu: the chip of an NVIDIA device by its compute capability") {
  CHECK(nvidia_chip(80).arch == "sm_80");
  CHECK(nvidia_chip(90).arch == "sm_90a");
  CHECK(nvidia_chip(120).arch == "sm_90");  // the driver compiles PTX of sm_90 for newer GPUs; PTX of sm_90a runs on
                                            // Hopper only
  CHECK(test::message_of([] { nvidia_chip(75); }).find("'sm_75' is not one that Weft compiles for") !=
        std::string::npos);
}

TEST_CASE("gpu: kernels get macros for the features of their chip") {
  using Macros = std::vector<std::string>;
  CHECK(kernel_macros(chip_named("x86-64-v4")).empty());
  CHECK(kernel_macros(chip_named("gfx906")) == Macros{"WEFT_WAVE=64"});
  CHECK(kernel_macros(chip_named("gfx1200")) == Macros{"WEFT_WAVE=32", "WEFT_RDNA_WMMA=4", "WEFT_FLOAT8=1"});
  CHECK(kernel_macros(chip_named("sm_90a")) ==
        Macros{"WEFT_WAVE=32", "WEFT_MMA=1", "WEFT_FLOAT8=1", "WEFT_EARLY_LAUNCH=1", "WEFT_WARP_GROUPS=1"});
}

TEST_CASE("gpu: a warning names a chip whose matrix units are not used") {
  std::string seen;
  set_logger([&](LogLevel, std::string_view text) { seen += text; });
  find_target("amd:gfx942");
  CHECK(seen.empty());
  find_target("amd:gfx906");
  set_logger([](LogLevel, std::string_view text) { std::fprintf(stderr, "%.*s\n", int(text.size()), text.data()); });
  CHECK(seen.find("gfx906 is slower with Weft than it could be: its dot products are not used") != std::string::npos);
}

TEST_CASE("gpu: kernels are chosen for the number of compute units that the device has") {
  auto program = parse_program(R"(program "p"
module main {
  %x = parameter {name="x", type=f16[256,1024]}
  %w = parameter {name="w", type=f16[1024,1024]}
  %y = dot %x, %w {type=f32}
  return "y"=%y
})",
                               make_op);
  auto chosen = [&](int units) {
    return lower(*program, chip_named("gfx942"), {.compute_units = units}).steps.at(0).reason;
  };
  CHECK(chosen(0) == chosen(304));  // 0: the default number of the chip
  CHECK(chosen(4) != chosen(304));
}

TEST_CASE("gpu: products of unaligned rows copy them, and use warp groups") {
  auto reasons = [](int k, const std::string& b, const std::string& chip) {
    std::string sizes = std::to_string(k);
    std::string text = "program \"p\"\nmodule main {\n  %x = parameter {name=\"x\", type=f16[363," + sizes +
                       "]}\n  %w = " + b + "\"w\", type=f16[" + sizes +
                       ",246]}\n  %y = dot %x, %w {type=f32}\n  return \"y\"=%y\n}";
    std::string all;
    for (const PlanStep& step : lower(*parse_program(text, make_op), chip_named(chip), {}).steps)
      all += step.reason + "\n";
    return all;
  };
  // The reason of the step that copies both operands.
  const std::string copies = "loads vectors along the inner dimension; one launch for 2 kernels\n";
  for (int k : {99, 4754}) {
    CAPTURE(k);
    std::string found = reasons(k, "parameter {name=", "sm_90a");
    CHECK(found.find(copies) != std::string::npos);
    CHECK(found.find("warp groups") != std::string::npos);
    CHECK(reasons(k, "parameter {name=", "gfx942").find("loads vectors") ==
          std::string::npos);  // gfx942 has no asynchronous copies, which need aligned rows
  }
  CHECK(reasons(4752, "parameter {name=", "sm_90a").find("aligned rows") == std::string::npos);
}

TEST_CASE("gpu: a block of warp groups computes several tiles only where that is faster") {
  auto tile = [](std::string_view x, std::string_view w, std::string_view y, bool adds) {
    std::string text = "program \"p\"\nmodule main {\n  %x = parameter {name=\"x\", type=f16[" + std::string(x) +
                       "]}\n  %w = parameter {name=\"w\", type=f16[" + std::string(w) +
                       "]}\n  %r = parameter {name=\"r\", type=f32[" + std::string(y) +
                       "]}\n  %y = dot %x, %w {type=f32}\n  %z = add %y, %r\n  return \"y\"=" + (adds ? "%z" : "%y") +
                       "\n}";
    for (const auto& kernel : lower(*parse_program(text, make_op), chip_named("sm_90a"), {}).kernels) {
      size_t at = kernel.code.find("BlockTile{");
      if (at != kernel.code.npos) return kernel.code.substr(at, kernel.code.find('}', at) + 1 - at);
    }
    return std::string();
  };
  CHECK(tile("4096,4096", "4096,4096", "4096,4096", false) ==
        "BlockTile{128, 256, 64, 8, 1, 4, 1, true, false, true, true}");  // five waves
  CHECK(tile("10240,2048", "2048,512", "10240,512", false) ==
        "BlockTile{192, 256, 64, 12, 1, 4, 1, true, false, false, true}");  // one wave
  CHECK(tile("10240,256", "256,1024", "10240,1024", true) ==
        "BlockTile{128, 128, 64, 8, 1, 3, 1, true, false, false, true}");  // two blocks to a unit hide the loads
}

TEST_CASE("gpu: two warp groups share the keys of an attention that fills the chip") {
  auto kernel = [](std::string_view q, std::string_view k) {
    std::string text = "program \"p\"\nmodule main {\n  %q = parameter {name=\"q\", type=f16[" + std::string(q) +
                       "]}\n  %k = parameter {name=\"k\", type=f16[" + std::string(k) +
                       "]}\n  %y = attention %q, %k, %k {scale=0.125}\n  return \"y\"=%y\n}";
    return lower(*parse_program(text, make_op), chip_named("sm_90a"), {}).kernels.at(0).code;
  };
  CHECK(kernel("8,16,1024,64", "8,16,1024,64").find("attention_groups<f16, 64, 2, 1, ") != std::string::npos);
  CHECK(kernel("8,16,1024,128", "8,4,1024,128").find("attention_groups<f16, 128, 2, 1, ") != std::string::npos);
  CHECK(kernel("99,16,49,64", "99,16,49,64").find("attention_groups<f16, 64, 1, 1, ") != std::string::npos);  // 1 group
  CHECK(kernel("1,12,128,64", "1,12,128,64").find("attention_groups<f16, 64, 1, 2, ") != std::string::npos);  // split 2
}

TEST_CASE("gpu: the copy for a second result belongs to no decision of the region before it") {
  auto program = parse_program(R"(program "p"
module main {
  %x = parameter {name="x", type=f16[256,1024]}
  %w = parameter {name="w", type=f16[1024,1024]}
  %y = dot %x, %w {type=f32}
  return "y"=%y, "z"=%y
})",
                               make_op);
  Plan plan = lower(*program, chip_named("gfx942"));
  REQUIRE(plan.steps.size() == 2);
  CHECK(plan.steps.at(0).decision == DecisionId(0));
  CHECK(plan.steps.at(1).decision == DecisionId());
}

namespace {

/// Returns the kinds of the steps, in order.
std::string kinds(const Plan& plan) {
  std::string list;
  for (const PlanStep& step : plan.steps) list += cat(step.is<LaunchStep>() ? "kernel" : step_name(plan, step), " ");
  return list;
}

std::string custom(const char* name, const char* operand) {
  return cat(
      "  %", name, " = custom %", operand,
      " {op=\"mine:Twice\", rule=\"f32[...] -> f32[...]\", source=\"template <class V> V twice(V x) { return x; }\", "
      "function=\"twice\", pointwise=true}\n");
}

}  // namespace

TEST_CASE("gpu: operators that no GPU runs become a part for the CPU between two copies") {
  auto program = parse_program(cat(R"(program "p"
module main {
  %x = parameter {name="x", type=f32[n]}
  %t = parameter {name="t", type=string[4]}
  %a = relu %x
)",
                                   custom("b", "a"), "  %c = relu %b\n  return \"c\"=%c, \"t\"=%t\n}"),
                               make_op);
  std::vector<TakenPart> parts = take_cpu_parts(*program);
  REQUIRE(parts.size() == 1);
  CHECK(parts[0].names == std::vector<std::string>{"n"});
  CHECK(print(*parts[0].program).find("custom") != std::string::npos);
  Plan plan = lower(*program, chip_named("gfx942"));
  CHECK(kinds(plan) == "kernel cpu_part kernel host_same ");
  CHECK(is_led_by_host(plan));
  CHECK(plan.steps.at(1).reason.find("a custom operator") != std::string::npos);
}

TEST_CASE("gpu: instructions are reordered for the fewest CPU parts") {
  std::string text = "program \"p\"\nmodule main {\n  %x = parameter {name=\"x\", type=f32[4]}\n";
  text += custom("a", "x") + "  %b = relu %x\n" + custom("c", "x") + "  %d = exp %c\n" + custom("e", "b");
  text += "  %t = parameter {name=\"t\", type=string[4]}\n  %same = equal %t, %t\n";
  text += "  return \"a\"=%a, \"d\"=%d, \"e\"=%e, \"same\"=%same\n}";
  auto program = parse_program(text, make_op);
  CHECK(take_cpu_parts(*program).size() == 1);
  Plan plan = lower(*program, chip_named("gfx942"));
  CHECK(kinds(plan) == "kernel cpu_part kernel ");
}

TEST_CASE("gpu: a named device that is not there is refused, never replaced") {
  if (!gpu::devices().empty()) return;  // the test needs a machine without a GPU
  CHECK(digits_code({.device = "nvidia:0"}) == "E501");
  CHECK(digits_code({.device = "gpu"}) == "E501");
  CHECK(digits_code({.device = "amd:gfx1"}) != "none");
  for (const gpu::DriverSearch& search : gpu::drivers()) {
    CHECK_FALSE(search.tried.empty());
    CHECK_FALSE(search.why.empty());
  }
}

TEST_CASE("gpu: programs are compiled and saved for chips that are not here, and do not run") {
  auto model = std::filesystem::path(WEFT_SOURCE_DIR) / "examples/digits/digits.onnx";
  for (const char* device : {"nvidia:sm_90a", "amd:gfx942", "amd:gfx1201"}) {
    INFO(device);
    auto executable = compile_file(model, {.device = device, .precision = Precision::f16});
    CHECK(executable->steps().size() > 5);
    CHECK_THROWS_AS(executable->new_context(), Error);
    auto path = std::filesystem::temp_directory_path() / "weft_gpu_test.weft";
    executable->save(path);
    CHECK(std::filesystem::file_size(path) > 1000);
    CHECK_THROWS_AS(compile_file(path, {.device = "cpu", .recompile = false}), Error);
    std::filesystem::remove(path);
  }
}

TEST_CASE("gpu: sizes of a bucket share its upper end, within what a symbol may be") {
  Port port{.name = "x", .type = Shape{DType::f32, {Dim::symbol({.name = "n", .min = 1, .max = 100}), 8}}};
  auto end = [&](int64_t n) {
    SymbolValues values;
    values.set("n", n);
    return *bucket_of(values, Plan{.inputs = {port}}).find("n");
  };
  CHECK(end(1) == 1);
  CHECK(end(4) == 4);
  CHECK(end(9) == 10);
  CHECK(end(16) == 16);
  CHECK(end(17) == 20);
  CHECK(end(33) == 40);
  CHECK(end(99) == 100);
  for (int64_t n = 1; n <= 100; ++n) CHECK((end(n) >= n && end(n) <= std::max<int64_t>(n + n / 4 + 1, 4)));
}

TEST_CASE("gpu: a bucket has room for every size in it, and reports what does not fit") {
  Dim n = Dim::symbol({.name = "n", .min = 1, .max = 1000});
  Plan plan;
  plan.inputs = {{.name = "x", .type = Shape{DType::f32, {n}}}};
  plan.buffers = {
      {.kind = BufferKind::input, .shape = {DType::f32, {n}}, .bytes = n * Dim(4)},
      {.kind = BufferKind::arena, .bytes = max(Dim(100) - n, 1), .first_step = StepId(0), .last_step = StepId(0)}};
  plan.steps = {{.action = LaunchStep{.blocks = ceildiv(n, 256)}, .buffers = ids<PlanBuffer>({0, 1})}};
  auto at = [](int64_t value) {
    SymbolValues values;
    values.set("n", value);
    return values;
  };
  BucketPlan bucket = plan_bucket(plan, at(70), bucket_of(at(70), plan));
  CHECK(bucket.bytes == std::vector<int64_t>{320, 30});
  CHECK(bucket.blocks == std::vector<int64_t>{1});
  auto holds = [&](int64_t n) { return bucket.holds(buffer_bytes(plan, at(n)), step_work(plan, at(n))); };
  CHECK(holds(80));
  CHECK(holds(71));
  CHECK_FALSE(holds(65));  // the second buffer shrinks with n
  CHECK_FALSE(holds(81));
}

TEST_CASE("gpu: a step launches the variant that its bucket asks for") {
  Dim n = Dim::symbol({.name = "n", .min = 0, .max = 1000});
  Plan plan;
  plan.inputs = {{.name = "x", .type = Shape{DType::f32, {n}}}};
  plan.steps = {{.action = LaunchStep{.blocks = min(n, 1),
                                      .work = n,
                                      .variants = {{.blocks = n, .from = 2}, {.blocks = ceildiv(n, 64), .from = 65}}}},
                {.action = LaunchStep{.blocks = 7}}};
  auto chosen = [&](int64_t value) {
    SymbolValues values;
    values.set("n", value);
    BucketPlan bucket = plan_bucket(plan, values, bucket_of(values, plan));
    CHECK(bucket.variants.at(1) == VariantId());
    CHECK(bucket.blocks.at(1) == 7);
    return std::pair(bucket.variants.at(0), bucket.blocks.at(0));
  };
  CHECK(chosen(0) == std::pair(VariantId(), int64_t{0}));
  CHECK(chosen(1) == std::pair(VariantId(), int64_t{1}));
  CHECK(chosen(2) == std::pair(VariantId(0), int64_t{2}));
  CHECK(chosen(63) == std::pair(VariantId(0), int64_t{64}));
  CHECK(chosen(65) == std::pair(VariantId(1), int64_t{2}));  // a bucket up to 80
  CHECK(chosen(1000) == std::pair(VariantId(1), int64_t{16}));
}

TEST_CASE("gpu: a variant for less work is not launched for more, if work shrinks while sizes grow") {
  Dim n = Dim::symbol({.name = "n", .min = 0, .max = 17});
  Plan plan;
  plan.inputs = {{.name = "x", .type = Shape{DType::f32, {n}}}};
  plan.steps = {{.action = LaunchStep{.work = Dim(17) - n, .variants = {{.from = 2}}}}};
  auto at = [](int64_t value) {
    SymbolValues values;
    values.set("n", value);
    return values;
  };
  CHECK(bucket_of(at(13), plan).all() == bucket_of(at(14), plan).all());
  CHECK(bucket_of(at(15), plan).all() == bucket_of(at(16), plan).all());
  BucketPlan one = plan_bucket(plan, at(16), bucket_of(at(16), plan));
  CHECK(one.variants.at(0) == VariantId());
  CHECK(one.holds({}, step_work(plan, at(16))));
  CHECK_FALSE(one.holds({}, step_work(plan, at(15))));
  BucketPlan two = plan_bucket(plan, at(15), bucket_of(at(15), plan));
  CHECK(two.variants.at(0) == VariantId(0));
  CHECK(two.holds({}, step_work(plan, at(16))));
}

/// Returns a plan of steps: each step reads some buffers and writes the last buffer of its list.
Plan steps_over(const std::vector<std::vector<int>>& steps, const Dim& blocks = 8) {
  Plan plan;
  plan.buffers.resize(8);
  plan.kernels = {{.name = "k_1",
                   .code = "#include \"pointwise.h\"\nWEFT_KERNEL_AHEAD(k_1, 2, 256) {\n"
                           "  const i64 s0 = WEFT_SIZE(0);\n}\n"}};
  plan.sizes = {4};
  for (const auto& buffers : steps)
    plan.steps.push_back({.action = LaunchStep{.kernel = KernelId(0), .blocks = blocks},
                          .buffers = ids<PlanBuffer>(buffers),
                          .sizes = {SizeId(0)},
                          .outputs = {BufferId(buffers.back())}});
  return plan;
}

/// Does what lower() does to the launches of a plan for a GPU.
void finish_launches(Plan& plan) {
  merge_launches(plan);
  use_constant_sizes(plan);
}

TEST_CASE("gpu: constant sizes are literals in kernels, sizes that a run tells are read, and launches share kernels") {
  Plan plan = steps_over({{0, 1}, {1, 2}, {2, 3}, {3, 4}}, 5000);  // too large to merge
  plan.sizes = {4, 5, Dim::symbol({.name = "n"})};
  plan.kernels.at(0).code.insert(plan.kernels.at(0).code.find("}\n"), "  const i64 s1 = WEFT_SIZE(1);\n");
  int next = 0;
  for (PlanStep& step : plan.steps) step.sizes = {SizeId(next++ / 2), SizeId(2)};
  finish_launches(plan);
  REQUIRE(plan.steps.size() == 4);
  REQUIRE(plan.kernels.size() == 2);
  for (int i = 0; i < 4; ++i) {
    const PlanKernel& kernel = plan.kernels[launch_of(plan.steps.at(i)).kernel];
    CHECK(kernel.code.find(cat("constexpr i64 s0 = ", 4 + i / 2, ";")) != std::string::npos);
    CHECK(kernel.code.find("const i64 s1 = WEFT_SIZE(1);") != std::string::npos);
    CHECK(kernel.code.find(cat("WEFT_KERNEL_AHEAD(", kernel.name, ",")) != std::string::npos);
  }
}

TEST_CASE("gpu: only the first versions of kernels for constant sizes are compiled") {
  Plan plan = steps_over(std::vector<std::vector<int>>(400, {0, 1}), 5000);
  for (int i = 0; i < 400; ++i) {
    plan.sizes.push_back(100 + i);
    plan.steps.at(i).sizes = {SizeId(1 + i)};
  }
  finish_launches(plan);
  CHECK(plan.steps.size() == 400);
  CHECK(plan.kernels.size() == 257);  // 256 versions, and the kernel that reads its size
}

TEST_CASE("gpu: small kernels that do not depend on each other are one launch") {
  Plan plan = steps_over({{0, 1}, {0, 2}, {1, 3}, {0, 4}});
  finish_launches(plan);
  REQUIRE(plan.steps.size() == 2);  // step 3 reads the result of step 1; step 4 joins the launch of step 3
  CHECK(plan.steps.at(0).buffers == ids<PlanBuffer>({0, 1, 0, 2}));
  CHECK(plan.steps.at(0).outputs == ids<PlanBuffer>({1, 2}));
  CHECK(plan.steps.at(0).sizes.size() == 4);
  CHECK(plan.steps.at(1).buffers == ids<PlanBuffer>({1, 3, 0, 4}));
  CHECK(launch_of(plan.steps.at(0)).kernel == launch_of(plan.steps.at(1)).kernel);
  REQUIRE(plan.kernels.size() == 1);
  CHECK(plan.kernels.at(0).code.find("WEFT_KERNEL_PART(k_1_0)") != std::string::npos);
  CHECK(plan.kernels.at(0).code.find("constexpr i64 s0 = 4;") != std::string::npos);
}

TEST_CASE("gpu: one thread block runs small kernels that depend on each other, in stages") {
  // Step 3 reads the result of step 1. Step 4 reads no result of the other steps.
  Plan plan = steps_over({{0, 1}, {0, 2}, {1, 3}, {0, 4}}, 2);
  finish_launches(plan);
  REQUIRE(plan.steps.size() == 1);
  CHECK(plan.steps.at(0).buffers == ids<PlanBuffer>({0, 1, 0, 2, 1, 3, 0, 4}));
  CHECK(launch_of(plan.steps.at(0)).blocks == 1);
  REQUIRE(plan.kernels.size() == 1);
  const PlanKernel& kernel = plan.kernels.at(0);
  CHECK(kernel.threads == 1024);
  CHECK(kernel.code.find("  barrier();\n") == kernel.code.rfind("  barrier();\n"));
  size_t barrier = kernel.code.find("  barrier();\n");
  auto calls = [&](std::string_view code) {
    size_t count = 0;
    for (size_t at = code.find("launch_part"); at != code.npos; at = code.find("launch_part", at + 1)) ++count;
    return count;
  };
  REQUIRE(barrier != std::string::npos);
  CHECK(calls(kernel.code.substr(0, barrier)) == 2);
  CHECK(calls(kernel.code.substr(barrier)) == 2);
}

TEST_CASE("gpu: kernels that may be large do not run in one thread block") {
  Plan plan = steps_over({{0, 1}, {1, 2}}, Dim::symbol({.name = "n", .min = 1, .max = 99}));
  finish_launches(plan);
  CHECK(plan.steps.size() == 2);
  Plan few = steps_over({{0, 1}, {1, 2}}, Dim::symbol({.name = "n", .min = 1, .max = 4}));
  finish_launches(few);
  CHECK(few.steps.size() == 1);
  CHECK(few.kernels.at(0).code.find("block < WEFT_SIZE(0)") != std::string::npos);
}

TEST_CASE("gpu: a merged launch reports faults of its kernels") {
  for (int64_t blocks : {2, 8}) {
    Plan plan = steps_over({{0, 1}, {0, 2}}, blocks);
    plan.kernels.at(0).notes_faults = true;
    finish_launches(plan);
    REQUIRE(plan.kernels.size() == 1);
    CHECK(plan.kernels.at(0).notes_faults);
  }
}

TEST_CASE("gpu: products of one kernel that do not depend on each other are one launch") {
  Plan plan = steps_over({{0, 1}, {0, 2}, {0, 3}, {3, 4}});
  plan.kernels.at(0).code = "#include \"gemm_gpu.h\"\nWEFT_KERNEL_AHEAD(k_1, 2, 256) {\n}\n";
  plan.kernels.at(0).cluster = 2;
  finish_launches(plan);
  REQUIRE(plan.steps.size() == 2);  // steps 1 to 3 are one launch; step 4 reads the result of step 3
  CHECK(plan.steps.at(0).buffers == ids<PlanBuffer>({0, 1, 0, 2, 0, 3}));
  CHECK(plan.steps.at(0).sizes.size() == 6);
  const PlanKernel& kernel = plan.kernels[launch_of(plan.steps.at(0)).kernel];
  CHECK(kernel.cluster == 2);
  CHECK(kernel.code.find("choose_part<3, 2, 1>") != std::string::npos);
}

TEST_CASE("gpu: products with the same variants share one launch for each variant") {
  Plan plan = steps_over({{0, 1}, {0, 2}, {0, 3}});
  plan.kernels.at(0).code = "#include \"gemm_gpu.h\"\nWEFT_KERNEL_AHEAD(k_1, 2, 256) {\n}\n";
  plan.kernels.push_back(
      {.name = "k_2", .code = "#include \"gemm_gpu.h\"\nWEFT_KERNEL_AHEAD(k_2, 2, 128) {\n}\n", .threads = 128});
  for (size_t i : {0, 1})
    launch_of(plan.steps.at(i)).variants = {{.kernel = KernelId(1), .sizes = {SizeId(0)}, .blocks = 9, .from = 30}};
  finish_launches(plan);
  REQUIRE(plan.steps.size() == 2);  // the third step has no variant, so it is not merged
  const LaunchStep& both = launch_of(plan.steps.at(0));
  REQUIRE(both.variants.size() == 1);
  CHECK(both.blocks == 16);
  CHECK(both.variants.at(0).blocks == 18);
  CHECK(both.variants.at(0).from == 30);
  CHECK(both.variants.at(0).sizes.size() == plan.steps.at(0).sizes.size());
  CHECK(plan.sizes[both.variants.at(0).sizes[1]] == 9);
  const PlanKernel& kernel = plan.kernels[both.variants.at(0).kernel];
  CHECK(kernel.threads == 128);
  CHECK(kernel.code.find("WEFT_KERNEL_PART(k_2)") != std::string::npos);
  CHECK(plan.kernels[launch_of(plan.steps.at(1)).kernel].name == "k_1");
}

TEST_CASE("gpu: products whose variants begin at different sizes are launched separately") {
  Plan plan = steps_over({{0, 1}, {0, 2}, {0, 3}});
  Dim n = Dim::symbol({.name = "n", .min = 1, .max = 9}), m = Dim::symbol({.name = "m", .min = 1, .max = 9});
  plan.kernels.at(0).code = "#include \"gemm_gpu.h\"\nWEFT_KERNEL_AHEAD(k_1, 2, 256) {\n}\n";
  for (PlanStep& step : plan.steps)
    step.action = LaunchStep{.kernel = KernelId(0),
                             .blocks = 4,
                             .work = n,
                             .variants = {{.kernel = KernelId(0), .sizes = {SizeId(0)}, .from = 2}}};
  launch_of(plan.steps.at(1)).work = m;
  launch_of(plan.steps.at(2)).variants.at(0).from = 3;
  finish_launches(plan);
  CHECK(plan.steps.size() == 3);
}

TEST_CASE("gpu: steps that write one buffer keep their order, unless they write separate parts") {
  Plan plan = steps_over({{0, 2}, {1, 2}}), halves = plan;
  finish_launches(plan);
  CHECK(plan.steps.size() == 2);
  for (PlanStep& step : halves.steps) step.writes_apart = true;
  merge_launches(halves);
  CHECK(halves.steps.size() == 1);
  Plan reused = steps_over({{0, 2}, {1, 0}});  // step 2 writes the buffer that step 1 reads
  merge_launches(reused);
  CHECK(reused.steps.size() == 2);
}

TEST_CASE("gpu: a kernel that reads a buffer of which it writes a part does not write apart") {
  PlanDraft plan;
  for (int i = 0; i < 2; ++i) plan.buffers.push_back({.shape = {DType::f32, {8}}});
  auto step_that_reads = [&](BufferId buffer) {
    KernelBuilder kernel("pointwise.h");
    kernel.line(kernel.buffer(buffer, DType::f32, false), "[0];");
    kernel.line(kernel.buffer(BufferId(1), DType::f32, true), "[4] = 1;");
    return kernel.finish(plan, "test");
  };
  CHECK(step_that_reads(BufferId(0)).writes_apart);
  CHECK(step_that_reads(BufferId(0)).outputs == ids<PlanBuffer>({1}));
  CHECK_FALSE(step_that_reads(BufferId(1)).writes_apart);
}

TEST_CASE("gpu: kernels that want the same name and differ in code or properties stay apart") {
  Table<PlanKernel> kernels;
  KernelNames names;
  auto id_of = [&](const std::string& body, int shared_bytes = 0) {
    auto code = [&](const std::string& name) { return cat(name, body); };
    return names.find_or_add(kernels, {.name = "add_c0ffee", .code = {}, .shared_bytes = shared_bytes}, code);
  };
  KernelId first = id_of("(a)"), second = id_of("(b)"), third = id_of("(b)", 64);
  CHECK(kernels.size() == 3);
  CHECK(id_of("(a)") == first);
  CHECK(id_of("(b)") == second);
  CHECK(id_of("(b)", 64) == third);
  CHECK(kernels[second].name == "add_c0ffee_2");
  CHECK(kernels[third].code == "add_c0ffee_3(b)");
  KernelNames later(kernels);
  CHECK(later.find_or_add(kernels, {.name = "add_c0ffee", .code = {}},
                          [](const std::string& name) { return cat(name, "(b)"); }) == second);
  CHECK(kernels.size() == 3);
}

TEST_CASE("gpu: steps of a recurrence that write parts of one result stay apart from each other") {
  std::string text =
                  "program \"rnn\"\nmodule main {\n  %h0 = parameter {name=\"h\", type=f32[1,8,8]}\n"
                  "  %w = parameter {name=\"w\", type=f32[1,8,8]}\n",
              states;
  for (int step = 1; step <= 6; ++step) {
    text += cat("  %d", step, " = dot %h", step - 1, ", %w {type=f32}\n  %h", step, " = tanh %d", step, "\n");
    states += cat(step > 1 ? ", " : "", "%h", step);
  }
  auto program = parse_program(cat(text, "  %y = concat ", states, " {axis=0}\n  return \"y\"=%y\n}\n"), make_op);
  for (const char* chip : {"gfx1100", "gfx942", "sm_90a"}) {
    Plan plan = lower(*program, chip_named(chip), {});
    INFO(chip);
    CHECK(plan.steps.size() >= 6);
    for (const PlanStep& step : plan.steps) CHECK(step.reason.find("one launch") == std::string::npos);
  }
}

TEST_CASE("gpu: a copy has another name than the value that it copies") {
  auto program = parse_program(R"p(program "p"
module main {
  %x = parameter {name="x", type=f32[2,3,4]}
  %e = exp %x  // from "node 0 (Exp)"
  %t = transpose %e {permutation=[1,0,2]}  // from "node 1 (Transpose)"
  %r = reshape %t {dims=[6,4]}  // from "node 2 (Reshape)"
  %w = parameter {name="w", type=f32[4,5]}
  %y = dot %r, %w {type=f32}  // from "node 3 (MatMul)"
  return "y"=%y, "e"=%e
})p",
                               make_op);
  for (const char* chip : {"x86-64-v3", "gfx942"}) {
    Plan plan = lower(*program, chip_named(chip), {});
    INFO(chip);
    int copies = 0;
    for (const PlanBuffer& buffer : plan.buffers) {
      CHECK(buffer.value != "node 1 (Transpose)");
      copies += buffer.value == "copy of node 1 (Transpose)" ? 1 : 0;
    }
    CHECK(copies == 1);
  }
}

}  // namespace
}  // namespace weft
