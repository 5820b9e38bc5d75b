// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <string>

#include "frontends/tensorflow/graph_model.h"

namespace weft::tensorflow {

/// Returns the lookup tables of a model by the names of their nodes, with the constants that fill them. The nodes that
/// fill a table are in the main graph, or in functions called at load time.
std::map<std::string, LookupTable> tables_of(const GraphModel& model);

}  // namespace weft::tensorflow
