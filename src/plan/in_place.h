// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <string>

#include "plan/plan.h"

namespace weft {

/// Finds which outputs may use the memory of which inputs (Plan::in_place), and decides the caller's donations
/// (Plan::donations). Needs lifetimes. Throws E310 for a name that is no input or output, or is given twice.
///
/// An output may take an input's place when a step that begins the output either works place by place or merely moves
/// the input there, and nobody needs the input's old contents after that. A concatenation only writes its own part. So
/// a cache that grows at its end needs no copy while its memory has room. Where only the run knows whether input and
/// output are equally large, the run decides.
void plan_in_place(Plan& plan, std::span<const DonationRequest> requests);

/// The same for working memory (PlanBuffer::shares): a buffer whose last reader writes a result of equal size is reused
/// for that result, unless a loop swaps the buffer. Needs lifetimes.
void share_working_memory(Plan& plan);

}  // namespace weft
