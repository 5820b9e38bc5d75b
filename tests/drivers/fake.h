// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

/// Functions that control the fake drivers.
extern "C" {

/// Makes call number `call` from now on fail with `error`. The first call has number 1, and calls to HIP and CUDA count
/// together. With `call` = 0 no call fails.
void fake_fail(int call, int error);
/// Returns the number of calls since fake_fail.
int fake_calls();
/// Returns the name of the function that failed last.
const char* fake_failed();
/// Returns the number of objects that were not released: memory, modules, streams, events and graphs.
int fake_held();
}
