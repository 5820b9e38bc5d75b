// SPDX-License-Identifier: Apache-2.0
#include "ops/collective.h"

#include "ops/check.h"

namespace weft {

using namespace shape_rule;

Types Collective::infer(Operands in) const {
  operand_count(name, in, 1, 1);
  const Shape& x = fn == CollectiveFn::sum ? numbers(name, in, 0) : tensor(name, in, 0);
  if (bits(x.dtype) < 8 || x.dtype == DType::string) refuse("E141", name, " is not defined for ", x);
  if (fn == CollectiveFn::sum) return {x};
  Shape all = x;
  all.dims.insert(all.dims.begin(), ranks);
  return {all};
}

}  // namespace weft
