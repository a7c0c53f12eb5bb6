#include "service/deliver/clickhouse/clickhouse_destination.h"

#include <time.h>

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "service/base/this_boot.h"
#include "service/deliver/clickhouse/api.h"
#include "service/deliver/clickhouse/clickhouse_delivery.h"
#include "service/deliver/masking.h"

namespace ranklog::deliver::clickhouse {
namespace {

constexpr char kVerify[] =
    R"(  clickhouse By SQL: the count and a digest of every value of every rank (metric, step, time), and the texts; of a rank
         that differs, every row. The statistics over ranks have each value once. Once the run's end is delivered, the
         config is compared. Not compared: system metrics.
)";

constexpr char kInsertInterval[] = "insert_interval";

int64_t BootClockUs() {
  timespec now = {};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1000;
}

}  // namespace

ClickhouseDestination::ClickhouseDestination()
    : Destination({.kind = kKind,
                   .name = "ClickHouse",
                   .url_setting = "url",
                   .public_url = "",
                   .other_settings = {"database", kInsertInterval},
                   .key_variable = "CLICKHOUSE_PASSWORD",
                   .user_variable = "CLICKHOUSE_USER",
                   .key_is_optional = true,
                   .takes_all_ranks = true,
                   .check_place = "check the database",
                   .other_login = "set CLICKHOUSE_USER and CLICKHOUSE_PASSWORD",
                   .verify = kVerify}) {}

std::string ClickhouseDestination::AddressIn(
    const std::function<std::string(const std::string&)>& variable) const {
  std::string address = Destination::AddressIn(variable);
  const std::string database = variable(VariableOf("database"));
  while (absl::EndsWith(address, "/")) address.pop_back();
  return address.empty() || database.empty() ? address : absl::StrCat(address, "/", database);
}

absl::Status ClickhouseDestination::CheckSetting(absl::string_view name,
                                                 absl::string_view value) const {
  if (name != kInsertInterval) return absl::OkStatus();
  absl::Duration interval;
  if (absl::ParseDuration(value, &interval) && interval >= absl::Milliseconds(100) &&
      interval <= absl::Hours(1)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("\"", value, "\" is not a duration from 100ms to 1h, such as 30s"));
}

void ClickhouseDestination::Authorize(const Credential& credential, HttpRequest* request) const {
  if (credential.secret.empty()) return;
  request->headers.emplace_back("X-ClickHouse-User",
                                credential.user.empty() ? "default" : credential.user);
  request->headers.emplace_back("X-ClickHouse-Key", credential.secret);
}

bool ClickhouseDestination::IsKeyRefused(const HttpResponse& answer) const {
  return clickhouse::IsKeyRefused(answer);
}

std::unique_ptr<RunDelivery> ClickhouseDestination::Deliver(model::Run run,
                                                            model::Delivery delivery,
                                                            const DeliveryParts& parts) const {
  ClickhouseDelivery::Options options;
  options.sample_interval = parts.transmit_interval;
  // It was checked when it came; without it, the default stays.
  absl::ParseDuration(run.settings.Of(kKind, kInsertInterval), &options.insert_interval);
  options.longest_interval = std::max(options.longest_interval, options.insert_interval);
  options.boot = ThisBoot();
  options.boot_clock_us = BootClockUs;
  return std::make_unique<ClickhouseDelivery>(*this, std::move(run), std::move(delivery), parts,
                                              std::move(options));
}

absl::StatusOr<std::string> ClickhouseDestination::AccountOf(Transport& transport,
                                                             const std::string& server,
                                                             const Credential& credential,
                                                             absl::Duration timeout) const {
  HttpRequest request = Query(ServerAt(server, {}), "SELECT currentUser() FORMAT TabSeparated");
  // The account may exist before its database.
  request.url = request.url.substr(0, request.url.find("&database="));
  Authorize(credential, &request);
  request.timeout = timeout;
  absl::StatusOr<HttpResponse> answer = transport.Send(request);
  MaskKey(credential, request, &answer);
  if (!answer.ok()) return answer.status();
  if (clickhouse::IsKeyRefused(*answer)) return absl::UnauthenticatedError(Explain(answer));
  if (OutcomeOf(answer) != Outcome::kAccepted) return absl::UnknownError(Explain(answer));
  if (credential.secret.empty()) return std::string();
  return std::string(absl::StripAsciiWhitespace(answer->body));
}

}  // namespace ranklog::deliver::clickhouse
