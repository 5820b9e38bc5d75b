// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

/// Functions that control the fake drivers.
extern "C" {

/// Makes the `call`th call from now on fail with `error`, counting calls of all functions of both drivers; 0: no call
/// fails.
void fake_fail(int call, int error);
/// Returns the number of calls since fake_fail.
int fake_calls();
/// Returns the name of the function that failed last.
const char* fake_failed();
/// Returns the number of objects that were not released: memory, modules, streams, events and graphs.
int fake_held();
}
