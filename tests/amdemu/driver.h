// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "launch.h"

/// The state behind the functions of HIP: devices, streams, events and recorded graphs. By default streams run
/// their work only when the program waits for it. One lock guards all of this state.
namespace weft::amdemu {

/// Numbers of HIP's errors (hipError_t).
enum Error : int {
  success = 0,
  invalid_value = 1,
  out_of_memory = 2,
  invalid_configuration = 9,
  invalid_device = 101,
  invalid_image = 200,
  no_binary = 209,
  invalid_handle = 400,
  not_found = 500,
  not_ready = 600,
  illegal_address = 700,
  out_of_resources = 701,
  launch_failure = 719,
  stream_captured = 900,
  capture_unmatched = 903,
  capture_isolation = 907,
  update_failed = 910
};
const char* error_text(int error);

struct Chip {
  std::string name;
  int units, wave, memory_gib, l2_mib, clock_mhz;
  static constexpr u32 lds_bytes = 65536;
};
/// Returns the devices that AMDEMU_CHIPS names; throws Fault for a chip that is not in chips.def.
const std::vector<Chip>& devices();

struct Stream;
struct Event;
struct Graph;

/// A piece of work of a stream. Each kind uses its own fields.
struct Work {
  enum class Kind { kernel, copy, fill, record, wait, call } kind = Kind::call;
  const Kernel* kernel = nullptr;
  LaunchSizes sizes = {};
  std::vector<u8> bytes = {};  ///< arguments of a kernel, or the snapshot of pageable memory for a copy
  void* to = nullptr;
  const void* from = nullptr;
  size_t count = 0;
  unsigned value = 0;
  int width = 1;  ///< bytes of an element to fill with
  Event* event = nullptr;
  u64 wanted = 0;  ///< the number of works that the event's stream must have done
  void (*call)(void*) = nullptr;
  void* data = nullptr;
};

struct Graph {
  std::vector<Work> work;
};

struct Stream {
  bool non_blocking = false, running = false;
  std::deque<Work> queue;
  u64 submitted = 0, done = 0;
  Graph* recording = nullptr;
  Stream* origin = nullptr;  ///< the stream that began the recording
};

struct Event {
  Stream* stream = nullptr;
  u64 wanted = 0;
  double time = 0;  ///< seconds
  bool timed = true, recorded = false;
  Graph* recording = nullptr;
};

/// The state of the process; hold `mutex` for every access.
struct Driver {
  std::recursive_mutex mutex;
  Stream default_stream;
  std::set<Stream*> streams;
  std::set<Event*> events;
  std::set<Graph*> graphs, executables;
  std::set<CodeObject*> modules;
  size_t used = 0;
  int fault = success;  ///< sticky, like a device's faults
  std::string fault_text;
  struct Record {
    std::string chip;
    u32 threads = 0, registers = 0, accumulators = 0, spills = 0, private_bytes = 0, lds_bytes = 0;
    Counters counters = {};
  };
  std::map<std::string, Record> records;  ///< by kernel

  Stream* stream(void* handle) { return handle ? static_cast<Stream*>(handle) : &default_stream; }
  /// Queues work, or records it if the stream is being captured.
  int submit(Stream* stream, Work work);
  void run_until(Stream* stream, u64 count);
  /// Runs all work of the stream, and the work of other streams that it waits for.
  void finish(Stream* stream);
  void finish_all();

 private:
  void run(Stream* stream, Work& work);
  void run_first(Stream* stream);
  void run_others(Stream* stream);
  void run_kernel_work(const Work& work);
};

Driver& driver();

}  // namespace weft::amdemu
