// SPDX-License-Identifier: Apache-2.0
// Saved programs: a written program reads back, equal programs give equal files, damage is refused.
#include "runtime/saved.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmath>

#include <chrono>
#include <random>
#include <set>
#include <thread>

#include "base/error.h"
#include "compile.h"
#include "counts.h"
#include "errors.h"
#include "ids.h"
#include "ir/text.h"
#include "kernel_build/kernel_build.h"
#include "lower/lower.h"
#include "ops/elementwise.h"
#include "ops/registry.h"
#include "plan/lifetimes.h"
#include "runtime/cpu_executable.h"
#include "runtime/packed_weights.h"
#include "runtime/plan_bytes.h"

using namespace weft;
using weft::test::code_of;

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

constexpr const char* host_text = R"(program "strings"
symbol n min=0 max=9
module main {
  %s = parameter {name="s", type=string[n]}
  %w = constant {value=string[1]{"!"}}
  %b = broadcast %w {dims=[n]}
  %j = host %s, %b {fn=concat_text, numbers=[], strings=[], types=[string[n]]}
  %m = host %j {fn=match_text, numbers=[], strings=["[a-z]+!"], types=[bool[n]]}
  return "joined"=%j, "matches"=%m
})";

Plan plan_for(const Chip& chip, const char* program = text) {
  Plan plan = lower(*parse_program(program, make_op), chip);
  plan_lifetimes(plan);
  return plan;
}

/// Returns a saved program for this processor and for `targets`.
std::vector<std::byte> saved_program(const char* program, const std::vector<std::string>& targets = {}) {
  Folder folder;
  save(*compile(parse_program(program, make_op), {.device = "cpu"}), folder.path / "p.weft", targets);
  return bytes_of(folder.path / "p.weft");
}

Tensor input(int64_t rows) {
  std::vector<double> values;
  for (int64_t i = 0; i < rows * 3; ++i) values.push_back(0.3 * static_cast<double>(i) - 1);
  return make_tensor(DType::f32, {rows, 3}, values);
}

std::string load_code(std::vector<std::byte> file) {
  return code_of([&] { SavedFile(Bytes(std::move(file))).program(0); });
}

std::string decode_code(const Plan& plan) {
  ConstantStore constants;
  auto encoded = encode(plan, constants);
  Bytes weights(std::vector<std::byte>(constants.bytes()));
  return code_of([&] { decode_plan(encoded, {weights, constants.places()}); });
}

