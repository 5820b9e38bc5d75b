// SPDX-License-Identifier: Apache-2.0
#include "driver/on_device.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "base/text.h"

namespace weft::driver {

namespace {

/// Returns the device of each rank; one device for a program that is not split.
std::vector<std::shared_ptr<gpu::Device>> devices_of(const Executable& executable) {
  std::string names = executable.device();
  names.resize(std::min(names.find(' '), names.size()));
  std::vector<std::shared_ptr<gpu::Device>> devices;
  for (std::string_view name : split(names, ',')) devices.push_back(gpu::open_device(std::string(name)));
  return devices;
}

}  // namespace

std::shared_ptr<gpu::Device> device_of(const Executable& executable) { return devices_of(executable).front(); }

static size_t port_number(const std::vector<Port>& ports, const std::string& name) {
  return static_cast<size_t>(std::ranges::find(ports, name, &Port::name) - ports.begin());
}

/// Returns the suffixes of the ports into which a split port is divided, one for each rank: "@0", "@1". For a port that
/// is not split, returns one empty suffix.
static std::vector<std::string> parts_of(const std::vector<Port>& ports, const std::string& name) {
  if (port_number(ports, name) < ports.size()) return {""};
  std::vector<std::string> parts;
  while (port_number(ports, cat(name, "@", parts.size())) < ports.size()) parts.push_back(cat("@", parts.size()));
  return parts;
}

OnDevice::OnDevice(const Executable& executable, std::span<const Tensor> inputs,
                   std::span<const DonationRequest> donations)
    : devices_(devices_of(executable)),
      device_(devices_.front()),
      context_(executable.new_context()),
      stream_(device_),
      begin_(device_),
      end_(device_),
      inputs_(inputs.begin(), inputs.end()) {
  auto reserve = [&](const Port& port, size_t size) {
    memory_.emplace_back(devices_[port.rank], static_cast<int64_t>(size));
    return memory_.back().data();
  };
  std::vector<Tensor> first = context_->run(inputs);
  for (size_t i = 0; i < first.size(); ++i) {
    auto size = first[i].data.size();
    outputs_.emplace_back(reserve(executable.outputs()[i], size), size);
  }
  for (size_t i = 0; i < inputs_.size(); ++i) {
    Bytes& data = inputs_[i].data;
    std::byte* copy = reserve(executable.inputs()[i], data.size());
    gpu::Stream stream(devices_[executable.inputs()[i].rank]);
    stream.copy_to_device(copy, data.data(), static_cast<int64_t>(data.size()));
    stream.synchronize();
    data = Bytes(std::span<const std::byte>(copy, data.size()), nullptr);
  }
  for (const DonationRequest& donation : donations) {
    for (const std::string& part : parts_of(executable.inputs(), donation.input)) {
      const Bytes& place = inputs_[port_number(executable.inputs(), cat(donation.input, part))].data;
      outputs_[port_number(executable.outputs(), cat(donation.output, part))] = {const_cast<std::byte*>(place.data()),
                                                                                 place.size()};
    }
  }
  options_ = {.output_memory = outputs_, .on_device = true};
  if (devices_.size() == 1) options_.stream = stream_.get();
  timed_run();
}

double OnDevice::timed_run() {
  if (devices_.size() > 1) {  // run() returns when all devices are done
    auto begin = std::chrono::steady_clock::now();
    context_->run(inputs_, options_);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  device_->use();
  stream_.record(begin_);
  context_->run(inputs_, options_);
  stream_.record(end_);
  stream_.synchronize();
  return static_cast<double>(end_.since(begin_)) / 1e3;
}

}  // namespace weft::driver
