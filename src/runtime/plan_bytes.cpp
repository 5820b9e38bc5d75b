// SPDX-License-Identifier: Apache-2.0
// Each structure lists its fields once, in `fields`; Encoder and Decoder walk the same lists, so they cannot disagree.
// Numbers are 8 bytes, little endian; strings and lists start with their length.
#include "runtime/plan_bytes.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <concepts>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "host/run.h"
#include "runtime/saved.h"

namespace weft {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are copied as they lie in memory");

constexpr size_t alignment = 64;
constexpr int max_type_depth = 16;
/// The upper limit of a buffer's or tensor's bytes in a file: above real sizes, but without overflow in sums of sizes.
constexpr int64_t max_bytes = int64_t{1} << 48;

[[noreturn]] void damaged_plan(std::string why) {
  throw Error({.kind = ErrorKind::model,
               .code = "E170",
               .what = cat("the saved program is damaged: ", why),
               .hint = "compile the model again"});
}

void expect(bool holds, const char* why) {
  if (!holds) damaged_plan(why);
}

// --- the fields of each structure ------------------------------------------------------------------------------------

template <class T, class U>
concept Is = std::same_as<std::remove_const_t<T>, U>;

void fields(auto& a, auto& id)
  requires requires { id.number; }
{
  a(id.number);
}
void fields(auto& a, Is<Chip> auto& chip) { a(chip.kind, chip.arch, chip.features, chip.tune); }
void fields(auto& a, Is<Symbol> auto& symbol) { a(symbol.name, symbol.min, symbol.max, symbol.multiple_of); }
void fields(auto& a, Is<Shape> auto& shape) { a(shape.dtype, shape.dims); }
void fields(auto& a, Is<Port> auto& port) { a(port.name, port.type, port.default_value, port.is_donated); }
void fields(auto& a, Is<SizeCheck> auto& check) { a(check.equal, check.a, check.b, check.source, check.what); }
void fields(auto& a, Is<PlanBuffer> auto& buffer) {
  a(buffer.kind, buffer.index, buffer.shape, buffer.bytes, buffer.value, buffer.first_step, buffer.last_step,
    buffer.shares);
}
void fields(auto& a, Is<PlanKernel> auto& kernel) {
  a(kernel.name, kernel.code, kernel.threads, kernel.shared_bytes, kernel.occupancy, kernel.cluster, kernel.kind,
    kernel.notes_faults);
}
void fields(auto& a, Is<SizeSetting> auto& setting) {
  a(setting.symbol, setting.buffer, setting.element, setting.value, setting.most);
}
void fields(auto& a, Is<HostCall> auto& call) { a(call.fn, call.numbers, call.strings); }
void fields(auto& a, Is<StepVariant> auto& variant) { a(variant.kernel, variant.sizes, variant.blocks, variant.from); }
void fields(auto& a, Is<LaunchStep> auto& step) { a(step.kernel, step.blocks, step.work, step.variants); }
void fields(auto& a, Is<SizesStep> auto& step) { a(step.settings, step.checks); }
void fields(auto& a, Is<BranchStep> auto& step) { a(step.amount, step.target); }
void fields(auto& a, Is<JumpStep> auto& step) { a(step.target); }
void fields(auto&, Is<SwapStep> auto&) {}
void fields(auto& a, Is<GrowStep> auto& step) { a(step.bytes); }
void fields(auto& a, Is<HostStep> auto& step) { a(step.call); }
void fields(auto& a, Is<PartStep> auto& step) { a(step.part, step.settings); }
/// Encodes no fields of library calls and collectives, because saved programs contain no such steps.
/// Only tools that compare plans encode plans with such steps.
template <class A, class T>
  requires Is<T, LibraryStep> || Is<T, CollectiveStep>
void fields(A&, T&) {}
void fields(auto& a, Is<PlanStep> auto& step) {
  a(step.action, step.buffers, step.sizes, step.outputs, step.source, step.reason, step.flops, step.bytes,
    step.in_place, step.moves, step.moves_apart);
}
void fields(auto& a, Is<InPlace> auto& pair) { a(pair.input, pair.output); }
void fields(auto& a, Is<Donation> auto& donation) { a(donation.input, donation.output, donation.why_not); }
void fields(auto& a, Is<PlanPart> auto& part) { a(part.plan, part.names, part.image); }
void fields(auto& a, Is<Plan> auto& plan) {
  a(plan.chip, plan.program, plan.metadata, plan.inputs, plan.outputs, plan.checks, plan.sizes, plan.buffers,
    plan.strings, plan.constants, plan.kernels, plan.load_steps, plan.steps, plan.parts, plan.in_place, plan.donations,
    plan.compiler);
}
void fields(auto& a, Is<PlacedConstant> auto& constant) { a(constant.offset, constant.size, constant.hash); }
void fields(auto& a, Is<Contents> auto& contents) { a(contents.chips, contents.constants); }
void fields(auto& a, Is<DonationRequest> auto& request) { a(request.input, request.output); }
void fields(auto& a, Is<ProgramSource> auto& source) {
  a(source.text, source.constants, source.precision, source.keep_f32, source.donations);
}

constexpr auto last_of(ChipKind) { return ChipKind::arm; }
constexpr auto last_of(BufferKind) { return BufferKind::value; }
constexpr auto last_of(KernelKind) { return KernelKind::host_function; }
constexpr auto last_of(HostFn) { return HostFn::hash_text; }
constexpr auto last_of(DType) { return DType::string; }
constexpr auto last_of(Type::Kind) { return Type::Kind::map; }

// --- out -------------------------------------------------------------------------------------------------------------

class Encoder {
 public:
  explicit Encoder(ConstantStore& constants) : constants_(constants) {}

