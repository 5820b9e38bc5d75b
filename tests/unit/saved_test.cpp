// SPDX-License-Identifier: Apache-2.0
// Saved programs: what is written is read back, equal programs give equal files, damage is refused.
#include "runtime/saved.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>

#include "base/error.h"
#include "compile.h"
#include "counts.h"
#include "ir/text.h"
#include "lower/lower.h"
#include "ops/registry.h"
#include "plan/lifetimes.h"
#include "runtime/cpu_executable.h"
#include "runtime/kernel_build.h"
#include "runtime/plan_bytes.h"

using namespace weft;

namespace {

constexpr const char* text = R"(program "saved"
symbol n min=0 max=9
module main {
  %x = parameter {name="x", type=f32[n,3]}
  %w = constant {value=f32[3,2]{1, 2, 3, 4, 5, 6}}
  %d = dot %x, %w
  %b = constant {value=f32[2]{0.5, -0.25}}
  %bb = broadcast %b {dims=[n, 2]}
  %y = add %d, %bb
  %r = relu %y
  return "y"=%y, "r"=%r
})";

struct Folder {
  std::filesystem::path path;
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "weft-saved-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()));
    path = name;
  }
  ~Folder() { std::filesystem::remove_all(path); }
};

std::vector<std::byte> bytes_of(const std::filesystem::path& path) {
  Bytes file = map_file(path);
  return {file.data(), file.data() + file.size()};
}

Plan plan_for(const Chip& chip) {
  Plan plan = lower(*parse_program(text, make_op), chip);
  plan_lifetimes(plan);
  return plan;
}

std::vector<std::byte> saved_program() {
  Folder folder;
  compile(parse_program(text, make_op))->save(folder.path / "p.weft");
  return bytes_of(folder.path / "p.weft");
}

Tensor input(int64_t rows) {
  std::vector<double> values;
  for (int64_t i = 0; i < rows * 3; ++i) values.push_back(0.3 * static_cast<double>(i) - 1);
  return make_tensor(DType::f32, {rows, 3}, values);
}

std::string code_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.info().code;
  }
  return "";
}

std::string load_code(std::vector<std::byte> file) {
  return code_of([&] { load_plan(Bytes(std::move(file))); });
}

std::string decode_code(const Plan& plan) {
  EncodedPlan encoded = encode_plan(plan);
  std::vector<std::byte> weights(encoded.weight_bytes);
  return code_of([&] { decode_plan(encoded.bytes, Bytes(std::move(weights))); });
}

void check_same_outputs(Executable& a, Executable& b) {
  for (int64_t rows : {0, 1, 5, 9}) {
    auto wanted = a.new_context()->run(std::vector{input(rows)});
    auto got = b.new_context()->run(std::vector{input(rows)});
    REQUIRE(got.size() == wanted.size());
    for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == wanted[i]);
  }
}

}  // namespace

TEST_CASE("saved: a program comes back with equal outputs, and saves to the same bytes") {
  Folder folder;
  auto compiled = compile(parse_program(text, make_op));
  compiled->save(folder.path / "a.weft");
  BuildCounts before = build_counts();
  auto loaded = compile_file(folder.path / "a.weft", {.threads = 1});
  BuildCounts after = build_counts();
  CHECK(after.compiles == before.compiles);
  CHECK(after.image_hits == before.image_hits);
  check_same_outputs(*compiled, *loaded);
  CHECK(code_of([&] { loaded->new_context()->run(std::vector{input(10)}); }) == "E311");
  CHECK(loaded->steps().size() == compiled->steps().size());
  CHECK(loaded->inputs()[0].type == compiled->inputs()[0].type);

  loaded->save(folder.path / "b.weft");
  CHECK(bytes_of(folder.path / "a.weft") == bytes_of(folder.path / "b.weft"));
  auto from_bytes = compile_bytes(Bytes(bytes_of(folder.path / "b.weft")));
  check_same_outputs(*compiled, *from_bytes);
}

TEST_CASE("saved: weights stay where the file is mapped") {
  Folder folder;
  save_plan(folder.path / "p.weft", plan_for(host_chip()), {});
  Bytes file = map_file(folder.path / "p.weft");
  LoadedPlan loaded = load_plan(file);
  REQUIRE(loaded.plan.constants.size() >= 1);
  for (const Tensor& constant : loaded.plan.constants) {
    CHECK(constant.data.data() >= file.data());
    CHECK(constant.data.data() + constant.data.size() <= file.data() + file.size());
    CHECK(reinterpret_cast<uintptr_t>(constant.data.data()) % 64 == 0);
  }
}

