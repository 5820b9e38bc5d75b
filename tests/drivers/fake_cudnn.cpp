// SPDX-License-Identifier: Apache-2.0
// The part of cuDNN's graph interface that Weft uses, without any computation. Like cuDNN, it checks the attributes of
// descriptors, their layouts and the order in which they are finalised. It lists unsuitable engines before the suitable
// ones, and refuses a batch of 7.
#include "fake_cudnn.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace {

enum Status { ok = 0, bad = 2000, not_supported = 3000 };
// cudnnBackendDescriptorType_t and cudnnBackendAttributeType_t, from cuDNN's documentation.
enum Kind {
  pointwise,
  convolution,
  engine,
  configuration,
  heuristics,
  plan,
  forward = 10,
  pointwise_operation = 13,
  graph = 15,
  pack,
  tensor
};
enum Type {
  handle,
  data_type,
  boolean,
  int64,
  float32,
  float64,
  pointer,
  conv_mode,
  heur_mode,
  knob,
  nan_mode,
  numerical,
  layout,
  attribute,
  pw_mode,
  descriptor,
  gen_stats,
  bn,
  reduction,
  behavior
};

/// An engine with its numerical and behaviour notes. The first engine is not deterministic, and the second compiles at
/// run time. The third and fourth are usable, but only the fourth multiplies f32 without TF32.
struct Engine {
  std::vector<int> numerical, behavior;
};
const std::vector<Engine> engines{{{0, 4}, {}}, {{0, 1}, {0}}, {{0, 1}, {}}, {{9}, {}}};

struct Descriptor {
  Kind kind;
  bool is_finished = false;
  int number = 0;                                     // the engine's number, from 1
  std::string computes = {};                          // the operations of a graph, as text
  std::map<int, std::vector<std::byte>> values = {};  // the values of attributes

  template <class T>
  std::vector<T> get(int name) const {
    auto found = values.find(name);
    std::vector<T> list(found == values.end() ? 0 : found->second.size() / sizeof(T));
    if (!list.empty()) std::memcpy(list.data(), found->second.data(), list.size() * sizeof(T));
    return list;
  }
  const Descriptor* at(int name) const {
    auto list = get<Descriptor*>(name);
    return list.empty() ? nullptr : list[0];
  }
};

struct Attribute {
  Kind kind;
  Type type;
};
const std::map<int, Attribute> attributes{{0, {pointwise, pw_mode}},
                                          {1, {pointwise, data_type}},
                                          {2, {pointwise, nan_mode}},
                                          {100, {convolution, data_type}},
                                          {101, {convolution, conv_mode}},
                                          {102, {convolution, int64}},
                                          {103, {convolution, int64}},
                                          {104, {convolution, int64}},
                                          {105, {convolution, int64}},
                                          {106, {convolution, int64}},
                                          {200, {heuristics, heur_mode}},
                                          {201, {heuristics, descriptor}},
                                          {202, {heuristics, descriptor}},
                                          {300, {configuration, descriptor}},
                                          {400, {plan, handle}},
                                          {401, {plan, descriptor}},
                                          {402, {plan, int64}},
                                          {700, {forward, float32}},
                                          {701, {forward, float32}},
                                          {702, {forward, descriptor}},
                                          {703, {forward, descriptor}},
                                          {704, {forward, descriptor}},
                                          {705, {forward, descriptor}},
                                          {750, {pointwise_operation, descriptor}},
                                          {751, {pointwise_operation, descriptor}},
                                          {752, {pointwise_operation, descriptor}},
                                          {753, {pointwise_operation, descriptor}},
                                          {800, {graph, handle}},
                                          {801, {graph, descriptor}},
                                          {900, {tensor, int64}},
                                          {901, {tensor, data_type}},
                                          {902, {tensor, int64}},
                                          {903, {tensor, int64}},
                                          {906, {tensor, int64}},
                                          {907, {tensor, boolean}},
                                          {1000, {pack, int64}},
                                          {1001, {pack, pointer}},
                                          {1003, {pack, pointer}},
                                          {1303, {engine, numerical}},
                                          {1305, {engine, behavior}}};
