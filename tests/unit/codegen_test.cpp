// SPDX-License-Identifier: Apache-2.0
#include "base/codegen.h"

#include <doctest/doctest.h>
#include <algorithm>

#include <cmath>
#include <map>
#include <thread>

#include "base/error.h"
#include "kernel_build/codegen_loader.h"
#include "targets/cpu/object.h"

using namespace weft;

namespace {

constexpr const char* scale_code = R"(
struct Args { void* const* buffers; const long* sizes; };
extern "C" void scale(const Args* args, long begin, long end) {
  auto x = (float*)args->buffers[0];
  for (long i = begin; i < end; ++i) x[i] = x[i] * 2 + 1;
})";

constexpr const char* gpu_code = R"(
#ifdef __AMDGCN__
extern "C" __attribute__((amdgpu_kernel, visibility("protected")))
void fill(__attribute__((address_space(1))) int* x) { x[__builtin_amdgcn_workitem_id_x()] = 7; }
#else
static __attribute__((address_space(3), loader_uninitialized)) int tile[32];
extern "C" __attribute__((nvptx_kernel))
void fill(__attribute__((address_space(1))) int* x) {
  int id = __nvvm_read_ptx_sreg_tid_x();
  tile[id & 31] = id;
  __nvvm_bar_sync(0);
  x[id] = tile[31 - (id & 31)];
}
#endif
)";

KernelSource source(std::string name, std::string code) { return {.name = std::move(name), .code = std::move(code)}; }

CodegenResult link(const CodegenResult& object, const Chip& chip, std::vector<std::string> exported = {}) {
  std::span<const std::byte> view = object.bytes;
  return codegen().link({&view, 1}, chip, exported);
}

struct Args {
  void* const* buffers;
  const long* sizes;
};

std::string_view text_of(const CodegenResult& result) {
  return {reinterpret_cast<const char*>(result.bytes.data()), result.bytes.size()};
}

bool has(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

/// Compiles a broken source and returns the message.
std::string complaint(const std::string& code, const Chip& chip = host_chip()) {
  CodegenResult result = codegen().compile(source("broken", code), chip);
  CHECK_FALSE(result.ok);
  CHECK(result.bytes.empty());
  return result.diagnostics;
}

}  // namespace

TEST_CASE("codegen: a kernel is compiled, linked, opened from memory and run") {
  auto object = codegen().compile(source("scale", scale_code), host_chip());
  INFO(object.diagnostics);
  REQUIRE(object.ok);
  auto image = link(object, host_chip());
  INFO(image.diagnostics);
  REQUIRE(image.ok);
  LoadedObject loaded(image.bytes, "scale");
  std::vector<float> x(37, 3.0f);
  void* buffers[] = {x.data()};
  Args args{buffers, nullptr};
  loaded.function<void(const Args*, long, long)>("scale")(&args, 1, 36);
  CHECK(x[0] == 3);
  CHECK(x[1] == 7);
  CHECK(x[35] == 7);
  CHECK(x[36] == 3);
  CHECK(loaded.find("nothing") == nullptr);
  CHECK_THROWS_AS(loaded.get("nothing"), Error);
}

TEST_CASE("codegen: a symbol of a replaced object is not found in the next one") {
  auto build = [](int value) {
    auto object = codegen().compile(source("give", "extern \"C\" int give() { return " + std::to_string(value) + "; }"),
                                    host_chip());
    return link(object, host_chip());
  };
  for (int value : {3, 4, 5}) {
    LoadedObject loaded(build(value).bytes, "give");
    CHECK(loaded.function<int()>("give")() == value);
  }
  LoadedObject first(build(8).bytes, "give"), second(build(9).bytes, "give");
  CHECK(first.function<int()>("give")() == 8);
  first = std::move(second);
  CHECK(first.function<int()>("give")() == 9);
}

TEST_CASE("codegen: damaged images are refused") {
  auto image = link(codegen().compile(source("scale", scale_code), host_chip()), host_chip());
  std::vector<std::byte> bytes = image.bytes;
  bytes.resize(100);
  CHECK_THROWS_AS(LoadedObject(bytes, "short"), Error);
  CHECK_THROWS_AS(LoadedObject({}, "empty"), Error);
}

TEST_CASE("codegen: only exported symbols are visible") {
  auto object = codegen().compile(
      source("two", "extern \"C\" int one() { return 1; } extern \"C\" int two() { return 2; }"), host_chip());
  REQUIRE(object.ok);
  LoadedObject loaded(link(object, host_chip(), {"two"}).bytes, "two");
  CHECK(loaded.find("one") == nullptr);
  CHECK(loaded.function<int()>("two")() == 2);
}

