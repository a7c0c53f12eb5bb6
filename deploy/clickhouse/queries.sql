-- What people ask. Each query begins with its name; parameters are {name:Type}, as in
--   clickhouse-client --database ranklog --param_project=P --param_run=R --param_metric=train/loss --param_rank=0 --query "..."
-- A job that continued from a checkpoint has rows of several attempts at one step: the newest attempt counts.

-- name: curve
-- A curve of one rank, thinned to at most 1,000 points.
SELECT min(at) AS step, avg(newest) AS mean, min(newest) AS lo, max(newest) AS hi
FROM (
  SELECT at, newest, intDiv((at - min(at) OVER ()) * 1000, max(at) OVER () - min(at) OVER () + 1) AS bucket
  FROM (
    SELECT step AS at, argMax(value, (attempt, seq)) AS newest FROM points
    WHERE project = {project:String} AND run = {run:String} AND metric = {metric:String} AND rank = {rank:UInt32}
    GROUP BY step
  )
)
GROUP BY bucket
ORDER BY step;

-- name: statistics
-- Per step, over all ranks of all nodes; `slowest` is the rank with the largest value.
SELECT step, countMerge(n) AS ranks, avgMerge(mean) AS mean, sqrt(varPopStableMerge(variance)) AS std,
  minMerge(lo) AS lo, maxMerge(hi) AS hi, argMinMerge(fastest) AS fastest, argMaxMerge(slowest) AS slowest
FROM rank_statistics
WHERE project = {project:String} AND run = {run:String} AND metric = {metric:String}
GROUP BY step, attempt
ORDER BY step, attempt DESC
LIMIT 1 BY step;

-- name: slowest
-- The ranks that were most often the slowest, and by how much on average. {metric} is a duration.
SELECT rank, count() AS steps, avg(excess) AS mean_excess, any(node) AS node
FROM (
  SELECT step, argMaxMerge(slowest) AS rank, maxMerge(hi) - avgMerge(mean) AS excess
  FROM rank_statistics
  WHERE project = {project:String} AND run = {run:String} AND metric = {metric:String}
  GROUP BY step, attempt
  ORDER BY step, attempt DESC
  LIMIT 1 BY step
) AS steps
LEFT JOIN (
  SELECT rank, any(node) AS node FROM ranks FINAL WHERE project = {project:String} AND run = {run:String} GROUP BY rank
) AS places USING rank
GROUP BY rank
ORDER BY steps DESC, mean_excess DESC
LIMIT 10;

-- name: config
-- The jobs with a value in their config. {key} is a key of the config, {value} its text.
SELECT run, job_name, job_state, started, last_step
FROM jobs
WHERE project = {project:String} AND JSONExtractRaw(config, {key:String}) IN ({value:String}, concat('"', {value:String}, '"'))
ORDER BY started DESC;

-- name: lost
-- The rows that any job lost in the last week, with the reasons.
SELECT project, run, sum(lost_rows) AS lost, sumMap(losses) AS reasons, countIf(lost_rows > 0) AS streams, groupUniqArrayIf(node, lost_rows > 0) AS nodes
FROM ranks FINAL
WHERE coalesce(ended, started) >= now() - INTERVAL 7 DAY
GROUP BY project, run
HAVING lost > 0
ORDER BY lost DESC;
