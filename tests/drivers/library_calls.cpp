// SPDX-License-Identifier: Apache-2.0
// weft-library-calls: convolutions that are given to cuDNN, on a fake CUDA driver and a fake cuDNN. Checks the
// descriptions, the engine that is chosen, when plans are made, and sizes that the library does not support.
// WEFT_CUDA_LIBRARY and WEFT_CUDNN_LIBRARY must name the fakes.
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "base/error.h"
#include "base/knobs.h"
#include "compile.h"
#include "fake_cudnn.h"
#include "ir/text.h"
#include "ops/registry.h"
#include "targets/gpu/libraries.h"

using namespace weft;

namespace {

/// Two convolutions. One is 3 x 3 with two groups, a bias, an added tensor and relu; the other has a stride, and an
/// operator that no library has follows it.
constexpr const char* program_text = R"(program "convolutions"
symbol n
module main {
  %x = parameter {name="x", type=TYPE[BATCH,48,48,16]}
  %w = constant {value=TYPE[16,8,3,3]{WEIGHTS}}
  %b = constant {value=TYPE[16]{BIAS}}
  %c = convolution %x, %w {strides=[1, 1], dilations=[1, 1], pads_begin=[1, 1], pads_end=[1, 1], groups=2, layout=channels_last, type=TYPE}
  %r = reshape %b {dims=[1,1,1,16]}
  %e = broadcast %r {dims=[BATCH,48,48,16]}
  %d = add %c, %e
  %o = add %d, %x
  %f = relu %o
  %v = constant {value=TYPE[8,16,3,3]{WEIGHTS}}
  %g = convolution %f, %v {strides=[2, 2], dilations=[1, 1], pads_begin=[0, 0], pads_end=[1, 1], groups=1, layout=channels_last, type=TYPE}
  %y = tanh %g
  return "y"=%y
})";

int failures = 0;

void expect(bool is, const std::string& what) {
  if (is) return;
  ++failures;
  std::printf("wrong: %s\n", what.c_str());
}

struct Fake {
  int (*plans)();
  int (*runs)();
  int (*engine)();
  const char* (*work)();
};

template <class F>
void find(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(::dlsym(library, name));
}

Fake open_fake() {
  void* library = ::dlopen(knobs().cudnn_library.c_str(), RTLD_NOW | RTLD_LOCAL);
  Fake fake{};
  if (!library) return fake;
  find(library, "fake_cudnn_plans", fake.plans);
  find(library, "fake_cudnn_runs", fake.runs);
  find(library, "fake_cudnn_engine", fake.engine);
  find(library, "fake_cudnn_work", fake.work);
  return fake;
}

std::string numbers(int count) {
  std::string list = "0";
  for (int i = 1; i < count; ++i) list += cat(", ", i % 7);
  return list;
}

std::string with(std::string text, const std::string& name, const std::string& value) {
  for (size_t at = text.find(name); at != text.npos; at = text.find(name, at + value.size()))
    text.replace(at, name.size(), value);
  return text;
}

/// Returns a chooser that takes the first of `names` that is a candidate.
Chooser taking(std::vector<std::string> names) {
  return [names](const Decision& decision) {
    for (const std::string& name : names) {
      auto found = std::ranges::find(decision.candidates, name, &Candidate::name);
      if (found != decision.candidates.end())
        return Choice{static_cast<size_t>(found - decision.candidates.begin()), "asked for"};
    }
    return Choice{favourite(decision)};
  };
}

std::shared_ptr<Executable> compiled(const std::string& type, const std::string& batch,
                                     const std::vector<std::string>& candidates) {
  std::string text = with(with(program_text, "TYPE", type), "BATCH", batch);
  text = with(with(text, "WEIGHTS", numbers(16 * 8 * 9)), "BIAS", numbers(16));
  CompileOptions options{.device = "nvidia:0", .choose = taking(candidates)};
  options.libraries = gpu::find_libraries(gpu::open_device("nvidia:0"));
  return compile(parse_program(text, make_op), options);
}

