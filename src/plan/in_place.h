// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>

#include "plan/plan.h"

namespace weft {

/// Finds which outputs may reuse the memory of which inputs (Plan::in_place), and checks the caller's donations
/// (Plan::donations). Call plan_lifetimes first. Throws E310 if a name is no input or output, or occurs twice.
///
/// An output may reuse an input's memory under two conditions. The step that first writes the output is elementwise in
/// place or only copies the input into the output, and no later step reads the old contents. A concatenation then only
/// writes its new part, so a cache that grows at its end is not copied while its memory has room. If input and output
/// have the same size in some runs only, each run decides whether they share memory.
void plan_in_place(Plan& plan, std::span<const DonationRequest> requests);

/// Finds which results may reuse working memory (PlanBuffer::shares): those of equal size that the last reader of a
/// buffer computes in place, if only launches use the result and the buffer. Call plan_lifetimes first.
void share_working_memory(Plan& plan);

}  // namespace weft