/// Returns a program of these plans, each with a copy of `image`.
SavedProgram program_of(const std::vector<Plan>& plans, std::span<const std::byte> image = {}) {
  SavedProgram program{std::make_shared<const ProgramSource>(ProgramSource{.text = text}), {}};
  for (const Plan& plan : plans) program.chips.push_back({plan, Bytes::copy(image)});
  return program;
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
  auto compiled = compile(parse_program(text, make_op), {.device = "cpu"});
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

TEST_CASE("saved: a result that is a constant of one number comes back") {
  constexpr const char* ones =
      "program \"p\"\nmodule main {\n  %c = constant {value=f32[2]{1, 1}}\n  return \"c\"=%c\n}";
  Folder folder;
  compile(parse_program(ones, make_op), {.device = "cpu"})->save(folder.path / "ones.weft");
  auto got = compile_file(folder.path / "ones.weft")->new_context()->run(std::vector<Tensor>());
  CHECK(to_doubles(got[0]) == std::vector<double>{1, 1});
}

TEST_CASE("saved: weights stay where the file is mapped") {
  Folder folder;
  write_saved(folder.path / "p.weft", program_of({plan_for(host_chip())}));
  Bytes file = map_file(folder.path / "p.weft");
  ChipProgram loaded = SavedFile(file).program(0);
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
  plan.buffers = {{BufferKind::constant, 1, {DType::i4, {3}}, 2, "c", StepId(0), StepId(0)},
                  {BufferKind::arena, 0, {DType::f32, {n}}, n * 4, "v", StepId(0), StepId(0)}};
  plan.kernels = {{"k", "code"}};
  plan.steps = {{LaunchStep{.kernel = KernelId(0), .blocks = n * 2, .work = n}, ids<PlanBuffer>({0, 1}),
                 ids<Dim>({2, 0}), ids<PlanBuffer>({1}), "source", "reason", n * 2, n}};
  Folder folder;
  write_saved(folder.path / "p.weft", program_of({plan}, as_bytes("machine code")));
  ChipProgram back = SavedFile(map_file(folder.path / "p.weft")).program(0);
  CHECK(as_text(back.image) == "machine code");
  const Plan& got = back.plan;
  CHECK(got.chip == plan.chip);
  CHECK(got.program == plan.program);
  CHECK(got.metadata == plan.metadata);
  CHECK(got.inputs[0].type == plan.inputs[0].type);
  CHECK(got.inputs[1].type == plan.inputs[1].type);
  CHECK(*got.inputs[0].default_value == *plan.inputs[0].default_value);
  CHECK(got.sizes == plan.sizes);
  const Symbol* symbol = got.sizes.at(0).as_symbol();
  REQUIRE(symbol);
  CHECK(symbol->name == odd.name);
  CHECK(symbol->max == 64);
  CHECK(symbol->multiple_of == 2);
  CHECK(got.checks[0].a == plan.checks[0].a);
  CHECK(got.checks[0].b == plan.checks[0].b);
  CHECK(got.constants == plan.constants);
  CHECK(got.buffers.at(1).bytes == plan.buffers.at(1).bytes);
  CHECK(got.steps.at(0).sizes == plan.steps.at(0).sizes);
  CHECK(got.steps.at(0).reason == "reason");
  CHECK(launch_of(got.steps.at(0)).blocks == launch_of(plan.steps.at(0)).blocks);
  CHECK(launch_of(got.steps.at(0)).work == launch_of(plan.steps.at(0)).work);
  for (size_t i = 0; i < got.constants.size(); ++i) CHECK(got.constant_hashes[i] == hash128(got.constants[i].data));
  write_saved(folder.path / "q.weft", program_of({got}, back.image));
  CHECK(bytes_of(folder.path / "p.weft") == bytes_of(folder.path / "q.weft"));
}

namespace {

/// Changes bytes of a file, truncates it and extends it; each such file must be refused. Returns their number.
int damage_everywhere(const std::vector<std::byte>& good, int flips, int cuts) {
  REQUIRE(load_code(good) == "none");
  std::mt19937 random(3);
  int count = 0;
  auto flip = [&](size_t at) {
    auto bad = good;
    bad[at] ^= static_cast<std::byte>(1 + random() % 255);
    std::string code = load_code(std::move(bad));
    INFO("byte ", at, " gave '", code, "'");
    CHECK((code == "E170" || (at >= 8 && at < 12 && code == "E171")));
    ++count;
  };
  auto cut = [&](size_t size) {
    std::string code = load_code({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)});
    INFO("cut at ", size, " gave '", code, "'");
    CHECK(code == (size == 0 ? "E170" : "E173"));
    ++count;
  };
  for (size_t at = 0; at < 256; ++at) flip(at), cut(at);
  for (int i = 0; i < flips; ++i) flip(random() % good.size());
  for (int i = 0; i < cuts; ++i) cut(random() % good.size());
  auto longer = good;
  longer.push_back(std::byte{0});
  CHECK(load_code(longer) == "E170");
  return count + 1;
}

}  // namespace

TEST_CASE("saved: every flipped byte and every cut is refused") {
  const int flips = test::cases(400, 4000), cuts = test::cases(100, 500);
  for (const auto& [program, targets] : std::vector<std::pair<const char*, std::vector<std::string>>>{
           {text, {}}, {text, {"cpu:x86-64-v4", "amd:gfx1100"}}, {host_text, {}}})
    CHECK(damage_everywhere(saved_program(program, targets), flips, cuts) == 513 + flips + cuts);
}

