// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "base/knobs.h"

namespace weft::test {

/// Returns how many cases to run: `all` under `./x test --release`, `few` otherwise.
inline int cases(int few, int all) { return environment("WEFT_TEST_FULL") == "1" ? all : few; }

}  // namespace weft::test
