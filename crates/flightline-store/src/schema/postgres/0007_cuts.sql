-- A lock is in the checkpoints of the mission it belonged to when they were taken, whatever its row says now.
DROP VIEW checkpoints;

-- Seed A's table: what a checkpoint names, put together from the journal. For others to read.
CREATE VIEW checkpoints AS
SELECT c.id AS id,
       c.mission AS mission_id,
       (d.after::jsonb #>> '{cut,timestamp}') AS timestamp,
       c.name AS trigger,
       (d.after::jsonb #>> '{cut,trigger_details}') AS trigger_details,
       c.percent AS progress_percent,
       (SELECT coalesce(CAST(json_agg(v.after::json) AS TEXT), '[]')
        FROM (SELECT e.after
              FROM subject s
              JOIN event e ON e.project = s.project
               AND e.rev = (SELECT max(x.rev) FROM event x WHERE x.project = s.project AND x.subject_kind = s.kind
                            AND x.subject = s.id AND x.rev <= CAST(d.after::jsonb #>> '{cut,rev}' AS BIGINT) AND x.change <> 'none')
              WHERE s.project = c.project AND s.kind = 'sortie' AND (s.mission = c.mission) AND e.change = 'set'
              ORDER BY s.id) v) AS sorties_json,
       (SELECT coalesce(CAST(json_agg(v.after::json) AS TEXT), '[]')
        FROM (SELECT e.after
              FROM subject s
              JOIN event e ON e.project = s.project
               AND e.rev = (SELECT max(x.rev) FROM event x WHERE x.project = s.project AND x.subject_kind = s.kind
                            AND x.subject = s.id AND x.rev <= CAST(d.after::jsonb #>> '{cut,rev}' AS BIGINT) AND x.change <> 'none')
              WHERE s.project = c.project AND s.kind = 'lock' AND (e.mission = c.mission OR e.mission IS NULL) AND e.change = 'set'
              ORDER BY s.id) v) AS locks_json,
       (SELECT coalesce(CAST(json_agg(v.after::json) AS TEXT), '[]')
        FROM (SELECT e.after
              FROM subject s
              JOIN event e ON e.project = s.project
               AND e.rev = (SELECT max(x.rev) FROM event x WHERE x.project = s.project AND x.subject_kind = s.kind
                            AND x.subject = s.id AND x.rev <= CAST(d.after::jsonb #>> '{cut,rev}' AS BIGINT) AND x.change <> 'none')
              WHERE s.project = c.project AND s.kind = 'message' AND (s.mission = c.mission) AND e.change = 'set'
              ORDER BY s.id) v) AS messages_json,
       (d.after::jsonb #>> '{cut,recovery_context}') AS recovery_context_json,
       (d.after::jsonb #>> '{cut,created_by}') AS created_by,
       (d.after::jsonb #>> '{cut,version}') AS version,
       c.project AS project
FROM subject c
JOIN event d ON d.project = c.project AND d.rev = c.rev
WHERE c.kind = 'checkpoint' AND c.gone IS NULL;
