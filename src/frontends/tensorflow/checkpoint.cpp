// SPDX-License-Identifier: Apache-2.0
#include "frontends/tensorflow/checkpoint.h"

#include <cstdio>
#include <cstring>
#include <functional>

#include "base/error.h"
#include "base/numeric.h"
#include "frontends/common/wire.h"
#include "frontends/tensorflow/checksum.h"
#include "frontends/tensorflow/fault.h"

namespace weft::tensorflow {
namespace {

using frontend::Wire;

constexpr std::string_view index_name = "variables/variables.index";
constexpr uint64_t magic = 0xdb4775248b80fb57;
constexpr size_t footer_size = 48, trailer_size = 5;

[[noreturn]] void damaged(std::string_view what) { fail("E108", cat(index_name, " is damaged: ", what)); }

template <class T>
T number_at(std::span<const std::byte> bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

/// Reads variable-length numbers (seven bits a byte) and runs of bytes from a part of the table.
class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : bytes_(bytes) {}
  bool at_end() const { return bytes_.empty(); }

  uint64_t varint() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      auto byte = static_cast<uint64_t>(take(1)[0]);
      value |= (byte & 127) << shift;
      if (byte < 128) return value;
    }
    damaged("a number is longer than 64 bits");
  }

  std::span<const std::byte> take(uint64_t count) {
    if (count > bytes_.size()) damaged(cat("it claims ", count, " bytes where ", bytes_.size(), " are left"));
    auto taken = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return taken;
  }

 private:
  std::span<const std::byte> bytes_;
};

struct Block {
  uint64_t offset = 0, size = 0;
};

Block block_at(Cursor& cursor) {
  Block block;
  block.offset = cursor.varint(), block.size = cursor.varint();
  return block;
}

/// A function that is called with each entry of a table.
using OnEntry = std::function<void(std::string_view key, std::span<const std::byte> value)>;
void read_block(std::span<const std::byte> file, Block block, const OnEntry& on_entry) {
  uint64_t room = file.size() - footer_size;
  if (block.offset > room || block.size > room - block.offset || room - block.offset - block.size < trailer_size)
    damaged(cat("a block of ", block.size, " bytes at ", block.offset, " leaves the file of ", file.size()));
  auto whole = file.subspan(block.offset, block.size + trailer_size);
  auto bytes = whole.first(block.size);
  if (masked_crc32c(whole.first(bytes.size() + 1)) != number_at<uint32_t>(whole, bytes.size() + 1))
    damaged(cat("the checksum of the block at ", block.offset, " is another"));
  if (auto kind = static_cast<int>(whole[bytes.size()]); kind != 0)
    fail("E108", cat(index_name, " is compressed (kind ", kind, "), which Weft does not read"), {},
         "save the model again: TensorFlow writes this file uncompressed");
  if (bytes.size() < 4) damaged("a block has no end");
  uint64_t restarts = number_at<uint32_t>(bytes, bytes.size() - 4);
  if (restarts > (bytes.size() - 4) / 4)
    damaged(cat("a block of ", bytes.size(), " bytes has ", restarts, " restarts"));
  Cursor cursor(bytes.first(bytes.size() - 4 - 4 * restarts));
  std::string key;
  while (!cursor.at_end()) {
    uint64_t shared = cursor.varint(), own = cursor.varint(), length = cursor.varint();
    if (shared > key.size()) damaged(cat("a key shares ", shared, " bytes with one of ", key.size()));
    key.resize(shared);
    key += as_text(cursor.take(own));
    on_entry(key, cursor.take(length));
  }
}

/// Reads all entries of the table, in the order of their keys.
void read_table(std::span<const std::byte> file, const OnEntry& on_entry) {
  if (file.size() < footer_size) damaged(cat("it has ", file.size(), " bytes"));
  auto footer = file.last(footer_size);
  if (number_at<uint64_t>(footer, footer_size - 8) != magic) damaged("it does not end as a table does");
  Cursor cursor(footer);
  block_at(cursor);  // the block of statistics, which TensorFlow leaves empty
  Block index = block_at(cursor);
  read_block(file, index, [&](std::string_view, std::span<const std::byte> value) {
    Cursor place(value);
    read_block(file, block_at(place), on_entry);
  });
}

