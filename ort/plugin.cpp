// SPDX-License-Identifier: Apache-2.0
// The two functions that onnxruntime calls in a plug-in library.
#include "ort/api.h"
#include "ort/factory.h"

using namespace weft::ort;

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED OrtStatus* CreateEpFactories(const char* registration_name, const OrtApiBase* base, const OrtLogger* logger,
                                      OrtEpFactory** factories, size_t room, size_t* count);
EXPORTED OrtStatus* ReleaseEpFactory(OrtEpFactory* factory);

OrtStatus* CreateEpFactories(const char*, const OrtApiBase* base, const OrtLogger*, OrtEpFactory** factories,
                             size_t room, size_t* count) {
  *count = 0;
  if (OrtStatus* status = connect(*base)) return status;
  return guarded("registering", [&] {
    for (std::string_view name : provider_names) {
      if (*count < room) factories[(*count)++] = new Factory(name);
    }
  });
}

OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) {
  delete static_cast<Factory*>(factory);
  return nullptr;
}
