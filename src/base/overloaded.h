// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace weft {

/// Several lambdas as one overloaded function object, for std::visit.
template <class... Lambdas>
struct Overloaded : Lambdas... {
  using Lambdas::operator()...;
};
template <class... Lambdas>
Overloaded(Lambdas...) -> Overloaded<Lambdas...>;

}  // namespace weft
