// SPDX-License-Identifier: Apache-2.0
// cuDNN's graph interface, with the declarations that Weft uses, written from NVIDIA's public documentation.
#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/knobs.h"
#include "targets/gpu/library.h"

namespace weft::gpu {
namespace {

/// The values of cudnnBackendDescriptorType_t that Weft uses.
enum class Kind : int {
  pointwise = 0,
  convolution = 1,
  engine = 2,
  engine_configuration = 3,
  heuristics = 4,
  plan = 5,
  convolution_forward = 10,
  pointwise_operation = 13,
  graph = 15,
  variant_pack = 16,
  tensor = 17
};

/// The values of cudnnBackendAttributeType_t that Weft uses.
enum class Type : int {
  handle = 0,
  data_type = 1,
  boolean = 2,
  int64 = 3,
  float32 = 4,
  pointer = 6,
  convolution_mode = 7,
  heuristics_mode = 8,
  nan_propagation = 10,
  numerical_note = 11,
  pointwise_mode = 14,
  descriptor = 15,
  behavior_note = 19
};

/// The values of cudnnBackendAttributeName_t that Weft uses.
enum class Name : int {
  pointwise_mode = 0,
  pointwise_math_prec = 1,
  pointwise_nan_propagation = 2,
  convolution_comp_type = 100,
  convolution_conv_mode = 101,
  convolution_dilations = 102,
  convolution_filter_strides = 103,
  convolution_post_paddings = 104,
  convolution_pre_paddings = 105,
  convolution_spatial_dims = 106,
  engineheur_mode = 200,
  engineheur_operation_graph = 201,
  engineheur_results = 202,
  enginecfg_engine = 300,
  execution_plan_handle = 400,
  execution_plan_engine_config = 401,
  execution_plan_workspace_size = 402,
  operation_convolution_forward_alpha = 700,
  operation_convolution_forward_beta = 701,
  operation_convolution_forward_conv_desc = 702,
  operation_convolution_forward_w = 703,
  operation_convolution_forward_x = 704,
  operation_convolution_forward_y = 705,
  operation_pointwise_pw_descriptor = 750,
  operation_pointwise_xdesc = 751,
  operation_pointwise_bdesc = 752,
  operation_pointwise_ydesc = 753,
  operationgraph_handle = 800,
  operationgraph_ops = 801,
  tensor_byte_alignment = 900,
  tensor_data_type = 901,
  tensor_dimensions = 902,
  tensor_strides = 903,
  tensor_unique_id = 906,
  tensor_is_virtual = 907,
  variant_pack_unique_ids = 1000,
  variant_pack_data_pointers = 1001,
  variant_pack_workspace = 1003,
  engine_numerical_note = 1303,
  engine_behavior_note = 1305
};

constexpr int cross_correlation = 1, pointwise_add = 0, pointwise_relu = 100, propagate_nan = 1;
constexpr int heuristics_a = 3, heuristics_fallback = 2;
constexpr int note_tensor_core = 0, note_down_convert = 1, note_strict_nan = 9, note_runtime_compilation = 0;
constexpr int filter_reorder = 1, bias_reorder = 2;

int cudnn_type(DType type) {
  switch (type) {
    case DType::f32: return 0;
    case DType::f16: return 2;
    case DType::bf16: return 9;
    default: internal_error(cat("convolutions of ", type, " by cuDNN"));
  }
}

struct CudnnCalls {
  int (*create)(Handle* library);
  int (*destroy)(Handle library);
  int (*set_stream)(Handle library, Handle stream);
  int (*descriptor_create)(Kind kind, Handle* descriptor);
  int (*descriptor_destroy)(Handle descriptor);
  int (*finalize)(Handle descriptor);
  int (*set)(Handle descriptor, Name name, Type type, int64_t count, const void* values);
  int (*get)(Handle descriptor, Name name, Type type, int64_t room, int64_t* count, void* values);
  int (*execute)(Handle library, Handle plan, Handle variant_pack);
};

class Cudnn final : public Library {
 public:
  Cudnn() : Library("cudnn", {"libcudnn.so.9", "libcudnn.so"}, knobs().cudnn_library) {
    const DriverSymbol wanted[] = {{slot(calls.create), "Create"},
                                   {slot(calls.destroy), "Destroy"},
                                   {slot(calls.set_stream), "SetStream"},
                                   {slot(calls.descriptor_create), "BackendCreateDescriptor"},
                                   {slot(calls.descriptor_destroy), "BackendDestroyDescriptor"},
                                   {slot(calls.finalize), "BackendFinalize"},
                                   {slot(calls.set), "BackendSetAttribute"},
                                   {slot(calls.get), "BackendGetAttribute"},
                                   {slot(calls.execute), "BackendExecute"}};
    open("cudnn", wanted);
  }
  std::unique_ptr<LibraryWork> prepare(const std::shared_ptr<Device>& device, const LibraryCall& call) const override;

