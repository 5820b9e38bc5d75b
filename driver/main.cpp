// SPDX-License-Identifier: Apache-2.0
#include "driver/verbs.h"

int main(int count, char** words) {
  std::vector<std::string> arguments(words + 1, words + count);
  return weft::driver::command(arguments, {"weft"});
}
