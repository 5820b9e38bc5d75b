// SPDX-License-Identifier: Apache-2.0
// Mapped files that other processes change while Weft reads them, or afterwards.
#include "base/file_reading.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>

#include "base/kept_file.h"
#include "base/tensor.h"
#include "compile.h"
#include "errors.h"
#include "onnx_writer.h"
#include "scratch.h"

using namespace weft;
using namespace weft::test;
namespace fs = std::filesystem;

namespace {

constexpr size_t file_bytes = 1 << 20;

fs::path write(const fs::path& path, std::string_view data) {
  std::ofstream(path, std::ios::binary) << data;
  return path;
}

fs::path full_file(const Scratch& folder) { return write(folder.path / "file", std::string(file_bytes, 'x')); }

/// Waits so that the next change of a file gets a later modification time: file systems' clocks tick in milliseconds.
void let_time_pass() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

/// Returns the wait status of a child process that does `work`.
int end_of(const auto& work) {
  pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    rlimit none{0, 0};
    ::setrlimit(RLIMIT_CORE, &none);
    for (int number : {SIGBUS, SIGABRT}) ::signal(number, SIG_DFL);  // doctest has set handlers
    work();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

/// Returns a model that takes rows from a table of 512 KiB and multiplies them: y = table[i] w.
std::string table_model() {
  std::vector<float> table(8192 * 16), weights(16 * 64);
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(i % 97);
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(i % 5);
  Message graph;
  graph.message(1, node("Gather", {"table", "i"}, {"rows"})).message(1, node("MatMul", {"rows", "w"}, {"y"}));
  graph.text(2, "graph").message(5, float_tensor("w", {16, 64}, weights));
  graph.message(5, float_tensor("table", {8192, 16}, table));
  graph.message(11, value("i", 7, {"n"})).message(12, value("y", 1, {"n", "64"}));
  return model(graph).data;
}

std::vector<Tensor> rows_of(const Executable& executable, std::vector<int64_t> rows = {0, 5, 8191}) {
  return executable.new_context()->run(std::vector{make_i64_tensor(rows)});
}

/// Returns a mapped tensor of f32, as `weft_tensor_map` makes it.
Tensor mapped(const fs::path& path, std::vector<int64_t> dims) {
  Tensor tensor{.dims = std::move(dims)};
  tensor.data = map_kept(path, 0, static_cast<size_t>(tensor.elements()) * 4, 4);
  return tensor;
}

}  // namespace

TEST_CASE("files: the part that was cut off a mapped file reads as zeros, and is an error") {
  Scratch folder;
  fs::path path = full_file(folder);
  FileReading reading;
  Bytes file = map_file(path);
  CHECK(file.data()[file.size() - 1] == std::byte{'x'});
  reading.check();
  fs::resize_file(path, 5000);
  CHECK(file.data()[file.size() - 1] == std::byte{0});
  CHECK(file.data()[4999] == std::byte{'x'});
  CHECK(code_of([&] { reading.check(); }) == "E106");
  CHECK(code_of([&] { file.part(0, 10).check_file(); }) == "E106");
  CHECK(code_of([&] { file.in_memory(); }) == "E106");
}

TEST_CASE("files: a part that was copied into memory outlives its file") {
  Scratch folder;
  std::string data(9'000'001, '\0');
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 2654435761u >> 13);
  fs::path path = write(folder.path / "file", data);
  Bytes file = map_file(path);
  Bytes own = file.part(77, file.size() - 78).in_memory();
  fs::resize_file(path, 0);
  CHECK(as_text(own) == std::string_view(data).substr(77, data.size() - 78));
}

TEST_CASE("files: changing a mapped file in place is an error, replacing it is not") {
  Scratch folder;
  fs::path path = full_file(folder);
  Bytes file = map_file(path);
  let_time_pass();
  write(folder.path / "other", "short");
  fs::rename(folder.path / "other", path);
  file.check_file();
  CHECK(file.in_memory().size() == file_bytes);
  Bytes other = map_file(path);
  let_time_pass();
  write(path, "SHORT");
  CHECK(code_of([&] { other.check_file(); }) == "E106");
  Bytes::copy(as_bytes("bytes of nobody")).check_file();
}

TEST_CASE("files: any error from reading a truncated file says that it was truncated") {
  Scratch folder;
  fs::path path = full_file(folder);
  auto read = [&] {
    Bytes file = map_file(path);
    fs::resize_file(path, 0);
    if (file.data()[100] != std::byte{'x'}) throw Error({.kind = ErrorKind::model, .code = "E108", .what = "damaged"});
    return 1;
  };
  CHECK(code_of([&] { reading_files(read); }) == "E106");
}