  CudnnCalls calls{};
};

/// An owned cuDNN descriptor: creates it, sets attributes, finalises it.
class Descriptor {
 public:
  Descriptor(const Cudnn& library, Kind kind) : library_(library) {
    Handle made = nullptr;
    library.check(library.calls.descriptor_create(kind, &made), "make a descriptor");
    object_ = LibraryObject(made, library.calls.descriptor_destroy);
  }
  Handle get() const { return object_.get(); }

  template <class T>
  Descriptor& set(Name name, Type type, const std::vector<T>& values) {
    return set(name, type, values.data(), values.size());
  }
  template <class T>
    requires(std::is_scalar_v<T>)
  Descriptor& set(Name name, Type type, T value) {
    return set(name, type, &value, 1);
  }
  Descriptor& set(Name name, const Descriptor& value) { return set(name, Type::descriptor, value.get()); }
  Descriptor&& finished() {
    library_.check(library_.calls.finalize(get()), "describe a convolution");
    return std::move(*this);
  }
  /// Reads an attribute's values, at most `room` of them.
  template <class T>
  std::vector<T> list(Name name, Type type, size_t room) const {
    std::vector<T> values(room);
    int64_t count = 0;
    int status = library_.calls.get(get(), name, type, static_cast<int64_t>(room), &count, values.data());
    library_.check(status, cat("get attribute ", static_cast<int>(name)));
    values.resize(std::min<size_t>(count, room));
    return values;
  }

 private:
  Descriptor& set(Name name, Type type, const void* values, size_t count) {
    int status = library_.calls.set(get(), name, type, static_cast<int64_t>(count), values);
    library_.check(status, cat("set attribute ", static_cast<int>(name)));
    return *this;
  }

  const Cudnn& library_;
  LibraryObject object_;
};

/// The operations of one call and their tensors, as a graph.
class Operations {
 public:
  Operations(const Cudnn& library, Handle handle, const LibraryConvolution& c)
      : library_(library), convolution_(c), shape_(c) {
    bool is_alone = !c.has_bias && !c.has_other && !c.has_relu;
    Handle at = convolve(is_alone);
    if (c.has_bias) at = add(at, channels(), !c.has_other && !c.has_relu);
    if (c.has_other) at = add(at, operand(c.type, shape_.y, shape_.y_strides), !c.has_relu);
    if (c.has_relu) relu(at);
    graph()
        .set(Name::operationgraph_ops, Type::descriptor, operations_)
        .set(Name::operationgraph_handle, Type::handle, handle)
        .finished();
  }
  const Descriptor& graph_made() const { return kept_.back(); }

 private:
  Descriptor& keep(Descriptor&& made) { return kept_.emplace_back(std::move(made)); }
  Descriptor& graph() { return keep({library_, Kind::graph}); }

  Handle tensor(DType type, const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides, bool is_virtual) {
    constexpr int64_t alignment = 16;
    Descriptor made(library_, Kind::tensor);
    made.set(Name::tensor_data_type, Type::data_type, cudnn_type(type))
        .set(Name::tensor_dimensions, Type::int64, sizes)
        .set(Name::tensor_strides, Type::int64, strides)
        .set(Name::tensor_unique_id, Type::int64, is_virtual ? next_virtual_id_++ : next_id_++)
        .set(Name::tensor_byte_alignment, Type::int64, alignment)
        .set(Name::tensor_is_virtual, Type::boolean, is_virtual);
    return keep(made.finished()).get();
  }
  /// Creates an operand; ids count from 1 in the order of operands.
  Handle operand(DType type, const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
    return tensor(type, sizes, strides, false);
  }
  /// Creates the result of an operation: y for the last one, else a virtual f32 tensor for the next operation.
  Handle result(bool is_last) {
    return tensor(is_last ? convolution_.type : DType::f32, shape_.y, shape_.y_strides, !is_last);
  }
  Handle channels() {
    std::vector<int64_t> sizes(shape_.y.size(), 1), strides(shape_.y.size(), shape_.y[1]);
    sizes[1] = shape_.y[1], strides[1] = 1;
    return operand(DType::f32, sizes, strides);
  }

