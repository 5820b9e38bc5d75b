// SPDX-License-Identifier: Apache-2.0
// weft-pass NAME PROGRAM.txt: runs one pass on a program in the text form (as WEFT_DUMP writes it) and prints the
// result.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "api/c/options_text.h"
#include "base/error.h"
#include "compile/stages.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "passes/passes.h"
#include "passes/program_files.h"

int main(int count, char** words) {
  std::string name, file, chip = "host", precision = "f32", rank = "0/1";
  weft::CompileOptions options;
  CLI::App line("Runs one pass on a program in the text form and prints the result.", "weft-pass");
  line.add_option("NAME", name)->required();
  line.add_option("PROGRAM.txt", file)->required();
  line.add_option("--chip", chip,
                  "the chip that the pass works for: gfx942, x86-64-v4+avx512vnni; by default this one");
  line.add_option("--precision", precision, "of products: f32, bf16 or f16");
  line.add_option("--keep-f32", options.keep_f32, "nodes whose products stay f32; * and ? match");
  line.add_option("--rank", rank, "of a split program: 1/2 is the second of two");
  CLI11_PARSE(line, count, words);
  try {
    options.precision = weft::parse_precision(precision);
    weft::PassContext context = weft::context_of(weft::chip_named(chip), options);
    context.ranks.number = weft::parse_number(rank.substr(0, rank.find('/')), "--rank");
    context.ranks.count = weft::parse_number(rank.substr(rank.find('/') + 1), "--rank");
    auto program = weft::read_program(file);
    weft::Pipeline run(*program, {}, context);
    run(name, weft::find_pass(name, context));
    verify(*program, name);
    std::fputs(print(*program).c_str(), stdout);
    return 0;
  } catch (const weft::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.info().kind);
  }
}
