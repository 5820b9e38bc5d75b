// SPDX-License-Identifier: Apache-2.0
#include "base/version.h"

#include <doctest/doctest.h>

TEST_CASE("the library and the build agree on the version") { CHECK(weft::version() == WEFT_VERSION); }
