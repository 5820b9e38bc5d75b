// SPDX-License-Identifier: Apache-2.0
#include "ort/gpu_session.h"

#include <vector>

#include "ort/device_memory.h"
#include "weft/weft.hpp"

namespace weft::ort {
namespace {

// ---- The stream ----

struct Queue {
  const Device& device;
  void* users;
  void wait() const {
    if (users) check(weft_gpu_wait(device.name.c_str(), users));
  }
};

/// A point in a stream's work, for which another stream or the host can wait. The host waits in both cases, because a
/// session has only one stream.
class Notification : public OrtSyncNotificationImpl {
 public:
  explicit Notification(const Queue& queue) : OrtSyncNotificationImpl{}, queue_(queue) {
    ort_version_supported = api.version;
    Release = [](OrtSyncNotificationImpl* self) noexcept { delete static_cast<Notification*>(self); };
    Activate = [](OrtSyncNotificationImpl*) noexcept -> OrtStatus* { return nullptr; };
    WaitOnDevice = [](OrtSyncNotificationImpl* self, OrtSyncStream*) noexcept { return wait(self); };
    WaitOnHost = [](OrtSyncNotificationImpl* self) noexcept { return wait(self); };
  }

 private:
  static OrtStatus* wait(OrtSyncNotificationImpl* self) noexcept {
    return guarded("waiting", [&] { static_cast<Notification*>(self)->queue_.wait(); });
  }
  Queue queue_;
};

class Stream : public OrtSyncStreamImpl {
 public:
  explicit Stream(const Queue& queue) : OrtSyncStreamImpl{}, queue_(queue) {
    ort_version_supported = api.version;
    Release = [](OrtSyncStreamImpl* self) noexcept { delete static_cast<Stream*>(self); };
    GetHandle = [](OrtSyncStreamImpl* self) noexcept { return static_cast<Stream*>(self)->queue_.users; };
    CreateNotification = [](OrtSyncStreamImpl* self, OrtSyncNotificationImpl** out) noexcept {
      return guarded("making a notification", [&] { *out = new Notification(static_cast<Stream*>(self)->queue_); });
    };
    Flush = [](OrtSyncStreamImpl* self) noexcept {
      return guarded("finishing a run", [&] { static_cast<Stream*>(self)->queue_.wait(); });
    };
    OnSessionRunEnd = [](OrtSyncStreamImpl*) noexcept -> OrtStatus* { return nullptr; };
  }

 private:
  Queue queue_;
};

// ---- Copies between providers ----

class CopyKernel : public OrtKernelImpl {
 public:
  CopyKernel() : OrtKernelImpl{} {
    ort_version_supported = api.version;
    Release = [](OrtKernelImpl* self) noexcept { delete static_cast<CopyKernel*>(self); };
    Compute = [](OrtKernelImpl*, OrtKernelContext* kernel) noexcept {
      return guarded("copying", [&] { copy(kernel); });
    };
  }
  static OrtStatus* make(void*, const OrtKernelInfo*, OrtKernelImpl** out) noexcept {
    return guarded("making a copy", [&] { *out = new CopyKernel; });
  }

 private:
  static void copy(OrtKernelContext* kernel) {
    const OrtValue* from = nullptr;
    OrtValue* to = nullptr;
    ok(api.ort->KernelContext_GetInput(kernel, 0, &from));
    ONNXTensorElementDataType type{};
    const int64_t* dims = nullptr;
    size_t rank = 0;
    ok(api.ort->GetTensorElementTypeAndShapeDataReference(from, &type, &dims, &rank));
    ok(api.ort->KernelContext_GetOutput(kernel, 0, dims, rank, &to));
    void* stream = nullptr;
    ok(api.ort->KernelContext_GetGPUComputeStream(kernel, &stream));
    copy_tensor(from, to, stream);
  }
};

/// Returns the element types that are copied: onnxruntime's types 1 to INT4, except strings, which stay in host memory.
std::vector<const OrtDataType*> copied_types() {
  std::vector<const OrtDataType*> types;
  for (int number = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT; number <= ONNX_TENSOR_ELEMENT_DATA_TYPE_INT4; ++number) {
    if (number == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING) continue;
    const OrtDataType* type = nullptr;
    api.ort->ReleaseStatus(api.ep->GetTensorDataType(static_cast<ONNXTensorElementDataType>(number), &type));
    if (type) types.push_back(type);
  }
  return types;
}

void add_copy(OrtKernelRegistry* registry, const char* provider, bool from_host) {
  OrtKernelDefBuilder* made = nullptr;
  ok(api.ep->CreateKernelDefBuilder(&made));
  std::unique_ptr<OrtKernelDefBuilder, void (*)(OrtKernelDefBuilder*)> builder(
      made, [](OrtKernelDefBuilder* b) { api.ep->ReleaseKernelDefBuilder(b); });
  ok(api.ep->KernelDefBuilder_SetOperatorType(made, from_host ? "MemcpyFromHost" : "MemcpyToHost"));
  ok(api.ep->KernelDefBuilder_SetDomain(made, ""));
  ok(api.ep->KernelDefBuilder_SetSinceVersion(made, 1, 1));
  ok(api.ep->KernelDefBuilder_SetExecutionProvider(made, provider));
  ok(from_host ? api.ep->KernelDefBuilder_SetInputMemType(made, 0, OrtMemTypeCPUInput)
               : api.ep->KernelDefBuilder_SetOutputMemType(made, 0, OrtMemTypeCPUOutput));
  auto types = copied_types();
  ok(api.ep->KernelDefBuilder_AddTypeConstraint(made, "T", types.data(), types.size()));
  OrtKernelDef* definition = nullptr;
  ok(api.ep->KernelDefBuilder_Build(made, &definition));
  OrtStatus* status = api.ep->KernelRegistry_AddKernel(registry, definition, CopyKernel::make, nullptr);
  api.ep->ReleaseKernelDef(definition);
  ok(status);
}

}  // namespace

OrtSyncStreamImpl* make_stream(const Device& device, void* users) { return new Stream({device, users}); }

OrtKernelRegistry* make_copy_kernels(const char* provider) {
  OrtKernelRegistry* registry = nullptr;
  ok(api.ep->CreateKernelRegistry(&registry));
  try {
    add_copy(registry, provider, true);
    add_copy(registry, provider, false);
  } catch (...) {
    api.ep->ReleaseKernelRegistry(registry);
    throw;
  }
  return registry;
}

}  // namespace weft::ort