  Handle convolve(bool is_last) {
    const std::vector<int64_t>& pad = shape_.pad;
    Descriptor about(library_, Kind::convolution);
    about.set(Name::convolution_comp_type, Type::data_type, cudnn_type(DType::f32))
        .set(Name::convolution_conv_mode, Type::convolution_mode, cross_correlation)
        .set(Name::convolution_spatial_dims, Type::int64, static_cast<int64_t>(pad.size()))
        .set(Name::convolution_pre_paddings, Type::int64, pad)
        .set(Name::convolution_post_paddings, Type::int64, shape_.pad_end)
        .set(Name::convolution_filter_strides, Type::int64, shape_.stride)
        .set(Name::convolution_dilations, Type::int64, shape_.dilation);
    Handle made = keep(about.finished()).get();
    Handle x = operand(convolution_.type, shape_.x, shape_.x_strides),
           weights = operand(convolution_.type, shape_.weights, shape_.weights_strides), y = result(is_last);
    Descriptor operation(library_, Kind::convolution_forward);
    operation.set(Name::operation_convolution_forward_conv_desc, Type::descriptor, made)
        .set(Name::operation_convolution_forward_x, Type::descriptor, x)
        .set(Name::operation_convolution_forward_w, Type::descriptor, weights)
        .set(Name::operation_convolution_forward_y, Type::descriptor, y)
        .set(Name::operation_convolution_forward_alpha, Type::float32, 1.0F)
        .set(Name::operation_convolution_forward_beta, Type::float32, 0.0F);
    operations_.push_back(keep(operation.finished()).get());
    return y;
  }

  /// Adds an elementwise operation in f32; `b` may be null.
  Handle pointwise(Descriptor&& about, Handle a, Handle b, bool is_last) {
    about.set(Name::pointwise_math_prec, Type::data_type, cudnn_type(DType::f32));
    Handle made = keep(about.finished()).get(), y = result(is_last);
    Descriptor operation(library_, Kind::pointwise_operation);
    operation.set(Name::operation_pointwise_pw_descriptor, Type::descriptor, made)
        .set(Name::operation_pointwise_xdesc, Type::descriptor, a)
        .set(Name::operation_pointwise_ydesc, Type::descriptor, y);
    if (b) operation.set(Name::operation_pointwise_bdesc, Type::descriptor, b);
    operations_.push_back(keep(operation.finished()).get());
    return y;
  }
  Handle add(Handle a, Handle b, bool is_last) {
    Descriptor about(library_, Kind::pointwise);
    about.set(Name::pointwise_mode, Type::pointwise_mode, pointwise_add);
    return pointwise(std::move(about), a, b, is_last);
  }
  void relu(Handle a) {
    Descriptor about(library_, Kind::pointwise);
    about.set(Name::pointwise_mode, Type::pointwise_mode, pointwise_relu)
        .set(Name::pointwise_nan_propagation, Type::nan_propagation, propagate_nan);
    pointwise(std::move(about), a, nullptr, true);
  }

  const Cudnn& library_;
  const LibraryConvolution& convolution_;
  ConvolutionShape shape_;
  int64_t next_id_ = 1, next_virtual_id_ = 100;
  std::vector<Descriptor> kept_;
  std::vector<Handle> operations_;
};

class CudnnConvolution final : public LibraryWork {
 public:
  CudnnConvolution(const Cudnn& library, std::shared_ptr<LibraryHandle> handle, const LibraryCall& call)
      : library_(library),
        handle_(std::move(handle)),
        is_open_(call.is_open),
        is_f32_(std::get<LibraryConvolution>(call.work).type == DType::f32) {
    const std::lock_guard lock(handle_->mutex);
    Operations operations(library, handle_->object.get(), std::get<LibraryConvolution>(call.work));
    for (int mode : {heuristics_a, heuristics_fallback}) {
      for (const Descriptor& configuration : configurations(operations.graph_made(), mode)) {
        if (is_allowed(configuration) && make_plan(configuration)) return;
      }
    }
    library.refuse("it has no engine that is deterministic and fits in the working memory");
  }

