// SPDX-License-Identifier: Apache-2.0
#include "decode.h"

#include <llvm-c/Disassembler.h>
#include <llvm-c/Target.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "fault.h"
#include "semantics.h"
#include "wave.h"

namespace weft::amdemu {
namespace {

using Strings = std::vector<std::string>;

// --- names -----------------------------------------------------------------------------------------------------------

void replace_first(std::string& text, const char* from, const char* to) {
  const size_t at = text.find(from);
  if (at != std::string::npos) text.replace(at, std::strlen(from), to);
}

using Renamings = std::initializer_list<std::pair<const char*, const char*>>;
void replace_each(std::string& text, const Renamings& renamings) {
  for (const auto& [from, to] : renamings) replace_first(text, from, to);
}

/// Names of access sizes on gfx9 and gfx10 and their canonical names; a name precedes the names that it contains.
const Renamings older_moves = {{"dwordx16", "b512"},
                               {"dwordx2", "b64"},
                               {"dwordx3", "b96"},
                               {"dwordx4", "b128"},
                               {"dwordx8", "b256"},
                               {"dword", "b32"},
                               {"ubyte_d16_hi", "d16_hi_u8"},
                               {"sbyte_d16_hi", "d16_hi_i8"},
                               {"short_d16_hi", "d16_hi_b16"},
                               {"byte_d16_hi", "d16_hi_b8"},
                               {"ubyte_d16", "d16_u8"},
                               {"sbyte_d16", "d16_i8"},
                               {"short_d16", "d16_b16"},
                               {"ubyte", "u8"},
                               {"sbyte", "i8"},
                               {"ushort", "u16"},
                               {"sshort", "i16"},
                               {"store_byte", "store_b8"},
                               {"store_short", "store_b16"}};
const Renamings older_lds = {{"ds_read2st64", "ds_load_2addr_stride64"},
                             {"ds_write2st64", "ds_store_2addr_stride64"},
                             {"ds_read2", "ds_load_2addr"},
                             {"ds_write2", "ds_store_2addr"},
                             {"ds_read_", "ds_load_"},
                             {"ds_write_", "ds_store_"},
                             {"load_u8_d16_hi", "load_d16_hi_u8"},
                             {"load_i8_d16_hi", "load_d16_hi_i8"},
                             {"load_u16_d16_hi", "load_d16_hi_b16"},
                             {"load_u8_d16", "load_d16_u8"},
                             {"load_i8_d16", "load_d16_i8"},
                             {"load_u16_d16", "load_d16_b16"},
                             {"store_b16_d16_hi", "store_d16_hi_b16"},
                             {"store_b8_d16_hi", "store_d16_hi_b8"}};

const std::map<std::string, std::string> older_atomics = {
    {"add", "add_u"},  {"sub", "sub_u"},  {"swap", "swap_b"}, {"cmpswap", "cmpswap_b"}, {"smin", "min_i"},
    {"smax", "max_i"}, {"umin", "min_u"}, {"umax", "max_u"},  {"and", "and_b"},         {"or", "or_b"},
    {"xor", "xor_b"},  {"inc", "inc_u"},  {"dec", "dec_u"},   {"fmin", "min_f"},        {"fmax", "max_f"}};

std::string canonical_atomic(const std::string& name) {
  const size_t at = name.find("atomic_") + 7;
  std::string operation = name.substr(at);
  const bool wide = operation.ends_with("_x2");
  if (wide) operation.resize(operation.size() - 3);
  auto known = older_atomics.find(operation);
  return known == older_atomics.end() ? name : name.substr(0, at) + known->second + (wide ? "64" : "32");
}

bool is_memory(const std::string& name) {
  for (const char* prefix : {"global_", "flat_", "scratch_", "buffer_", "s_load", "s_buffer_load"}) {
    if (name.starts_with(prefix)) return true;
  }
  return false;
}

std::string without_encoding(std::string name) {
  for (const char* suffix : {"_e64_dpp", "_e32_dpp", "_e32", "_e64", "_dpp8", "_dpp", "_sdwa"}) {
    if (!name.ends_with(suffix)) continue;
    name.resize(name.size() - std::strlen(suffix));
    break;
  }
  return name;
}

const std::unordered_map<std::string, std::string>& aliases() {
  static const std::unordered_map<std::string, std::string> table = {
#define ALIAS(older, name) {#older, #name},
#include "names.def"
#undef ALIAS
  };
  return table;
}

// --- operands --------------------------------------------------------------------------------------------------------

struct NamedRegister {
  const char* name;
  u16 index;
  u8 words;
};
constexpr NamedRegister named_registers[] = {{"vcc", vcc, 2},
                                             {"vcc_lo", vcc, 1},
                                             {"vcc_hi", vcc + 1, 1},
                                             {"exec", exec, 2},
                                             {"exec_lo", exec, 1},
                                             {"exec_hi", exec + 1, 1},
                                             {"m0", m0, 1},
                                             {"null", null, 1},
                                             {"flat_scratch", flat_scratch, 2},
                                             {"flat_scratch_lo", flat_scratch, 1},
                                             {"flat_scratch_hi", flat_scratch + 1, 1},
                                             {"xnack_mask", xnack_mask, 2},
                                             {"xnack_mask_lo", xnack_mask, 1},
                                             {"xnack_mask_hi", xnack_mask + 1, 1}};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Removes `open` and `close`, such as "abs(" and ")", from both ends of an operand; false if they are not there.
bool strip(std::string& word, const char* open, char close) {
  if (!word.starts_with(open) || word.back() != close) return false;
  word = word.substr(std::strlen(open), word.size() - std::strlen(open) - 1);
  return true;
}

void read_wrappers(std::string& word, Operand& operand) {
  if (word.size() > 1 && word[0] == '-' && !is_digit(word[1])) {
    operand.negate = true;
    word.erase(0, 1);
  }
  operand.negate |= strip(word, "neg(", ')');
  operand.absolute = strip(word, "|", '|') || strip(word, "abs(", ')');
  operand.sign_extend = strip(word, "sext(", ')');
}

/// Parses a register or range, such as "v7" or "s[4:5]": the letters, then a number or a range.
bool read_register(const std::string& word, const char* letters, OperandKind kind, int base, Operand& operand) {
  if (!word.starts_with(letters)) return false;
  const char* at = word.c_str() + std::strlen(letters);
  const bool range = *at == '[';
  if (!range && !is_digit(*at)) return false;
  const int first = std::atoi(at + range);
  const char* colon = std::strchr(at, ':');
  operand.kind = kind;
  operand.index = static_cast<u16>(base + first);
  operand.words = static_cast<u8>(range && colon ? std::atoi(colon + 1) - first + 1 : 1);
  return true;
}

bool read_number(const std::string& word, Operand& operand) {
  if (!is_digit(word[0]) && word[0] != '-') return false;
  operand.kind = OperandKind::constant;
  char* end = nullptr;
  if (word.find("0x") != std::string::npos) {
    const bool minus = word[0] == '-';
    operand.bits = std::strtoull(word.c_str() + minus, &end, 16);
    if (minus) operand.bits = 0 - operand.bits;
    operand.literal = true;
  } else if (word.find('.') != std::string::npos) {
    operand.is_float = true;
    operand.value = std::strtod(word.c_str(), &end);
    if (word.starts_with("0.15915494")) operand.value = 0.15915494309189532;  // 1 / (2 pi), printed in fewer digits
  } else {
    operand.bits = static_cast<u64>(std::strtoll(word.c_str(), &end, 10));
  }
  return *end == 0;
}

bool read_special(const std::string& word, Operand& operand) {
  for (const NamedRegister& known : named_registers) {
    if (word != known.name) continue;
    operand.kind = OperandKind::scalar;
    operand.index = known.index;
    operand.words = known.words;
    return true;
  }
  if (word == "off") operand.kind = OperandKind::off;
  else if (word == "scc" || word == "src_scc") operand.kind = OperandKind::scc;
  else if (word == "src_shared_base" || word == "src_private_base") {
    operand.kind = OperandKind::constant;
    operand.bits = word == "src_shared_base" ? lds_aperture : private_aperture;
    operand.words = 2;
  } else return false;
  return true;
}

bool read_operand(std::string word, Operand& operand) {
  operand = {};
  if (word.empty()) return false;
  read_wrappers(word, operand);
  if (read_special(word, operand)) return true;
  return read_register(word, "ttmp", OperandKind::scalar, trap, operand) ||
         read_register(word, "v", OperandKind::vector, 0, operand) ||
         read_register(word, "a", OperandKind::accumulator, 0, operand) ||
         read_register(word, "s", OperandKind::scalar, 0, operand) || read_number(word, operand);
}

// --- modifiers -------------------------------------------------------------------------------------------------------

u8 bit_list(const std::string& value) {
  u8 bits = 0;
  int at = 0;
  for (char c : value) {
    if (c == '0' || c == '1') bits = static_cast<u8>(bits | (c - '0') << at++);
  }
  return bits;
}

u8 sdwa_part(const std::string& value) {
  if (value.starts_with("BYTE_")) return static_cast<u8>(value[5] - '0');
  return value.starts_with("WORD_") ? static_cast<u8>(4 + value[5] - '0') : 6;
}

void read_quad(const std::string& value, Modifiers& m) {
  m.dpp = Dpp::quad_perm;
  int at = 0;
  for (char c : value) {
    if (is_digit(c)) m.dpp_argument = static_cast<u16>(m.dpp_argument | (c - '0') << 2 * at++);
  }
}

void read_dpp8(const std::string& value, Modifiers& m) {
  m.dpp = Dpp::dpp8;
  size_t at = 0;
  for (char c : value) {
    if (is_digit(c) && at < 8) m.dpp8[at++] = static_cast<u8>(c - '0');
  }
}

bool read_dpp(const std::string& key, const std::string& value, Modifiers& m) {
  static const std::map<std::string, Dpp> kinds = {
      {"row_shl", Dpp::row_shl},     {"row_shr", Dpp::row_shr},        {"row_ror", Dpp::row_ror},
      {"wave_shl", Dpp::wave_shl},   {"wave_shr", Dpp::wave_shr},      {"wave_rol", Dpp::wave_rol},
      {"wave_ror", Dpp::wave_ror},   {"row_mirror", Dpp::row_mirror},  {"row_half_mirror", Dpp::row_half_mirror},
      {"row_share", Dpp::row_share}, {"row_newbcast", Dpp::row_share}, {"row_xmask", Dpp::row_xmask}};
  if (key == "quad_perm") return read_quad(value, m), true;
  if (key == "dpp8") return read_dpp8(value, m), true;
  if (key == "row_bcast") return m.dpp = value == "15" ? Dpp::row_bcast15 : Dpp::row_bcast31, true;
  auto kind = kinds.find(key);
  if (kind == kinds.end()) return false;
  m.dpp = kind->second;
  m.dpp_argument = static_cast<u16>(std::atoi(value.c_str()));
  return true;
}

/// Parses byte_sel of gfx12: the byte of the source that holds an 8-bit float.
void read_byte_select(const std::string& value, Modifiers& m) {
  const int byte = std::atoi(value.c_str());
  m.has_op_sel = true;
  m.op_sel = static_cast<u8>((byte >> 1 & 1) | (byte & 1) << 1);
}

using Reader = void (*)(Modifiers&, const std::string&);
const std::map<std::string, Reader>& modifier_readers() {
  static const std::map<std::string, Reader> table = {
      {"offset",
       [](Modifiers& m, const std::string& v) { m.offset = static_cast<i32>(std::strtol(v.c_str(), nullptr, 0)); }},
      {"offset0", [](Modifiers& m, const std::string& v) { m.offset0 = std::atoi(v.c_str()); }},
      {"offset1", [](Modifiers& m, const std::string& v) { m.offset1 = std::atoi(v.c_str()); }},
      {"glc", [](Modifiers& m, const std::string&) { m.returns = true; }},
      {"sc0", [](Modifiers& m, const std::string&) { m.returns = true; }},
      {"th", [](Modifiers& m, const std::string& v) { m.returns |= v.find("RETURN") != std::string::npos; }},
      {"offen", [](Modifiers& m, const std::string&) { m.by_offset = true; }},
      {"idxen", [](Modifiers& m, const std::string&) { m.by_index = true; }},
      {"lds", [](Modifiers& m, const std::string&) { m.to_lds = true; }},
      {"op_sel", [](Modifiers& m, const std::string& v) { m.op_sel = bit_list(v), m.has_op_sel = true; }},
      {"op_sel_hi", [](Modifiers& m, const std::string& v) { m.op_sel_hi = bit_list(v), m.has_op_sel_hi = true; }},
      {"neg_lo", [](Modifiers& m, const std::string& v) { m.neg_lo = bit_list(v); }},
      {"neg_hi", [](Modifiers& m, const std::string& v) { m.neg_hi = bit_list(v); }},
      {"neg", [](Modifiers& m, const std::string& v) { m.blgp = bit_list(v); }},
      {"clamp", [](Modifiers& m, const std::string&) { m.clamp = true; }},
      {"mul", [](Modifiers& m, const std::string& v) { m.output = v == "2" ? 1 : 2; }},
      {"div", [](Modifiers& m, const std::string&) { m.output = 3; }},
      {"row_mask",
       [](Modifiers& m, const std::string& v) { m.row_mask = static_cast<u8>(std::strtol(v.c_str(), nullptr, 0)); }},
      {"bank_mask",
       [](Modifiers& m, const std::string& v) { m.bank_mask = static_cast<u8>(std::strtol(v.c_str(), nullptr, 0)); }},
      {"bound_ctrl", [](Modifiers& m, const std::string&) { m.bound_control = true; }},
      {"fi", [](Modifiers& m, const std::string&) { m.fetch_inactive = true; }},
      {"dst_sel", [](Modifiers& m, const std::string& v) { m.sdwa.to = sdwa_part(v); }},
      {"dst_unused",
       [](Modifiers& m, const std::string& v) { m.sdwa.unused = v == "UNUSED_PAD"    ? 0
                                                                : v == "UNUSED_SEXT" ? 1
                                                                                     : 2; }},
      {"src0_sel", [](Modifiers& m, const std::string& v) { m.sdwa.from[0] = sdwa_part(v); }},
      {"src1_sel", [](Modifiers& m, const std::string& v) { m.sdwa.from[1] = sdwa_part(v); }},
      {"cbsz", [](Modifiers& m, const std::string& v) { m.cbsz = static_cast<u8>(std::atoi(v.c_str())); }},
      {"abid", [](Modifiers& m, const std::string& v) { m.abid = static_cast<u8>(std::atoi(v.c_str())); }},
      {"blgp", [](Modifiers& m, const std::string& v) { m.blgp = static_cast<u8>(std::atoi(v.c_str())); }},
      {"byte_sel", [](Modifiers& m, const std::string& v) { read_byte_select(v, m); }}};
  return table;
}

/// True for cache hints, which the emulator ignores.
bool is_cache_hint(const std::string& key) {
  for (const char* hint : {"slc", "dlc", "nt", "sc1", "nv", "scope"}) {
    if (key == hint) return true;
  }
  return false;
}

void read_modifier(const std::string& word, Instruction& i) {
  const size_t colon = word.find(':');
  const std::string key = word.substr(0, colon), value = colon == std::string::npos ? "" : word.substr(colon + 1);
  if (is_cache_hint(key) || read_dpp(key, value, i.modifiers)) return;
  auto reader = modifier_readers().find(key);
  if (reader == modifier_readers().end()) throw Fault(text("a modifier without semantics, ", word, ": ", i.text));
  reader->second(i.modifiers, value);
}

// --- splitting -------------------------------------------------------------------------------------------------------

/// Splits at `mark`s outside brackets; drops empty parts.
Strings split(const std::string& line, char mark) {
  Strings parts;
  std::string part;
  int depth = 0;
  auto flush = [&] {
    const size_t first = part.find_first_not_of(' ');
    if (first != std::string::npos) parts.push_back(part.substr(first, part.find_last_not_of(' ') - first + 1));
    part.clear();
  };
  for (char c : line) {
    depth += c == '[' || c == '(' ? 1 : c == ']' || c == ')' ? -1 : 0;
    if (c == mark && depth == 0) flush();
    else part += c;
  }
  flush();
  return parts;
}

void read_operands(const std::string& rest, Instruction& i) {
  Strings words = split(rest, ',');
  if (words.empty()) return;
  Strings last = split(words.back(), ' ');  // modifiers follow the last operand
  words.pop_back();
  Operand operand;
  const bool begins_with_operand = read_operand(last[0], operand);
  if (begins_with_operand) words.push_back(last[0]);
  for (size_t k = begins_with_operand; k < last.size(); ++k) read_modifier(last[k], i);
  for (const std::string& word : words) {
    if (!read_operand(word, operand)) throw Fault(text("an operand that cannot be read, ", word, ": ", i.text));
    if (i.count == static_cast<int>(i.operands.size())) throw Fault(text("too many operands: ", i.text));
    i.operands[static_cast<size_t>(i.count++)] = operand;
  }
}

// --- instructions ----------------------------------------------------------------------------------------------------

/// True for waits, messages, barriers and hints: their operands have a syntax of their own and are not parsed.
bool has_free_text(const std::string& name) {
  for (const char* prefix : {"s_wait", "s_delay_alu", "s_sendmsg", "s_nop", "s_clause", "s_barrier", "s_prefetch"}) {
    if (name.starts_with(prefix)) return true;
  }
  return false;
}

/// Parses the operands of s_set_gpr_idx_on, such as "s4, gpr_idx(SRC0,DST)".
void read_index_mode(const std::string& rest, Instruction& i) {
  const char* names[] = {"SRC0", "SRC1", "SRC2", "DST"};
  for (int k = 0; k < 4; ++k) {
    if (rest.find(names[k]) != std::string::npos) i.index_modes = static_cast<u8>(i.index_modes | 1 << k);
  }
  Strings words = split(rest, ',');
  if (!words.empty() && !words[0].starts_with("gpr_idx") && read_operand(words[0], i.operands[0])) i.count = 1;
}

bool keeps_high_half(const std::string& name) {
  for (const char* prefix : {"v_fma_f16", "v_mad_f16", "v_mad_u16", "v_mad_i16", "v_div_fixup_f16", "v_min3_",
                             "v_max3_", "v_med3_", "v_add_nc_i16", "v_sub_nc_i16"}) {
    if (name.starts_with(prefix)) return true;
  }
  return false;
}

void find_semantics(Instruction& i) {
  if (const Semantics* found = semantics_of(i.name)) {
    i.action = found->action;
    i.unit = found->unit;
  } else if (!prepare_memory(i) && !prepare_matrix(i)) {
    throw Fault(text("an instruction without semantics: ", i.text));
  }
}

/// Returns the index of the first source, which follows the results.
int first_source(const Instruction& i) {
  if (i.compares_to_exec) return i.count - 2;
  return i.name.find("_co_") != std::string::npos ? 2 : 1;
}

void finish(Instruction& i) {
  const Modifiers& m = i.modifiers;
  i.plain = m.dpp == Dpp::none && !m.sdwa.used && !m.clamp && m.output == 0;
  i.keeps_high = keeps_high_half(i.name);
  i.compares_to_exec = i.is("v_cmpx");
  i.first_source = first_source(i);
  if (i.is("v_fma_mix") && !m.has_op_sel_hi) i.modifiers.op_sel_hi = 0;
  find_semantics(i);
  if (i.name.find("branch") != std::string::npos)
    i.target = i.pc + i.bytes + 4 * static_cast<u64>(static_cast<i16>(i[0].bits));
}

std::unique_ptr<Instruction> decode_one(const std::string& line, u64 pc, u32 bytes) {
  auto i = std::make_unique<Instruction>();
  const size_t space = line.find(' ');
  const std::string mnemonic = line.substr(0, space), rest = space == std::string::npos ? "" : line.substr(space + 1);
  i->text = line;
  i->name = canonical_name(mnemonic);
  i->pc = pc;
  i->bytes = bytes;
  i->modifiers.sdwa.used = mnemonic.ends_with("_sdwa");
  if (i->is("s_set_gpr_idx")) read_index_mode(rest, *i);
  else if (i->is("s_setreg") || i->is("s_getreg"))
    read_operand(split(rest, ',').at(i->is("s_getreg") ? 0 : 1), i->operands[0]);
  else if (!has_free_text(i->name)) read_operands(rest, *i);
  finish(*i);
  return i;
}

void initialise_llvm() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeAMDGPUTargetInfo();
    LLVMInitializeAMDGPUTargetMC();
    LLVMInitializeAMDGPUDisassembler();
  });
}