std::vector<int64_t> read_dims(Wire wire) {
  std::vector<int64_t> dims;
  while (wire.next()) {
    if (wire.field() != 2) {
      wire.skip();
      continue;
    }
    Wire dim = wire.message("dim");
    int64_t size = 0;
    while (dim.next()) {
      if (dim.field() == 1) size = dim.integer("size");
      else dim.skip();
    }
    if (size < 0) fail("E150", cat(dim.path(), " is a size of ", size));
    dims.push_back(size);
  }
  return dims;
}

/// Reads a TensorSliceProto: start and length along each axis; without a length, the whole axis.
CheckpointSlice read_slice(Wire wire) {
  CheckpointSlice slice;
  while (wire.next()) {
    if (wire.field() != 1) {
      wire.skip();
      continue;
    }
    Wire extent = wire.message("extent");
    slice.push_back({0, -1});
    while (extent.next()) switch (extent.field()) {
        case 1: slice.back().start = extent.integer("start"); break;
        case 2: slice.back().length = extent.integer("length"); break;
        default: extent.skip();
      }
  }
  return slice;
}

/// Appends a number to a key. Keys are compared as bytes, so the number's length is first (TensorFlow's OrderedCode).
void put_ordered(std::string& key, int64_t value) {
  auto size = static_cast<uint64_t>(value < 0 ? ~value : value);
  size_t length = 1;
  while (length < 10 && size >> (7 * length - 1)) ++length;
  std::string bytes;
  for (size_t i = length; i-- > 0;)
    bytes += static_cast<char>(i >= 8 ? (value < 0 ? 0xff : 0) : (value >> (8 * i)) & 0xff);
  for (size_t bit = 0; bit < length; ++bit) bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (0x80 >> (bit % 8)));
  key += bytes;
}

/// Returns the key of one slice of a variable.
std::string slice_key(const std::string& name, const CheckpointSlice& slice) {
  std::string key(1, '\0');
  for (char byte : name) {
    key += byte;
    if (byte == '\0') key += '\xff';
    else if (byte == '\xff') key += '\0';
  }
  key += std::string_view("\0\1", 2);
  key += slice.empty() ? std::string(1, '\0') : std::string{'\1', static_cast<char>(slice.size())};
  for (const auto& extent : slice) put_ordered(key, extent.start), put_ordered(key, extent.length);
  return key;
}

/// A box of elements in a tensor of sizes `dims`, copied between the tensor and one of sizes `lengths`. An element has
/// `width` bytes.
struct Box {
  std::vector<int64_t> dims, starts, lengths;
  int64_t width;

  /// Calls `copy` for each contiguous row: byte offsets in the whole tensor and in the part, and the number of bytes.
  void each_row(const std::function<void(size_t whole, size_t part, size_t bytes)>& copy) const {
    if (dims.empty()) return copy(0, 0, width);
    std::vector<int64_t> index(dims.size(), 0);
    int64_t rows = 1;
    for (size_t a = 0; a + 1 < dims.size(); ++a) rows *= lengths[a];
    for (int64_t row = 0; row < rows; ++row) {
      int64_t at = 0, rest = row;
      for (size_t a = dims.size() - 1; a-- > 0; rest /= lengths[a]) index[a] = rest % lengths[a];
      for (size_t a = 0; a < dims.size(); ++a) at = at * dims[a] + starts[a] + index[a];
      size_t length = lengths.back() * width;
      copy(at * width, row * length, length);
    }
  }
};

Box box_of(const std::string& name, const std::vector<int64_t>& dims, const CheckpointSlice& slice, DType type) {
  Box box{.dims = dims, .starts = {}, .lengths = {}, .width = bits(type) / 8};
  if (slice.size() != dims.size())
    fail("E108", cat(name, " of sizes ", dims, " has a slice of ", slice.size(), " axes"));
  for (size_t a = 0; a < dims.size(); ++a) {
    auto [start, length] = slice[a];
    if (length < 0) start = 0, length = dims[a];
    if (start < 0 || start > dims[a] || length > dims[a] - start)
      fail("E108", cat(name, " of sizes ", dims, " has a slice of ", length, " elements from ", start, " on"));
    box.starts.push_back(start), box.lengths.push_back(length);
  }
  return box;
}