TEST_CASE("codegen: an error in a source is reported with file and line") {
  CHECK(has(complaint("int f() {\n  return y;\n}"), "broken.cpp:2:10: error: use of undeclared identifier 'y'"));
  CHECK(has(complaint("#include <vector>\n"), "'vector' file not found"));
  CHECK(has(complaint("#include \"/etc/passwd\"\n"), "file not found"));
  CHECK(has(complaint("extern \"C\" float expf(float); extern \"C\" float f(float x) { return expf(x); }"),
            "uses [expf]"));
  CHECK(has(complaint("void f() { asm volatile(\"no such instruction\"); }"), "error"));
  CHECK(has(complaint("extern \"C\" void f() {}", {.kind = ChipKind::amd, .arch = "gfx000"}), "gfx000"));
  CHECK(has(complaint("extern \"C\" void f() {}", {.kind = ChipKind::nvidia, .arch = "sm_1"}), "sm_1"));
  CHECK(has(complaint("extern \"C\" void f() {}", {.kind = ChipKind::x86, .arch = "pentium99"}), "pentium99"));
}

TEST_CASE("codegen: a crash or fatal error inside the compiler is a result" *
          doctest::skip(build_sanitizer() != Sanitizer::none)) {
  CHECK(has(complaint("#pragma clang __debug llvm_fatal_error\n"), "llvm_fatal_error"));
  std::string deep(2000000, '~');  // overflows the parser's stack
  CHECK(has(complaint("int f(int x) { return " + deep + "x; }"), "Segmentation fault"));
  CHECK(codegen().compile(source("scale", scale_code), host_chip()).ok);  // the process can still compile
}

TEST_CASE("codegen: several threads compile at once, some of them nonsense") {
  std::vector<std::thread> threads;
  std::vector<CodegenResult> results(12);
  const Chip chips[] = {
      host_chip(), {.kind = ChipKind::amd, .arch = "gfx1100"}, {.kind = ChipKind::nvidia, .arch = "sm_80"}};
  for (size_t i = 0; i < results.size(); ++i) {
    threads.emplace_back([&, i] {
      const char* code = i % 3 == 0 ? scale_code : gpu_code;
      results[i] = codegen().compile(source("parallel", i % 4 == 3 ? "not C++" : code), chips[i % 3]);
    });
  }
  for (auto& thread : threads) thread.join();
  for (size_t i = 0; i < results.size(); ++i) {
    INFO(i, results[i].diagnostics);
    CHECK(results[i].ok == (i % 4 != 3));
  }
}

TEST_CASE("codegen: the same source gives the same bytes") {
  auto first = codegen().compile(source("scale", scale_code), host_chip());
  auto second = codegen().compile(source("scale", scale_code), host_chip());
  CHECK(first.bytes == second.bytes);
  CHECK(link(first, host_chip()).bytes == link(second, host_chip()).bytes);
}

TEST_CASE("codegen: AMD code objects carry the work group and their resources") {
  for (const char* arch : {"gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1151", "gfx1200", "gfx1201"}) {
    Chip chip{.kind = ChipKind::amd, .arch = arch};
    KernelSource fill = source("fill", gpu_code);
    fill.work_group = 128;
    auto image = link(codegen().compile(fill, chip), chip);
    INFO(arch, ": ", image.diagnostics);
    REQUIRE(image.ok);
    auto kernels = codegen().resources(image.bytes);
    REQUIRE(kernels.size() == 1);
    CHECK(kernels[0].kernel == "fill");
    CHECK(kernels[0].work_group == 128);
    CHECK(kernels[0].wave == (std::string_view(arch).starts_with("gfx9") ? 64 : 32));
    CHECK(kernels[0].scratch_bytes == 0);
    CHECK(has(codegen().disassemble(image.bytes, chip), "s_endpgm"));
  }
}

TEST_CASE("codegen: all kernel headers compile together for every family of chips") {
  for (const char* name : {"host", "x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64", "gfx90a", "gfx942", "gfx1100",
                           "gfx1201", "sm_80", "sm_90a"}) {
    for (bool checked : {false, true}) {
      KernelSource all = source("all", "#include \"pointwise.h\"");
      all.checked = checked;
      CHECK(codegen().compile(all, chip_named(name)).diagnostics == "");
    }
  }
}

TEST_CASE("codegen: a kernel that includes headers starts from the prepared ones") {
  KernelSource twice =
      source("twice", "#include \"pointwise.h\"\nWEFT_KERNEL(twice) { WEFT_BUFFER(float, 0)[0] *= 2; }");
  auto result = codegen().compile(twice, host_chip());
  INFO(result.diagnostics);
  CHECK(result.ok);
  CHECK(codegen().compile(twice, host_chip()).bytes == result.bytes);
  twice.warnings = true;  // parses the headers again
  CHECK(codegen().compile(twice, host_chip()).bytes == result.bytes);
}