const std::map<Kind, std::vector<int>> needed{
    {pointwise, {0, 1}}, {convolution, {100, 101, 102, 103, 104, 105, 106}}, {heuristics, {200, 201}},
    {plan, {400, 401}},  {forward, {700, 701, 702, 703, 704, 705}},          {pointwise_operation, {750, 751, 753}},
    {graph, {800, 801}}, {tensor, {900, 901, 902, 903, 906, 907}},           {pack, {1000, 1001, 1003}}};

size_t size_of(Type type) {
  switch (type) {
    case boolean: return 1;
    case int64:
    case float64:
    case pointer:
    case descriptor:
    case handle: return 8;
    default: return 4;
  }
}

int plans = 0, runs = 0, last_engine = 0;
std::string work;

std::vector<int64_t> sizes(const Descriptor* t) { return t->get<int64_t>(902); }

/// True for a tensor with channels last that is dense, except that there may be a gap after the channels of each pixel.
bool is_channels_last(const Descriptor* t) {
  auto dims = sizes(t), strides = t->get<int64_t>(903);
  int64_t next = strides.back();
  bool is = dims.size() == strides.size() && strides[1] == 1 && next >= dims[1];
  for (size_t axis = dims.size(); axis-- > 2; next *= dims[axis]) is &= strides[axis] == next;
  return is && strides[0] == next;
}

/// True for a cross-correlation with channels last, alpha 1 and beta 0, if the sizes of y follow from those of x, the
/// weights, strides, dilations and paddings.
bool is_convolution(const Descriptor* o) {
  const Descriptor *about = o->at(702), *w = o->at(703), *x = o->at(704), *y = o->at(705);
  auto strides = about->get<int64_t>(103), dilations = about->get<int64_t>(102), before = about->get<int64_t>(105),
       after = about->get<int64_t>(104);
  auto xs = sizes(x), ws = sizes(w), ys = sizes(y);
  bool is = is_channels_last(x) && is_channels_last(w) && is_channels_last(y) && xs[1] % ws[1] == 0 && ws[0] == ys[1] &&
            xs[0] == ys[0];
  is &= about->get<int>(101) == std::vector{1} && o->get<float>(700) == std::vector{1.0F} &&
        o->get<float>(701) == std::vector{0.0F};
  for (size_t i = 0; i < strides.size(); ++i)
    is &= ys[2 + i] == (xs[2 + i] + before[i] + after[i] - dilations[i] * (ws[2 + i] - 1) - 1) / strides[i] + 1;
  return is && before.size() + 2 == xs.size() && about->get<int64_t>(106)[0] == static_cast<int64_t>(before.size());
}

std::string name_of(const Descriptor* o) {
  if (o->kind == forward) {
    std::string name = "conv ";
    auto x = sizes(o->at(704));
    for (size_t i = 0; i < x.size(); ++i) name += (i ? "x" : "") + std::to_string(x[i]);
    return name;
  }
  bool is_relu = o->at(750)->get<int>(0)[0] == 100;
  if (is_relu) return o->at(750)->get<int>(2) == std::vector{1} ? " relu" : " relu that swallows NaN";
  return sizes(o->at(752)) == sizes(o->at(753)) ? " other" : " bias";
}

