// SPDX-License-Identifier: Apache-2.0
#include "codegen/link.h"

#include <fcntl.h>
#include <lld/Common/Driver.h>
#include <llvm/Support/raw_ostream.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <random>
#include <system_error>
#include <thread>

#include "base/text.h"
#include "codegen/guard.h"

LLD_HAS_DRIVER(elf)

namespace weft::codegen {
namespace {

std::mutex lld_mutex;
bool lld_is_broken = false;  // set if lld cannot run again, as after a crash; guarded by lld_mutex

void close_quietly(int fd) {
  if (fd >= 0) ::close(fd);
}

std::string path_of(int fd) { return cat("/proc/self/fd/", fd); }

/// An anonymous file in memory as an input of lld, which accepts only paths.
class MemoryFile {
 public:
  MemoryFile() : fd_(::memfd_create("weft", MFD_CLOEXEC)) {}
  ~MemoryFile() { close_quietly(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return path_of(fd_); }
  bool write(std::span<const std::byte> data);

 private:
  int fd_;
};

bool MemoryFile::write(std::span<const std::byte> data) {
  while (fd_ >= 0 && !data.empty()) {
    ssize_t count = ::write(fd_, data.data(), data.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    data = data.subspan(count);
  }
  return fd_ >= 0;
}

/// A pipe for the output of lld, with a thread that reads it. (To a regular file, lld would write through a temporary
/// file.)
class OutputPipe {
 public:
  OutputPipe() {
    if (::pipe2(ends_.data(), O_CLOEXEC) != 0) return;
    try {
      reader_ = std::thread([this] { drain(); });
    } catch (const std::system_error&) {  // no thread available: good() is false
      for (int end : ends_) close_quietly(end);
    }
  }
  ~OutputPipe() { finish(); }
  OutputPipe(const OutputPipe&) = delete;
  OutputPipe& operator=(const OutputPipe&) = delete;

  bool good() const { return reader_.joinable(); }
  std::string path() const { return path_of(ends_[1]); }
  /// Returns the bytes written, once the writer has closed its end.
  std::vector<std::byte> finish();

 private:
  void drain();
  std::array<int, 2> ends_{-1, -1};
  std::vector<std::byte> data_;
  std::thread reader_;
};

void OutputPipe::drain() {
  std::array<std::byte, 65536> block;
  for (;;) {
    ssize_t count = ::read(ends_[0], block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    data_.insert(data_.end(), block.begin(), block.begin() + count);
  }
}

std::vector<std::byte> OutputPipe::finish() {
  if (!reader_.joinable()) return std::move(data_);
  close_quietly(ends_[1]);
  reader_.join();
  close_quietly(ends_[0]);
  return std::move(data_);
}

struct Inputs {
  std::vector<std::unique_ptr<MemoryFile>> objects;
  MemoryFile version_script;
  OutputPipe output;
};

std::string version_script(std::span<const std::string> exported) {
  std::string text = "{ global:";
  for (const auto& name : exported) text += cat(" ", name, ";");
  return text + " local: *; };\n";
}

bool fill(Inputs& inputs, std::span<const std::span<const std::byte>> objects, std::span<const std::string> exported) {
  for (auto bytes : objects) {
    inputs.objects.push_back(std::make_unique<MemoryFile>());
    if (!inputs.objects.back()->write(bytes)) return false;
  }
  std::string script = version_script(exported);
  return inputs.version_script.write(std::as_bytes(std::span(script))) && inputs.output.good();
}

std::vector<std::string> command_line(const Inputs& inputs, ChipKind kind, bool hide) {
  std::vector<std::string> list = {"ld.lld", "-shared", "--threads=1", "--gc-sections", "--hash-style=gnu", "-z",
                                   "now",    "-z",      "relro",       "-Bsymbolic",    "--build-id=none"};
  if (kind == ChipKind::amd) list.insert(list.end(), {"-m", "elf64_amdgpu", "--no-undefined"});
  else
    list.insert(list.end(), {"-m", kind == ChipKind::arm ? "aarch64linux" : "elf_x86_64", "-z", "noexecstack", "-z",
                             "separate-code"});
  if (hide) list.push_back("--version-script=" + inputs.version_script.path());
  for (const auto& object : inputs.objects) list.push_back(object->path());
  list.insert(list.end(), {"-o", inputs.output.path()});
  return list;
}

/// Runs lld with the arguments in `list`, writes lld's messages to `text`, and returns true on success.
bool run_lld(const std::vector<std::string>& list, std::string& text) {
  std::vector<const char*> pointers;
  for (const auto& argument : list) pointers.push_back(argument.c_str());
  std::scoped_lock lock(lld_mutex);
  if (lld_is_broken) {
    text = "lld crashed earlier in this process; start a new one";
    return false;
  }
  lld::Result result{1, false};
  std::string crash;
  bool alive = run_guarded(
      [&] {
        llvm::raw_string_ostream out(text);
        result = lld::lldMain(pointers, out, out, {{lld::Gnu, &lld::elf::link}});
      },
      crash);
  lld_is_broken = !alive || !result.canRunAgain;
  if (!alive) text += crash;
  return alive && result.retCode == 0;
}

}  // namespace

CodegenResult link_elf(std::span<const std::span<const std::byte>> objects, const Chip& chip,
                       std::span<const std::string> exported) {
  Inputs inputs;
  CodegenResult result;
  if (!fill(inputs, objects, exported)) {
    result.diagnostics = cat("cannot make files in memory for lld: ", std::strerror(errno));
    return result;
  }
  bool hide = !exported.empty() && is_cpu(chip.kind);
  bool linked = run_lld(command_line(inputs, chip.kind, hide), result.diagnostics);
  result.bytes = inputs.output.finish();
  result.ok = linked && !result.bytes.empty();
  if (linked && !result.ok) result.diagnostics += "lld gave no output";
  return result;
}

CodegenResult link_each(std::span<const std::span<const std::byte>> objects, const Chip& chip) {
  constexpr size_t alignment = 64;
  CodegenResult result{.ok = true};
  for (auto object : objects) {
    CodegenResult one = link_elf({&object, 1}, chip, {});
    if (!one.ok) return one;
    result.bytes.insert(result.bytes.end(), one.bytes.begin(), one.bytes.end());
    result.bytes.resize((result.bytes.size() + alignment - 1) / alignment * alignment);
  }
  return result;
}

CodegenResult join_ptx(std::span<const std::span<const std::byte>> modules) {
  CodegenResult result{.ok = true};
  for (auto module : modules) {
    result.bytes.insert(result.bytes.end(), module.begin(), module.end());
    if (module.empty() || module.back() != std::byte{0}) result.bytes.push_back(std::byte{0});
  }
  return result;
}

}  // namespace weft::codegen

/// The libc function arc4random, which LLVM calls to name temporary files and which glibc 2.35 (Ubuntu 22.04) lacks.
extern "C" uint32_t arc4random() noexcept { return std::random_device()(); }