  template <class... T>
  void operator()(const T&... values) {
    (put(values), ...);
  }

  std::vector<std::byte> bytes;
  std::vector<Symbol> symbols;

 private:
  template <std::integral T>
  void put(T value) {
    auto wide = static_cast<int64_t>(value);
    auto from = std::as_bytes(std::span(&wide, 1));
    bytes.insert(bytes.end(), from.begin(), from.end());
  }
  template <class T>
    requires std::is_enum_v<T>
  void put(T value) {
    put(static_cast<int64_t>(value));
  }
  void put(const std::string& text) {
    put(text.size());
    auto from = as_bytes(text);
    bytes.insert(bytes.end(), from.begin(), from.end());
  }
  template <class T>
  void put(const std::vector<T>& items) {
    put(items.size());
    for (const T& item : items) put(item);
  }
  void put(const std::map<std::string, std::string>& entries) {
    put(entries.size());
    for (const auto& [key, value] : entries) (*this)(key, value);
  }
  void put(const std::shared_ptr<Plan>& plan) { put(*plan); }
  template <class... T>
  void put(const std::variant<T...>& value) {
    put(value.index());
    std::visit([&](const auto& alternative) { put(alternative); }, value);
  }
  template <class T>
  void put(const std::optional<T>& value) {
    put(value.has_value());
    if (value) put(*value);
  }
  template <class T>
    requires requires(Encoder& a, const T& t) { fields(a, t); }
  void put(const T& value) {
    fields(*this, value);
  }

  /// Renames a symbol to "s" and its index in `symbols`, because a model may use any text as a name.
  Symbol numbered(const Symbol& symbol) {
    auto same = [&](const Symbol& s) {
      return s.name == symbol.name && s.min == symbol.min && s.max == symbol.max && s.multiple_of == symbol.multiple_of;
    };
    auto found = std::ranges::find_if(symbols, same);
    if (found == symbols.end()) found = symbols.insert(found, symbol);
    Symbol renamed = symbol;
    renamed.name = cat("s", found - symbols.begin());
    return renamed;
  }

  void put(const Dim& dim) {
    put(dim.is_constant());
    if (dim.is_constant()) {
      put(dim.value());
    } else {
      put(to_string(dim.substitute([&](const Symbol& symbol) { return Dim::symbol(numbered(symbol)); })));
    }
  }

  void put(const Type& type) {
    put(type.kind);
    if (type.is_tensor()) put(type.shape);
    if (type.kind == Type::Kind::map) put(type.key);
    if (!type.is_tensor()) put(*type.element);
  }