TEST_CASE("saved: every field of a plan comes back, whatever the names") {
  Symbol odd{.name = "the batch + 1\xff", .min = 2, .max = 64, .multiple_of = 2};
  Dim n = Dim::symbol(odd);
  Plan plan{.chip = chip_named("x86-64-v2"), .program = "p\xfe", .metadata = {{"k", "v"}, {"", "\0"}}};
  plan.inputs.push_back({"x", Shape{DType::bf16, {n, 3}}, scalar_tensor(DType::f64, 0.5)});
  plan.inputs.push_back({"s", Type::map(DType::string, Type::optional(Type::sequence(Shape{DType::i4, {n * 2 + 1}})))});
  plan.outputs.push_back({"y", Shape{DType::u8, {}}});
  plan.checks.push_back({false, floordiv(n + 1, 3), max(n, 7), "node", "what"});
  plan.sizes = {n, -5, n * n - 3};
  plan.constants = {make_i64_tensor(std::vector<int64_t>{1, 2, 3}),
                    make_tensor(DType::i4, {3}, std::vector<int64_t>{1, -2, 3}),
                    make_tensor(DType::f32, {0, 4}, std::vector<double>{})};
  plan.constants.push_back({.dtype = DType::string, .dims = {2}});
  plan.constants.back().strings =
      std::make_shared<const std::vector<std::string>>(std::vector<std::string>{"a", "\xf0"});
  plan.buffers = {{BufferKind::constant, 1, {DType::i4, {3}}, 2, "c", 0, 0},
                  {BufferKind::arena, 0, {DType::f32, {n}}, n * 4, "v", 0, 0}};
  plan.kernels = {{"k", "code"}};
  plan.steps = {{0, {0, 1}, {2, 0}, {1}, "source", "reason", n * 2, n}};
  Folder folder;
  save_plan(folder.path / "p.weft", plan, as_bytes("machine code"));
  LoadedPlan back = load_plan(map_file(folder.path / "p.weft"));
  CHECK(as_text(back.image) == "machine code");
  const Plan& got = back.plan;
  CHECK(got.chip == plan.chip);
  CHECK(got.program == plan.program);
  CHECK(got.metadata == plan.metadata);
  CHECK(got.inputs[0].type == plan.inputs[0].type);
  CHECK(got.inputs[1].type == plan.inputs[1].type);
  CHECK(*got.inputs[0].default_value == *plan.inputs[0].default_value);
  CHECK(got.sizes == plan.sizes);
  const Symbol* symbol = got.sizes[0].as_symbol();
  REQUIRE(symbol);
  CHECK(symbol->name == odd.name);
  CHECK(symbol->max == 64);
  CHECK(symbol->multiple_of == 2);
  CHECK(got.checks[0].a == plan.checks[0].a);
  CHECK(got.checks[0].b == plan.checks[0].b);
  CHECK(got.constants == plan.constants);
  CHECK(got.buffers[1].bytes == plan.buffers[1].bytes);
  CHECK(got.steps[0].sizes == plan.steps[0].sizes);
  CHECK(got.steps[0].reason == "reason");
  save_plan(folder.path / "q.weft", got, back.image);
  CHECK(bytes_of(folder.path / "p.weft") == bytes_of(folder.path / "q.weft"));
}

TEST_CASE("saved: every flipped byte and every cut is refused") {
  const std::vector<std::byte> good = saved_program();
  CHECK(load_code(good) == "");
  std::mt19937 random(3);
  auto flip = [&](size_t at) {
    auto bad = good;
    bad[at] ^= static_cast<std::byte>(1 + random() % 255);
    std::string code = load_code(std::move(bad));
    INFO("byte ", at, " gave '", code, "'");
    CHECK((code == "E170" || (at >= 8 && at < 12 && code == "E171")));
  };
  for (size_t at = 0; at < 256; ++at) flip(at);
  for (int i = 0, count = test::cases(1000, 4500); i < count; ++i) flip(random() % good.size());
  auto cut = [&](size_t size) {
    std::string code = load_code({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)});
    INFO("cut at ", size, " gave '", code, "'");
    CHECK(code == (size == 0 ? "E170" : "E173"));
  };
  for (size_t size = 0; size < 256; ++size) cut(size);
  for (int i = 0; i < 500; ++i) cut(random() % good.size());
  auto longer = good;
  longer.push_back(std::byte{0});
  CHECK(load_code(longer) == "E170");
}

TEST_CASE("saved: a full disk is an error and leaves what was there") {
  Folder folder;
  auto program = compile(parse_program(text, make_op));
  program->save(folder.path / "p.weft");
  const auto before = bytes_of(folder.path / "p.weft");
  pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit small{1000, 1000};
    ::setrlimit(RLIMIT_FSIZE, &small);
    ::_exit(code_of([&] { program->save(folder.path / "p.weft"); }) == "E106" ? 0 : 1);
  }
  int status = 1;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
  CHECK(bytes_of(folder.path / "p.weft") == before);
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path), {}) == 1);
}

