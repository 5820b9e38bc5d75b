// SPDX-License-Identifier: Apache-2.0
// Programs before and after a pass, as text: tests/passes/*.txt. The first line of a file gives the name of the pass
// and the fields of its context ("# reduce_precision x86-64-v4 bf16"). Lines of `===` separate cases; `---` separates
// the program before the pass from the program after it. WEFT_UPDATE=1 rewrites the latter.
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/knobs.h"
#include "ir/core_ops.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "ops/build.h"
#include "ops/dot.h"
#include "ops/registry.h"
#include "passes/fold_constants.h"
#include "passes/passes.h"
#include "passes/program_files.h"
#include "runtime/ref_executable.h"

using namespace weft;

namespace {

/// Splits `text` at lines that are equal to `line`; returns the pieces.
std::vector<std::string> pieces(std::string_view text, std::string_view line) {
  std::vector<std::string> list(1);
  for (std::string_view row : split(text, '\n')) {
    if (trim(row) == line) list.emplace_back();
    else list.back() += cat(row, "\n");
  }
  return list;
}

bool is_declaration(std::string_view row) {
  return row.starts_with("symbol ") || row.starts_with("guard ") || row.starts_with("default ");
}

/// Adds "module main {" and "}" around the instructions, unless the case has them.
std::string framed(std::string_view body) {
  if (body.find("module main {") != body.npos) return std::string(body);
  std::string head, rest;
  for (std::string_view row : split(body, '\n')) (is_declaration(trim(row)) ? head : rest) += cat(row, "\n");
  return cat(head, "module main {\n", rest, "}\n");
}

std::string unframed(const Program& program) {
  std::string text, whole = print(program);
  bool has_bodies = program.modules().size() > 1;
  for (std::string_view row : split(whole, '\n')) {
    if (has_bodies && !row.starts_with("program ")) text += cat(row, "\n");
    if (has_bodies) continue;
    bool is_frame = row.starts_with("program ") || row == "module main {" || row == "}" || trim(row).empty();
    if (!is_frame) text += cat(trim(row), "\n");
  }
  return text;
}

/// Returns the text of the program after the pass; checks that the program stays valid.
std::string after(const Pass& pass, const std::string& name, std::string_view before) {
  auto program = parse_program(framed(before), make_op);
  for (size_t i = 0; i < program->modules().size(); ++i) pass(*program->modules()[i]);
  program->main().remove_dead();
  verify(*program, name);
  return unframed(*program);
}

/// Parses a rank and donations: "1/2" is the second of two ranks; "past=present" donates input `past`.
Ranks ranks_of(std::span<const std::string_view> words) {
  Ranks ranks;
  if (words.empty()) return ranks;
  ranks.number = std::stoll(std::string(words[0].substr(0, words[0].find('/'))));
  ranks.count = std::stoll(std::string(words[0].substr(words[0].find('/') + 1)));
  for (std::string_view word : words.subspan(1))
    ranks.donations.push_back(
        {std::string(word.substr(0, word.find('='))), std::string(word.substr(word.find('=') + 1))});
  return ranks;
}

/// Parses the first line of a file: "# NAME [CHIP [PRECISION [RANK/RANKS [DONATION...]]]]".
std::pair<std::string, PassContext> asked_by(std::string_view header) {
  std::vector<std::string_view> words = split(trim(header.substr(1)), ' ');
  PassContext context{.chip = chip_named(words.size() > 1 ? std::string(words[1]) : "x86-64-v3")};
  if (words.size() > 2) context.precision = *parse_dtype(words[2]);
  if (words.size() > 3) context.ranks = ranks_of(std::span(words).subspan(3));
  return {std::string(words[0]), context};
}

/// Checks the cases of a file; returns the name of its pass.
std::string check_file(const std::filesystem::path& path, bool update) {
  Bytes file = map_file(path);
  std::vector<std::string> cases = pieces(as_text(file), "===");
  size_t end = cases[0].find('\n');
  std::string header = cases[0].substr(0, end + 1);
  auto [name, context] = asked_by(header);
  cases[0].erase(0, end + 1);
  std::string rewritten = header;
  for (size_t i = 0; i < cases.size(); ++i) {
    std::vector<std::string> halves = pieces(cases[i], "---");
    CAPTURE(halves[0]);
    std::string result = after(find_pass(name, context), name, halves[0]);
    if (!update) {
      REQUIRE(halves.size() == 2);
      CHECK(std::string(trim(halves[1])) == std::string(trim(result)));
    }
    rewritten += cat(i ? "===\n" : "", halves[0], "---\n", result);
  }
  if (update) write_file(path, as_bytes(rewritten));
  return name;
}

}  // namespace

TEST_CASE("passes: before and after") {
  bool update = !environment("WEFT_UPDATE").empty();
  std::set<std::string, std::less<>> seen;
  for (const auto& entry : std::filesystem::directory_iterator(WEFT_SOURCE_DIR "/tests/passes")) {
    if (entry.path().extension() != ".txt") continue;
    CAPTURE(entry.path().string());
    seen.insert(check_file(entry.path(), update));
  }
  for (const PassInfo& pass : pass_list()) {
    INFO(pass.name, " has no file in tests/passes");
    CHECK(seen.contains(pass.name));
  }
}