  void put(const Tensor& tensor) {
    (*this)(tensor.dtype, tensor.dims);
    if (tensor.dtype == DType::string) return put(*tensor.strings);
    size_t size = byte_size(tensor.dtype, tensor.elements());
    check(tensor.data.size() >= size, "a tensor has its bytes");
    put(constants_.add(std::span<const std::byte>(tensor.data).first(size)));
  }

  void put(const Hash128& hash) { (*this)(static_cast<int64_t>(hash.low), static_cast<int64_t>(hash.high)); }

  ConstantStore& constants_;
};

// --- in --------------------------------------------------------------------------------------------------------------

class Decoder {
 public:
  Decoder(std::span<const std::byte> bytes, const ConstantPlaces& constants) : rest_(bytes), constants_(constants) {}

  template <class... T>
  void operator()(T&... values) {
    (get(values), ...);
  }

  void read_symbols() {
    get(symbols_);
    for (const Symbol& s : symbols_)
      expect(s.min <= s.max && s.multiple_of >= 1, "the bounds of a size are impossible");
  }
  void expect_end() const { expect(rest_.empty(), "there are bytes after its end"); }

 private:
  std::span<const std::byte> take(size_t count) {
    expect(count <= rest_.size(), "it ends too early");
    auto taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }

  int64_t number(int64_t low, int64_t high) {
    int64_t value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    if (value < low || value > high) damaged_plan(cat("number ", value, " is outside ", low, " to ", high));
    return value;
  }

  /// Reads a length. Each item takes at least a byte, so a length above the remaining bytes means damage.
  size_t length() { return number(0, std::ssize(rest_)); }

  template <std::integral T>
  void get(T& value) {
    constexpr bool is_wide = std::same_as<T, size_t>;  // limited by max_bytes, because the file holds int64_t
    value = static_cast<T>(number(static_cast<int64_t>(std::numeric_limits<T>::min()),
                                  is_wide ? max_bytes : static_cast<int64_t>(std::numeric_limits<T>::max())));
  }
  void get(Hash128& hash) {
    int64_t low = 0, high = 0;
    (*this)(low, high);
    hash = {static_cast<uint64_t>(low), static_cast<uint64_t>(high)};
  }
  template <class T>
    requires std::is_enum_v<T>
  void get(T& value) {
    value = static_cast<T>(number(0, static_cast<int64_t>(last_of(T{}))));
  }
  void get(std::string& text) { text = as_text(take(length())); }
  template <class T>
  void get(std::vector<T>& items) {
    for (size_t left = length(); left > 0; --left) get(items.emplace_back());
  }
  void get(std::map<std::string, std::string>& entries) {
    for (size_t left = length(); left > 0; --left) {
      std::string key, value;
      (*this)(key, value);
      expect(entries.emplace(std::move(key), std::move(value)).second, "a key of the metadata comes twice");
    }
  }
  void get(std::shared_ptr<Plan>& plan) {
    expect(++depth_ == 1, "a part of a plan has parts itself");
    get(*(plan = std::make_shared<Plan>()));
    --depth_;
  }
  template <class... T>
  void get(std::variant<T...>& value) {
    auto index = number(0, sizeof...(T) - 1);
    int64_t at = 0;
    ((index == at++ ? get(value.template emplace<T>()) : void()), ...);
  }
  template <class T>
  void get(std::optional<T>& value) {
    if (number(0, 1) == 1) get(value.emplace());
  }
  template <class T>
    requires requires(Decoder& a, T& t) { fields(a, t); }
  void get(T& value) {
    fields(*this, value);
  }

  void get(Dim& dim) {
    if (number(0, 1) == 1) {
      dim = number(std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max());
      return;
    }
    std::string text;
    get(text);
    dim = parse_dim(text, [&](std::string_view name) { return symbol(name); });
  }

  const Symbol& symbol(std::string_view name) const {
    size_t index = symbols_.size();
    const char* end = name.data() + name.size();
    bool is_number = name.starts_with('s') && std::from_chars(name.data() + 1, end, index).ptr == end;
    expect(is_number && index < symbols_.size(), "a size has no name");
    return symbols_[index];
  }

