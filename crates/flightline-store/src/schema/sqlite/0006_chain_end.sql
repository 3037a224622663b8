DROP TABLE event_unsealed;

CREATE INDEX event_by_subject ON event (project, subject_kind, subject, rev, change);
CREATE INDEX event_by_mission ON event (project, mission, rev);

-- Seed A's table: what a checkpoint names, put together from the journal. For others to read.
CREATE VIEW checkpoints AS
SELECT c.id AS id,
       c.mission AS mission_id,
       json_extract(d.after, '$.cut.timestamp') AS timestamp,
       c.name AS trigger,
       json_extract(d.after, '$.cut.trigger_details') AS trigger_details,
       c.percent AS progress_percent,
       (SELECT json_group_array(json(v.after))
        FROM (SELECT e.after
              FROM subject s
              JOIN event e ON e.project = s.project
               AND e.rev = (SELECT max(x.rev) FROM event x WHERE x.project = s.project AND x.subject_kind = s.kind
                            AND x.subject = s.id AND x.rev <= json_extract(d.after, '$.cut.rev') AND x.change <> 'none')
              WHERE s.project = c.project AND s.kind = 'sortie' AND (s.mission = c.mission) AND e.change = 'set'
              ORDER BY s.id) v) AS sorties_json,
       (SELECT json_group_array(json(v.after))
        FROM (SELECT e.after
              FROM subject s
              JOIN event e ON e.project = s.project
               AND e.rev = (SELECT max(x.rev) FROM event x WHERE x.project = s.project AND x.subject_kind = s.kind
                            AND x.subject = s.id AND x.rev <= json_extract(d.after, '$.cut.rev') AND x.change <> 'none')
              WHERE s.project = c.project AND s.kind = 'lock' AND (s.mission = c.mission OR s.mission IS NULL) AND e.change = 'set'
              ORDER BY s.id) v) AS locks_json,
       (SELECT json_group_array(json(v.after))
        FROM (SELECT e.after
              FROM subject s
              JOIN event e ON e.project = s.project
               AND e.rev = (SELECT max(x.rev) FROM event x WHERE x.project = s.project AND x.subject_kind = s.kind
                            AND x.subject = s.id AND x.rev <= json_extract(d.after, '$.cut.rev') AND x.change <> 'none')
              WHERE s.project = c.project AND s.kind = 'message' AND (s.mission = c.mission) AND e.change = 'set'
              ORDER BY s.id) v) AS messages_json,
       json_extract(d.after, '$.cut.recovery_context') AS recovery_context_json,
       json_extract(d.after, '$.cut.created_by') AS created_by,
       json_extract(d.after, '$.cut.version') AS version,
       c.project AS project
FROM subject c
JOIN event d ON d.project = c.project AND d.rev = c.rev
WHERE c.kind = 'checkpoint' AND c.gone IS NULL;

DELETE FROM sqlite_stat1 WHERE tbl IN ('event', 'event_unsealed');
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('event', 'sqlite_autoindex_event_1', '1000000 1000000 1'),
    ('event', 'event_by_subject', '1000000 1000000 100000 20 1 1'),
    ('event', 'event_by_mission', '1000000 1000000 2000 1');
ANALYZE sqlite_schema;
