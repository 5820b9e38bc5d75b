// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <stdlib.h>

#include <filesystem>
#include <string>

namespace weft::test {

/// A folder that is removed with everything in it.
struct Scratch {
  std::filesystem::path path;
  Scratch() {
    std::string name = std::filesystem::temp_directory_path() / "weft-test-XXXXXX";
    path = ::mkdtemp(name.data());
  }
  ~Scratch() { std::filesystem::remove_all(path); }
};

}  // namespace weft::test