Status finish(Descriptor* d) {
  if (auto list = needed.find(d->kind); list != needed.end()) {
    for (int name : list->second)
      if (!d->values.contains(name)) return bad;
  }
  if (d->kind == forward && !is_convolution(d)) return bad;
  if (d->kind == heuristics) {
    const Descriptor* first = d->at(201)->get<Descriptor*>(801)[0];
    if (first->kind != forward || sizes(first->at(704))[0] == 7) return not_supported;
  }
  if (d->kind == graph) {
    for (const Descriptor* o : d->get<Descriptor*>(801)) d->computes += name_of(o);
  }
  if (d->kind == heuristics) d->computes = d->at(201)->computes;
  if (d->kind == plan) ++plans, d->computes = d->at(401)->computes, d->number = d->at(401)->number;
  d->is_finished = true;
  return ok;
}

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED int fake_cudnn_plans() { return plans; }
EXPORTED int fake_cudnn_runs() { return runs; }
EXPORTED int fake_cudnn_engine() { return last_engine; }
EXPORTED const char* fake_cudnn_work() { return work.c_str(); }

EXPORTED int cudnnCreate(void** library) { return *library = new int(0), ok; }
EXPORTED int cudnnDestroy(void* library) { return delete static_cast<int*>(library), ok; }
EXPORTED int cudnnSetStream(void* library, void*) { return library ? ok : bad; }
EXPORTED int cudnnBackendCreateDescriptor(Kind kind, void** made) { return *made = new Descriptor{kind}, ok; }
EXPORTED int cudnnBackendDestroyDescriptor(void* descriptor) { return delete static_cast<Descriptor*>(descriptor), ok; }
EXPORTED int cudnnBackendFinalize(void* descriptor) { return finish(static_cast<Descriptor*>(descriptor)); }
EXPORTED int cudnnBackendSetAttribute(void* to, int name, Type type, int64_t count, const void* values) {
  auto* d = static_cast<Descriptor*>(to);
  auto known = attributes.find(name);
  if (d->is_finished || known == attributes.end() || known->second.kind != d->kind || known->second.type != type ||
      count < 1)
    return bad;
  const auto* bytes = static_cast<const std::byte*>(values);
  d->values[name].assign(bytes, bytes + static_cast<size_t>(count) * size_of(type));
  if (type != descriptor) return ok;
  for (const Descriptor* part : d->get<Descriptor*>(name))
    if (!part->is_finished) return bad;
  return ok;
}
EXPORTED int cudnnBackendGetAttribute(void* from, int name, Type type, int64_t room, int64_t* count, void* values) {
  auto* d = static_cast<Descriptor*>(from);
  auto known = attributes.find(name);
  if (known == attributes.end() || known->second.kind != d->kind || known->second.type != type) return bad;
  if (d->kind == heuristics || d->kind == configuration) {
    auto** made = static_cast<Descriptor**>(values);
    *count = d->kind == configuration ? 1 : static_cast<int64_t>(engines.size());
    for (int64_t i = 0; i < std::min(*count, room); ++i) {
      made[i]->number = d->kind == configuration ? d->number : static_cast<int>(i) + 1;
      made[i]->computes = d->computes;
      made[i]->is_finished = true;
    }
    return ok;
  }
  if (d->kind == plan) return *static_cast<int64_t*>(values) = 1 << 20, *count = 1, ok;
  if (d->kind != engine || d->number < 1) return bad;
  const Engine& about = engines[static_cast<size_t>(d->number) - 1];
  const auto& notes = type == numerical ? about.numerical : about.behavior;
  *count = static_cast<int64_t>(notes.size());
  std::memcpy(values, notes.data(), std::min<size_t>(notes.size(), static_cast<size_t>(room)) * sizeof(int));
  return ok;
}
EXPORTED int cudnnBackendExecute(void* library, void* what, void* with) {
  const auto *p = static_cast<Descriptor*>(what), *v = static_cast<Descriptor*>(with);
  if (!library || !p->is_finished || !v->is_finished) return bad;
  if (v->get<int64_t>(1000).size() != v->get<void*>(1001).size()) return bad;
  for (void* address : v->get<void*>(1001))
    if (!address) return bad;
  ++runs;
  last_engine = p->number;
  work = p->computes;
  return ok;
}
