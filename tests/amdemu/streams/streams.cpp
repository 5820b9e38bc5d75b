// SPDX-License-Identifier: Apache-2.0
// weft-amd-streams MODEL...: runs one program in two contexts, each on a stream of the caller with operands on the
// device. A third stream copies inputs and results. Other threads run on streams of the library at the same time. All
// answers must agree with those of the CPU (tolerance 1e-4). Meant for the emulator, which delays the work of streams
// as long as possible, so that a missing wait gives wrong answers.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <thread>

#include "base/error.h"
#include "compile.h"
#include "targets/gpu/device.h"

using namespace weft;

namespace {

constexpr int rounds = 3;

/// Returns random inputs. Open sizes get the value `open`; integers are small, like token ids.
std::vector<Tensor> inputs_of(const Executable& program, int64_t open, unsigned seed) {
  std::vector<Tensor> inputs;
  for (const Port& port : program.inputs()) {
    std::vector<int64_t> dims;
    for (const Dim& dim : port.type.shape.dims) dims.push_back(dim.evaluate([&](const Symbol&) { return open; }));
    std::vector<double> numbers(static_cast<size_t>(element_count(dims)));
    for (double& number : numbers) {
      seed = seed * 1664525 + 1013904223;
      number = is_float(port.type.shape.dtype) ? seed * 0x1p-32 : seed >> 28;
    }
    inputs.push_back(make_tensor(port.type.shape.dtype, std::move(dims), numbers));
  }
  return inputs;
}

double difference(const std::vector<Tensor>& got, const std::vector<Tensor>& wanted) {
  double worst = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    std::vector<double> a = to_doubles(got[i]), b = to_doubles(wanted[i]);
    for (size_t k = 0; k < b.size(); ++k) {
      double apart = std::fabs(a[k] - b[k]) / std::max(1.0, std::fabs(b[k]));
      worst = std::max(worst, std::isfinite(apart) ? apart : INFINITY);
    }
  }
  return worst;
}

/// A request with operands in device memory. Copies run on a different stream from the work; events order the two
/// streams.
class Request {
 public:
  Request(const Executable& program, const std::shared_ptr<gpu::Device>& device, const std::vector<Tensor>& like)
      : context_(program.new_context()), device_(device), stream_(device), arrived_(device), done_(device) {
    for (const Tensor& input : like) {
      auto size = input.data.size();
      memory_.emplace_back(device, static_cast<int64_t>(size));
      inputs_.push_back(input);
      inputs_.back().data = Bytes(std::span<const std::byte>(memory_.back().data(), size), nullptr);
    }
    for (const Tensor& output : context_->run(like)) {
      memory_.emplace_back(device, static_cast<int64_t>(output.data.size()));
      outputs_.push_back(output);
      places_.emplace_back(memory_.back().data(), output.data.size());
    }
  }

  void start(const std::vector<Tensor>& inputs, const gpu::Stream& copies) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      auto size = static_cast<int64_t>(inputs[i].data.size());
      copies.copy_to_device(memory_[i].data(), inputs[i].data.data(), size);
    }
    copies.record(arrived_);
    stream_.wait(arrived_);
    context_->run(inputs_, {.output_memory = places_, .on_device = true, .stream = stream_.get()});
    stream_.record(done_);
  }

  std::vector<Tensor> take(const gpu::Stream& copies) {
    std::vector<Tensor> results;
    copies.wait(done_);
    for (size_t i = 0; i < outputs_.size(); ++i) {
      MutableTensor copy = allocate_tensor(outputs_[i].dtype, outputs_[i].dims);
      copies.copy_to_host(copy.data, places_[i].data(), static_cast<int64_t>(places_[i].size()));
      results.push_back(std::move(copy.tensor));
    }
    copies.synchronize();
    return results;
  }

 private:
  std::unique_ptr<Context> context_;
  std::shared_ptr<gpu::Device> device_;
  gpu::Stream stream_;
  gpu::Event arrived_, done_;
  std::vector<gpu::Memory> memory_;
  std::vector<Tensor> inputs_, outputs_;
  std::vector<std::span<std::byte>> places_;
};

struct Expected {
  std::vector<Tensor> inputs, outputs;
};

/// Returns the CPU's answers for each round, with the value `open` for open sizes.
std::vector<Expected> expected(const Executable& cpu, int64_t open) {
  std::vector<Expected> list;
  auto context = cpu.new_context();
  for (unsigned round = 0; round < rounds; ++round) {
    Expected e{.inputs = inputs_of(cpu, open, 17 * round + static_cast<unsigned>(open)), .outputs = {}};
    e.outputs = context->run(e.inputs);
    list.push_back(std::move(e));
  }
  return list;
}

double run(const char* model) {
  auto cpu = compile_file(model, {.device = "cpu"}), amd = compile_file(model, {.device = "amd:0"});
  auto device = gpu::open_device("amd:0");
  device->use();
  std::vector<Expected> one = expected(*cpu, 2), two = expected(*cpu, 5);
  double worst = 0;
  gpu::Stream copies(device);
  Request first(*amd, device, one[0].inputs), second(*amd, device, two[0].inputs);
  for (size_t round = 0; round < rounds; ++round) {  // both requests are queued before the wait
    first.start(one[round].inputs, copies);
    second.start(two[round].inputs, copies);
    worst = std::max(worst, difference(second.take(copies), two[round].outputs));
    worst = std::max(worst, difference(first.take(copies), one[round].outputs));
  }
  std::vector<double> apart(2);
  auto work = [&](size_t which, const std::vector<Expected>& cases) {
    auto context = amd->new_context();
    for (const Expected& e : cases)
      apart[which] = std::max(apart[which], difference(context->run(e.inputs), e.outputs));
  };
  std::thread a(work, 0, std::cref(one)), b(work, 1, std::cref(two));
  a.join();
  b.join();
  return std::max({worst, apart[0], apart[1]});
}

}  // namespace

int main(int count, char** words) {
  int wrong = 0;
  for (int i = 1; i < count; ++i) {
    try {
      double worst = run(words[i]);
      std::printf("%s: largest difference %.3g\n", words[i], worst);
      wrong += !(worst < 1e-4);
    } catch (const std::exception& error) {
      std::printf("%s: %s\n", words[i], error.what());
      ++wrong;
    }
  }
  return wrong ? 1 : 0;
}
