#include "service/deliver/clickhouse/api.h"

#include <openssl/evp.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "service/deliver/http/url.h"

namespace ranklog::deliver::clickhouse {
namespace {

// These pass by themselves, or when somebody makes room. The insert may have been made.
constexpr int kTemporary[] = {
    3,    // UNEXPECTED_END_OF_FILE
    23,   // CANNOT_READ_FROM_ISTREAM
    24,   // CANNOT_WRITE_TO_OSTREAM
    33,   // CANNOT_READ_ALL_DATA
    74,   // CANNOT_READ_FROM_FILE_DESCRIPTOR
    75,   // CANNOT_WRITE_TO_FILE_DESCRIPTOR
    76,   // CANNOT_OPEN_FILE
    159,  // TIMEOUT_EXCEEDED
    173,  // CANNOT_ALLOCATE_MEMORY
    201,  // QUOTA_EXCEEDED
    202,  // TOO_MANY_SIMULTANEOUS_QUERIES
    203,  // NO_FREE_CONNECTION
    209,  // SOCKET_TIMEOUT
    210,  // NETWORK_ERROR
    225,  // NO_ZOOKEEPER
    236,  // ABORTED
    241,  // MEMORY_LIMIT_EXCEEDED
    242,  // TABLE_IS_READ_ONLY: a replica without its keeper
    243,  // NOT_ENOUGH_SPACE
    252,  // TOO_MANY_PARTS
    254,  // NO_AVAILABLE_REPLICA
    279,  // ALL_CONNECTION_TRIES_FAILED
    285,  // TOO_FEW_LIVE_REPLICAS
    286,  // UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE
    289,  // REPLICA_IS_NOT_IN_QUORUM
    319,  // UNKNOWN_STATUS_OF_INSERT
    394,  // QUERY_WAS_CANCELLED
    425,  // SYSTEM_ERROR
    439,  // CANNOT_SCHEDULE_TASK
    473,  // DEADLOCK_AVOIDED
    499,  // S3_ERROR
    519,  // ALL_REPLICAS_LOST
    999,  // KEEPER_EXCEPTION
    1001, 1002,
};

std::string Escaped(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"\t", "\\t"}, {"\n", "\\n"}, {"\r", "\\r"}});
}

HttpRequest Post(std::string url, std::string body) {
  HttpRequest request;
  request.url = std::move(url);
  request.body = std::move(body);
  request.max_answer = 64 << 20;
  return request;
}

}  // namespace

Server ServerAt(absl::string_view address, const model::RunSettings& settings) {
  Server server{.url = absl::StrCat(address, "/"), .database = settings.Of(kKind, "database")};
  if (!server.database.empty()) return server;
  const size_t host = address.find("://");
  const size_t slash = address.rfind('/');
  if (host != absl::string_view::npos && slash > host + 2) {
    const absl::string_view name = address.substr(slash + 1);
    server.database = std::string(name.data(), name.size());
    server.url = absl::StrCat(address.substr(0, slash), "/");
  }
  if (server.database.empty()) server.database = "default";
  return server;
}

HttpRequest Query(const Server& server, absl::string_view sql, const Parameters& parameters) {
  // Without waiting for the end, an exception could come after the status 200.
  std::string url =
      absl::StrCat(server.url, "?wait_end_of_query=1&database=", PercentEncode(server.database));
  for (const auto& [name, value] : parameters) {
    absl::StrAppend(&url, "&param_", name, "=", PercentEncode(Escaped(value)));
  }
  return Post(std::move(url), std::string(sql.data(), sql.size()));
}

HttpRequest CreateDatabase(const Server& server) {
  const std::string name = absl::StrReplaceAll(server.database, {{"\\", "\\\\"}, {"`", "\\`"}});
  return Post(absl::StrCat(server.url, "?wait_end_of_query=1"),
              absl::StrCat("CREATE DATABASE IF NOT EXISTS `", name, "`"));
}

HttpRequest Insert(const Server& server, absl::string_view table, absl::string_view columns,
                   absl::string_view format, absl::string_view token, std::string body) {
  // A server that collects inserts would answer before it has the rows, or drop the token. A
  // distributed table would, too.
  std::string sql = absl::StrCat("INSERT INTO ", table, " (", columns,
                                 ") SETTINGS async_insert = 0, insert_distributed_sync = 1");
  if (!token.empty()) {
    absl::StrAppend(&sql, ", insert_deduplicate = 1, insert_deduplication_token = '", token,
                    "', deduplicate_blocks_in_dependent_materialized_views = 1");
  }
  absl::StrAppend(&sql, " FORMAT ", format);
  HttpRequest request = Post(
      absl::StrCat(server.url, "?wait_end_of_query=1&database=", PercentEncode(server.database),
                   "&query=", PercentEncode(sql)),
      std::move(body));
  request.gzip = true;
  return request;
}

