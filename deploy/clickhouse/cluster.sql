-- Ranklog's tables on a cluster: shards by run, with replicas. One line per table differs from schema.sql: NAME_local has the rows of a
-- shard, and NAME finds them all. Ranklog inserts into NAME, and waits until the shard has the rows (insert_distributed_sync).
--   clickhouse-client --database ranklog --multiquery < cluster.sql
-- The server's configuration must define the macros {cluster}, {shard} and {replica}, and a keeper.

CREATE TABLE IF NOT EXISTS points_local ON CLUSTER '{cluster}' (
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
) ENGINE = ReplicatedMergeTree('/clickhouse/tables/{shard}/{database}/points_local', '{replica}') ORDER BY (project, run, metric, rank, step)
SETTINGS replicated_deduplication_window = 100000;

CREATE TABLE IF NOT EXISTS points ON CLUSTER '{cluster}' AS points_local
ENGINE = Distributed('{cluster}', currentDatabase(), points_local, cityHash64(project, run));

CREATE TABLE IF NOT EXISTS rank_statistics_local ON CLUSTER '{cluster}' (
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
) ENGINE = ReplicatedAggregatingMergeTree('/clickhouse/tables/{shard}/{database}/rank_statistics_local', '{replica}') ORDER BY (project, run, metric, step, attempt)
SETTINGS replicated_deduplication_window = 100000;

CREATE TABLE IF NOT EXISTS rank_statistics ON CLUSTER '{cluster}' AS rank_statistics_local
ENGINE = Distributed('{cluster}', currentDatabase(), rank_statistics_local, cityHash64(project, run));

CREATE MATERIALIZED VIEW IF NOT EXISTS rank_statistics_mv ON CLUSTER '{cluster}' TO rank_statistics_local AS
SELECT project, run, metric, step, attempt,
  countState() AS n, avgState(value) AS mean, varPopStableState(value) AS variance,
  minState(value) AS lo, maxState(value) AS hi,
  argMinState(rank, value) AS fastest, argMaxState(rank, value) AS slowest
FROM points_local WHERE NOT isNaN(value)
GROUP BY project, run, metric, step, attempt;

CREATE TABLE IF NOT EXISTS texts_local ON CLUSTER '{cluster}' (
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
) ENGINE = ReplicatedMergeTree('/clickhouse/tables/{shard}/{database}/texts_local', '{replica}') ORDER BY (project, run, metric, rank, step)
SETTINGS replicated_deduplication_window = 100000;

CREATE TABLE IF NOT EXISTS texts ON CLUSTER '{cluster}' AS texts_local
ENGINE = Distributed('{cluster}', currentDatabase(), texts_local, cityHash64(project, run));

CREATE TABLE IF NOT EXISTS system_samples_local ON CLUSTER '{cluster}' (
  project LowCardinality(String),
  run LowCardinality(String),
  node LowCardinality(String),
  name LowCardinality(String),
  ts DateTime64(6) CODEC(Delta, ZSTD),
  value Float64 CODEC(Gorilla, ZSTD),
  part UInt64 CODEC(ZSTD),
  number UInt64 CODEC(Delta, ZSTD)
) ENGINE = ReplicatedMergeTree('/clickhouse/tables/{shard}/{database}/system_samples_local', '{replica}') ORDER BY (project, run, node, name, ts)
SETTINGS replicated_deduplication_window = 100000;

CREATE TABLE IF NOT EXISTS system_samples ON CLUSTER '{cluster}' AS system_samples_local
ENGINE = Distributed('{cluster}', currentDatabase(), system_samples_local, cityHash64(project, run));

CREATE TABLE IF NOT EXISTS runs_local ON CLUSTER '{cluster}' (
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
) ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/{database}/runs_local', '{replica}', version) ORDER BY (project, run, part);

CREATE TABLE IF NOT EXISTS runs ON CLUSTER '{cluster}' AS runs_local
ENGINE = Distributed('{cluster}', currentDatabase(), runs_local, cityHash64(project, run));

CREATE TABLE IF NOT EXISTS ranks_local ON CLUSTER '{cluster}' (
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
) ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/{database}/ranks_local', '{replica}', version) ORDER BY (project, run, stream);

CREATE TABLE IF NOT EXISTS ranks ON CLUSTER '{cluster}' AS ranks_local
ENGINE = Distributed('{cluster}', currentDatabase(), ranks_local, cityHash64(project, run));

CREATE TABLE IF NOT EXISTS ranklog_schema_local ON CLUSTER '{cluster}' (
  version UInt32,
  created DateTime DEFAULT now()
) ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/{database}/ranklog_schema_local', '{replica}') ORDER BY version;

CREATE TABLE IF NOT EXISTS ranklog_schema ON CLUSTER '{cluster}' AS ranklog_schema_local
ENGINE = Distributed('{cluster}', currentDatabase(), ranklog_schema_local, 0);

CREATE VIEW IF NOT EXISTS jobs ON CLUSTER '{cluster}' AS
SELECT project, run, argMax(name, is_primary) AS job_name, argMax(config, is_primary) AS config,
  argMax(summary, is_primary) AS summary, min(started) AS started, max(ended) AS ended,
  multiIf(countIf(state = 'running') > 0, 'running', countIf(state = 'crashed') > 0, 'crashed',
          countIf(state = 'failed') > 0, 'failed', 'finished') AS job_state,
  max(last_step) AS last_step, count() AS parts
FROM runs FINAL GROUP BY project, run;

INSERT INTO ranklog_schema (version) SETTINGS insert_distributed_sync = 1 VALUES (1);
