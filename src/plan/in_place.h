// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <string>

#include "base/plan.h"

namespace weft {

/// Notes which outputs may take the memory of which inputs (Plan::in_place), and answers the caller's wishes
/// (Plan::donations). Needs lifetimes. Throws E310 for a name that is no input or output, or is given twice.
///
/// An output may take an input's place when a step that begins the output either works place by place or merely moves
/// the input there, and nobody needs the input's old contents after that. What a concatenation moves to its own part
/// stays as it is for good, so a cache that grows at its end needs no copy as long as its memory has room. Where only
/// the run tells whether input and output are equally large, it decides.
void plan_in_place(Plan& plan, std::span<const DonationRequest> requests);

/// The same for working memory (PlanBuffer::shares): what ends in the step that begins a result of its size becomes the
/// result, as long as no loop puts other buffers in its place. Needs lifetimes.
void share_working_memory(Plan& plan);

}  // namespace weft