TEST_CASE("saved: a process killed while it writes leaves the old file or the new one") {
  Folder folder;
  const auto path = folder.path / "p.weft";
  auto one = compile(parse_program(text, make_op), {.device = "cpu"}),
       other = compile(parse_program(host_text, make_op), {.device = "cpu"});
  one->save(path), other->save(folder.path / "other.weft");
  const auto first = bytes_of(path), second = bytes_of(folder.path / "other.weft");
  for (int round = 0, count = test::cases(8, 500); round < count; ++round) {
    pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      for (;;) other->save(path), one->save(path);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2 + 3 * (round % 7)));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const auto there = bytes_of(path);
    CHECK((there == first || there == second));
  }
  // On file systems that support unnamed temporary files, no unfinished file is left in the folder.
  int nameless = ::open(folder.path.c_str(), O_TMPFILE | O_WRONLY, 0600);
  if (nameless < 0) return;
  ::close(nameless);
  for (const auto& entry : std::filesystem::directory_iterator(folder.path)) {
    const auto there = bytes_of(entry.path());
    CHECK((there == first || there == second));
  }
}

TEST_CASE("saved: a device is written to, not replaced") {
  Folder folder;
  const auto pipe = folder.path / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  std::vector<std::byte> read;
  std::thread reader([&] {
    int fd = ::open(pipe.c_str(), O_RDONLY);
    std::byte block[4096];
    for (ssize_t count; (count = ::read(fd, block, sizeof block)) > 0;) read.insert(read.end(), block, block + count);
    ::close(fd);
  });
  auto program = compile(parse_program(text, make_op), {.device = "cpu"});
  program->save(pipe);
  reader.join();
  program->save(folder.path / "p.weft");
  CHECK(read == bytes_of(folder.path / "p.weft"));
  CHECK(std::filesystem::is_fifo(pipe));
}

TEST_CASE("saved: a full disk is an error and leaves what was there") {
  Folder folder;
  auto program = compile(parse_program(text, make_op), {.device = "cpu"});
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
  REQUIRE(decode_code(good) == "none");
  auto refused = [&](auto change) {
    Plan bad = good;
    change(bad);
    CHECK(decode_code(bad) == "E170");
  };
  refused([](Plan& p) { launch_of(p.steps.back()).kernel = p.kernels.end_id(); });
  refused([](Plan& p) { launch_of(p.steps.back()).kernel = {}; });
  refused([](Plan& p) { p.steps.back().buffers[0] = p.buffers.end_id(); });
  refused([](Plan& p) { p.steps.back().sizes.push_back(p.sizes.end_id()); });
  refused([](Plan& p) { p.steps.back().outputs.emplace_back(99); });
  refused([](Plan& p) { p.steps.back().buffers.emplace_back(-1); });
  refused([](Plan& p) { p.chip.kind = static_cast<ChipKind>(7); });
  refused([](Plan& p) { p.buffers.front().kind = static_cast<BufferKind>(7); });
  refused([](Plan& p) { p.buffers.front().shape.dtype = static_cast<DType>(200); });
  refused([](Plan& p) { p.buffers.front().bytes = -1; });
  refused([](Plan& p) { p.buffers.front().shape.dims = {-4}; });
  refused([](Plan& p) { p.buffers.front().last_step = StepId(1000); });
  refused([](Plan& p) { p.inputs.clear(); });
  refused([](Plan& p) { p.outputs.clear(); });
  refused([](Plan& p) { p.constants.clear(); });
  refused([](Plan& p) { p.buffers.push_back({BufferKind::persistent, 0, {}, Dim::symbol({.name = "n"})}); });
  refused([](Plan& p) { p.buffers.push_back({BufferKind::persistent, 0, {}, INT64_MAX}); });
  refused([](Plan& p) { p.load_steps.push_back(p.steps.back()); });
  refused([](Plan& p) { p.steps.push_back({.action = JumpStep{StepId(1000)}}); });
  refused([](Plan& p) { p.steps.push_back({.action = LibraryStep{}}); });
  refused([](Plan& p) { p.steps.push_back({.action = CollectiveStep{}}); });
  refused([](Plan& p) { p.steps.push_back({.action = GrowStep{}, .buffers = {BufferId(0)}}); });
  refused([](Plan& p) { p.steps.push_back({.action = HostStep{{.fn = static_cast<HostFn>(99)}}}); });
  refused([](Plan& p) { p.steps.push_back({.action = SwapStep{}, .buffers = ids<PlanBuffer>({0, 1})}); });
  refused([](Plan& p) {
    p.steps.push_back({.action = SizesStep{{{.symbol = {.name = "n"}, .buffer = BufferId(0), .element = 99}}}});
  });
}

