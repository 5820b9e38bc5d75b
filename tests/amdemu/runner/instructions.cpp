// SPDX-License-Identifier: Apache-2.0
// weft-amdemu-instructions FILE|-: runs the cases of a file in the form of tests/amdemu/instructions.test, each on a
// wave of its own, and prints those that fail. --names also prints each canonical name of the table: after + if a case
// used it, after - otherwise.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <set>

#include "../decode.h"
#include "../launch.h"
#include "../semantics.h"

using namespace weft::amdemu;

namespace {

/// Values of a register or of memory, such as "v1[3]=3f800000,40000000".
struct Setting {
  std::string place;
  int lane = -1;  ///< the only lane, -1: all; in local memory: an address
  std::vector<std::string> values;
  bool wide() const { return values[0].size() == 16 || values[0] == "nan64"; }
  u64 value(size_t k) const { return std::stoull(values[std::min(k, values.size() - 1)], nullptr, 16); }
};

struct Case {
  std::string chip, line;
  std::vector<Setting> before, after;
};

std::vector<std::string> parts_of(const std::string& text, char mark) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, mark);) {
    const size_t first = part.find_first_not_of(' '), last = part.find_last_not_of(' ');
    parts.push_back(first == std::string::npos ? "" : part.substr(first, last - first + 1));
  }
  return parts;
}

Setting read_setting(const std::string& word) {
  const size_t equals = word.find('='), bracket = word.find('[');
  Setting s{.place = word.substr(0, std::min(equals, bracket)), .values = parts_of(word.substr(equals + 1), ',')};
  if (bracket < equals) s.lane = std::stoi(word.substr(bracket + 1));
  return s;
}

std::vector<Setting> read_settings(const std::string& text) {
  std::vector<Setting> settings;
  for (const std::string& word : parts_of(text, ' ')) {
    if (!word.empty()) settings.push_back(read_setting(word));
  }
  return settings;
}

/// A wave with its registers, local memory and kernel.
struct Machine {
  CodeObject object;
  Kernel kernel;
  WorkGroup group;
  std::unique_ptr<Wave> wave;
  bool faulted = false;

  explicit Machine(const std::string& chip) {
    object.chip = chip;
    object.generation = chip.starts_with("gfx9") ? 9 : std::stoi(chip.substr(3, 2));
    kernel.name = "test";
    kernel.object = &object;
    kernel.properties = object.generation == 9 ? 0 : 1 << 10;
    kernel.resource1 = 31 | 3 << 16;  // 256 registers; denormals are kept
    kernel.resource3 = 31;            // 128 of the registers are accumulators
    group.lds.resize(1024);
    wave = new_wave(kernel, group, 0);
    std::fill(std::begin(wave->s), std::end(wave->s), 0);
    wave->set_exec(wave->all_lanes());
    wave->pc = 4;  // each instruction is at address 0 and has four bytes
  }

  void run(const Instruction& i) try { execute(*wave, i); } catch (const Fault&) {
    faulted = true;
  }

  u64 mask_of(u64 value) const { return value & wave->all_lanes(); }

  void set(const Setting& s) {
    Wave& w = *wave;
    const u32 number =
        s.place.size() > 1 && std::isdigit(s.place[1]) ? static_cast<u32>(std::stoul(s.place.substr(1))) : 0;
    if (s.place == "pc") w.pc = s.value(0);
    else if (s.place == "exec") w.set_exec(s.value(0));
    else if (s.place == "vcc") w.write_pair(vcc, s.value(0));
    else if (s.place == "m0") w.s[m0] = static_cast<u32>(s.value(0));
    else if (s.place == "scc") w.scc = s.value(0) != 0;
    else if (s.place == "lds") set_lds(s);
    else if (s.place[0] == 's')
      s.wide() ? w.write_pair(number, s.value(0)) : void(w.s[number] = static_cast<u32>(s.value(0)));
    else set_lanes(s, s.place[0] == 'a' ? w.a + number * max_lanes : w.row(number));
  }

  void set_lds(const Setting& s) {
    const u64 value = s.value(0);
    std::memcpy(&group.lds[static_cast<size_t>(std::max(s.lane, 0))], &value, s.wide() ? 8 : 4);
  }

  void set_lanes(const Setting& s, u32* row) {
    for (u32 l = 0; l < wave->lanes; ++l) {
      if (s.lane >= 0 && static_cast<u32>(s.lane) != l) continue;
      const u64 value = s.value(s.lane >= 0 ? 0 : l);
      row[l] = static_cast<u32>(value);
      if (s.wide()) row[max_lanes + l] = static_cast<u32>(value >> 32);
    }
  }