TEST_CASE("codegen: headers are parsed once for equal options and kept; kept ones are used") {
  struct Store : HeaderStore {
    std::map<std::string, std::string, std::less<>> kept;
    std::string given;
    Bytes get(std::string_view) noexcept override { return Bytes::copy(as_bytes(given)); }
    void put(std::string_view name, Bytes headers) noexcept override { kept.emplace(name, as_text(headers)); }
  } store;
  Chip chip = chip_named("x86-64-v3");
  chip.tune = "znver2";  // no other test has parsed headers for this chip
  KernelSource kernel =
      source("kept", "#include \"pointwise.h\"\nWEFT_KERNEL(kept) { WEFT_BUFFER(float, 0)[0] *= 2; }");
  auto first = codegen().compile(kernel, chip, &store);
  CHECK(first.ok);
  REQUIRE(store.kept.size() == 1);
  CHECK(codegen().compile(kernel, chip, &store).bytes == first.bytes);
  chip.tune = "znver3";
  CHECK(codegen().compile(kernel, chip, &store).ok);
  CHECK(store.kept.size() == 2);
  store.given = store.kept.begin()->second;
  chip.tune = "znver4";
  auto foreign = codegen().compile(kernel, chip, &store);  // headers that were parsed for another processor
  CHECK_FALSE(foreign.ok);
  INFO(foreign.diagnostics);
  CHECK(has(foreign.diagnostics, "PCH file was compiled for"));
  CHECK(store.kept.size() == 2);
}

TEST_CASE("codegen: kernels are instrumented for the requested sanitizer") {
  for (auto [sanitizer, call] :
       {std::pair{Sanitizer::address, "__asan_report_store4"}, {Sanitizer::thread, "__tsan_write4"}}) {
    KernelSource stores = source("stores", "extern \"C\" void stores(int* x, long i) { x[i] = 7; }");
    stores.sanitizer = sanitizer;
    auto object = codegen().compile(stores, host_chip());
    INFO(object.diagnostics);
    REQUIRE(object.ok);
    CHECK(has(text_of(object), call));
    CHECK(link(object, host_chip()).ok);
  }
}

TEST_CASE("codegen: PTX of several kernels is one module for each, ended by zero bytes") {
  for (const char* arch : {"sm_80", "sm_86", "sm_89", "sm_90", "sm_90a"}) {
    Chip chip{.kind = ChipKind::nvidia, .arch = arch};
    std::string second_code = gpu_code;
    second_code.replace(second_code.rfind("fill"), 4, "pour");
    auto first = codegen().compile(source("fill", gpu_code), chip),
         second = codegen().compile(source("pour", second_code), chip);
    INFO(arch, ": ", first.diagnostics, second.diagnostics);
    REQUIRE(first.ok);
    REQUIRE(second.ok);
    std::span<const std::byte> both[] = {first.bytes, second.bytes};
    auto module = codegen().link(both, chip, {});
    std::string_view ptx = text_of(module);
    CHECK(std::count(ptx.begin(), ptx.end(), '\0') == 2);
    CHECK(ptx.back() == '\0');
    CHECK(ptx.find(".version 8.4", ptx.find('\0')) != ptx.npos);
    CHECK(has(ptx, ".visible .entry fill("));
    CHECK(has(ptx, ".visible .entry pour("));
    CHECK(has(ptx, ".reqntid 256, 1, 1"));
    CHECK(has(ptx, "tile_fill"));
    CHECK(has(ptx, "tile_pour"));
  }
}

TEST_CASE("codegen: products and sums are fused, NaN keeps its meaning") {
  Chip chip{.kind = ChipKind::x86, .arch = "x86-64-v3"};
  auto object = codegen().compile(source("f",
                                         "extern \"C\" float f(float a, float b, float c) { return a * b + c; }"
                                         "extern \"C\" bool g(float a) { return a != a; }"),
                                  chip);
  REQUIRE(object.ok);
  std::string text = codegen().disassemble(object.bytes, chip);
  CHECK(has(text, "vfmadd"));
  CHECK(has(text, "ucomiss"));
}

TEST_CASE("chip: the host is known and names are checked") {
  const Chip& host = host_chip();
  CHECK(host.kind == ChipKind::x86);
  CHECK(host.arch.starts_with("x86-64"));
  CHECK(chip_named("gfx942").kind == ChipKind::amd);
  CHECK(chip_named("sm_90a").kind == ChipKind::nvidia);
  CHECK(has_feature(chip_named("x86-64-v3"), "avx2"));
  CHECK_FALSE(has_feature(chip_named("x86-64-v3"), "avx512f"));
  CHECK_THROWS_AS(chip_named("z80"), Error);
}