TEST_CASE("saved: a plan that is wrong in spite of its checksum is refused") {
  const Plan good = plan_for(host_chip());
  REQUIRE(decode_code(good) == "");
  auto refused = [&](auto change) {
    Plan bad = good;
    change(bad);
    CHECK(decode_code(bad) == "E170");
  };
  refused([](Plan& p) { p.steps.back().kernel = static_cast<int>(p.kernels.size()); });
  refused([](Plan& p) { p.steps.back().kernel = -1; });
  refused([](Plan& p) { p.steps.back().buffers[0] = static_cast<int>(p.buffers.size()); });
  refused([](Plan& p) { p.steps.back().sizes.push_back(static_cast<int>(p.sizes.size())); });
  refused([](Plan& p) { p.steps.back().outputs.push_back(99); });
  refused([](Plan& p) { p.steps.back().buffers.push_back(-1); });
  refused([](Plan& p) { p.chip.kind = static_cast<ChipKind>(7); });
  refused([](Plan& p) { p.buffers[0].kind = static_cast<BufferKind>(6); });
  refused([](Plan& p) { p.buffers[0].shape.dtype = static_cast<DType>(200); });
  refused([](Plan& p) { p.buffers[0].bytes = -1; });
  refused([](Plan& p) { p.buffers[0].shape.dims = {-4}; });
  refused([](Plan& p) { p.buffers[0].last_step = 1000; });
  refused([](Plan& p) { p.inputs.clear(); });
  refused([](Plan& p) { p.outputs.clear(); });
  refused([](Plan& p) { p.constants.clear(); });
  refused([](Plan& p) { p.buffers.push_back({BufferKind::persistent, 0, {}, Dim::symbol({.name = "n"})}); });
  refused([](Plan& p) { p.buffers.push_back({BufferKind::persistent, 0, {}, INT64_MAX}); });
  refused([](Plan& p) { p.load_steps.push_back(p.steps.back()); });
  refused([](Plan& p) { p.steps.push_back({.kind = StepKind::jump, .target = 1000}); });
  refused([](Plan& p) { p.steps.push_back({.kind = static_cast<StepKind>(6)}); });
  refused([](Plan& p) { p.steps.push_back({.buffers = {0}, .kind = StepKind::grow}); });
  refused([](Plan& p) { p.steps.push_back({.buffers = {0, 1}, .kind = StepKind::swap}); });
  refused([](Plan& p) {
    p.steps.push_back({.kind = StepKind::sizes, .settings = {{.symbol = {.name = "n"}, .buffer = 0, .element = 99}}});
  });
}

TEST_CASE("saved: no bytes of a plan crash the reader") {
  EncodedPlan good = encode_plan(plan_for(host_chip()));
  Bytes weights(std::vector<std::byte>(good.weight_bytes));
  std::mt19937 random(11);
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    auto bad = good.bytes;
    for (int n = 0; n < 1 + i % 3; ++n) bad[random() % bad.size()] ^= static_cast<std::byte>(1 + random() % 255);
    if (i % 5 == 0) bad.resize(random() % bad.size());
    std::string code = code_of([&] { decode_plan(bad, weights); });
    CHECK((code == "" || code == "E170"));
    refused += code == "E170";
  }
  CHECK(refused > 500);
}

TEST_CASE("saved: another chip's program is compiled again, or refused where that is not allowed") {
  Folder folder;
  Chip other = chip_named("x86-64-v4");
  other.features = "+avx512fp16,+amx-fp16";
  CHECK(!runs_code_for(chip_named("x86-64-v4"), other));
  CHECK(!runs_code_for(chip_named("x86-64-v2"), chip_named("x86-64-v3")));
  CHECK(runs_code_for(chip_named("x86-64-v4"), chip_named("x86-64-v3")));
  CHECK(!runs_code_for(chip_named("x86-64-v4"), chip_named("gfx942")));
  if (runs_code_for(host_chip(), other)) return;
  save_plan(folder.path / "p.weft", plan_for(other), as_bytes("never opened"));
  CHECK(code_of([&] { compile_file(folder.path / "p.weft", {.recompile = false}); }) == "E172");
  auto recompiled = compile_file(folder.path / "p.weft");
  auto compiled = compile(parse_program(text, make_op));
  for (int64_t rows : {1, 9}) {
    auto wanted = to_doubles(compiled->new_context()->run(std::vector{input(rows)})[0]);
    auto got = to_doubles(recompiled->new_context()->run(std::vector{input(rows)})[0]);
    for (size_t i = 0; i < wanted.size(); ++i) CHECK(got[i] == doctest::Approx(wanted[i]));
  }
  save_plan(folder.path / "g.weft", plan_for(host_chip()), {});
  CHECK(code_of([&] { compile_file(folder.path / "g.weft", {.device = "ref"}); }) == "E172");
  CHECK(code_of([&] { compile_file(folder.path / "g.weft", {.symbols = {{"n", 2}}}); }) == "E502");
  CHECK(code_of([&] { import_file(folder.path / "g.weft"); }) == "E102");
}
