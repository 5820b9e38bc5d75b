// SPDX-License-Identifier: Apache-2.0
// Mapped files, and the SIGBUS handler for files that other processes shorten while they are mapped (file_reading.h).
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/file_reading.h"

namespace weft {
namespace {

uintptr_t page_size() {
  static const auto size = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

/// The addresses of a mapped file, in a list that the signal handler may read at any time: entries are never freed.
struct Range {
  std::atomic<uintptr_t> begin{0}, end{0};  // begin 0: unused
  std::atomic<bool> is_cut{false};          // the handler has put zeros in place of pages
  Range* next = nullptr;
};

std::atomic<Range*> all_ranges{nullptr};
std::atomic<bool> is_any_cut{false};
std::mutex mutex;  // held while ranges or handlers change

Range* take_range(uintptr_t begin, uintptr_t end) {
  std::scoped_lock lock(mutex);
  Range* free = all_ranges;
  while (free && free->begin != 0) free = free->next;
  if (!free) {
    free = new Range;
    free->next = all_ranges;
    all_ranges = free;
  }
  free->is_cut = false;
  free->end = end;
  free->begin = begin;
  return free;
}

Range* range_of(uintptr_t address) {
  Range* range = all_ranges;
  while (range && (range->begin == 0 || address < range->begin || address >= range->end)) range = range->next;
  return range;
}

// --- the handler -----------------------------------------------------------------------------------------------------

struct sigaction handler_before{};
bool is_handler_set = false;
int guards = 0;

/// Maps zeros from the page of the address to the end of its range. Returns false if the address is in no range or mmap
/// fails. Async-signal-safe, because mmap is a plain system call.
bool put_zeros(uintptr_t address) {
  Range* range = range_of(address);
  if (!range) return false;
  uintptr_t page = address & ~(page_size() - 1), size = range->end - page;
  range->is_cut = is_any_cut = true;  // set before another thread can read the zeros
  void* zeros = ::mmap(reinterpret_cast<void*>(page), size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  return zeros != MAP_FAILED;
}

void pass_on(int number, siginfo_t* info, void* context) {
  bool is_fault = info->si_code > 0;
  if (handler_before.sa_flags & SA_SIGINFO) return handler_before.sa_sigaction(number, info, context);
  if (handler_before.sa_handler == SIG_IGN && !is_fault) return;
  if (handler_before.sa_handler != SIG_DFL && handler_before.sa_handler != SIG_IGN)
    return handler_before.sa_handler(number);
  struct sigaction end{};
  end.sa_handler = SIG_DFL;
  ::sigaction(number, &end, nullptr);
  if (!is_fault) ::raise(number);  // after a real fault, the instruction faults again
}

void on_bus_error(int number, siginfo_t* info, void* context) {
  int error = errno;
  bool is_page = info->si_code == BUS_ADRERR;
  if (!is_page || !put_zeros(reinterpret_cast<uintptr_t>(info->si_addr))) pass_on(number, info, context);
  errno = error;
}

void set_handler() {
  std::scoped_lock lock(mutex);
  page_size();  // initialises its static variable, which a signal handler must not do
  if (guards++ > 0 || is_handler_set) return;
  struct sigaction action{};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ::sigemptyset(&action.sa_mask);
  is_handler_set = ::sigaction(SIGBUS, &action, &handler_before) == 0;
}

/// Restores the previous handler when the last guard ends. Changes nothing if another handler has replaced Weft's.
void remove_handler() {
  std::scoped_lock lock(mutex);
  if (--guards > 0 || !is_handler_set) return;
  struct sigaction now{};
  ::sigaction(SIGBUS, nullptr, &now);
  if (!(now.sa_flags & SA_SIGINFO) || now.sa_sigaction != on_bus_error) return;
  ::sigaction(SIGBUS, &handler_before, nullptr);
  is_handler_set = false;
}

// --- mapped files ----------------------------------------------------------------------------------------------------

std::string path_of_descriptor(int fd, const std::string& name) {
  std::error_code problem;
  auto path = std::filesystem::read_symlink(cat("/proc/self/fd/", fd), problem);
  return problem ? name : path.string();
}

/// A mapped file, which owns its bytes.
class MappedFile {
 public:
  MappedFile(void* address, const struct stat& info, std::string name, std::string path)
      : address_(address),
        info_(info),
        name_(std::move(name)),
        path_(std::move(path)),
        range_(take_range(reinterpret_cast<uintptr_t>(address), reinterpret_cast<uintptr_t>(address) + size())) {}
  MappedFile(const MappedFile&) = delete;
  ~MappedFile() {
    ::munmap(address_, size());
    range_->begin = 0;
  }
  size_t size() const { return info_.st_size; }

  /// Throws E106 if the file has changed. A file that was moved away or removed counts as unchanged.
  void check() const {
    struct stat now{};
    bool is_there = ::stat(path_.c_str(), &now) == 0 && now.st_ino == info_.st_ino && now.st_dev == info_.st_dev;
    bool is_same = now.st_size == info_.st_size && now.st_mtim.tv_sec == info_.st_mtim.tv_sec &&
                   now.st_mtim.tv_nsec == info_.st_mtim.tv_nsec;
    if (!range_->is_cut && (!is_there || is_same)) return;
    bool is_short = is_there && now.st_size < info_.st_size;
    throw Error({.kind = ErrorKind::usage,
                 .code = "E106",
                 .what = cat(printable(name_), is_there ? " was changed" : " could not be read", " while it was in use",
                             is_short ? cat(": of ", info_.st_size, " bytes ", now.st_size, " are left") : ""),
                 .hint = "write a new model to another file and rename it, which leaves the old one to its readers"});
  }

 private:
  void* address_;
  struct stat info_;
  std::string name_, path_;
  Range* range_;
};

/// The deleter of bytes of mapped files; `std::get_deleter` finds it.
struct FileOwner {
  std::shared_ptr<const MappedFile> file;
  void operator()(const void*) { file.reset(); }
};

const MappedFile* file_of(const std::shared_ptr<const void>& owner) {
  auto* found = std::get_deleter<FileOwner>(owner);
  return found ? found->file.get() : nullptr;
}

thread_local FileReading* innermost = nullptr;

}  // namespace

FileGuard::FileGuard() { set_handler(); }
FileGuard::~FileGuard() { remove_handler(); }

bool is_cut(const std::byte* byte) {
  if (!is_any_cut) return false;
  const Range* range = range_of(reinterpret_cast<uintptr_t>(byte));
  return range && range->is_cut;
}

FileReading::FileReading() : outer_(innermost) { innermost = this; }

FileReading::~FileReading() {
  innermost = outer_;
  if (outer_) outer_->files_.insert(outer_->files_.end(), files_.begin(), files_.end());
}

void FileReading::check() const {
  for (const Bytes& file : files_) file.check_file();
}

void FileReading::add(const Bytes& file) {
  if (innermost) innermost->files_.push_back(file);
}

void Bytes::check_file() const {
  if (const MappedFile* file = file_of(owner_)) file->check();
}

Bytes Bytes::in_memory() const {
  if (!file_of(owner_)) return *this;
  constexpr size_t piece = 4 << 20;
  if (size() <= piece) {
    Bytes own = copy(data_);
    check_file();
    return own;
  }
  // Copies into huge pages, piece by piece, and drops the pages that were read: weights must not be in memory twice.
  constexpr std::align_val_t huge_page{2 << 20};
  std::shared_ptr<std::byte> owner(static_cast<std::byte*>(::operator new(size(), huge_page)),
                                   [](std::byte* p) { ::operator delete(p, huge_page); });
  ::madvise(owner.get(), size(), MADV_HUGEPAGE);
  for (size_t at = 0; at < size(); at += piece) {
    Bytes next = part(at, std::min(piece, size() - at));
    std::memcpy(owner.get() + at, next.data(), next.size());
    next.drop_pages();
  }
  check_file();
  return {std::span<const std::byte>(owner.get(), size()), owner};
}

void Bytes::drop_pages() const {
  if (!file_of(owner_)) return;
  auto begin = (reinterpret_cast<uintptr_t>(data_.data()) + page_size() - 1) / page_size() * page_size();
  auto end = reinterpret_cast<uintptr_t>(data_.data() + data_.size()) / page_size() * page_size();
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

Bytes map_descriptor(int fd, const std::string& name) {
  struct stat info{};
  if (::fstat(fd, &info) != 0) file_error(name, "read", errno);
  if (S_ISDIR(info.st_mode)) file_error(name, "read", EISDIR);
  if (!S_ISREG(info.st_mode)) {
    throw Error({.kind = ErrorKind::usage, .code = "E106", .what = cat(printable(name), " is not a regular file")});
  }
  size_t size = info.st_size;
  if (size == 0) return {};
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (address == MAP_FAILED) file_error(name, "map", errno);
  auto file = std::make_shared<const MappedFile>(address, info, name, path_of_descriptor(fd, name));
  std::shared_ptr<const void> owner(address, FileOwner{std::move(file)});
  Bytes bytes(std::span(static_cast<const std::byte*>(address), size), std::move(owner));
  FileReading::add(bytes);
  return bytes;
}

Bytes map_file(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a FIFO must not hang. map_descriptor then refuses the FIFO, which is no regular file.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.fd < 0) file_error(path.string(), "open", errno);
  return map_descriptor(file.fd, path.string());
}

}  // namespace weft
