// Delivers one run to ClickHouse. README.md beside this describes what becomes of it there.

#ifndef SERVICE_DELIVER_CLICKHOUSE_CLICKHOUSE_DELIVERY_H_
#define SERVICE_DELIVER_CLICKHOUSE_CLICKHOUSE_DELIVERY_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "service/deliver/clickhouse/api.h"
#include "service/deliver/clickhouse/cursor.h"
#include "service/deliver/clickhouse/description.h"
#include "service/deliver/clickhouse/format/blocks.h"
#include "service/deliver/destination.h"
#include "service/deliver/tracker/tracker_delivery.h"

namespace ranklog::deliver::clickhouse {

class ClickhouseDelivery : public TrackerDelivery {
 public:
  struct Options {
    // Values of a cut. A larger one costs memory: 60 bytes per value, and the same for the next one.
    // It must stay below the server's max_insert_block_size, 1,048,449, or its rows are not one block.
    size_t cut_values = 500'000;
    size_t full_values = 100'000;  // a live run does not wait if it has that many
    // Between inserts of a live run. Doubles while the server has too many parts.
    absl::Duration insert_interval = absl::Seconds(1);
    absl::Duration longest_interval = absl::Minutes(1);
    absl::Duration sample_interval = absl::Seconds(15);
    absl::Duration poll_interval = absl::Seconds(1);
    absl::Duration describe_interval = absl::Seconds(5);
    absl::Duration check_interval = absl::Seconds(10);  // of the tables and the view
    // How long the server is sure to know the token of a cut. After that, it is asked what it has.
    absl::Duration token_life = absl::Minutes(1);
    absl::Duration timeout = absl::Seconds(30);
    absl::Duration insert_timeout = absl::Seconds(180);
    Backoff::Options backoff{};
    std::function<absl::Time()> wall_clock = absl::Now;  // only stamps descriptions
    std::function<int64_t()> boot_clock_us;              // since the boot; cannot be set
    std::string boot;                                    // the name of this boot
  };

  ClickhouseDelivery(const Destination& destination, model::Run run, model::Delivery delivery,
                     const DeliveryParts& parts, Options options);

 private:
  absl::StatusOr<absl::Duration> Act(storage::StoreReader& reader, absl::Time now,
                                     bool draining) override;
  bool IsCreated() const override { return cursor_.tables; }
  model::Json CursorJson() const override { return ToJson(cursor_); }
  bool IsPrepared() const override { return prepared_.has_value(); }

  // Each of these makes at most one exchange. Nullopt: there is nothing to do.
  using Wait = absl::optional<absl::Duration>;

  // Defined in clickhouse_tables.cc: the tables, and what they have of this run.
  Wait CheckTables(absl::Time now);
  absl::Duration MakeTables(absl::Time now);
  absl::Duration AskPlaces(absl::Time now);

  // Defined in clickhouse_rows.cc: rows and system metrics.
  absl::StatusOr<Wait> SendRows(storage::StoreReader& reader, absl::Time now, bool draining);
  // A cut in memory: its rows, as bodies of inserts.
  struct Prepared {
    std::map<int64_t, Place> places;  // it begins after these
    std::map<int64_t, uint64_t> to;
    bool more = false;  // another one should follow at once
    // Compressed; empty: no rows, or they were sent.
    std::string points;
    std::string texts;
    std::string points_token;
    std::string texts_token;
  };
  // After `places`: the rows of `cut`, or the next ones.
  absl::StatusOr<Prepared> Prepare(storage::StoreReader& reader,
                                   const std::map<int64_t, Place>& places,
                                   const absl::optional<Cut>& cut);
  absl::Status FixCut(storage::StoreReader& reader);
  absl::optional<absl::Duration> SendBlock(storage::StoreReader& reader, bool texts,
                                           absl::Time now);
  static void Move(const std::map<int64_t, uint64_t>& to, std::map<int64_t, Place>* places);
  void CutDelivered();
  bool IsSure(absl::Time now) const;
  bool MaySend(absl::Time now, bool draining) const;
  uint64_t WaitingRows() const;
  void CountDelivered();
  absl::StatusOr<Wait> SendSamples(storage::StoreReader& reader, absl::Time now, bool draining);

  // Defined in clickhouse_end.cc: the description and the end.
  absl::StatusOr<Wait> SendDescription(storage::StoreReader& reader, absl::Time now);
  absl::StatusOr<Wait> ReadSummary(storage::StoreReader& reader);

  absl::StatusOr<HttpResponse> SendRequest(HttpRequest request, bool is_insert = false);
  absl::Duration NotAccepted(absl::string_view what, const absl::StatusOr<HttpResponse>& answer,
                             absl::Time now);
  // Prefers the server's advice to the general one.
  Server at() const { return ServerAt(server(), run_.settings); }
  std::string RunOf() const { return RunName(run_, streams_); }

  Cursor cursor_;
  const Options options_;
  std::vector<model::Stream> streams_;

  absl::Time next_check_ = absl::InfinitePast();
  size_t made_tables_ = 0;
  bool make_tables_ = false;
  bool make_database_ = false;
  absl::Time asked_ = absl::InfinitePast();  // the places

  RowReader rows_;
  absl::optional<Prepared> prepared_;  // cursor_.cut
  absl::optional<Prepared> next_;      // the cut after it
  bool more_ = false;                  // a full cut waits
  absl::Duration interval_;
  absl::Time last_insert_ = absl::InfinitePast();
  absl::Time last_samples_ = absl::InfinitePast();

  absl::Time next_description_ = absl::InfinitePast();
  std::unique_ptr<RunSummaryReader> summary_;
  std::string summary_text_;
  bool has_summary_ = false;
  bool told_files_ = false;
  std::string ranks_described_;  // digest of the description of which the ranks were sent
};

}  // namespace ranklog::deliver::clickhouse

#endif  // SERVICE_DELIVER_CLICKHOUSE_CLICKHOUSE_DELIVERY_H_