  void launch(const Stream& stream, std::span<std::byte* const> operands) const override {
    const std::lock_guard lock(handle_->mutex);
    std::vector<void*> pointers(operands.begin(), operands.end() - 1);
    std::vector<int64_t> ids;
    while (ids.size() < pointers.size()) ids.push_back(static_cast<int64_t>(ids.size()) + 1);
    Descriptor pack(library_, Kind::variant_pack);
    pack.set(Name::variant_pack_data_pointers, Type::pointer, pointers)
        .set(Name::variant_pack_unique_ids, Type::int64, ids)
        .set(Name::variant_pack_workspace, Type::pointer, static_cast<void*>(operands.back()))
        .finished();
    Handle library = handle_->object.get();
    library_.check(library_.calls.set_stream(library, stream.get()), "use a stream");
    library_.check(library_.calls.execute(library, plan_->get(), pack.get()), "convolve");
  }

 private:
  /// Returns the configurations that the heuristics propose, best first.
  std::vector<Descriptor> configurations(const Descriptor& graph, int mode) const {
    constexpr size_t most = 64;
    Descriptor heuristics(library_, Kind::heuristics);
    heuristics.set(Name::engineheur_operation_graph, graph).set(Name::engineheur_mode, Type::heuristics_mode, mode);
    std::vector<Descriptor> made;
    if (library_.calls.finalize(heuristics.get()) != 0) return made;  // this mode does not support the graph
    for (size_t i = 0; i < most; ++i) made.emplace_back(library_, Kind::engine_configuration);
    std::vector<Handle> handles;
    for (const Descriptor& one : made) handles.push_back(one.get());
    int64_t count = 0;
    int status = library_.calls.get(heuristics.get(), Name::engineheur_results, Type::descriptor,
                                    static_cast<int64_t>(most), &count, handles.data());
    while (std::ssize(made) > (status == 0 ? std::max<int64_t>(count, 0) : 0)) made.pop_back();
    return made;
  }

  /// True if a configuration may be used: deterministic, sums in the defined type, no TF32 for f32, no reordered
  /// operands, no compilation while a program runs.
  bool is_allowed(const Descriptor& configuration) const {
    Descriptor engine(library_, Kind::engine);
    Handle handle = engine.get();
    int64_t count = 0;
    if (library_.calls.get(configuration.get(), Name::enginecfg_engine, Type::descriptor, 1, &count, &handle) != 0)
      return false;
    constexpr size_t room = 64;
    for (int note : engine.list<int>(Name::engine_numerical_note, Type::numerical_note, room)) {
      bool is_exact = note == note_tensor_core || note == note_down_convert ? !is_f32_ : note == note_strict_nan;
      if (!is_exact) return false;
    }
    for (int note : engine.list<int>(Name::engine_behavior_note, Type::behavior_note, room)) {
      bool is_compiled = note == note_runtime_compilation && is_open_;
      if (is_compiled || note == filter_reorder || note == bias_reorder) return false;
    }
    return true;
  }

  bool make_plan(const Descriptor& configuration) {
    Descriptor plan(library_, Kind::plan);
    plan.set(Name::execution_plan_handle, Type::handle, handle_->object.get())
        .set(Name::execution_plan_engine_config, configuration);
    if (library_.calls.finalize(plan.get()) != 0) return false;  // the heuristics may propose unsupported plans
    auto workspace = plan.list<int64_t>(Name::execution_plan_workspace_size, Type::int64, 1);
    if (workspace.empty() || workspace[0] > library_workspace) return false;
    plan_.emplace(std::move(plan));
    return true;
  }

  const Cudnn& library_;
  std::shared_ptr<LibraryHandle> handle_;
  bool is_open_, is_f32_;
  std::optional<Descriptor> plan_;
};

std::unique_ptr<LibraryWork> Cudnn::prepare(const std::shared_ptr<Device>& device, const LibraryCall& call) const {
  const auto& c = std::get<LibraryConvolution>(call.work);
  if (c.has_relu && c.type == DType::f32) refuse("its relu of f32 ends at the largest number, not at infinity");
  return std::make_unique<CudnnConvolution>(*this, handle_of(*device, calls.create, calls.destroy), call);
}

}  // namespace

std::unique_ptr<Library> open_cudnn() { return std::make_unique<Cudnn>(); }

}  // namespace weft::gpu