HttpRequest InsertGzip(const Server& server, absl::string_view table, absl::string_view columns,
                       absl::string_view format, absl::string_view token, std::string body) {
  HttpRequest request = Insert(server, table, columns, format, token, std::move(body));
  request.gzip = false;
  request.headers.emplace_back("Content-Encoding", "gzip");
  return request;
}

int ExceptionCode(const absl::StatusOr<HttpResponse>& answer) {
  if (!answer.ok()) return 0;
  int code = 0;
  if (const auto header = answer->headers.find("x-clickhouse-exception-code");
      header != answer->headers.end() && absl::SimpleAtoi(header->second, &code)) {
    return code;
  }
  constexpr char kBegin[] = "Code: ";
  if (answer->code < 300 || !absl::StartsWith(answer->body, kBegin)) return 0;
  absl::string_view number = absl::string_view(answer->body).substr(sizeof kBegin - 1);
  number = number.substr(0, number.find_first_not_of("0123456789"));
  return absl::SimpleAtoi(number, &code) ? code : 0;
}

Outcome OutcomeOf(const absl::StatusOr<HttpResponse>& answer) {
  const int code = ExceptionCode(answer);
  if (code != 0) {
    return std::count(std::begin(kTemporary), std::end(kTemporary), code) > 0 ? Outcome::kLater
                                                                              : Outcome::kBlocked;
  }
  return OfQuestion(Classify(answer));
}

bool IsKeyRefused(const HttpResponse& answer) {
  // UNKNOWN_USER, WRONG_PASSWORD, REQUIRED_PASSWORD, AUTHENTICATION_FAILED
  constexpr int kCodes[] = {192, 193, 194, 516};
  if (answer.code == HttpResponse::kUnauthorized) return true;
  return std::count(std::begin(kCodes), std::end(kCodes),
                    ExceptionCode(absl::StatusOr<HttpResponse>(answer))) > 0;
}

std::string AdviceOn(const absl::StatusOr<HttpResponse>& answer, const Server& server) {
  if (!answer.ok()) return "correct the address in CLICKHOUSE_URL";
  if (IsKeyRefused(*answer))
    return "set CLICKHOUSE_USER and CLICKHOUSE_PASSWORD to a valid account";
  switch (ExceptionCode(answer)) {
    case 497:  // ACCESS_DENIED
    case 164:  // READONLY
      return absl::StrCat("grant the account SELECT, INSERT and CREATE on database ",
                          server.database,
                          ", or create the tables by deploy/clickhouse/schema.sql and grant "
                          "SELECT and INSERT");
    case kUnknownTable:
    case kUnknownDatabase:
    case 16:  // NO_SUCH_COLUMN_IN_TABLE
    case 47:  // UNKNOWN_IDENTIFIER
      return absl::StrCat("create the tables in database ", server.database,
                          " by deploy/clickhouse/schema.sql");
    case 115:  // UNKNOWN_SETTING
      return "use ClickHouse 24.8 or later";
    default:
      return absl::StrCat("check the server at ", server.url);
  }
}

std::vector<std::vector<std::string>> RowsOf(const std::string& body) {
  std::vector<std::vector<std::string>> rows;
  for (absl::string_view line : absl::StrSplit(body, '\n')) {
    if (!line.empty()) rows.push_back(absl::StrSplit(line, '\t'));
  }
  return rows;
}

std::string Unescaped(absl::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '\\' || at + 1 == text.size()) {
      plain.push_back(text[at]);
      continue;
    }
    constexpr char kNames[] = "tnrbf0";
    constexpr char kMeanings[] = "\t\n\r\b\f";
    const char* const name = std::find(kNames, kNames + 6, text[++at]);
    plain.push_back(name == kNames + 6 ? text[at] : kMeanings[name - kNames]);
  }
  return plain;
}

std::string Digest(absl::string_view text) {
  unsigned char hash[EVP_MAX_MD_SIZE] = {};
  unsigned size = 0;
  EVP_Digest(text.data(), text.size(), hash, &size, EVP_sha256(), nullptr);
  constexpr size_t kKept = 16;
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(hash), kKept));
}

}  // namespace ranklog::deliver::clickhouse
