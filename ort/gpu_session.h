// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <onnxruntime_c_api.h>

#include "ort/api.h"
#include "ort/device.h"

/// What a session on a GPU gives onnxruntime besides compiled parts: its stream, and the kernels of the copies that
/// onnxruntime puts where values pass between the GPU and another provider.
namespace weft::ort {

/// The stream that work is queued on: the user's. Null: runs and copies have happened when their calls return, and the
/// stream has nothing to wait for. Deleted by its Release.
OrtSyncStreamImpl* make_stream(const Device& device, void* users);

/// Of the provider called `provider`; released with OrtEpApi::ReleaseKernelRegistry.
OrtKernelRegistry* make_copy_kernels(const char* provider);

}  // namespace weft::ort
