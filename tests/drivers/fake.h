// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

/// Functions that control the fake drivers.
extern "C" {

/// Makes the `call`th call from now on fail with `error`, counted over all functions of both drivers; 0: none fails.
void fake_fail(int call, int error);
/// Calls since then.
int fake_calls();
/// Returns the name of the function that failed last.
const char* fake_failed();
/// Memory, modules, streams, events and graphs that nobody gave back.
int fake_held();
}
