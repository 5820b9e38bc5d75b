// SPDX-License-Identifier: Apache-2.0
// weft-pass NAME PROGRAM.txt: runs one pass on a program in the text form (as WEFT_DUMP leaves it) and prints the
// result.
#include <cstdio>

#include "base/error.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "passes/passes.h"
#include "passes/program_files.h"

int main(int count, char** words) {
  if (count != 3) {
    std::fprintf(stderr, "usage: weft-pass NAME PROGRAM.txt\n");
    return 2;
  }
  try {
    auto program = weft::read_program(words[2]);
    weft::Pipeline run(*program, {});
    run(words[1], weft::find_pass(words[1]));
    verify(*program, words[1]);
    std::fputs(print(*program).c_str(), stdout);
    return 0;
  } catch (const weft::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.info().kind);
  }
}
