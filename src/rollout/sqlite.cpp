#include "rollout/sqlite.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/file_lock.h"
#include "base/log.h"

namespace tritonforge::rollout {

Statement::Statement(Statement&& other) noexcept
    : database_(other.database_), statement_(std::exchange(other.statement_, nullptr)) {}
Statement::~Statement() {
  if (statement_ != nullptr) database_->give_back(statement_);
}

Statement& Statement::bind(int position, int64_t value) {
  if (const int code = sqlite3_bind_int64(statement_, position, value); code != SQLITE_OK)
    database_->raise(code, "bind");
  return *this;
}
Statement& Statement::bind(int position, double value) {
  if (const int code = sqlite3_bind_double(statement_, position, value); code != SQLITE_OK)
    database_->raise(code, "bind");
  return *this;
}
Statement& Statement::bind(int position, std::string_view value) {
  const int code = sqlite3_bind_text64(statement_, position, value.data() == nullptr ? "" : value.data(), value.size(),
                                       SQLITE_TRANSIENT, SQLITE_UTF8);
  if (code != SQLITE_OK) database_->raise(code, "bind");
  return *this;
}
Statement& Statement::bind_bytes(int position, std::string_view value) {
  const int code = sqlite3_bind_blob64(statement_, position, value.data() == nullptr ? "" : value.data(), value.size(),
                                       SQLITE_TRANSIENT);
  if (code != SQLITE_OK) database_->raise(code, "bind");
  return *this;
}

bool Statement::step() {
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code != SQLITE_DONE) database_->raise(code, sqlite3_sql(statement_));
  return false;
}

int64_t Statement::integer(int column) const { return sqlite3_column_int64(statement_, column); }
double Statement::number(int column) const { return sqlite3_column_double(statement_, column); }
bool Statement::is_null(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }
std::string Statement::text(int column) const {
  const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  return bytes == nullptr ? std::string()
                          : std::string(bytes, static_cast<size_t>(sqlite3_column_bytes(statement_, column)));
}
std::string Statement::bytes(int column) const {
  const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement_, column));
  return bytes == nullptr ? std::string()
                          : std::string(bytes, static_cast<size_t>(sqlite3_column_bytes(statement_, column)));
}

Database::Database(const fs::path& path) : path_(path) {
  const std::string lock_path = path.string() + ".lock";
  lock_ = ::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock_ < 0)
    fail(ErrorKind::kUnavailable, "database {}: cannot create its lock file: {}", path.string(), std::strerror(errno));
  try {
    if (!lock_file(lock_, LOCK_EX | LOCK_NB, path))
      fail(ErrorKind::kUnavailable, "database {}: another process has it open", path.string());
    // The log is copied into the file every 64 MiB, not every 4: each time waits for the disk twice.
    open({"PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", "PRAGMA foreign_keys=ON",
          "PRAGMA wal_autocheckpoint=16384"});
  } catch (...) {
    close(lock_);
    throw;
  }
}

Database::Database(Reading, const fs::path& path) : path_(path), reads_only_(true) { open({"PRAGMA query_only=ON"}); }

Database Database::reader_of(const fs::path& path) { return Database(Reading{}, path); }

void Database::open(std::initializer_list<const char*> settings) {
  constexpr int kFlags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  try {
    const int code = sqlite3_open_v2(path_.c_str(), &handle_, kFlags, nullptr);
    if (code != SQLITE_OK) raise(code, "open");
    sqlite3_extended_result_codes(handle_, 1);
    sqlite3_busy_timeout(handle_, 10000);
    for (const char* setting : settings) execute(setting);
  } catch (...) {
    sqlite3_close_v2(handle_);
    throw;
  }
}

Database::~Database() {
  for (const auto& [sql, statement] : idle_) sqlite3_finalize(statement);
  sqlite3_close_v2(handle_);
  if (lock_ >= 0) close(lock_);
}

void Database::execute(const std::string& sql) {
  if (const int code = sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr); code != SQLITE_OK)
    raise(code, sql);
}

Statement Database::prepare(std::string_view sql) {
  if (const auto known = idle_.find(sql); known != idle_.end()) {
    sqlite3_stmt* const statement = known->second;
    idle_.erase(known);
    return Statement(*this, statement);
  }
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v2(handle_, sql.data(), static_cast<int>(sql.size()), &statement, nullptr);
  if (code != SQLITE_OK) raise(code, sql);
  return Statement(*this, statement);
}

void Database::give_back(sqlite3_stmt* statement) {
  sqlite3_reset(statement);
  sqlite3_clear_bindings(statement);
  if (!idle_.emplace(sqlite3_sql(statement), statement).second) sqlite3_finalize(statement);
}

int64_t Database::changes() const { return sqlite3_changes64(handle_); }

void Database::raise(int code, std::string_view doing) const {
  ErrorKind kind = ErrorKind::kInternal;
  switch (code & 0xFF) {
    case SQLITE_FULL:
    case SQLITE_IOERR:
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
    case SQLITE_NOMEM: kind = ErrorKind::kUnavailable; break;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB: kind = ErrorKind::kCorrupt; break;
    default: break;
  }
  const int system = handle_ == nullptr ? 0 : sqlite3_system_errno(handle_);
  const bool with_system = kind == ErrorKind::kUnavailable && system != 0;
  fail(kind, "database {}: {}{}{} ({})", path_.string(),
       handle_ == nullptr ? sqlite3_errstr(code) : sqlite3_errmsg(handle_), with_system ? ": " : "",
       with_system ? std::strerror(system) : "", doing.substr(0, 60));
}

Transaction::Transaction(Database& database) : database_(database) {
  database_.execute(database.reads_only_ ? "BEGIN" : "BEGIN IMMEDIATE");
}

Transaction::~Transaction() {
  // SQLite has already rolled back by itself after some errors (disk full); autocommit tells.
  if (!open_ || sqlite3_get_autocommit(database_.handle_) != 0) return;
  if (sqlite3_exec(database_.handle_, "ROLLBACK", nullptr, nullptr, nullptr) != SQLITE_OK) {
    log::error("database {}: rollback failed: {}", database_.path_.string(), sqlite3_errmsg(database_.handle_));
  }
}

void Transaction::commit() {
  database_.execute("COMMIT");
  open_ = false;
}

}  // namespace tritonforge::rollout
