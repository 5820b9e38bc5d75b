// SPDX-License-Identifier: Apache-2.0
#include "kernel_build/tunings.h"

#include <dlfcn.h>
#include <sqlite3.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/knobs.h"
#include "base/log.h"
#include "kernel_build/codegen_loader.h"
#include "kernel_build/kernel_cache.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& file, const std::string& why) {
  throw Error({.kind = ErrorKind::resource,
               .code = "E106",
               .what = cat("the tunings in ", printable(file.string()), " cannot be used: ", why),
               .hint = "delete the file, or name another with WEFT_TUNINGS"});
}

/// SQLite's functions, loaded at run time, because only tuning needs them and wheels do not contain the library.
struct Sqlite {
#define WEFT_SQLITE(name) decltype(&sqlite3_##name) name = nullptr
  WEFT_SQLITE(open_v2);
  WEFT_SQLITE(close);
  WEFT_SQLITE(busy_timeout);
  WEFT_SQLITE(errmsg);
  WEFT_SQLITE(exec);
  WEFT_SQLITE(changes);
  WEFT_SQLITE(prepare_v2);
  WEFT_SQLITE(step);
  WEFT_SQLITE(reset);
  WEFT_SQLITE(finalize);
  WEFT_SQLITE(bind_text);
  WEFT_SQLITE(bind_double);
  WEFT_SQLITE(column_text);
  WEFT_SQLITE(column_double);
  WEFT_SQLITE(column_int64);
#undef WEFT_SQLITE
  bool is_there = false;

  Sqlite() {
    void* library = ::dlopen("libsqlite3.so.0", RTLD_NOW | RTLD_LOCAL);
    is_there = library != nullptr;
    auto find = [&](const char* name, auto& function) {
      void* address = library ? ::dlsym(library, cat("sqlite3_", name).c_str()) : nullptr;
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(address);
      is_there &= address != nullptr;
    };
    find("open_v2", open_v2), find("close", close), find("busy_timeout", busy_timeout), find("errmsg", errmsg);
    find("exec", exec), find("changes", changes), find("prepare_v2", prepare_v2), find("step", step);
    find("reset", reset), find("finalize", finalize), find("bind_text", bind_text), find("bind_double", bind_double);
    find("column_text", column_text), find("column_double", column_double), find("column_int64", column_int64);
  }
};

const Sqlite& sqlite() {
  static const Sqlite functions;
  return functions;
}

/// An open database of tunings. A file with another version than `table_version` is refused; a new file has version 0.
class Database {
 public:
  Database(const fs::path& file, bool create) : file_(file) {
    int flags = SQLITE_OPEN_READWRITE | (create ? SQLITE_OPEN_CREATE : 0);
    sqlite3* opened = nullptr;
    if (!sqlite().is_there) fail(file, "there is no libsqlite3.so.0 on this machine");
    int code = sqlite().open_v2(file.c_str(), &opened, flags, nullptr);
    database_.reset(opened);
    if (code != SQLITE_OK) refuse();
    sqlite().busy_timeout(opened, 5000);  // milliseconds
    int64_t version = number("PRAGMA user_version");
    if (version == 0) {
      run("CREATE TABLE IF NOT EXISTS tunings (chip TEXT, library TEXT, problem TEXT, candidate TEXT, nanoseconds "
          "REAL, "
          "PRIMARY KEY (chip, library, problem, candidate)) WITHOUT ROWID");
      run(cat("PRAGMA user_version = ", table_version));
    } else if (version != table_version) {
      fail(file_, cat("it has format version ", version, ", this library has version ", table_version));
    }
  }

