// SPDX-License-Identifier: Apache-2.0
// A stand-in for RCCL over the emulator: the functions that Weft calls, for communicators of one process. As with the
// real library, a rank's stream waits until the streams of all ranks have reached the same call.
#include <condition_variable>
#include <mutex>
#include <vector>

#include "queued.h"

namespace {

constexpr int internal_error = 3, aborted = 6;  // ncclInternalError, ncclRemoteError
constexpr int type_bytes = 1, type_f16 = 6, type_f32 = 7, type_bf16 = 9;

struct Call {
  struct Member* member;
  Operand from, to;
  int type;
  bool adds;
};

/// The ranks of one call of ncclCommInitAll.
struct Group {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<const Call*> posted;
  size_t here = 0, meetings = 0;
  bool is_aborted = false;

  /// Waits until all ranks have called this function; false after an abort.
  bool meet() {
    std::unique_lock lock(mutex);
    const size_t meeting = meetings;
    if (++here == posted.size()) {
      here = 0, ++meetings;
      changed.notify_all();
      return !is_aborted;
    }
    changed.wait(lock, [&] { return meetings != meeting || is_aborted; });
    return meetings != meeting && !is_aborted;
  }
};

struct Member {
  Group* group;
  size_t rank;
  bool is_connected = false;
};

Element element_of(int type) {
  return type == type_f32 ? Element::f32 : type == type_f16 ? Element::f16 : Element::bf16;
}

/// Returns the data of all ranks, added or concatenated.
std::vector<std::byte> combined(const Group& group, const Call& mine) {
  std::vector<std::byte> result(mine.to.bytes);
  if (!mine.adds) {
    for (size_t r = 0; r < group.posted.size(); ++r)
      std::memcpy(result.data() + r * mine.from.bytes, group.posted[r]->from.host, mine.from.bytes);
    return result;
  }
  const Element element = element_of(mine.type);
  for (int64_t i = 0; i * bytes_of(element) < static_cast<int64_t>(mine.from.bytes); ++i) {
    float sum = 0;
    for (const Call* call : group.posted) sum += read(element, call->from.host, i);
    write(element, result.data(), i, sum);
  }
  return result;
}

void run(void* data) {
  const auto& mine = *static_cast<Call*>(data);
  Group& group = *mine.member->group;
  group.posted[mine.member->rank] = &mine;
  if (!group.meet()) return;
  const std::vector<std::byte> result = combined(group, mine);
  if (group.meet()) std::memcpy(mine.to.host, result.data(), result.size());
}

/// Waits for the stream at a member's first call, as the real library does when it gives the devices access to each
/// other's memory. Waiting fails while the stream captures a graph.
bool connect(Member& member, void* stream) {
  if (!member.is_connected && member.group->posted.size() > 1) member.is_connected = hipStreamSynchronize(stream) == 0;
  return member.is_connected || member.group->posted.size() == 1;
}

int queue_call(const void* from, void* to, size_t bytes, size_t result_bytes, int type, bool adds, Member* member,
               void* stream) {
  if (!connect(*member, stream)) return internal_error;
  auto* call = new Call{member, {const_cast<void*>(from), bytes}, {to, result_bytes}, type, adds};
  call->from.host = pinned(bytes), call->to.host = pinned(result_bytes);
  int error = hipMemcpyDtoHAsync(call->from.host, call->from.device, bytes, stream);
  if (!error) error = hipLaunchHostFunc(stream, run, call);
  return error ? error : hipMemcpyHtoDAsync(to, call->to.host, result_bytes, stream);
}

}  // namespace

EXPORTED ncclCommInitAll(Member** members, int count, const int*) {
  auto* group = new Group;
  group->posted.resize(static_cast<size_t>(count));
  for (size_t r = 0; r < group->posted.size(); ++r) members[r] = new Member{group, r};
  return 0;
}
EXPORTED ncclCommDestroy(Member* member) {
  delete member;
  return 0;
}
EXPORTED ncclCommAbort(Member* member) {
  {
    const std::lock_guard lock(member->group->mutex);
    member->group->is_aborted = true;
  }
  member->group->changed.notify_all();
  return 0;
}
EXPORTED ncclCommGetAsyncError(Member* member, int* error) {
  const std::lock_guard lock(member->group->mutex);
  *error = member->group->is_aborted ? aborted : 0;
  return 0;
}
EXPORTED ncclAllReduce(const void* from, void* to, size_t count, int type, int fn, Member* member, void* stream) {
  if (fn != 0 || (type != type_f32 && type != type_f16 && type != type_bf16)) return 4;  // ncclInvalidArgument
  const size_t bytes = count * static_cast<size_t>(bytes_of(element_of(type)));
  return queue_call(from, to, bytes, bytes, type, true, member, stream);
}
EXPORTED ncclAllGather(const void* from, void* to, size_t count, int type, Member* member, void* stream) {
  if (type != type_bytes) return 4;
  return queue_call(from, to, count, count * member->group->posted.size(), type, false, member, stream);
}
extern "C" __attribute__((visibility("default"))) const char* ncclGetErrorString(int) { return "of the stand-in"; }