TEST_CASE("files: a fault elsewhere goes to the previous handler, or to the system") {
  Scratch folder;
  fs::path path = full_file(folder);
  auto fault = [&] {
    int fd = ::open(path.c_str(), O_RDONLY);
    auto* data = static_cast<volatile char*>(::mmap(nullptr, file_bytes, PROT_READ, MAP_PRIVATE, fd, 0));
    fs::resize_file(path, 10);
    if (data[file_bytes - 1] == 0) ::_exit(2);
  };
  int status = end_of([&] {
    FileReading reading;
    fault();
  });
  CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS));
  full_file(folder);
  status = end_of([&] {
    ::signal(SIGBUS, [](int) { ::_exit(7); });
    FileReading reading;
    fault();
  });
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 7));
  full_file(folder);
  status = end_of([&] {
    {
      FileReading reading;
    }
    struct sigaction now{};
    ::sigaction(SIGBUS, nullptr, &now);
    ::_exit(now.sa_handler == SIG_DFL ? 5 : 6);
  });
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 5));
}

TEST_CASE("files: a model that is cut while it is compiled is an error") {
  Scratch folder;
  for (const char* device : {"cpu", "ref"}) {
    fs::path path = write(folder.path / "m.onnx", table_model());
    CompileOptions options{.device = device, .threads = 2, .cache = false};
    bool is_cut = false;
    // Changes the file in the middle of the compile.
    options.stop = [&] {
      if (!std::exchange(is_cut, true)) fs::resize_file(path, 100);
      return false;
    };
    CHECK(code_of([&] { compile_file(path, options); }) == "E106");
    CHECK(is_cut);
  }
}

TEST_CASE("files: a program runs on when its file is gone, and refuses to be saved from what is left") {
  Scratch folder;
  for (const char* device : {"cpu", "ref"}) {
    fs::path path = write(folder.path / "m.onnx", table_model());
    auto executable = compile_file(path, {.device = device, .threads = 1});
    auto wanted = rows_of(*executable);
    let_time_pass();
    fs::resize_file(path, 100);
    CHECK(rows_of(*executable) == wanted);
    if (device == std::string("ref")) continue;
    CHECK(code_of([&] { executable->save(folder.path / "p.weft"); }) == "E106");
    CHECK(!fs::exists(folder.path / "p.weft"));

    write(path, table_model());
    compile_file(path, {.device = device, .threads = 1})->save(folder.path / "p.weft");
    auto loaded = compile_file(folder.path / "p.weft", {.threads = 1});
    let_time_pass();
    fs::resize_file(folder.path / "p.weft", 100);
    CHECK(rows_of(*loaded) == wanted);
    CHECK(code_of([&] { loaded->save(folder.path / "q.weft"); }) == "E106");
  }
}

TEST_CASE("files: a run that needs the truncated part of a mapped constant is an error") {
  Message graph;
  graph.message(1, node("Gather", {"table", "i"}, {"y"})).text(2, "graph");
  graph.message(11, value("i", 7, {"n"})).message(11, value("table", 1, {"4096", "16"}));
  graph.message(12, value("y", 1, {"n", "16"}));
  Scratch folder;
  for (const char* device : {"cpu", "ref"}) {
    CAPTURE(device);
    fs::path path = write(folder.path / device, std::string(4096 * 16 * 4, 'x')), other = full_file(folder);
    Tensor kept = mapped(other, {4});
    CompileOptions options{.device = device, .threads = 1, .constants = {{"table", mapped(path, {4096, 16})}}};
    auto executable = compile_bytes(Bytes::copy(as_bytes(model(graph).data)), options);
    options.constants.clear();
    auto wanted = rows_of(*executable, {0, 5});
    if (device == std::string("cpu")) executable->detach();
    fs::resize_file(path, 8192);
    if (device == std::string("cpu")) CHECK(rows_of(*executable, {0, 5}) == wanted);  // ref reads the whole table
    CHECK(code_of([&] { rows_of(*executable, {0, 4095}); }) == "E106");
    CHECK(code_of([&] { rows_of(*executable, {0, 4095}); }) == "E106");
    check_read({&kept, 1});  // `kept` is in another file
  }
}

TEST_CASE("files: a run that needs the truncated part of a mapped input is an error") {
  Message graph;
  graph.message(1, node("Neg", {"x"}, {"y"})).text(2, "graph");
  graph.message(11, value("x", 1, {"n"})).message(12, value("y", 1, {"n"}));
  Scratch folder;
  for (const char* device : {"cpu", "ref"}) {
    CAPTURE(device);
    fs::path path = full_file(folder);
    auto executable = compile_bytes(Bytes::copy(as_bytes(model(graph).data)), {.device = device, .threads = 1});
    std::vector<Tensor> inputs = {mapped(path, {file_bytes / 4})};
    executable->new_context()->run(inputs);
    fs::resize_file(path, 100);
    CHECK(code_of([&] { executable->new_context()->run(inputs); }) == "E106");
  }
}

TEST_CASE("files: the handler stays for as long as a mapped tensor lives, and no longer") {
  Scratch folder;
  fs::path path = full_file(folder);
  int status = end_of([&] {
    {
      Tensor first = mapped(path, {file_bytes / 4}), second = mapped(path, {file_bytes / 4});
      first = {};
      fs::resize_file(path, 10);
      if (second.data.data()[file_bytes - 1] != std::byte{0}) ::_exit(3);
    }
    struct sigaction now{};
    ::sigaction(SIGBUS, nullptr, &now);
    ::_exit(now.sa_handler == SIG_DFL ? 5 : 6);
  });
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 5));
}