std::string tidy(std::string line) {
  std::ranges::replace(line, '\t', ' ');
  for (const char* comment : {" //", " ;"}) line.resize(std::min(line.find(comment), line.size()));
  const size_t first = line.find_first_not_of(' '), last = line.find_last_not_of(' ');
  return first == std::string::npos ? "" : line.substr(first, last - first + 1);
}

}  // namespace

std::string canonical_name(std::string name) {
  name = without_encoding(std::move(name));
  if (name.starts_with("v_dual_")) name = "v_" + name.substr(7);
  if (is_memory(name)) {
    if (name.find("atomic") != std::string::npos) return canonical_atomic(name);
    replace_each(name, older_moves);
    return name;
  }
  if (name.starts_with("ds_")) replace_each(name, older_lds);
  auto alias = aliases().find(name);
  if (alias != aliases().end()) return alias->second;
  if (name.starts_with("v_")) replace_first(name, "_num_f", "_f");  // gfx12's minima and maxima, such as v_min_num_f32
  return name;
}

std::unique_ptr<Instruction> decode(const std::string& line, u64 pc, u32 bytes) {
  const size_t pair = line.find(" :: ");
  if (pair == std::string::npos) return decode_one(line, pc, bytes);
  auto first = decode_one(line.substr(0, pair), pc, bytes);
  first->second = decode_one(line.substr(pair + 4), pc, bytes);
  first->text = line;
  return first;
}

Disassembler::Disassembler(const std::string& chip, u32 lanes) {
  initialise_llvm();
  const bool has_choice = !chip.starts_with("gfx9");
  const char* features = !has_choice   ? ""
                         : lanes == 32 ? "+wavefrontsize32,-wavefrontsize64"
                                       : "-wavefrontsize32,+wavefrontsize64";
  context_ = LLVMCreateDisasmCPUFeatures("amdgcn-amd-amdhsa", chip.c_str(), features, nullptr, 0, nullptr, nullptr);
  if (!context_) throw Fault(text("LLVM has no disassembler for ", chip));
}

Disassembler::~Disassembler() {
  if (context_) LLVMDisasmDispose(context_);
}

std::string Disassembler::print(const u8* code, u64 room, u64 pc, u32& bytes) const {
  char line[512];
  auto* at = const_cast<u8*>(code);
  bytes = static_cast<u32>(LLVMDisasmInstruction(context_, at, std::min<u64>(room, 20), pc, line, sizeof line));
  if (bytes == 0) throw Fault(text("no instruction at ", Hex{pc}));
  return tidy(line);
}

}  // namespace weft::amdemu
