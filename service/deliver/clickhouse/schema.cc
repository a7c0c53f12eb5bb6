#include "service/deliver/clickhouse/schema.h"

#include "absl/strings/str_cat.h"

namespace ranklog::deliver::clickhouse {
namespace {

constexpr SchemaObject kObjects[] = {
    {"points", R"sql(CREATE TABLE IF NOT EXISTS points (
  project LowCardinality(String),
  run LowCardinality(String),
  metric LowCardinality(String),
  rank UInt32 CODEC(Delta, ZSTD),
  attempt UInt32 CODEC(Delta, ZSTD),
  step Int64 CODEC(Delta, ZSTD),
  ts DateTime64(6) CODEC(Delta, ZSTD),
  value Float64 CODEC(Gorilla, ZSTD),
  stream UInt64 CODEC(ZSTD),
  seq UInt64 CODEC(Delta, ZSTD),
  PROJECTION places (SELECT project, run, stream, max(seq) GROUP BY project, run, stream)
) ENGINE = MergeTree ORDER BY (project, run, metric, rank, step)
SETTINGS non_replicated_deduplication_window = 100000)sql"},
    {"rank_statistics", R"sql(CREATE TABLE IF NOT EXISTS rank_statistics (
  project LowCardinality(String),
  run LowCardinality(String),
  metric LowCardinality(String),
  step Int64 CODEC(Delta, ZSTD),
  attempt UInt32 CODEC(Delta, ZSTD),
  n AggregateFunction(count),
  mean AggregateFunction(avg, Float64),
  variance AggregateFunction(varPopStable, Float64),
  lo AggregateFunction(min, Float64),
  hi AggregateFunction(max, Float64),
  fastest AggregateFunction(argMin, UInt32, Float64),
  slowest AggregateFunction(argMax, UInt32, Float64)
) ENGINE = AggregatingMergeTree ORDER BY (project, run, metric, step, attempt)
SETTINGS non_replicated_deduplication_window = 100000)sql"},
    {"rank_statistics_mv",
     R"sql(CREATE MATERIALIZED VIEW IF NOT EXISTS rank_statistics_mv TO rank_statistics AS
SELECT project, run, metric, step, attempt,
  countState() AS n, avgState(value) AS mean, varPopStableState(value) AS variance,
  minState(value) AS lo, maxState(value) AS hi,
  argMinState(rank, value) AS fastest, argMaxState(rank, value) AS slowest
FROM points WHERE NOT isNaN(value)
GROUP BY project, run, metric, step, attempt)sql"},
    {"texts", R"sql(CREATE TABLE IF NOT EXISTS texts (
  project LowCardinality(String),
  run LowCardinality(String),
  metric LowCardinality(String),
  rank UInt32 CODEC(Delta, ZSTD),
  attempt UInt32 CODEC(Delta, ZSTD),
  step Int64 CODEC(Delta, ZSTD),
  ts DateTime64(6) CODEC(Delta, ZSTD),
  value String CODEC(ZSTD),
  is_json UInt8,
  stream UInt64 CODEC(ZSTD),
  seq UInt64 CODEC(Delta, ZSTD),
  PROJECTION places (SELECT project, run, stream, max(seq) GROUP BY project, run, stream)
) ENGINE = MergeTree ORDER BY (project, run, metric, rank, step)
SETTINGS non_replicated_deduplication_window = 100000)sql"},
    {"system_samples", R"sql(CREATE TABLE IF NOT EXISTS system_samples (
  project LowCardinality(String),
  run LowCardinality(String),
  node LowCardinality(String),
  name LowCardinality(String),
  ts DateTime64(6) CODEC(Delta, ZSTD),
  value Float64 CODEC(Gorilla, ZSTD),
  part UInt64 CODEC(ZSTD),
  number UInt64 CODEC(Delta, ZSTD)
) ENGINE = MergeTree ORDER BY (project, run, node, name, ts)
SETTINGS non_replicated_deduplication_window = 100000)sql"},
    {"runs", R"sql(CREATE TABLE IF NOT EXISTS runs (
  project LowCardinality(String),
  run String,
  part UInt64,
  version UInt64,
  run_id String,
  name String,
  job_group String,
  job_type String,
  notes String,
  tags Array(String),
  strategy LowCardinality(String),
  is_primary UInt8,
  node LowCardinality(String),
  host String,
  program String,
  state LowCardinality(String),
  exit_code Int32,
  reason String,
  started DateTime64(6),
  ended Nullable(DateTime64(6)),
  rows UInt64,
  last_step Int64,
  late_rows UInt64,
  config String CODEC(ZSTD),
  summary String CODEC(ZSTD),
  metadata String CODEC(ZSTD)
) ENGINE = ReplacingMergeTree(version) ORDER BY (project, run, part))sql"},
    {"ranks", R"sql(CREATE TABLE IF NOT EXISTS ranks (
  project LowCardinality(String),
  run String,
  stream UInt64,
  version UInt64,
  rank UInt32,
  local_rank UInt32,
  world_size UInt32,
  node LowCardinality(String),
  attempt UInt32,
  thread UInt32,
  pid Int64,
  state LowCardinality(String),
  exit_code Int32,
  reason String,
  started DateTime64(6),
  ended Nullable(DateTime64(6)),
  rows UInt64,
  late_rows UInt64,
  lost_rows UInt64,
  losses Map(String, UInt64)
) ENGINE = ReplacingMergeTree(version) ORDER BY (project, run, stream))sql"},
    {"jobs", R"sql(CREATE VIEW IF NOT EXISTS jobs AS
SELECT project, run, argMax(name, is_primary) AS job_name, argMax(config, is_primary) AS config,
  argMax(summary, is_primary) AS summary, min(started) AS started, max(ended) AS ended,
  multiIf(countIf(state = 'running') > 0, 'running', countIf(state = 'crashed') > 0, 'crashed',
          countIf(state = 'failed') > 0, 'failed', 'finished') AS job_state,
  max(last_step) AS last_step, count() AS parts
FROM runs FINAL GROUP BY project, run)sql"},
    {"ranklog_schema", R"sql(CREATE TABLE IF NOT EXISTS ranklog_schema (
  version UInt32,
  created DateTime DEFAULT now()
) ENGINE = ReplacingMergeTree ORDER BY version)sql"},
};

}  // namespace

absl::Span<const SchemaObject> SchemaObjects() { return kObjects; }

std::string RecordVersion() {
  return absl::StrCat("INSERT INTO ranklog_schema (version) VALUES (", kSchemaVersion, ")");
}

std::string SchemaText() {
  std::string text;
  for (const SchemaObject& object : SchemaObjects()) absl::StrAppend(&text, object.sql, ";\n\n");
  absl::StrAppend(&text, RecordVersion(), ";\n");
  return text;
}

}  // namespace ranklog::deliver::clickhouse
