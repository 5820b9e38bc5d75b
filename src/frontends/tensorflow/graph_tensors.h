// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "base/file.h"
#include "frontends/common/wire.h"
#include "frontends/tensorflow/call.h"

namespace weft::tensorflow {

/// Returns the sizes of a TensorShapeProto, -1 for an unknown size; nothing if the rank is unknown.
Sizes read_sizes(frontend::Wire wire);
/// Reads a TensorProto. The elements are a view into `file` if it stores all of them as aligned bytes of their type.
/// E149 and E150 for types, sizes and counts that Weft does not support.
Tensor read_tensor(frontend::Wire wire, const Bytes& file);

}  // namespace weft::tensorflow