  void get(Type& type) {
    expect(++depth_ <= max_type_depth, "types are nested too deep");
    get(type.kind);
    if (type.is_tensor()) get(type.shape);
    if (type.kind == Type::Kind::map) get(type.key);
    if (!type.is_tensor()) {
      auto element = std::make_shared<Type>();
      get(*element);
      type.element = std::move(element);
    }
    --depth_;
  }

  void get(Tensor& tensor) {
    (*this)(tensor.dtype, tensor.dims);
    for (int64_t dim : tensor.dims) expect(dim >= 0, "a tensor has a negative size");
    int64_t count = element_count(tensor.dims);
    if (tensor.dtype == DType::string) return get_strings(tensor, count);
    // The narrowest elements have two bits, so a byte holds at most four.
    expect(count <= static_cast<int64_t>(constants_.weights.size()) * 4, "a tensor is larger than all weights");
    expect(!constants_.places.empty(), "a tensor has no contents");
    auto place = constants_.places[number(0, static_cast<int64_t>(constants_.places.size()) - 1)];
    expect(std::cmp_equal(place.size, byte_size(tensor.dtype, count)), "the bytes of a tensor do not match its size");
    tensor.data = constants_.weights.part(place.offset, place.size);
  }

  void get_strings(Tensor& tensor, int64_t count) {
    std::vector<std::string> strings;
    get(strings);
    expect(static_cast<int64_t>(strings.size()) == count, "a tensor's number of strings differs from its sizes");
    tensor.strings = std::make_shared<const std::vector<std::string>>(std::move(strings));
  }

