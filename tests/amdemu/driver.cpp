// SPDX-License-Identifier: Apache-2.0
#include "driver.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <vector>

#include "options.h"

namespace weft::amdemu {
namespace {

struct KnownChip {
  const char* name;
  int units, wave, memory_gib, l2_mib, clock_mhz;
};
constexpr KnownChip known_chips[] = {
#define CHIP(name, machine, units, wave, memory, l2, clock) {#name, units, wave, memory, l2, clock},
#include "chips.def"
#undef CHIP
};

Chip chip_named(const std::string& name) {
  for (const KnownChip& c : known_chips) {
    if (name == c.name) return {c.name, c.units, c.wave, c.memory_gib, c.l2_mib, c.clock_mhz};
  }
  throw Fault(text("AMDEMU_CHIPS names a chip that is not known: ", name));
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

template <class T>
void fill_elements(void* to, unsigned value, size_t count) {
  std::fill_n(reinterpret_cast<T*>(host_pointer(address_of(to))), count, static_cast<T>(value));
}

void fill(const Work& work) {
  if (work.width == 1) fill_elements<u8>(work.to, work.value, work.count);
  else if (work.width == 2) fill_elements<u16>(work.to, work.value, work.count);
  else fill_elements<u32>(work.to, work.value, work.count);
}

void copy(const Work& work) {
  const void* from = work.bytes.empty() ? host_pointer(address_of(work.from)) : work.bytes.data();
  std::memmove(host_pointer(address_of(work.to)), from, work.count);
}

/// Writes one line of JSON for each kernel.
void write_report(const Driver& d) {
  if (options().report.empty()) return;
  std::ofstream out(options().report, std::ios::app);
  for (const auto& [kernel, r] : d.records) {
    out << "{\"kernel\": \"" << kernel << "\", \"chip\": \"" << r.chip << "\", \"threads\": " << r.threads
        << ", \"registers\": " << r.registers << ", \"accumulators\": " << r.accumulators
        << ", \"spills\": " << r.spills << ", \"private_bytes\": " << r.private_bytes
        << ", \"lds_bytes\": " << r.lds_bytes;
#define COUNTER(name, sentence) out << ", \"" #name "\": " << r.counters.name;
#include "counters.def"
#undef COUNTER
    out << "}\n";
  }
}

}  // namespace

const char* error_text(int error) {
  switch (error) {
    case success: return "no error";
    case invalid_value: return "invalid argument";
    case out_of_memory: return "out of memory";
    case invalid_configuration: return "invalid configuration argument";
    case invalid_device: return "invalid device ordinal";
    case invalid_image: return "device kernel image is invalid";
    case no_binary: return "no kernel image is available for execution on the device";
    case invalid_handle: return "invalid resource handle";
    case not_found: return "named symbol not found";
    case not_ready: return "device not ready";
    case illegal_address: return "an illegal memory access was encountered";
    case out_of_resources: return "too many resources requested for launch";
    case launch_failure: return "unspecified launch failure";
    case stream_captured: return "operation not permitted when stream is capturing";
    case capture_unmatched: return "capture was not initiated in this stream";
    case capture_isolation: return "operation would create a dependency on uncaptured work in a capture sequence";
    case update_failed: return "the graph update was not performed";
    default: return "unknown error";
  }
}

const std::vector<Chip>& devices() {
  static const std::vector<Chip> list = [] {
    std::vector<Chip> chips;
    std::istringstream names(options().chips);
    for (std::string name; std::getline(names, name, ',');) chips.push_back(chip_named(name));
    return chips;
  }();
  return list;
}

void Driver::run_kernel_work(const Work& work) {
  try {
    const Kernel& k = *work.kernel;
    const Counters counters = run_kernel(k, work.sizes, work.bytes);
    Record& record = records[k.name];
    record.chip = k.object->chip;
    record.threads = k.max_threads;
    record.registers = k.registers, record.accumulators = k.accumulators, record.spills = k.spills;
    record.private_bytes = k.private_bytes, record.lds_bytes = k.lds_bytes + work.sizes.dynamic_lds;
    record.counters.add(counters);
  } catch (const Fault& problem) {
    fault_text = problem.what();
    fault = fault_text.starts_with("illegal address") ? illegal_address : launch_failure;
    std::fprintf(stderr, "amdemu: %s\n", problem.what());
  }
}

void Driver::run(Stream* stream, Work& work) {
  if (fault) return;
  switch (work.kind) {
    case Work::Kind::kernel: return run_kernel_work(work);
    case Work::Kind::copy: return copy(work);
    case Work::Kind::fill: return fill(work);
    case Work::Kind::record: work.event->time = now(); return;
    case Work::Kind::wait:
      if (work.event->stream != stream) run_until(work.event->stream, work.wanted);
      return;
    case Work::Kind::call:  // runs without the lock, because the function may wait for other threads
      mutex.unlock();
      work.call(work.data);
      mutex.lock();
      return;
  }
}

void Driver::run_first(Stream* stream) {
  Work work = std::move(stream->queue.front());
  stream->queue.pop_front();
  stream->running = true;
  run(stream, work);
  stream->running = false;
  ++stream->done;
}

/// Runs the first queued work of each other stream, unless this work waits for an event that is not reached yet. Work
/// of different streams may run in any order.
void Driver::run_others(Stream* stream) {
  std::vector<Stream*> others(streams.begin(), streams.end());
  others.push_back(&default_stream);
  for (Stream* other : others) {
    if (other == stream || other->running || other->queue.empty()) continue;
    const Work& next = other->queue.front();
    if (next.kind != Work::Kind::wait || next.event->stream->done >= next.wanted) run_first(other);
  }
}

void Driver::run_until(Stream* stream, u64 count) {
  while (stream->done < count && !stream->queue.empty() && !stream->running) {
    if (options().interleave) run_others(stream);
    run_first(stream);
  }
}

void Driver::finish(Stream* stream) {
  if (stream == &default_stream) {
    for (Stream* other : streams) {
      if (!other->non_blocking) run_until(other, other->submitted);
    }
  }
  run_until(stream, stream->submitted);
}

void Driver::finish_all() {
  run_until(&default_stream, default_stream.submitted);
  for (Stream* stream : streams) run_until(stream, stream->submitted);
}

int Driver::submit(Stream* stream, Work work) {
  if (fault) return fault;
  if (stream->recording) {
    stream->recording->work.push_back(std::move(work));
    return success;
  }
  // The default stream and the streams that synchronise with it run their work in the order of the calls.
  if (stream == &default_stream) {
    for (Stream* other : streams) {
      if (!other->non_blocking) run_until(other, other->submitted);
    }
  } else if (!stream->non_blocking) {
    run_until(&default_stream, default_stream.submitted);
  }
  stream->queue.push_back(std::move(work));
  ++stream->submitted;
  if (options().eager) finish(stream);
  return fault;
}

Driver& driver() {
  struct Process : Driver {
    ~Process() { write_report(*this); }
  };
  static Process process;
  return process;
}

}  // namespace weft::amdemu
