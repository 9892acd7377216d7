#pragma once
// SQLite for durable state on one machine: WAL, synchronous=FULL, every error an Error that names the file.
//   kUnavailable  disk full, I/O error, locked      kCorrupt  not a database, damaged      kInternal  a bug here
// Not thread-safe: its owner locks. A second, reading connection works beside one that writes (WAL).
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/filesystem.h"

struct sqlite3;
struct sqlite3_stmt;

namespace tritonforge::rollout {

class Database;

class Statement {
 public:
  Statement(Statement&& other) noexcept;
  ~Statement();
  // Positions count from 1. Texts are copied.
  Statement& bind(int position, int64_t value);
  Statement& bind(int position, double value);
  Statement& bind(int position, std::string_view value);
  Statement& bind_bytes(int position, std::string_view value);  // a BLOB
  bool step();                                                  // true: a row is there
  void run() {
    while (step()) {}
  }
  int64_t integer(int column) const;
  double number(int column) const;
  std::string text(int column) const;
  std::string bytes(int column) const;  // of a BLOB; "" where it is null
  bool is_null(int column) const;

 private:
  friend class Database;
  Statement(Database& database, sqlite3_stmt* statement) : database_(&database), statement_(statement) {}
  Database* database_;
  sqlite3_stmt* statement_;
};

class Database {
 public:
  // Opens or creates. A lock file beside it keeps a second process out (kUnavailable).
  explicit Database(const fs::path& path);
  // A connection for reading: it waits for no write and holds none up. Of a file that another process writes, too.
  static Database reader_of(const fs::path& path);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;
  void execute(const std::string& sql);
  // A statement that was prepared before and is not in use is used again.
  Statement prepare(std::string_view sql);
  int64_t changes() const;
  const fs::path& path() const { return path_; }

 private:
  friend class Statement;
  friend class Transaction;
  struct Reading {};
  Database(Reading, const fs::path& path);
  void open(std::initializer_list<const char*> settings);
  [[noreturn]] void raise(int code, std::string_view doing) const;
  void give_back(sqlite3_stmt* statement);
  fs::path path_;
  bool reads_only_ = false;
  sqlite3* handle_ = nullptr;
  int lock_ = -1;
  std::map<std::string, sqlite3_stmt*, std::less<>> idle_;  // prepared statements by their text
};

// All or nothing: rolled back unless committed. Durable once commit() returned. On a reading connection: everything is
// of one moment.
class Transaction {
 public:
  explicit Transaction(Database& database);
  ~Transaction();
  void commit();

 private:
  Database& database_;
  bool open_ = true;
};

}  // namespace tritonforge::rollout