std::string shard_name(int64_t shard, int64_t shards) {
  char name[64];
  std::snprintf(name, sizeof name, "variables/variables.data-%05lld-of-%05lld", static_cast<long long>(shard),
                static_cast<long long>(shards));
  return name;
}

}  // namespace

std::optional<DType> full_type(int64_t code) {
#define FULL(number, type) \
  if (code == number) return DType::type;
#define LITE(number, type)
#include "frontends/tensorflow/dtypes.def"
#undef LITE
#undef FULL
  return std::nullopt;
}

Checkpoint::Checkpoint(const std::filesystem::path& folder) : files_(frontend::ExternalFiles::within(folder)) {
  std::error_code problem;
  if (!std::filesystem::exists(folder / index_name, problem)) return;  // a model without variables has no such file
  Bytes file = files_.open(index_name, "the index of variables");
  read_table(file, [&](std::string_view key, std::span<const std::byte> value) { add(key, value, file.data()); });
}

void Checkpoint::add(std::string_view key, std::span<const std::byte> value, const std::byte* origin) {
  Wire wire(value, origin, "variables");
  if (key.empty()) {  // the header
    int64_t endianness = 0;
    while (wire.next()) switch (wire.field()) {
        case 1: shards_ = wire.integer("num_shards"); break;
        case 2: endianness = wire.integer("endianness"); break;
        default: wire.skip();
      }
    if (endianness != 0) fail("E108", cat(index_name, " is of a big-endian machine, which Weft does not read"));
    return;
  }
  Entry entry;
  while (wire.next()) switch (wire.field()) {
      case 1: entry.type = wire.integer("dtype"); break;
      case 2: entry.dims = read_dims(wire.message("shape")); break;
      case 3: entry.shard = wire.integer("shard_id"); break;
      case 4: entry.offset = wire.integer("offset"); break;
      case 5: entry.size = wire.integer("size"); break;
      case 6: {
        std::vector<std::span<const std::byte>> raw;
        wire.fixed("crc32c", 4, raw);
        entry.checksum = number_at<uint32_t>(raw.back(), 0);
        break;
      }
      case 7: entry.slices.push_back(read_slice(wire.message("slices"))); break;
      default: wire.skip();
    }
  entries_.insert_or_assign(std::string(key), std::move(entry));
}

const Checkpoint::Entry& Checkpoint::entry_of(const std::string& key, const std::string& name) const {
  auto found = entries_.find(key);
  if (found == entries_.end())
    fail("E161", cat(name, " is not in ", index_name), {},
         "a model folder needs its folder 'variables' beside saved_model.pb: copy it too");
  return found->second;
}

Tensor Checkpoint::read(const std::string& key, const CheckpointSlice& slice) {
  std::string name = cat("variable '", printable(key), "'");
  const Entry& entry = entry_of(key, name);
  auto type = full_type(entry.type);
  if (!type || *type == DType::string)
    fail("E149", cat(name, " has element type ", entry.type, " of TensorFlow, which Weft does not read"));
  Tensor whole = entry.slices.empty() ? stored(key, name, *type) : joined(key, name, *type);
  if (slice.empty()) return whole;
  Box box = box_of(name, whole.dims, slice, *type);
  MutableTensor part = allocate_tensor(*type, box.lengths);
  if (part.tensor.elements() > 0) {
    box.each_row(
        [&](size_t at, size_t to, size_t bytes) { std::memcpy(part.data + to, whole.data.data() + at, bytes); });
  }
  return part.tensor;
}

/// Reads a value stored in one piece: a view of the file, or a copy if it is not aligned.
Tensor Checkpoint::stored(const std::string& key, const std::string& name, DType type) {
  const Entry& entry = entry_of(key, name);
  Bytes data = bytes_of(name, entry, byte_size(type, element_count(entry.dims)));
  auto width = static_cast<uintptr_t>(bits(type)) / 8;
  if (reinterpret_cast<uintptr_t>(data.data()) % width) data = Bytes::copy(data);
  return {.dtype = type, .dims = entry.dims, .data = data};
}