TEST_CASE("saved: a step of the host has its operands and their sizes") {
  const Plan good = plan_for(host_chip(), host_text);
  REQUIRE(decode_code(good) == "none");
  auto refused = [&](auto change) {
    Plan bad = good;
    auto step = std::ranges::find_if(bad.steps, &PlanStep::is<HostStep>);
    REQUIRE(step != bad.steps.end());
    change(*step, bad);
    CHECK(decode_code(bad) == "E170");
  };
  refused([](PlanStep& s, Plan&) { s.sizes.clear(); });
  refused([](PlanStep& s, Plan&) { s.sizes.pop_back(); });
  for (const Dim& rank : {Dim(1000), Dim(-1), Dim::symbol({.name = "n"})}) {
    refused([&](PlanStep& s, Plan& p) { s.sizes[0] = p.sizes.add(rank); });
  }
  refused([](PlanStep& s, Plan&) { s.as<HostStep>()->call.fn = HostFn::length; });
  refused([](PlanStep& s, Plan&) { s.outputs.insert(s.outputs.end(), 9, s.outputs[0]); });
}

TEST_CASE("saved: damaged bytes of a plan never crash the reader") {
  ConstantStore constants;
  auto good = encode(plan_for(host_chip()), constants);
  Bytes weights(std::vector<std::byte>(constants.bytes()));
  std::mt19937 random(11);
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    auto bad = good;
    for (int n = 0; n < 1 + i % 3; ++n) bad[random() % bad.size()] ^= static_cast<std::byte>(1 + random() % 255);
    if (i % 5 == 0) bad.resize(random() % bad.size());
    std::string code = code_of([&] { decode_plan(bad, {weights, constants.places()}); });
    CHECK((code == "none" || code == "E170"));
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
  CHECK(chip_named("x86-64-v4+avx512vnni+avx512bf16+avx512vnni").features == "+avx512bf16,+avx512vnni");
  CHECK(runs_code_for(chip_named("aarch64+i8mm+dotprod"), chip_named("aarch64+dotprod")));
  CHECK(!runs_code_for(chip_named("aarch64+dotprod"), chip_named("aarch64+i8mm")));
  CHECK(!runs_code_for(chip_named("x86-64-v4"), chip_named("gfx942")));
  auto compiled = compile(parse_program(text, make_op), {.device = "cpu"});
  auto compare = [&](Executable& recompiled) {
    for (int64_t rows : {1, 9}) {
      auto wanted = to_doubles(compiled->new_context()->run(std::vector{input(rows)})[0]);
      auto got = to_doubles(recompiled.new_context()->run(std::vector{input(rows)})[0]);
      for (size_t i = 0; i < wanted.size(); ++i) CHECK(got[i] == doctest::Approx(wanted[i]));
    }
  };
  // Without code for this chip, compile_file compiles the stored program. It never opens the other chip's plan.
  for (const Chip& chip : {other, chip_named("gfx942")}) {
    if (runs_code_for(host_chip(), chip)) continue;
    Plan never;
    never.chip = chip;
    auto path = folder.path / "p.weft";
    write_saved(path, program_of({never}, as_bytes("never opened")));
    try {
      compile_file(path, {.device = "cpu", .recompile = false});
      FAIL("it was taken");
    } catch (const Error& error) {
      CHECK(error.info().code == "E172");
      CHECK(error.info().what.find(to_string(chip)) != std::string::npos);
      CHECK(error.info().what.find(to_string(host_chip())) != std::string::npos);
    }
    compare(*compile_file(path, {.device = "cpu"}));
  }
  write_saved(folder.path / "g.weft", program_of({plan_for(host_chip())}));
  CHECK(code_of([&] { compile_file(folder.path / "g.weft", {.device = "ref"}); }) == "E172");
  CHECK(code_of([&] { compile_file(folder.path / "g.weft", {.symbols = {{"n", 2}}}); }) == "E502");
  try {
    compile_file(folder.path / "g.weft", {.precision = Precision::bf16, .cache = false, .channels_first = true});
    FAIL("it was taken");
  } catch (const Error& error) {
    CHECK(error.info().what ==
          "precision, channels_first can be chosen when a model is compiled, not for a saved program");
  }
  CHECK(import_file(folder.path / "g.weft")->main().results().size() == 2);
}