TEST_CASE("passes: convolutions stay apart if some of them stay in f32") {
  std::string before = framed(
      "%x = parameter {name=\"x\", type=f32[1,1,9]}\n"
      "%w = constant {value=f32[1,1,1]{3}}\n"
      "%v = constant {value=f32[1,1,1]{4}}\n"
      "%a = convolution %x, %w {strides=[1], dilations=[1], pads_begin=[0], pads_end=[0]}\n"
      "%b = convolution %x, %v {strides=[1], dilations=[1], pads_begin=[0], pads_end=[0]}\n"
      "%y = add %a, %b\n"
      "return \"y\"=%y\n");
  for (bool keep : {false, true}) {
    PassContext context{.chip = chip_named("x86-64-v4+avx512bf16"), .precision = DType::bf16};
    if (keep) context.keep_f32 = {"conv*"};
    auto program = parse_program(before, make_op);
    CHECK(find_pass("merge_branches", context)(program->main()) == !keep);
  }
}

TEST_CASE("passes: docs/programs.md lists them in their order") {
  Bytes page = map_file(WEFT_SOURCE_DIR "/docs/programs.md");
  std::vector<std::string> listed, wanted;
  for (std::string_view row : split(as_text(page), '\n')) {
    if (row.starts_with("| `")) listed.emplace_back(row.substr(3, row.find('`', 3) - 3));
  }
  for (const PassInfo& pass : pass_list()) wanted.emplace_back(pass.name);
  CHECK(listed == wanted);
}

TEST_CASE("passes: the program that a failing pass leaves can be run again, large constants included") {
  std::filesystem::path folder = std::filesystem::temp_directory_path() / cat("weft_pass_test_", ::getpid());
  Program program;
  Module& main = program.main();
  Value x = main.parameter("x", Shape{DType::f32, {100}});
  std::vector<double> numbers(100);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<double>(i) / 7;
  Tensor large = make_tensor(DType::f32, {100}, numbers);
  main.set_results({{"y", apply(main, Fn::add, {x, constant(main, large)})}});
  Pipeline run(program, {.dump_directory = folder},
               {.chip = chip_named("x86-64-v4+avx512bf16"), .precision = DType::bf16});
  run("harmless", [](Module&) { return false; });
  auto broken = [](Module& module) -> bool {
    apply(module, Fn::neg, {module.parameters()[0]});
    internal_error("this pass is broken");
  };
  CHECK_THROWS_WITH_AS(run("broken", broken), doctest::Contains("this pass is broken"), Error);
  CHECK(std::filesystem::exists(folder / "01_harmless.txt"));
  CHECK(as_text(map_file(folder / "failed_broken.sh")) ==
        "weft-pass broken before_broken.txt --chip 'x86-64-v4+avx512bf16' --precision bf16\n");
  auto kept = read_program(folder / "before_broken.txt");
  CHECK(kept->main().size() == 3);  // without the instructions that the pass had added
  std::vector<Tensor> inputs = {large};
  CHECK(evaluate(kept->main(), inputs)[0] == evaluate(program.main(), inputs)[0]);
  std::filesystem::remove_all(folder);
}

TEST_CASE("passes: an unknown name is refused with the list") {
  CHECK_THROWS_WITH_AS(find_pass("polish", {}), doctest::Contains("normalise"), Error);
}

TEST_CASE("passes: folding stops at a limit of memory and of work") {
  Program program;
  Module& main = program.main();
  Value column = constant(main, make_tensor(DType::f32, {1024, 1}, std::vector<double>(1024, 1))),
        row = constant(main, make_tensor(DType::f32, {1, 1024}, std::vector<double>(1024, 1)));
  std::vector<Result> results;
  for (int i = 0; i < 3; ++i) {  // 4 MiB each
    Value factor = constant(main, make_tensor(DType::f32, {1, 1}, std::vector<double>{1.0 + i}));
    results.push_back({cat("y", i), main.append(Dot{}, {main.append(Dot{}, {column, factor}), row})});
  }
  main.set_results(results);
  FoldingScope left(program);
  left.bytes = int64_t{6} << 20;
  fold_constants(main);
  auto is_folded = [](const Result& result) { return result.value.def->is<Constant>(); };
  CHECK(std::ranges::count_if(main.results(), is_folded) == 1);
  left.bytes = int64_t{60} << 20;
  left.work = int64_t{3} << 19;
  fold_constants(main);
  CHECK(std::ranges::count_if(main.results(), is_folded) == 2);
}

TEST_CASE("passes: folding a long chain of constants holds one of them at a time") {
  Program program;
  Module& main = program.main();
  Value x = constant(main, make_tensor(DType::f32, {1 << 20}, std::vector<double>(1 << 20, 1)));
  for (int i = 0; i < 20; ++i) x = apply(main, Fn::neg, {x});
  main.set_results({{"y", x}});
  fold_constants(main);
  CHECK(main.size() == 1);
  CHECK(to_doubles(main.results()[0].value.def->as<Constant>()->tensor).at(7) == 1);
}
