// SPDX-License-Identifier: Apache-2.0
#include "driver/on_device.h"

#include <algorithm>

#include "base/error.h"

namespace weft::driver {

std::shared_ptr<gpu::Device> device_of(const Executable& executable) {
  std::string name = executable.device();
  return gpu::open_device(name.substr(0, name.find(' ')));
}

static size_t port_number(const std::vector<Port>& ports, const std::string& name) {
  return static_cast<size_t>(std::ranges::find(ports, name, &Port::name) - ports.begin());
}

OnDevice::OnDevice(const Executable& executable, std::span<const Tensor> inputs,
                   std::span<const DonationRequest> donations)
    : device_(device_of(executable)),
      context_(executable.new_context()),
      stream_(device_),
      begin_(device_),
      end_(device_),
      inputs_(inputs.begin(), inputs.end()) {
  for (const Tensor& output : context_->run(inputs)) {
    auto size = output.data.size();
    memory_.emplace_back(device_, static_cast<int64_t>(size));
    outputs_.emplace_back(memory_.back().data(), size);
  }
  for (Tensor& input : inputs_) {
    auto size = input.data.size();
    memory_.emplace_back(device_, static_cast<int64_t>(size));
    stream_.copy_to_device(memory_.back().data(), input.data.data(), static_cast<int64_t>(size));
    stream_.synchronize();
    input.data = Bytes(std::span<const std::byte>(memory_.back().data(), size), nullptr);
  }
  for (const DonationRequest& donation : donations) {
    const Bytes& place = inputs_[port_number(executable.inputs(), donation.input)].data;
    outputs_[port_number(executable.outputs(), donation.output)] = {const_cast<std::byte*>(place.data()), place.size()};
  }
  options_ = {.output_memory = outputs_, .on_device = true, .stream = stream_.get()};
  timed_run();
}

double OnDevice::timed_run() {
  device_->use();
  stream_.record(begin_);
  context_->run(inputs_, options_);
  stream_.record(end_);
  stream_.synchronize();
  return static_cast<double>(end_.since(begin_)) / 1e3;
}

}  // namespace weft::driver
