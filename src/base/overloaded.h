// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace weft {

/// Lambdas as one function object, for std::visit: each alternative of the variant goes to the lambda of its type.
template <class... Lambdas>
struct Overloaded : Lambdas... {
  using Lambdas::operator()...;
};
template <class... Lambdas>
Overloaded(Lambdas...) -> Overloaded<Lambdas...>;

}  // namespace weft
