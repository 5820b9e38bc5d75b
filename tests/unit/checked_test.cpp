// SPDX-License-Identifier: Apache-2.0
// Kernels compiled with checks: correct kernels pass, and broken kernels are caught.
#include "runtime/checked.h"

#include <doctest/doctest.h>

#include <numeric>

#include "base/error.h"
#include "ids.h"
#include "kernel_build/kernel_build.h"
#include "runtime/faults.h"
#include "targets/cpu/object.h"

using namespace weft;

namespace {

/// Two steps of one element per task: `write` computes buffer 1 (`to`) from buffer 0 (`from`); `copy` copies it to 2.
class TwoSteps {
 public:
  static constexpr int64_t n = 40;

  explicit TwoSteps(const std::string& write) {
    const std::string head =
        "#include \"fused.h\"\nusing namespace weft;\nusing namespace weft::kernel;\n"
        "WEFT_KERNEL(step) { [[maybe_unused]] auto from = WEFT_BUFFER(const f32, 0); auto to = WEFT_BUFFER(f32, 1);\n"
        "const i64 n = WEFT_SIZE(0);\n"
        "for_tasks(WEFT_LAUNCH, n, [&](i64 task) WEFT_LAMBDA { ";
    const std::string tail = " }); }\n";
    std::vector<KernelSource> sources = {
        {.name = "first", .code = replaced(head, "first") + write + tail, .checked = true},
        {.name = "copy", .code = replaced(head, "copy") + "to[task] = from[task];" + tail, .checked = true}};
    built_ = build_kernels_or_throw(sources, host_chip());
  }

  /// Runs both steps; returns the first fault.
  KernelFault run() {
    LoadedObject object(built_.image, "checked");
    std::vector<float> x(n), y(n), z(n);
    std::iota(x.begin(), x.end(), 1.0f);
    auto memory = [](std::vector<float>& v) { return reinterpret_cast<std::byte*>(v.data()); };
    CheckedRun run({n * 4, n * 4, n * 4});
    run.begin(BufferId(1), memory(y));
    run.begin(BufferId(2), memory(z));
    KernelFault fault = step(run, object, "first", ids<PlanBuffer>({0, 1}), {x.data(), y.data()});
    if (fault.kind == FaultKind::none) fault = step(run, object, "copy", ids<PlanBuffer>({1, 2}), {y.data(), z.data()});
    return fault;
  }

 private:
  static std::string replaced(std::string text, const std::string& name) {
    return text.replace(text.find("step"), 4, name);
  }

  static KernelFault step(CheckedRun& run, const LoadedObject& object, const char* name,
                          const std::vector<BufferId>& operands, std::vector<void*> buffers) {
    const i64 sizes[] = {n};
    return run.run(object.function<CheckedRun::Entry>(name), {.buffers = buffers.data(), .sizes = sizes}, operands, n);
  }

  BuiltKernels built_;
};

KernelFault fault_of(const std::string& write) { return TwoSteps(write).run(); }

}  // namespace

TEST_CASE("checked: right kernels have no fault") {
  CHECK(fault_of("to[task] = from[task];").kind == FaultKind::none);
  CHECK(fault_of("if (task % 8 == 0) store(to + task, load<8>(from + task, Full{}), Full{});").kind == FaultKind::none);
  // Accesses through raw() are not checked.
  CHECK(fault_of("raw(to)[task] = raw(from)[task];").kind == FaultKind::none);
}

TEST_CASE("checked: an access outside the buffer is a fault") {
  KernelFault fault = fault_of("to[task + 1] = from[task];");
  CHECK(fault.kind == FaultKind::out_of_bounds);
  CHECK(fault.buffer == 1);
  CHECK(fault.offset == TwoSteps::n * 4);
  CHECK(fault_of("if (task % 8 == 0) store(to + task, load<8>(from + task + 1, Full{}), Full{});").kind ==
        FaultKind::out_of_bounds);
  CHECK(fault_of("to[task] = from[task - 1];").offset == -4);
}

TEST_CASE("checked: two tasks that touch the same bytes are a fault") {
  KernelFault fault = fault_of("to[task / 2] = from[task];");
  CHECK(fault.kind == FaultKind::race);
  CHECK(fault.offset == 0);
  // A partial store that overlaps an element of the next task.
  CHECK(fault_of("if (task % 4 == 0) store(to + task, load<8>(from + task, Part{5}), Part{5});").kind ==
        FaultKind::race);
  // A read of an element that another task of the same step wrote.
  CHECK(fault_of("store(to + task, task ? load<1>(to + (task - 1), Full{}) : 1.0f, Full{});").kind == FaultKind::race);
}

TEST_CASE("checked: a read of unwritten memory is a fault") {
  KernelFault fault = fault_of("if (task != 7) to[task] = from[task];");
  CHECK(fault.kind == FaultKind::unwritten);
  CHECK(fault.buffer == 0);
  CHECK(fault.offset == 28);
}

namespace {

/// Returns the whole error message for a fault in a step that reads `x` and writes `y`.
std::string message(KernelKind kind, const KernelFault& fault) {
  Plan plan;
  plan.buffers = {{.value = "x"}, {.value = "y"}};
  plan.kernels = {{.name = "copy_ab12cd", .code = {}, .kind = kind}};
  PlanStep step{.buffers = ids<PlanBuffer>({0, 1}), .source = "node 3 '/copy' (Identity)"};
  try {
    report_fault(plan, step, KernelId(0), fault);
  } catch (const Error& error) {
    return error.what();
  }
}

std::string text_of(FaultKind kind) {
  return message(KernelKind::own, {.kind = kind, .buffer = 1, .offset = 8, .size = 4, .bytes = 40});
}

}  // namespace

TEST_CASE("faults: each kind has a message of its own, with kernel, node and numbers") {
  const std::string access =
      "error[E900]: internal error: kernel copy_ab12cd touches bytes 8 to 12 of the 40 of buffer 1 (y), ";
  const std::string where = "node 3 '/copy' (Identity)";
  for (auto [kind, text] :
       {std::pair(FaultKind::out_of_bounds, access + "which lie outside it"),
        std::pair(FaultKind::race, access + "which another task of the step has written"),
        std::pair(FaultKind::unwritten, access + "which nobody has written"),
        std::pair(FaultKind::index, std::string("error[E301]: index 8 is outside [-4, 3]")),
        std::pair(FaultKind::host_function,
                  std::string("error[E302]: the host's function for a custom operator failed with 8"))}) {
    INFO(text_of(kind));
    CHECK(text_of(kind).starts_with(text + "\n"));
    CHECK(text_of(kind).find(where) != std::string::npos);
    CHECK((text_of(kind).find("bug of Weft") != std::string::npos) == text.starts_with(access));
  }
}

TEST_CASE("faults: a fault in the source of a custom operator is the embedder's") {
  std::string text = message(KernelKind::custom, {.kind = FaultKind::race, .offset = 8, .size = 4, .bytes = 40});
  CHECK(text.starts_with("error[E302]: the source of a custom operator is wrong: kernel copy_ab12cd touches"));
  CHECK(text.find("bug of Weft") == std::string::npos);
}