/// Reads a partitioned variable: each of its slices has its own entry.
Tensor Checkpoint::joined(const std::string& key, const std::string& name, DType type) {
  const Entry& entry = entry_of(key, name);
  int64_t elements = element_count(entry.dims), given = 0;
  std::vector<std::pair<Box, Tensor>> parts;
  for (const CheckpointSlice& slice : entry.slices) {
    Box box = box_of(name, entry.dims, slice, type);
    const Entry& own = entry_of(slice_key(key, slice), name);
    if (own.type != entry.type || own.dims != box.lengths || !own.slices.empty())
      fail("E108", cat(name, " has a slice of sizes ", own.dims, " where ", box.lengths, " belong"));
    given += element_count(own.dims);
    parts.emplace_back(std::move(box), stored(slice_key(key, slice), name, type));
  }
  if (given != elements) fail("E108", cat(name, " has ", elements, " elements, and its slices have ", given));
  MutableTensor whole = allocate_tensor(type, entry.dims);
  for (const auto& [box, part] : parts) {
    if (part.elements() == 0) continue;
    box.each_row([&, &part = part](size_t at, size_t from, size_t bytes) {
      std::memcpy(whole.data + at, part.data.data() + from, bytes);
    });
  }
  return whole.tensor;
}

Bytes Checkpoint::bytes_of(const std::string& name, const Entry& entry, int64_t need) {
  if (entry.shard < 0 || entry.shard >= shards_)
    fail("E108", cat(name, " lies in shard ", entry.shard, " of ", shards_));
  std::string file_name = shard_name(entry.shard, shards_);
  Bytes file = files_.open(file_name, name);
  auto have = static_cast<int64_t>(file.size());
  if (entry.size != need) fail("E148", cat(name, " needs ", need, " bytes, and the index gives it ", entry.size));
  if (entry.offset < 0 || entry.offset > have || need > have - entry.offset)
    fail("E161", cat(name, " needs ", need, " bytes at ", entry.offset, " of ", file_name, ", which has ", have), {},
         "the file is cut short: copy it again");
  Bytes part = file.part(entry.offset, need);
  bool is_text = entry.type == 7;  // a string tensor's checksum covers lengths and strings, not these bytes
  if (!is_text && entry.checksum && masked_crc32c(part) != *entry.checksum)
    fail("E108", cat(name, " is damaged: the checksum of its bytes in ", file_name, " is another"), {},
         "copy the folder again");
  return part;
}

std::string Checkpoint::key_of(const std::string& full_name) {
  if (!has_objects_) read_objects();
  has_objects_ = true;
  auto found = keys_.find(full_name);
  return found == keys_.end() ? std::string() : found->second;
}

/// Reads the TrackableObjectGraph, stored as one string: its length, a checksum of the length, and the message.
void Checkpoint::read_objects() {
  constexpr const char* name = "_CHECKPOINTABLE_OBJECT_GRAPH";
  auto entry = entries_.find(name);
  if (entry == entries_.end() || entry->second.type != 7) return;
  Bytes bytes = bytes_of(cat("variable '", name, "'"), entry->second, entry->second.size);
  Cursor cursor(bytes);
  uint64_t length = cursor.varint();
  cursor.take(4);
  Wire graph(cursor.take(length), bytes.data(), "objects");
  while (graph.next()) {
    if (graph.field() != 1) {
      graph.skip();
      continue;
    }
    Wire node = graph.message("nodes");
    while (node.next()) {
      if (node.field() != 2) {
        node.skip();
        continue;
      }
      Wire attribute = node.message("attributes");
      std::string full_name, key;
      while (attribute.next()) switch (attribute.field()) {
          case 2: full_name = attribute.text("full_name"); break;
          case 3: key = attribute.text("checkpoint_key"); break;
          default: attribute.skip();
        }
      auto [known, is_new] = keys_.emplace(full_name, key);
      if (!is_new && known->second != key) known->second.clear();
    }
  }
}

}  // namespace weft::tensorflow
