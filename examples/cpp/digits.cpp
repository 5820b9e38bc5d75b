// SPDX-License-Identifier: Apache-2.0
// Recognises ten digits in one run. Usage: digits examples/digits/digits.onnx < pixels
// `pixels` has 10 x 8 x 8 numbers from 0 (paper) to 1 (ink).
#include <algorithm>
#include <iostream>
#include <weft/weft.hpp>

int main(int, char** arguments) {
  std::vector<float> pixels(10 * 8 * 8);
  for (float& pixel : pixels) std::cin >> pixel;
  weft::Program model = weft::compile(arguments[1]);
  weft::Tensor probability = model.new_context().run({weft::view<float>(pixels, {10, 1, 8, 8})})[0];
  auto p = probability.as<float>();
  for (auto row = p.begin(); row != p.end(); row += 10) std::cout << std::max_element(row, row + 10) - row << ' ';
}
