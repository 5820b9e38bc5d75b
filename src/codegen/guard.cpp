// SPDX-License-Identifier: Apache-2.0
#include "codegen/guard.h"

#include <llvm/Support/CrashRecoveryContext.h>
#include <llvm/Support/ErrorHandling.h>
#include <signal.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <mutex>

namespace weft::codegen {
namespace {

constexpr unsigned stack_bytes = 64u << 20;  // address space; the system allocates pages as the stack grows
constexpr size_t signal_stack_bytes = 64u << 10;
constexpr std::array crash_signals = {SIGSEGV, SIGILL, SIGFPE, SIGABRT, SIGTRAP};

thread_local std::string* fatal_message = nullptr;

void leave_guard(const char* reason) {
  auto* guard = llvm::CrashRecoveryContext::GetCurrent();
  if (guard == nullptr) return;  // outside of run_guarded, LLVM ends the process
  if (fatal_message) *fatal_message = reason;
  guard->HandleExit(70);
}

void on_fatal_error(void*, const char* reason, bool) { leave_guard(reason); }
void on_bad_alloc(void*, const char* reason, bool) { leave_guard(reason); }

/// Gives signal handlers a stack of their own, because a stack overflow leaves no room on the crashed thread's stack.
void handle_signals_on_own_stack() {
  for (int number : crash_signals) {
    struct sigaction action{};
    if (::sigaction(number, nullptr, &action) != 0) continue;
    action.sa_flags |= SA_ONSTACK;
    ::sigaction(number, &action, nullptr);
  }
}

/// Restores the handler of SIGBUS at the end of a scope: LLVM replaces the handler that mapped files need
/// (base/file_reading.h).
class KeepBusHandler {
 public:
  KeepBusHandler() { ::sigaction(SIGBUS, nullptr, &action_); }
  ~KeepBusHandler() { ::sigaction(SIGBUS, &action_, nullptr); }
  KeepBusHandler(const KeepBusHandler&) = delete;

 private:
  struct sigaction action_{};
};

/// A scope in which LLVM's crash handlers are installed. They are process-wide, so they exist only during compilations.
class CrashHandlers {
 public:
  CrashHandlers() {
    std::scoped_lock lock(mutex_);
    if (users_++ > 0) return;
    KeepBusHandler keep;
    llvm::CrashRecoveryContext::Enable();
    handle_signals_on_own_stack();
  }
  ~CrashHandlers() {
    std::scoped_lock lock(mutex_);
    if (--users_ > 0) return;
    KeepBusHandler keep;
    llvm::CrashRecoveryContext::Disable();
  }
  CrashHandlers(const CrashHandlers&) = delete;
  CrashHandlers& operator=(const CrashHandlers&) = delete;

 private:
  static inline std::mutex mutex_;
  static inline int users_ = 0;
};

class SignalStack {
 public:
  SignalStack()
      : memory_(::mmap(nullptr, signal_stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (memory_ == MAP_FAILED) return;
    stack_t stack{};
    stack.ss_sp = memory_;
    stack.ss_size = signal_stack_bytes;
    ::sigaltstack(&stack, &before_);
  }
  ~SignalStack() {
    if (memory_ == MAP_FAILED) return;
    ::sigaltstack(&before_, nullptr);
    ::munmap(memory_, signal_stack_bytes);
  }
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;

 private:
  void* memory_;
  stack_t before_{};
};

std::string describe(int code) {
  if (code > 128) return std::string("the compiler crashed: ") + ::strsignal(code - 128);
  return "the compiler crashed";
}

}  // namespace

void install_fatal_error_handler() {
  llvm::install_fatal_error_handler(on_fatal_error);
  llvm::install_bad_alloc_error_handler(on_bad_alloc);
}

bool run_guarded(llvm::function_ref<void()> work, std::string& message) {
  CrashHandlers handlers;
  std::string fatal, thrown;
  llvm::CrashRecoveryContext outer;
  int crash_code = 0;
  // The outer context only provides the large stack; the inner one runs with the signal stack in place.
  outer.RunSafelyOnThread(
      [&] {
        SignalStack signal_stack;
        fatal_message = &fatal;
        auto guard = std::make_unique<llvm::CrashRecoveryContext>();
        bool finished = guard->RunSafely([&] {
          try {
            work();
          } catch (const std::exception& error) {
            thrown = error.what();
          }
        });
        // Leaks a crashed context: destroying it would run destructors of clang's objects on stack frames that no
        // longer exist.
        if (!finished) crash_code = std::max(guard.release()->RetCode, 1);
        fatal_message = nullptr;
      },
      stack_bytes);
  if (crash_code == 0 && thrown.empty()) return true;
  if (!fatal.empty()) message = "fatal error in the compiler: " + fatal;
  else message = thrown.empty() ? describe(crash_code) : thrown;
  return false;
}

}  // namespace weft::codegen
