// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <string>

#include "frontends/tensorflow/graph_model.h"

namespace weft::tensorflow {

/// The lookup tables of a model by the names of their nodes, with the constants that fill them. Nodes that fill one
/// stand in the graph, or in functions that it calls when it is loaded.
std::map<std::string, LookupTable> tables_of(const GraphModel& model);

}  // namespace weft::tensorflow
