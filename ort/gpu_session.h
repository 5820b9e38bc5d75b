// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <onnxruntime_c_api.h>

#include "ort/api.h"
#include "ort/device.h"

/// The parts of a GPU session besides compiled programs: its stream, and the kernels of the copies that onnxruntime
/// inserts between the GPU and other providers.
namespace weft::ort {

/// The stream on which work is queued: the user's. Null: runs and copies are synchronous, so the stream never waits.
/// Deleted by its Release.
OrtSyncStreamImpl* make_stream(const Device& device, void* users);

/// Kernels for the provider called `provider`; released with OrtEpApi::ReleaseKernelRegistry.
OrtKernelRegistry* make_copy_kernels(const char* provider);

}  // namespace weft::ort
