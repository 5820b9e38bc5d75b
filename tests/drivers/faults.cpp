// SPDX-License-Identifier: Apache-2.0
// weft-driver-faults: every call that loading and running a program makes to a driver fails once with each error. Weft
// must name the call, release everything, and work the next time. WEFT_HIP_LIBRARY and WEFT_CUDA_LIBRARY must name the
// fake driver.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "base/knobs.h"
#include "base/log.h"
#include "compile.h"
#include "ir/text.h"
#include "ops/registry.h"
#include "targets/gpu/device.h"

using namespace weft;

namespace {

/// A program with weights, a product, a softmax and an open size.
constexpr const char* program_text = R"(program "small"
symbol n
module main {
  %x = parameter {name="x", type=f32[n,16]}
  %w = constant {value=f32[16,16]{WEIGHTS}}
  %d = dot %x, %w
  %s = softmax %d {axis=1}
  %y = add %s, %x
  return "y"=%y
})";

struct Fake {
  void (*fail)(int, int);
  int (*calls)();
  const char* (*failed)();
  int (*held)();
};

template <class F>
void find(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(::dlsym(library, name));
}

Fake open_fake() {
  void* library = ::dlopen(knobs().hip_library.c_str(), RTLD_NOW | RTLD_LOCAL);
  Fake fake{};
  if (!library) return fake;
  find(library, "fake_fail", fake.fail);
  find(library, "fake_calls", fake.calls);
  find(library, "fake_failed", fake.failed);
  find(library, "fake_held", fake.held);
  return fake;
}

std::string with_weights() {
  std::string text = program_text, list = "0";
  for (int i = 1; i < 256; ++i) list += cat(", ", i % 7);
  return text.replace(text.find("WEIGHTS"), 7, list);
}

Tensor input(int64_t rows) {
  return make_tensor(DType::f32, {rows, 16}, std::vector<double>(static_cast<size_t>(rows) * 16, 1.0));
}

/// Loads a program, runs it twice with one size, so that a graph is replayed, and then with another size. Returns the
/// number of calls before everything is released.
int scenario(const Fake& fake, const std::string& device, const std::string& text) {
  auto model = compile(parse_program(text, make_op), {.device = device});
  auto context = model->new_context();
  for (int64_t rows : {3, 3, 70}) {
    std::vector<Tensor> inputs;
    inputs.push_back(input(rows));
    context->run(inputs);
  }
  return fake.calls();
}

struct Tally {
  int injections = 0, refused = 0, wrong = 0;
  void complain(const std::string& what) {
    ++wrong;
    std::printf("%s\n", what.c_str());
  }
};

/// True if the function that failed releases something, or makes a device current before a release. Weft may ignore
/// such a failure.
bool is_release(const std::string& function) {
  for (const char* word : {"Free", "Destroy", "Unload", "hipSetDevice", "cuCtxSetCurrent"}) {
    if (function.find(word) != std::string::npos) return true;
  }
  return false;
}

struct Injection {
  std::string device;
  int call, error;
  bool at_end;  ///< the program was only releasing resources
};

void inject(const Fake& fake, const std::string& text, const Injection& i, Tally& tally) {
  std::string said;
  const int held = fake.held();
  fake.fail(i.call, i.error);
  try {
    scenario(fake, i.device, text);
  } catch (const Error& problem) {
    said = problem.what();
  }
  const std::string failed = fake.failed();
  const std::string place = cat(i.device, ", call ", i.call, " (", failed, ") giving ", i.error, ": ");
  fake.fail(0, 0);
  ++tally.injections;
  tally.refused += !said.empty();
  if (said.empty() && !i.at_end && !is_release(failed)) tally.complain(cat(place, "nobody noticed"));
  if (!said.empty() && said.find(cat("(", i.error, ")")) == std::string::npos)
    tally.complain(cat(place, "the error does not say so: ", said));
  if (fake.held() != held) tally.complain(cat(place, fake.held() - held, " handles are not given back"));
}

void run_device(const Fake& fake, const std::string& device, Tally& tally) {
  const std::string text = with_weights();
  scenario(fake, device, text);  // finds the drivers, compiles the kernels
  fake.fail(0, 0);
  const int used = scenario(fake, device, text), calls = fake.calls();
  if (fake.held() != 0) tally.complain(cat(device, " holds ", fake.held(), " handles without any fault"));
  for (int call = 1; call <= calls; ++call) {
    for (int error : {1, 2, 700, 719, 999}) inject(fake, text, {device, call, error, call > used}, tally);
  }
  scenario(fake, device, text);
  std::printf("%s: %d calls\n", device.c_str(), calls);
}

/// Looks for devices in a child process in which call number `call` fails. Returns true if nothing is thrown and the
/// process does not crash.
bool finds_devices(const Fake& fake, int call) {
  pid_t child = ::fork();
  if (child == 0) {
    fake.fail(call, 999);
    try {
      gpu::devices();
      ::_exit(0);
    } catch (...) {
      ::_exit(1);
    }
  }
  int status = 1;
  ::waitpid(child, &status, 0);
  return status == 0;
}

}  // namespace

int main() {
  const Fake fake = open_fake();
  if (!fake.held) {
    std::fprintf(stderr, "WEFT_HIP_LIBRARY must name the fake driver: %s\n", knobs().hip_library.c_str());
    return 2;
  }
  Tally tally;
  set_log_level(LogLevel::error);  // hides the warnings about devices that are left out
  for (int call = 1; call <= 40; ++call) {
    ++tally.injections;
    if (!finds_devices(fake, call)) tally.complain(cat("no device is found when call ", call, " fails"));
  }
  set_log_level(LogLevel::warning);
  try {
    for (const char* device : {"amd:0", "nvidia:0"}) run_device(fake, device, tally);
  } catch (const Error& error) {
    tally.complain(error.what());
  }
  std::printf("%d injections, %d refused, %d wrong\n", tally.injections, tally.refused, tally.wrong);
  return tally.wrong == 0 && tally.injections >= 600 ? 0 : 1;
}