int calls_in(const Executable& model) {
  auto steps = model.steps();
  return static_cast<int>(std::ranges::count_if(steps, [](const auto& s) { return s.kernel.starts_with("cudnn_"); }));
}

void run(Context& context, DType type, int64_t batch) {
  std::vector<double> ones(static_cast<size_t>(batch) * 48 * 48 * 16, 1.0);
  std::vector<Tensor> inputs;
  inputs.push_back(make_tensor(type, {batch, 48, 48, 16}, ones));
  context.run(inputs);
}

void fixed_sizes(const Fake& fake) {
  auto model = compiled("f16", "3", {"cudnn fused", "cudnn"});
  expect(calls_in(*model) == 2, "both convolutions are the library's");
  run(*model->new_context(), DType::f16, 3);
  expect(fake.engine() == 2, cat("fixed sizes: an engine that compiles may be taken, not ", fake.engine()));
  expect(std::string(fake.work()) == "conv 3x16x48x48",
         cat("the last work is the convolution alone, not ", fake.work()));
  expect(compiled("f16", "3", {})->steps().size() > 0 && calls_in(*compiled("f16", "3", {})) == 0,
         "a library is only taken when it is chosen");
  auto exact = compiled("f32", "3", {"cudnn fused", "cudnn"});
  run(*exact->new_context(), DType::f32, 3);
  expect(fake.engine() == 4, cat("f32 is multiplied as it is, not by engine ", fake.engine()));
}

void whole_epilogue(const Fake& fake) {
  int before = fake.runs();
  auto model = compiled("f16", "2", {"cudnn fused"});
  expect(fake.runs() == before + 1, "a plan is tried in a graph when it is made");
  expect(std::string(fake.work()) == "conv 2x16x48x48 bias other relu", cat("what is fused is ", fake.work()));
  expect(calls_in(*model) == 1, "what no library knows is not offered fused");
}

void open_sizes(const Fake& fake) {
  auto model = compiled("f16", "n", {"cudnn fused", "cudnn"});
  expect(calls_in(*model) == 2, "open sizes: both convolutions are the library's");
  auto context = model->new_context();
  auto used = [&](int64_t batch) {
    int plans = fake.plans(), runs = fake.runs();
    run(*context, DType::f16, batch);
    return std::pair(fake.plans() - plans, fake.runs() - runs);
  };
  expect(used(3) == std::pair(2, 4), "a new size: a plan for each call, tried, then captured");
  expect(fake.engine() == 3, cat("open sizes: nothing may be compiled, as engine ", fake.engine(), " does"));
  expect(used(3) == std::pair(0, 0), "the same size replays a graph");
  expect(used(9) == std::pair(2, 4), "another size");
  expect(used(10) == std::pair(2, 4), "another size of the same bucket has a graph of its own");
  expect(used(9) == std::pair(0, 0), "and the first of them is still there");
  expect(used(7) == std::pair(0, 0), "a size that the library does not know");
  expect(used(0) == std::pair(0, 0), "no images at all");
  auto other = model->new_context();
  int plans = fake.plans(), runs = fake.runs();
  run(*other, DType::f16, 3);
  expect(fake.plans() == plans && fake.runs() == runs + 2, "plans are shared by contexts, graphs are not");
}

}  // namespace

int main() {
  const Fake fake = open_fake();
  if (!fake.work) {
    std::fprintf(stderr, "WEFT_CUDNN_LIBRARY must name the fake: %s\n", knobs().cudnn_library.c_str());
    return 1;
  }
  try {
    fixed_sizes(fake);
    whole_epilogue(fake);
    open_sizes(fake);
  } catch (const Error& error) {
    expect(false, error.what());
  }
  std::printf("%d plans, %d runs, %d failures\n", fake.plans(), fake.runs(), failures);
  return failures != 0;
}
