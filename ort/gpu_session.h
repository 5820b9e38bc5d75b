// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <onnxruntime_c_api.h>

#include "ort/api.h"
#include "ort/device.h"

/// The stream of a GPU session, and the kernels for copies that onnxruntime inserts between the GPU and other
/// providers.
namespace weft::ort {

/// Makes onnxruntime's object for the user's stream, on which work is queued. If `users` is null, runs and copies are
/// synchronous, and waiting for the stream does nothing. The object's Release deletes it.
OrtSyncStreamImpl* make_stream(const Device& device, void* users);

/// Makes the copy kernels of a provider; free them with OrtEpApi::ReleaseKernelRegistry.
OrtKernelRegistry* make_copy_kernels(const char* provider);

}  // namespace weft::ort
