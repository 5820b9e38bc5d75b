// SPDX-License-Identifier: Apache-2.0
// A program written for an onnxruntime with AMD's providers inside: classic MODEL WAY. WAY is the way in which the
// provider is appended (see `append`). The model has an input "x" [n,64] and an output "y" [n,8]; prints the sum of y
// for two rows x = 0.01, 0.02, ..., 1.28.
#define ORT_API_MANUAL_INIT  // manual initialisation: the runtime may be older than the headers
#include <onnxruntime_cxx_api.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <vector>

extern "C" {
OrtStatus* OrtSessionOptionsAppendExecutionProvider_MIGraphX(OrtSessionOptions* options, int device_id);
OrtStatus* OrtSessionOptionsAppendExecutionProvider_ROCM(OrtSessionOptions* options, int device_id);
OrtStatus* OrtSessionOptionsAppendExecutionProvider_ROCm(OrtSessionOptions* options, int device_id);
}

static void append(Ort::SessionOptions& so, const char* way) {
  auto is = [&](const char* name) { return std::strcmp(way, name) == 0; };
  int device_id = 0;
  if (is("migraphx")) Ort::ThrowOnError(OrtSessionOptionsAppendExecutionProvider_MIGraphX(so, device_id));
  if (is("rocm")) Ort::ThrowOnError(OrtSessionOptionsAppendExecutionProvider_ROCM(so, device_id));
  if (is("rocm_sample")) Ort::ThrowOnError(OrtSessionOptionsAppendExecutionProvider_ROCm(so, device_id));
  if (is("name")) so.AppendExecutionProvider("MIGraphX", {{"migraphx_fp16_enable", "1"}});
  if (is("wrong_name")) so.AppendExecutionProvider("ROCMExecutionProvider", {{"gpu_memlimit", "1"}});
  if (is("migraphx_struct")) {
    OrtMIGraphXProviderOptions options{};
    options.migraphx_fp16_enable = 1;
    so.AppendExecutionProvider_MIGraphX(options);
  }
  if (is("rocm_struct")) so.AppendExecutionProvider_ROCM(OrtROCMProviderOptions{});
  if (is("rocm_arena") || is("rocm_arena_of_keys")) {  // a limit that is too small for anything
    const OrtApi& api = Ort::GetApi();
    OrtArenaCfg* arena = nullptr;
    const char* key = "max_mem";
    const size_t limit = 1000;
    if (is("rocm_arena")) Ort::ThrowOnError(api.CreateArenaCfg(limit, -1, -1, -1, &arena));
    else Ort::ThrowOnError(api.CreateArenaCfgV2(&key, &limit, 1, &arena));
    OrtROCMProviderOptions options;
    options.gpu_mem_limit = 1000000000;
    options.default_memory_arena_cfg = arena;
    so.AppendExecutionProvider_ROCM(options);
    api.ReleaseArenaCfg(arena);
    Ort::Status refused(api.SessionOptionsAppendExecutionProvider_ROCM(so, &options));
    std::printf("%s\n", refused.IsOK() ? "a stranger was taken" : refused.GetErrorMessage().c_str());
  }
  if (is("null_struct")) {
    Ort::Status refused(Ort::GetApi().SessionOptionsAppendExecutionProvider_MIGraphX(so, nullptr));
    std::printf("%s\n", refused.IsOK() ? "nothing was taken" : refused.GetErrorMessage().c_str());
  }
  if (is("rocm_updated")) {
    const OrtApi& api = Ort::GetApi();
    OrtROCMProviderOptions* options = nullptr;
    Ort::ThrowOnError(api.CreateROCMProviderOptions(&options));
    const char *keys[] = {"gpu_mem_limit", "arena_extend_strategy"}, *values[] = {"100000000", "kSameAsRequested"};
    Ort::ThrowOnError(api.UpdateROCMProviderOptions(options, keys, values, 2));
    Ort::AllocatorWithDefaultOptions allocator;
    char* text = nullptr;
    Ort::ThrowOnError(api.GetROCMProviderOptionsAsString(options, allocator, &text));
    std::printf("%s\n", text);
    allocator.Free(text);
    Ort::ThrowOnError(api.SessionOptionsAppendExecutionProvider_ROCM(so, options));
    const char *limit = "gpu_mem_limit", *no_number = "1GB";
    Ort::Status no_limit(api.UpdateROCMProviderOptions(options, &limit, &no_number, 1));
    std::printf("%s\n", no_limit.IsOK() ? "a text was taken" : no_limit.GetErrorMessage().c_str());
    const char *stream = "user_compute_stream", *address = "4096";
    Ort::Status refused(api.UpdateROCMProviderOptions(options, &stream, &address, 1));
    std::printf("%s\n", refused.IsOK() ? "a stream was taken" : "no stream");
    api.ReleaseROCMProviderOptions(options);
  }
}

int main(int, char** words) {
  unsigned version = 0;
  std::sscanf(OrtGetApiBase()->GetVersionString(), "%*u.%u", &version);
  Ort::InitApi(OrtGetApiBase()->GetApi(std::min<unsigned>(version, ORT_API_VERSION)));
  try {
    Ort::Env env = Ort::Env{ORT_LOGGING_LEVEL_WARNING, "Default"};
    Ort::SessionOptions so;
    append(so, words[2]);
    Ort::Session session(env, words[1], so);
    std::vector<float> x(2 * 64);
    for (size_t i = 0; i < x.size(); ++i) x[i] = 0.01f * static_cast<float>(i + 1);
    std::vector<int64_t> dims = {2, 64};
    auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
    auto input = Ort::Value::CreateTensor<float>(memory, x.data(), x.size(), dims.data(), dims.size());
    const char *in = "x", *out = "y";
    auto outputs = session.Run(Ort::RunOptions{}, &in, &input, 1, &out, 1);
    const float* y = outputs[0].GetTensorData<float>();
    std::printf("sum %.5f\n", static_cast<double>(std::accumulate(y, y + 16, 0.0f)));
  } catch (const std::exception& error) {
    std::printf("error: %s\n", error.what());
    return 1;
  }
}