  std::span<const std::byte> rest_;
  const ConstantPlaces& constants_;
  std::vector<Symbol> symbols_;
  int depth_ = 0;
};

// --- conditions that a plan must meet before it runs -----------------------------------------------------------------

bool is_below(int index, size_t count) { return index >= 0 && std::cmp_less(index, count); }

void check_size(const Dim& size) {
  auto number = size.constant();
  expect(!number || (*number >= 0 && *number <= max_bytes), "a size is negative or too large");
}

void check_type(const Type& type) {
  for (const Dim& dim : type.shape.dims) check_size(dim);
  if (type.element) check_type(*type.element);
}

void check_constant_bytes(const PlanBuffer& buffer, int64_t there) {
  auto wanted = buffer.bytes.constant();
  expect(wanted && *wanted <= there, "a buffer is larger than its constant");
}

/// Checks a buffer that shares another buffer's memory. The last step of the other buffer must be the first step of
/// this buffer, so that chains of shared buffers end.
void check_shares(const PlanBuffer& buffer, const Plan& plan) {
  if (buffer.shares == BufferId()) return;
  expect(plan.buffers.contains(buffer.shares), "a buffer shares memory with a buffer that does not exist");
  const PlanBuffer& other = plan.buffers[buffer.shares];
  expect(buffer.kind == BufferKind::arena && other.kind == BufferKind::arena &&
             known_equal(buffer.bytes, other.bytes) && other.first_step < other.last_step &&
             other.last_step == buffer.first_step,
         "a buffer shares memory that is in use");
}

void check_buffer(const PlanBuffer& buffer, const Plan& plan) {
  check_size(buffer.bytes);
  for (const Dim& dim : buffer.shape.dims) check_size(dim);
  bool is_used = bool(buffer.last_step);
  expect(
      !is_used || (buffer.first_step && buffer.first_step <= buffer.last_step && plan.steps.contains(buffer.last_step)),
      "a buffer is used by steps that do not exist");
  switch (buffer.kind) {
    case BufferKind::input:
      return expect(is_below(buffer.index, plan.inputs.size()), "the buffer of an input does not exist");
    case BufferKind::output:
      return expect(is_below(buffer.index, plan.outputs.size()), "the buffer of an output does not exist");
    case BufferKind::persistent: return expect(buffer.bytes.is_constant(), "the size of packed weights is not fixed");
    case BufferKind::arena:
    case BufferKind::dynamic: return check_shares(buffer, plan);
    case BufferKind::value: return;
    case BufferKind::mailbox: internal_error("a program that is split over devices was saved");
    case BufferKind::constant: break;
  }
  expect(is_below(buffer.index, plan.constants.size()), "a constant does not exist");
  check_constant_bytes(buffer, static_cast<int64_t>(plan.constants[buffer.index].data.size()));
}

void check_sharing(const PlanStep& step) {
  auto is_operand = [&](BufferId id) { return std::ranges::find(step.buffers, id) != step.buffers.end(); };
  bool shares = step.moves != BufferId() || !step.in_place.empty();
  expect(!shares || step.outputs.size() == 1, "a step that works in place does not have one output");
  expect(step.moves == BufferId() || is_operand(step.moves), "a step moves a buffer that is not its operand");
  expect(std::ranges::all_of(step.in_place, is_operand), "a step writes in place of a buffer that is not its operand");
}

void check_pair(const Plan& plan, int input, int output) {
  expect(is_below(input, plan.inputs.size()) && is_below(output, plan.outputs.size()),
         "a buffer that shares memory does not exist");
}

/// Checks that the last `left` sizes of a step hold the rank and the sizes of each of its first `buffers` buffers.
void check_host_sizes(const PlanStep& step, const Plan& plan, size_t buffers, size_t left) {
  for (size_t i = 0; i < buffers; ++i) {
    expect(left > 0, "a function of the host lacks sizes");
    auto rank = plan.sizes[step.sizes[step.sizes.size() - left]].constant();
    expect(rank && *rank >= 0 && std::cmp_less(*rank, left), "a function of the host lacks sizes");
    left -= 1 + *rank;
  }
}

void check_action(const HostStep& host, const PlanStep& step, const Plan& plan) {
  expect(takes_operands(host.call.fn, step.buffers.size() - step.outputs.size()),
         "a function of the host does not have its operands");
  check_host_sizes(step, plan, step.buffers.size(), step.sizes.size());
}

void check_action(const PartStep& action, const PlanStep& step, const Plan& plan) {
  expect(plan.parts.contains(action.part), "a step has no part of the plan");
  const PlanPart& part = plan.parts[action.part];
  bool fits = step.outputs.size() == part.plan->outputs.size() &&
              step.buffers.size() == step.outputs.size() + part.plan->inputs.size() &&
              step.sizes.size() >= part.names.size() && (action.settings.empty() || !step.outputs.empty());
  expect(fits, "a part of a plan does not have its operands");
  check_host_sizes(step, plan, part.plan->inputs.size(), step.sizes.size() - part.names.size());
}

void check_action(const LaunchStep& launch, const PlanStep& step, const Plan& plan) {
  expect(plan.kernels.contains(launch.kernel), "a step has no kernel");
  for (const StepVariant& variant : launch.variants) {
    expect(plan.kernels.contains(variant.kernel), "a variant of a step has no kernel");
    expect(variant.sizes.size() == step.sizes.size(), "a variant of a step has sizes of its own");
    for (SizeId id : variant.sizes) expect(plan.sizes.contains(id), "a step uses a size that does not exist");
  }
}

void check_action(const SizesStep&, const PlanStep&, const Plan&) {}
void check_action(const LibraryStep&, const PlanStep&, const Plan&) { expect(false, "a step calls a library"); }
void check_action(const CollectiveStep&, const PlanStep&, const Plan&) { expect(false, "a step needs other ranks"); }

void check_target(StepId target, const Plan& plan) {
  expect(target && target <= plan.steps.end_id(), "a jump goes nowhere");
}
void check_action(const BranchStep& branch, const PlanStep&, const Plan& plan) { check_target(branch.target, plan); }
void check_action(const JumpStep& jump, const PlanStep&, const Plan& plan) { check_target(jump.target, plan); }

void check_action(const SwapStep&, const PlanStep& step, const Plan& plan) {
  auto is_working = [&](BufferId id) {
    BufferKind kind = plan.buffers[id].kind;
    return kind == BufferKind::arena || kind == BufferKind::dynamic || kind == BufferKind::value;
  };
  expect(step.buffers.size() % 2 == 0, "a swap misses a buffer");
  expect(std::ranges::all_of(step.buffers, is_working), "a swap moves what is not working memory");
  for (size_t i = 0; i < step.buffers.size(); i += 2) {
    const PlanBuffer &a = plan.buffers[step.buffers[i]], &b = plan.buffers[step.buffers[i + 1]];
    expect(a.kind == BufferKind::dynamic || a.bytes == b.bytes, "a swap moves memory of another size");
  }
}

void check_action(const GrowStep&, const PlanStep& step, const Plan& plan) {
  expect(step.buffers.size() == 1, "room is made for no buffer");
  expect(plan.buffers[step.buffers[0]].kind == BufferKind::dynamic, "room is made for a buffer that cannot grow");
}

void check_setting(const SizeSetting& setting, const Plan& plan) {
  bool is_there = !setting.buffer || plan.buffers.contains(setting.buffer);
  expect(is_there && setting.element >= 0, "a size is read where nothing is");
  if (!setting.buffer) return;
  const PlanBuffer& buffer = plan.buffers[setting.buffer];
  expect(buffer.shape.dtype == DType::i32 || buffer.shape.dtype == DType::i64, "a size is not an integer");
  auto bytes = buffer.bytes.constant();
  expect(bytes && *bytes / byte_size(buffer.shape.dtype, 1) > setting.element,
         "a size is read past the end of its buffer");
}

void check_indexes(const PlanStep& step, const Plan& plan) {
  for (BufferId id : step.buffers) expect(plan.buffers.contains(id), "a step uses a buffer that does not exist");
  for (SizeId id : step.sizes) expect(plan.sizes.contains(id), "a step uses a size that does not exist");
  for (BufferId id : step.outputs)
    expect(std::ranges::find(step.buffers, id) != step.buffers.end(), "a step writes a buffer that it does not list");
  expect(step.outputs.size() <= step.buffers.size(), "a step has more outputs than buffers");
  check_sharing(step);
  for (const SizeSetting& setting : step.settings()) check_setting(setting, plan);
  std::visit([&](const auto& action) { check_action(action, step, plan); }, step.action);
}

void check_load_step(const PlanStep& step, const Plan& plan) {
  check_indexes(step, plan);
  expect(step.is<LaunchStep>(), "packing weights is not a plain step");
  for (BufferId id : step.buffers) {
    BufferKind kind = plan.buffers[id].kind;
    expect(kind == BufferKind::constant || kind == BufferKind::persistent, "packing weights uses working memory");
  }
}

void check_step(StepId at, const Plan& plan) {
  const PlanStep& step = plan.steps[at];
  check_indexes(step, plan);
  for (BufferId id : step.buffers) {
    const PlanBuffer& buffer = plan.buffers[id];
    bool is_working = buffer.kind == BufferKind::arena || buffer.kind == BufferKind::dynamic;
    bool is_there = !is_working || (buffer.first_step <= at && at <= buffer.last_step);
    expect(is_there, "a step uses memory that it does not have");
  }
}

void check_persistent_total(const Plan& plan) {
  int64_t total = 0;
  for (const PlanBuffer& buffer : plan.buffers) {
    if (buffer.kind == BufferKind::persistent) total += buffer.bytes.value();
    expect(total <= max_bytes, "packed weights are too large");
  }
}

void check_plan(const Plan& plan) {
  for (const Port& port : plan.inputs) check_type(port.type);
  for (const PlanKernel& kernel : plan.kernels) {
    expect(kernel.threads > 0 && kernel.threads <= 1024 && kernel.shared_bytes >= 0, "a kernel has no possible block");
    expect(kernel.cluster >= 1 && kernel.cluster <= 8, "a kernel has no possible cluster");
  }
  for (const Port& port : plan.outputs) check_type(port.type);
  for (const PlanBuffer& buffer : plan.buffers) check_buffer(buffer, plan);
  check_persistent_total(plan);
  for (const InPlace& pair : plan.in_place) check_pair(plan, pair.input, pair.output);
  for (const Donation& donation : plan.donations) check_pair(plan, donation.input, donation.output);
  for (const PlanStep& step : plan.load_steps) check_load_step(step, plan);
  for (StepId at : plan.steps.ids()) check_step(at, plan);
  for (const PlanPart& part : plan.parts) {
    expect(is_cpu(part.plan->chip.kind) && part.image.dtype == DType::u8, "a part of a plan is for no processor");
    check_plan(*part.plan);
  }
}

/// Returns the encoded list of a value's symbols, then the encoded value. Encodes the value first to find its symbols.
template <class T>
std::vector<std::byte> encoded(const T& value, ConstantStore& constants) {
  Encoder body(constants), head(constants);
  body(value);
  head(body.symbols);
  head.bytes.insert(head.bytes.end(), body.bytes.begin(), body.bytes.end());
  return std::move(head.bytes);
}

template <class T, class Check>
T decoded(std::span<const std::byte> bytes, const ConstantPlaces& constants, const char* section, Check check) {
  try {
    Decoder decoder(bytes, constants);
    decoder.read_symbols();
    T value;
    decoder(value);
    decoder.expect_end();
    check(value);
    return value;
  } catch (const Error& error) {  // also thrown for impossible size expressions or element counts
    const std::string& what = error.info().what;
    constexpr std::string_view known = "the saved program is damaged: ";
    damaged_plan(cat("section '", section, "': ", what.starts_with(known) ? what.substr(known.size()) : what));
  }
}

void check_places(const std::vector<PlacedConstant>& places, size_t weight_bytes) {
  for (const PlacedConstant& place : places) {
    expect(place.offset % alignment == 0 && place.offset <= weight_bytes && place.size <= weight_bytes - place.offset,
           "a constant is not within the weights");
  }
}

/// Sets the hashes of the plan's constants to those in the file, or computes them.
void find_hashes(Plan& plan, const ConstantPlaces& constants) {
  std::map<std::pair<const std::byte*, size_t>, Hash128> hashes;
  for (const PlacedConstant& place : constants.places)
    hashes.emplace(std::pair(constants.weights.data() + place.offset, place.size), place.hash);
  for (const Tensor& tensor : plan.constants) {
    auto found = hashes.find({tensor.data.data(), tensor.data.size()});
    plan.constant_hashes.push_back(found == hashes.end() ? hash128(tensor.data) : found->second);
  }
  for (const PlanPart& part : plan.parts) find_hashes(*part.plan, constants);
}

}  // namespace