  void run(const std::string& sql) const {
    if (sqlite().exec(database_.get(), sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) refuse();
  }
  int64_t number(const std::string& sql) const {
    Statement statement = prepare(sql);
    return step(statement) ? sqlite().column_int64(statement.get(), 0) : 0;
  }
  int64_t changes() const { return sqlite().changes(database_.get()); }

  struct Finalise {
    void operator()(sqlite3_stmt* statement) const { sqlite().finalize(statement); }
  };
  using Statement = std::unique_ptr<sqlite3_stmt, Finalise>;
  Statement prepare(const std::string& sql) const {
    sqlite3_stmt* statement = nullptr;
    if (sqlite().prepare_v2(database_.get(), sql.c_str(), -1, &statement, nullptr) != SQLITE_OK) refuse();
    return Statement(statement);
  }
  /// Runs the statement up to its next row; returns false if there is no further row.
  bool step(const Statement& statement) const {
    int code = sqlite().step(statement.get());
    if (code != SQLITE_ROW && code != SQLITE_DONE) refuse();
    return code == SQLITE_ROW;
  }
  static void bind(const Statement& statement, int at, const std::string& text) {
    sqlite().bind_text(statement.get(), at, text.c_str(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
  }

 private:
  static constexpr int table_version = 1;
  struct Close {
    void operator()(sqlite3* database) const { sqlite().close(database); }
  };
  [[noreturn]] void refuse() const { fail(file_, database_ ? sqlite().errmsg(database_.get()) : "memory ran out"); }

  fs::path file_;
  std::unique_ptr<sqlite3, Close> database_;
};

std::string text_at(const Database::Statement& statement, int column) {
  const auto* text = reinterpret_cast<const char*>(sqlite().column_text(statement.get(), column));
  return text ? text : "";
}

std::vector<Tuning> rows(const Database& database, const Database::Statement& statement) {
  std::vector<Tuning> found;
  while (database.step(statement)) {
    found.push_back({.chip = text_at(statement, 0),
                     .library = text_at(statement, 1),
                     .problem = text_at(statement, 2),
                     .candidate = text_at(statement, 3),
                     .nanoseconds = sqlite().column_double(statement.get(), 4)});
  }
  return found;
}

constexpr const char* columns = "SELECT chip, library, problem, candidate, nanoseconds FROM tunings ";

using Times = std::map<std::string, double>;  // candidate -> nanoseconds

Choice fastest(const Decision& decision, const Times& times) {
  constexpr double worth_changing = 0.97;
  size_t liked = favourite(decision);
  auto known = times.find(decision.candidates[liked].name);
  if (known == times.end()) return {liked};
  size_t best = liked;
  double least = known->second;
  for (size_t i = 0; i < decision.candidates.size(); ++i) {
    auto time = times.find(decision.candidates[i].name);
    if (time != times.end() && time->second < least) best = i, least = time->second;
  }
  if (least > worth_changing * known->second) return {liked};
  int percent = static_cast<int>(100 * least / known->second + 0.5);
  return {best, cat("measured: ", percent, " % of the time of ", decision.candidates[liked].name)};
}

}  // namespace

std::string chip_key(const Chip& chip, std::string_view device) {
  return device.empty() ? to_string(chip) : cat(chip, ", ", device);
}

fs::path TuningStore::default_file() {
  if (!knobs().tunings.empty()) return knobs().tunings;
  fs::path folder = cache_folder();
  return folder.empty() ? folder : folder / "tunings.db";
}

void TuningStore::put(std::span<const Tuning> tunings) {
  if (tunings.empty()) return;
  if (file_.empty()) fail(file_, "there is no folder for it: neither XDG_CACHE_HOME nor HOME is set");
  make_private_folders(file_.parent_path());
  Database database(file_, true);
  database.run("BEGIN IMMEDIATE");
  auto insert = database.prepare("INSERT OR REPLACE INTO tunings VALUES (?, ?, ?, ?, ?)");
  for (const Tuning& tuning : tunings) {
    int at = 0;
    for (const std::string* text : {&tuning.chip, &tuning.library, &tuning.problem, &tuning.candidate})
      Database::bind(insert, ++at, *text);
    sqlite().bind_double(insert.get(), ++at, tuning.nanoseconds);
    database.step(insert);
    sqlite().reset(insert.get());
  }
  database.run("COMMIT");
}

std::vector<Tuning> TuningStore::all() const {
  if (file_.empty() || !fs::exists(file_)) return {};
  Database database(file_, false);
  return rows(database, database.prepare(cat(columns, "ORDER BY chip, library, problem, nanoseconds")));
}

std::vector<Tuning> TuningStore::known_for(const std::string& chip, const std::string& library) const {
  if (file_.empty() || !fs::exists(file_)) return {};
  Database database(file_, false);
  auto statement = database.prepare(cat(columns,
                                        "WHERE library = ?1 AND (chip = ?2 OR substr(chip, 1, length(?2) + 2) "
                                        "= ?2 || ', ') ORDER BY chip"));
  Database::bind(statement, 1, library);
  Database::bind(statement, 2, chip);
  std::map<std::string, std::vector<Tuning>> models;
  for (Tuning& tuning : rows(database, statement)) models[tuning.chip].push_back(std::move(tuning));
  if (models.empty()) return {};
  auto fewer = [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); };
  return std::ranges::max_element(models, fewer)->second;
}

int64_t TuningStore::clear() {
  if (file_.empty() || !fs::exists(file_)) return 0;
  Database database(file_, false);
  database.run("DELETE FROM tunings");
  return database.changes();
}

std::vector<Tuning> kept_tunings(const std::string& chip) {
  static std::atomic_flag was_said;
  try {
    return TuningStore(TuningStore::default_file()).known_for(chip, codegen_build());
  } catch (const Error& error) {
    if (!was_said.test_and_set()) log(LogLevel::warning, error.info().what);
    return {};
  }
}

Chooser choose_by(std::span<const Tuning> tunings) {
  auto known = std::make_shared<std::map<std::string, Times>>();
  for (const Tuning& tuning : tunings) (*known)[tuning.problem][tuning.candidate] = tuning.nanoseconds;
  return [known](const Decision& decision) {
    auto times = known->find(decision.problem);
    return times == known->end() ? Choice{favourite(decision)} : fastest(decision, times->second);
  };
}

std::string tunings_text(std::span<const Tuning> tunings) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Tuning& t : tunings) {
    list.push_back({{"chip", t.chip},
                    {"library", t.library},
                    {"problem", t.problem},
                    {"candidate", t.candidate},
                    {"nanoseconds", t.nanoseconds}});
  }
  return nlohmann::ordered_json{{"schema", "weft.tunings.1"}, {"tunings", list}}.dump(1) + "\n";
}

std::vector<Tuning> parse_tunings(std::string_view text) {
  try {
    auto json = nlohmann::json::parse(text);
    check(json.at("schema") == "weft.tunings.1", "the schema is that of tunings");
    std::vector<Tuning> tunings;
    for (const auto& t : json.at("tunings")) {
      tunings.push_back({.chip = t.at("chip"),
                         .library = t.at("library"),
                         .problem = t.at("problem"),
                         .candidate = t.at("candidate"),
                         .nanoseconds = t.at("nanoseconds")});
      check(std::isfinite(tunings.back().nanoseconds) && tunings.back().nanoseconds > 0, "a time is above 0");
    }
    return tunings;
  } catch (const std::exception& error) {
    throw Error({.kind = ErrorKind::usage,
                 .code = "E212",
                 .what = "the text holds no tunings (JSON, schema weft.tunings.1)",
                 .why = printable(error.what())});
  }
}

}  // namespace weft