  u64 get(const Setting& s, u32 lane) {
    Wave& w = *wave;
    const u32 number =
        s.place.size() > 1 && std::isdigit(s.place[1]) ? static_cast<u32>(std::stoul(s.place.substr(1))) : 0;
    if (s.place == "pc") return w.pc;
    if (s.place == "done") return w.done;
    if (s.place == "barrier") return w.at_barrier;
    if (s.place == "fault") return faulted;
    if (s.place == "exec") return w.exec_mask();
    if (s.place == "vcc") return w.vcc_mask();
    if (s.place == "m0") return w.s[m0];
    if (s.place == "scc") return w.scc;
    if (s.place == "lds") {
      u64 value = 0;
      std::memcpy(&value, &group.lds[static_cast<size_t>(std::max(s.lane, 0))], s.wide() ? 8 : 4);
      return value;
    }
    if (s.place[0] == 's') return s.wide() ? w.read_pair(number) : w.s[number];
    const u32* row = s.place[0] == 'a' ? w.a + number * max_lanes : w.row(number);
    return row[lane] | (s.wide() ? static_cast<u64>(row[max_lanes + lane]) << 32 : 0);
  }
};

bool is_right(const std::string& wanted, u64 got) {
  if (wanted == "nan16") return (got & 0x7fff) > 0x7c00;
  if (wanted == "nan64") return (got & ~u64{0} >> 1) > 0x7ff0000000000000;
  if (wanted == "nan") return (got & 0x7fffffff) > 0x7f800000;
  return got == std::stoull(wanted, nullptr, 16);
}

/// Runs a case; describes each wrong value, or returns "".
std::string judge(const Case& c, const Instruction& i, Machine& machine) {
  for (const Setting& s : c.before) machine.set(s);
  machine.run(i);
  const bool may_fault = std::ranges::any_of(c.after, [](const Setting& s) { return s.place == "fault"; });
  std::string wrong = machine.faulted && !may_fault ? "  it ends the kernel\n" : "";
  for (const Setting& s : c.after) {
    for (size_t k = 0; k < s.values.size(); ++k) {
      const u32 lane = s.lane >= 0 ? static_cast<u32>(s.lane) : static_cast<u32>(k);
      const u64 got = machine.get(s, lane);
      if (!is_right(s.values[k], got))
        wrong += text("  ", s.place, " of lane ", lane, " is ", Hex{got}, ", not ", s.values[k], "\n");
    }
  }
  return wrong;
}

struct Tally {
  int run = 0, wrong = 0;
  std::set<std::string> names;
};

void run_line(const std::string& line, Tally& tally) {
  const std::vector<std::string> parts = parts_of(line, ';');
  if (parts.size() < 4) throw Fault(text("a case needs four parts: ", line));
  const Case c{parts[0], parts[1], read_settings(parts[2]), read_settings(parts[3])};
  Machine machine(c.chip);
  const auto instruction = decode(c.line, 0, 4);
  tally.names.insert(instruction->name);
  const std::string wrong = judge(c, *instruction, machine);
  ++tally.run;
  if (wrong.empty()) return;
  ++tally.wrong;
  std::printf("%s; %s\n%s", c.chip.c_str(), c.line.c_str(), wrong.c_str());
}

void run_cases(std::istream& in, Tally& tally) {
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    try {
      run_line(line, tally);
    } catch (const std::exception& problem) {
      ++tally.wrong;
      std::printf("%s\n  %s\n", line.c_str(), problem.what());
    }
  }
}

void print_names(const Tally& tally) {
  for (const auto& [name, semantics] : semantics_table()) {
    if (semantics.unit != Unit::none) std::printf("%s%s\n", tally.names.contains(name) ? "+" : "-", name.c_str());
  }
}

}  // namespace

int main(int count, char** arguments) {
  Tally tally;
  bool names = false;
  for (int k = 1; k < count; ++k) {
    const std::string word = arguments[k];
    if (word == "--names") {
      names = true;
    } else if (word == "-") {
      run_cases(std::cin, tally);
    } else {
      std::ifstream file(word);
      run_cases(file, tally);
    }
  }
  if (names) print_names(tally);
  std::printf("%d cases, %d wrong\n", tally.run, tally.wrong);
  return tally.run > 0 && tally.wrong == 0 ? 0 : 1;
}