TEST_CASE("saved: one file for several chips holds weights once; the best that runs is taken") {
  Folder folder;
  auto compiled = compile(parse_program(text, make_op), {.device = "cpu"});
  const std::vector<std::string> targets = {"cpu:x86-64-v3", "cpu:x86-64-v4", "amd:gfx1100", "cpu:x86-64-v4"};
  save(*compiled, folder.path / "many.weft", targets);
  compiled->save(folder.path / "one.weft");
  SavedFile many(map_file(folder.path / "many.weft"));
  // The file also has code for this processor, which may be exactly one of the levels in `targets`.
  const bool is_level = host_chip() == chip_named("x86-64-v3") || host_chip() == chip_named("x86-64-v4");
  REQUIRE(many.chips().size() == (is_level ? 3 : 4));
  CHECK(many.chips().front() == host_chip());
  CHECK(many.chips().back().arch == "gfx1100");
  std::set<const std::byte*> places;
  for (size_t i = 0; i < many.chips().size(); ++i) {
    for (const Tensor& constant : many.program(i).plan.constants) {
      if (constant.dims == std::vector<int64_t>{3, 2}) places.insert(constant.data.data());
    }
  }
  CHECK(places.size() == 1);
  auto loaded = compile_file(folder.path / "many.weft", {.device = "cpu", .recompile = false});
  check_same_outputs(*compiled, *loaded);
  loaded->save(folder.path / "again.weft");
  CHECK(bytes_of(folder.path / "again.weft") == bytes_of(folder.path / "many.weft"));

  // Among the chips of a file that this machine can run code for, the one with the greatest reach is taken.
  Plan v3 = plan_for(chip_named("x86-64-v3")), v4 = plan_for(chip_named("x86-64-v4"));
  CHECK(reach(v4.chip) > reach(v3.chip));
  CHECK(reach(host_chip()) >= reach(v3.chip));
  CHECK(code_of([&] { save(*compiled, folder.path / "x.weft", std::vector<std::string>{"cpu:pentium"}); }) == "E204");
  CHECK(code_of([&] { save(*compiled, folder.path / "x.weft", std::vector<std::string>{"moon"}); }) == "E501");
}

TEST_CASE("saved: the program inside keeps sizes and strings with any characters") {
  Folder folder;
  auto program = std::make_unique<Program>();
  program->name = "odd \"names\"";
  program->metadata["a=b"] = "c;\n\x01";
  Dim n = program->symbol({.name = "the batch; (n) <= \"5\" \xc3\xa4", .min = 1, .max = 64});
  Value x = program->main().parameter("x y", Shape{DType::f32, {n * 2 + 1, 3}});
  program->main().set_results({{"out, in", program->main().append(Elementwise{Fn::exp}, {x})}});
  compile(std::move(program), {.device = "cpu"})->save(folder.path / "p.weft");
  auto back = import_file(folder.path / "p.weft");
  CHECK(back->name == "odd \"names\"");
  CHECK(back->metadata.at("a=b") == "c;\n\x01");
  REQUIRE(back->symbols().size() == 1);
  CHECK(back->symbols().begin()->second.name == "the batch; (n) <= \"5\" \xc3\xa4");
  CHECK(back->symbols().begin()->second.max == 64);
  CHECK(back->main().results()[0].name == "out, in");
}

TEST_CASE("weights: equal weights are packed once in a process, and freed with their last program") {
  auto packed_at = [](const Executable& program) { return program.new_context()->memory().weights; };
  // 64 x 64 weights are large enough to be shared between programs.
  std::string big = R"(program "big"
symbol n min=0 max=9
module main {
  %x = parameter {name="x", type=f32[n,64]}
  %w = constant {value=f32[64,64]@w}
  %y = dot %x, %w
  return "y"=%y
})";
  std::vector<double> values(64 * 64);
  auto make = [&](double first) {
    values[0] = first;
    return compile(
        parse_program(big, make_op, [&](std::string_view) { return make_tensor(DType::f32, {64, 64}, values); }),
        {.device = "cpu", .threads = 1});
  };
  Tensor ones = make_tensor(DType::f32, {1, 64}, std::vector<double>(64, 1.0));
  auto first_of = [&](const Executable& program) {
    return to_doubles(program.new_context()->run(std::vector{ones})[0])[0];
  };
  auto a = make(3);
  int64_t alone = packed_at(*a);
  CHECK(alone >= 64 * 64 * 4);
  size_t others = packed_weights_held();
  auto b = make(3);
  CHECK(packed_at(*b) == alone);
  CHECK(packed_weights_held() == others);  // `b` added no packed weights
  auto c = make(5);
  CHECK(packed_weights_held() > others);
  CHECK(first_of(*a) == 3);
  a.reset();
  CHECK(first_of(*b) == 3);  // the weights that `a` packed live as long as `b`
  CHECK(first_of(*c) == 5);
  b.reset(), c.reset();
  CHECK(packed_weights_held() < others);
}