size_t ConstantStore::add(std::span<const std::byte> data) {
  std::pair address(data.data(), data.size());
  if (auto seen = seen_.find(address); seen != seen_.end()) return seen->second;
  Hash128 hash = hash128(data);
  auto [known, is_new] = known_.try_emplace({hash, data.size()}, places_.size());
  seen_.emplace(address, known->second);
  if (!is_new) return known->second;
  size_t offset = (bytes_ + alignment - 1) / alignment * alignment;
  places_.push_back({offset, data.size(), hash});
  data_.push_back(data);
  bytes_ = offset + data.size();
  return known->second;
}

std::vector<std::byte> encode(const Contents& contents) {
  ConstantStore none;
  return encoded(contents, none);
}
std::vector<std::byte> encode(const Plan& plan, ConstantStore& constants) { return encoded(plan, constants); }
std::vector<std::byte> encode(const ProgramSource& source, ConstantStore& constants) {
  return encoded(source, constants);
}

Contents decode_contents(std::span<const std::byte> bytes, size_t weight_bytes) {
  return decoded<Contents>(bytes, {}, "contents", [&](const Contents& c) { check_places(c.constants, weight_bytes); });
}

Plan decode_plan(std::span<const std::byte> bytes, const ConstantPlaces& constants) {
  Plan plan = decoded<Plan>(bytes, constants, "plan", check_plan);
  find_hashes(plan, constants);
  return plan;
}

ProgramSource decode_source(std::span<const std::byte> bytes, const ConstantPlaces& constants) {
  return decoded<ProgramSource>(bytes, constants, "source", [](const ProgramSource&) {});
}

}  // namespace weft
