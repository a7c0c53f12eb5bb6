-- Statements for an administrator, after somebody dropped the view rank_statistics_mv, changed rows, or the server crashed between the
-- table and its view. `ranklog verify` names such a run. Only for jobs that have ended: no rows must arrive meanwhile.

-- name: find
-- The jobs whose statistics have another number of values than their points.
SELECT project, run, points, counted
FROM (SELECT project, run, count() AS points FROM points WHERE NOT isNaN(value) GROUP BY project, run) AS raw
LEFT JOIN (SELECT project, run, countMerge(n) AS counted FROM rank_statistics GROUP BY project, run) AS made USING (project, run)
WHERE points != counted;

-- name: remove
ALTER TABLE rank_statistics DELETE WHERE project = {project:String} AND run = {run:String} SETTINGS mutations_sync = 2;

-- name: fill
INSERT INTO rank_statistics
SELECT project, run, metric, step, attempt,
  countState() AS n, avgState(value) AS mean, varPopStableState(value) AS variance,
  minState(value) AS lo, maxState(value) AS hi,
  argMinState(rank, value) AS fastest, argMaxState(rank, value) AS slowest
FROM points WHERE project = {project:String} AND run = {run:String} AND NOT isNaN(value)
GROUP BY project, run, metric, step, attempt;