TEST_CASE("weights: layers of one program that share weights share their packed form") {
  auto weights_of = [](int layers) {
    std::string body;
    for (int i = 0; i < layers; ++i) {
      std::string x = i == 0 ? "x" : cat("y", i - 1), y = cat("y", i);
      body += cat("  %t", y, " = transpose %w {permutation=[1, 0]}\n  %d", y, " = dot %", x, ", %t", y, "\n  %", y,
                  " = relu %d", y, "\n");
    }
    std::string text = cat("program \"shared\"\nmodule main {\n  %x = parameter {name=\"x\", type=f32[9,64]}\n",
                           "  %w = constant {value=f32[64,64]@w}\n", body, "  return \"y\"=%y", layers - 1, "\n}");
    std::vector<double> values(64 * 64, 0.25);
    auto program = compile(
        parse_program(text, make_op, [&](std::string_view) { return make_tensor(DType::f32, {64, 64}, values); }),
        {.device = "cpu", .threads = 1});
    auto context = program->new_context();
    Tensor ones = make_tensor(DType::f32, {9, 64}, std::vector<double>(9 * 64, 1.0));
    CHECK(to_doubles(context->run(std::vector{ones})[0])[0] == std::pow(16.0, layers));
    return context->memory().weights;
  };
  CHECK(weights_of(4) == weights_of(1));
}

TEST_CASE("weights: weights above the memory limit are refused before they are packed") {
  const char* wide = R"(program "wide"
module main {
  %x = parameter {name="x", type=f32[1,512]}
  %w = constant {value=f32[512,1024]@w}
  %y = dot %x, %w
  return "y"=%y
})";
  Tensor weights = make_tensor(DType::f32, {512, 1024}, std::vector<double>(512 * 1024, 0.5));
  auto make = [&](int64_t limit) {
    return compile(parse_program(wide, make_op, [&](std::string_view) { return weights; }),
                   {.device = "cpu", .threads = 1, .memory_limit = limit});
  };
  try {
    make(1 << 20);
    FAIL("2 MiB of weights were packed in 1 MiB");
  } catch (const Error& error) {
    CHECK(error.info().code == "E401");
    CHECK(error.info().what.starts_with("the packed weights need 2 MiB, the limit is 1 MiB"));
  }
  // A run counts against the limit the packed weights (2 MiB), the result (4 KiB) and little else.
  Tensor x = make_tensor(DType::f32, {1, 512}, std::vector<double>(512, 1.0));
  CHECK(code_of([&] { make((2 << 20) + 1024)->new_context()->run(std::vector{x}); }) == "E401");
  CHECK(make(3 << 20)->new_context()->run(std::vector{x}).size() == 1);
}

TEST_CASE("aarch64: programs are compiled for it, saved, and refused here") {
  Folder folder;
  auto program = compile(parse_program(text, make_op), {.device = "cpu:aarch64"});
  CHECK(program->steps().size() >= 1);
  CHECK(code_of([&] { program->new_context(); }) == "E501");
  program->save(folder.path / "arm.weft");
  SavedFile file(map_file(folder.path / "arm.weft"));
  CHECK(file.chips()[0].kind == ChipKind::arm);
  CHECK(code_of([&] { compile_file(folder.path / "arm.weft", {.device = "cpu", .recompile = false}); }) == "E172");
  check_same_outputs(*compile(parse_program(text, make_op), {.device = "cpu"}),
                     *compile_file(folder.path / "arm.weft", {.device = "cpu"}));
}
