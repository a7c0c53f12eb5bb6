#include "service/storage/database/sqlite.h"

#include <errno.h>
#include <sqlite3.h>
#include <string.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "service/base/status_macros.h"

namespace ranklog::storage {
namespace {

// Recovery or a checkpoint of another connection ends long before.
constexpr int kBusyTimeoutMs = 5000;

// The last error of the file system. Asks the VFS first, because sqlite3_system_errno() does not
// have the error of a failed COMMIT. But only sqlite3_system_errno() has the error of a failed
// open.
int SystemErrno(sqlite3* handle) {
  sqlite3_vfs* vfs = nullptr;
  sqlite3_file_control(handle, "main", SQLITE_FCNTL_VFS_POINTER, &vfs);
  return vfs != nullptr ? vfs->xGetLastError(vfs, 0, nullptr) : sqlite3_system_errno(handle);
}

// EFBIG: over this process's limit (`ulimit -f`).
bool IsNoSpace(int error) { return error == ENOSPC || error == EDQUOT || error == EFBIG; }

// A quota, a limit and a read-only file system are reported as I/O errors with that errno.
absl::StatusCode CodeOfIo(int error) {
  if (IsNoSpace(error)) return absl::StatusCode::kResourceExhausted;
  return error == EROFS ? absl::StatusCode::kUnavailable : absl::StatusCode::kInternal;
}

absl::StatusCode CodeOf(sqlite3* handle, int result) {
  switch (result & 0xff) {
    case SQLITE_FULL:
      return absl::StatusCode::kResourceExhausted;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return absl::StatusCode::kDataLoss;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return absl::StatusCode::kUnavailable;
    case SQLITE_CANTOPEN:
      return IsNoSpace(SystemErrno(handle)) ? absl::StatusCode::kResourceExhausted
                                            : absl::StatusCode::kPermissionDenied;
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return absl::StatusCode::kPermissionDenied;
    case SQLITE_IOERR:
      return CodeOfIo(SystemErrno(handle));
    default:
      return absl::StatusCode::kInternal;
  }
}

// SQLite reads a database with a write-ahead log only if PATH-shm exists or it can create it. Where
// it cannot, as on a read-only file system, and no daemon has the file open, the file can be read as
// it is, unless its log has content. With `without_trace`, also where it could create the files.
// Returns the URI for that, or "" if the path is enough.
absl::StatusOr<std::string> UriToReadAsItIs(const std::string& path, bool without_trace) {
  const std::string directory = std::filesystem::path(path).parent_path();
  if (access(absl::StrCat(path, "-shm").c_str(), F_OK) == 0) return "";
  const bool writable = access(directory.empty() ? "." : directory.c_str(), W_OK) == 0;
  if (writable && !without_trace) return "";
  const std::string log = absl::StrCat(path, "-wal");
  std::error_code none;
  if (const auto size = std::filesystem::file_size(log, none); !none && size > 0) {
    if (writable) return "";
    return absl::FailedPreconditionError(absl::StrCat(
        log, " may have rows that are not in ", path, " yet, and ", directory,
        " cannot be written: copy the directory to a place that you can write, and read it there"));
  }
  return absl::StrCat(absl::StartsWith(path, "/") ? "file://" : "file:",
                      absl::StrReplaceAll(path, {{"%", "%25"}, {"?", "%3f"}, {"#", "%23"}}),
                      "?immutable=1");
}

// Whether a daemon has opened a file that is read as it is. What was read since may be of two states.
bool IsOpenedByDaemon(const char* file) {
  return sqlite3_uri_boolean(file, "immutable", 0) != 0 &&
         access(absl::StrCat(file, "-shm").c_str(), F_OK) == 0;
}

absl::string_view Shortened(absl::string_view sql) { return sql.substr(0, 80); }

}  // namespace

absl::Status SqliteStatus(sqlite3* handle, int result, absl::string_view doing) {
  if (result == SQLITE_OK || result == SQLITE_ROW || result == SQLITE_DONE) return absl::OkStatus();
  const int error = SystemErrno(handle);
  const bool system = (result & 0xff) == SQLITE_IOERR || (result & 0xff) == SQLITE_CANTOPEN;
  return absl::Status(CodeOf(handle, result),
                      absl::StrCat(doing, ": ", sqlite3_errmsg(handle), " (SQLite code ", result,
                                   system && error != 0 ? ", " : "",
                                   system && error != 0 ? strerror(error) : "", ")"));
}

Parameter Parameter::Blob(absl::string_view bytes) {
  Parameter parameter(bytes);
  parameter.kind_ = Kind::kBlob;
  return parameter;
}

int Parameter::BindTo(sqlite3_stmt* statement, int index) const {
  // A null pointer would bind NULL, and an empty view may have one.
  const char* data = bytes_.data() == nullptr ? "" : bytes_.data();
  switch (kind_) {
    case Kind::kInteger:
      return sqlite3_bind_int64(statement, index, integer_);
    case Kind::kText:
      return sqlite3_bind_text64(statement, index, data, bytes_.size(), SQLITE_TRANSIENT,
                                 SQLITE_UTF8);
    case Kind::kBlob:
      return sqlite3_bind_blob64(statement, index, data, bytes_.size(), SQLITE_STATIC);
  }
  return SQLITE_MISUSE;
}

Query::Query(sqlite3_stmt* statement, absl::Status status)
    : statement_(statement), status_(std::move(status)) {}

Query::Query(Query&& other) noexcept
    : statement_(std::exchange(other.statement_, nullptr)), status_(std::move(other.status_)) {}

Query::~Query() {
  if (statement_ == nullptr) return;
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
}

bool Query::Next() {
  if (!status_.ok()) return false;
  errno = 0;  // so that a later errno belongs to this failure
  const int result = sqlite3_step(statement_);
  sqlite3* handle = sqlite3_db_handle(statement_);
  const char* file = sqlite3_db_filename(handle, nullptr);
  if (IsOpenedByDaemon(file)) {
    status_ = absl::UnavailableError(
        absl::StrCat(file, " was opened by a daemon while it was read; try again"));
    return false;
  }
  if (result == SQLITE_ROW) return true;
  status_ =
      SqliteStatus(handle, result, absl::StrCat(file, ": ", Shortened(sqlite3_sql(statement_))));
  return false;
}

int64_t Query::Integer(int column) const { return sqlite3_column_int64(statement_, column); }

std::string Query::Text(int column) const { return std::string(Bytes(column)); }

absl::string_view Query::Bytes(int column) const {
  const void* data = sqlite3_column_blob(statement_, column);
  const int size = sqlite3_column_bytes(statement_, column);
  return absl::string_view(static_cast<const char*>(data), static_cast<size_t>(size));
}

void Database::Close::operator()(sqlite3* handle) const { sqlite3_close(handle); }
void Database::Finalize::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

absl::StatusOr<Database> Database::Open(const std::string& path, Mode mode, const char* vfs) {
  int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  std::string uri;
  if (mode != Mode::kReadWrite) {
    ASSIGN_OR_RETURN(uri, UriToReadAsItIs(path, mode == Mode::kReadWithoutTrace));
    flags |= SQLITE_OPEN_READONLY | (uri.empty() ? 0 : SQLITE_OPEN_URI);
  } else {
    flags |= SQLITE_OPEN_READWRITE;
  }
  sqlite3* raw = nullptr;
  const int result = sqlite3_open_v2((uri.empty() ? path : uri).c_str(), &raw, flags, vfs);
  Handle handle(raw);
  if (handle == nullptr) return absl::InternalError("SQLite: out of memory");
  RETURN_IF_ERROR(SqliteStatus(raw, result, absl::StrCat("cannot open ", path)));
  sqlite3_busy_timeout(raw, kBusyTimeoutMs);
  return Database(path, std::move(handle));
}

absl::Status Database::Execute(const char* script) {
  errno = 0;
  const int result = sqlite3_exec(handle(), script, nullptr, nullptr, nullptr);
  return SqliteStatus(handle(), result, absl::StrCat(path_, ": ", Shortened(script)));
}

absl::StatusOr<sqlite3_stmt*> Database::Prepare(absl::string_view sql) {
  const auto found = statements_.find(sql);
  if (found != statements_.end()) return found->second.get();
  sqlite3_stmt* raw = nullptr;
  const int result = sqlite3_prepare_v3(handle(), sql.data(), static_cast<int>(sql.size()),
                                        SQLITE_PREPARE_PERSISTENT, &raw, nullptr);
  RETURN_IF_ERROR(SqliteStatus(handle(), result, absl::StrCat(path_, ": ", Shortened(sql))));
  statements_.emplace(std::string(sql), Statement(raw));
  return raw;
}

absl::Status Database::Run(absl::string_view sql, absl::Span<const Parameter> parameters) {
  Query query = Select(sql, parameters);
  while (query.Next()) {
  }
  return query.status();
}

Query Database::Select(absl::string_view sql, absl::Span<const Parameter> parameters) {
  absl::StatusOr<sqlite3_stmt*> statement = Prepare(sql);
  if (!statement.ok()) return Query(nullptr, statement.status());
  int index = 0;
  for (const Parameter& parameter : parameters) {
    const int result = parameter.BindTo(*statement, ++index);
    if (result != SQLITE_OK) {
      return Query(*statement, SqliteStatus(handle(), result,
                                            absl::StrCat("cannot bind the parameters of ", sql)));
    }
  }
  return Query(*statement, absl::OkStatus());
}

absl::StatusOr<int64_t> Database::SelectInteger(absl::string_view sql,
                                                absl::Span<const Parameter> parameters) {
  Query query = Select(sql, parameters);
  if (query.Next()) return query.Integer(0);
  RETURN_IF_ERROR(query.status());
  return absl::NotFoundError(absl::StrCat(path_, ": nothing for ", Shortened(sql)));
}

int64_t Database::last_insert_id() const { return sqlite3_last_insert_rowid(handle()); }
int64_t Database::changed_rows() const { return sqlite3_changes64(handle()); }
bool Database::in_transaction() const { return sqlite3_get_autocommit(handle()) == 0; }

}  // namespace ranklog::storage
