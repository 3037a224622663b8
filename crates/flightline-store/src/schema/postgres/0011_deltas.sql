-- A value is kept whole, or as what makes it out of an earlier whole one of its subject: `base` names that one's revision, and `after` says
-- which parts of its text are the same, by the first character and how many, and what is new between them: [[1,120],"halfway",[128,40]].
-- One of sixteen values of a subject is whole at least. What was there stays as it is: whole.
ALTER TABLE event ADD COLUMN base BIGINT;

-- The journal with whole values. For others to read.
CREATE VIEW event_text AS
SELECT e.project, e.rev, e.step, e.at, e.kind, e.mission, e.subject_kind, e.subject, e.actor, e.epoch, e.data, e.change,
       CASE WHEN e.change <> 'set' THEN NULL
            WHEN e.base IS NULL THEN e.after
            ELSE (SELECT string_agg(CASE WHEN jsonb_typeof(j.part) = 'array'
                                         THEN substr(b.after, CAST(j.part ->> 0 AS INTEGER), CAST(j.part ->> 1 AS INTEGER))
                                         ELSE j.part #>> '{}' END, '' ORDER BY j.number)
                  FROM event b, jsonb_array_elements(e.after::jsonb) WITH ORDINALITY AS j (part, number)
                  WHERE b.project = e.project AND b.rev = e.base)
       END AS after,
       e.sha
FROM event e;

DROP VIEW checkpoints;

-- Seed A's table: what a checkpoint names, put together from the journal. For others to read.
CREATE VIEW checkpoints AS
SELECT c.id AS id,
       c.mission AS mission_id,
       (d.after::jsonb #>> '{cut,timestamp}') AS timestamp,
       c.name AS trigger,
       (d.after::jsonb #>> '{cut,trigger_details}') AS trigger_details,
       c.percent AS progress_percent,
       (SELECT coalesce(CAST(json_agg(v.doc) AS TEXT), '[]')
        FROM (SELECT jsonb_set(e.after::jsonb, '{assigned_to}', coalesce((SELECT to_jsonb(a.name) FROM subject a WHERE a.project = s.project
                               AND a.kind = 'agent' AND a.id = (e.after::jsonb ->> 'assigned_to')), 'null'::jsonb)) AS doc
              FROM subject s
              JOIN event_text e ON e.project = s.project
               AND e.rev = (SELECT max(x.rev) FROM event x WHERE x.project = s.project AND x.subject_kind = s.kind
                            AND x.subject = s.id AND x.rev <= CAST(d.after::jsonb #>> '{cut,rev}' AS BIGINT) AND x.change <> 'none')
              WHERE s.project = c.project AND s.kind = 'sortie' AND (s.mission = c.mission) AND e.change = 'set'
              ORDER BY s.id) v) AS sorties_json,
       (SELECT coalesce(CAST(json_agg(v.doc) AS TEXT), '[]')
        FROM (SELECT jsonb_set(e.after::jsonb, '{held_by}', coalesce((SELECT to_jsonb(a.name) FROM subject a WHERE a.project = s.project
                               AND a.kind = 'agent' AND a.id = (e.after::jsonb ->> 'held_by')), 'null'::jsonb)) AS doc
              FROM subject s
              JOIN event_text e ON e.project = s.project
               AND e.rev = (SELECT max(x.rev) FROM event x WHERE x.project = s.project AND x.subject_kind = s.kind
                            AND x.subject = s.id AND x.rev <= CAST(d.after::jsonb #>> '{cut,rev}' AS BIGINT) AND x.change <> 'none')
              WHERE s.project = c.project AND s.kind = 'lock' AND (e.mission = c.mission OR e.mission IS NULL) AND e.change = 'set'
              ORDER BY s.id) v) AS locks_json,
       (SELECT coalesce(CAST(json_agg(jsonb_set(v.doc, '{to}', v.open_to)) AS TEXT), '[]')
        FROM (SELECT e.after::jsonb AS doc,
                     (SELECT jsonb_agg(coalesce(a.name, p.agent) ORDER BY p.id)
                      FROM subject p
                      JOIN event_text q ON q.project = p.project
               AND q.rev = (SELECT max(x.rev) FROM event x WHERE x.project = p.project AND x.subject_kind = p.kind
                            AND x.subject = p.id AND x.rev <= CAST(d.after::jsonb #>> '{cut,rev}' AS BIGINT) AND x.change <> 'none')
                      LEFT JOIN subject a ON a.project = p.project AND a.kind = 'agent' AND a.id = p.agent
                      WHERE p.project = s.project AND p.kind = 'delivery' AND p.parent = s.id AND q.change = 'set'
                        AND (q.after::jsonb #>> '{state,status}') <> 'acknowledged') AS open_to
              FROM subject s
              JOIN event_text e ON e.project = s.project
               AND e.rev = (SELECT max(x.rev) FROM event x WHERE x.project = s.project AND x.subject_kind = s.kind
                            AND x.subject = s.id AND x.rev <= CAST(d.after::jsonb #>> '{cut,rev}' AS BIGINT) AND x.change <> 'none')
              WHERE s.project = c.project AND s.kind = 'message' AND s.mission = c.mission AND e.change = 'set'
              ORDER BY s.id) v
        WHERE v.open_to IS NOT NULL) AS messages_json,
       (d.after::jsonb #>> '{cut,recovery_context}') AS recovery_context_json,
       (d.after::jsonb #>> '{cut,created_by}') AS created_by,
       (d.after::jsonb #>> '{cut,version}') AS version,
       c.project AS project
FROM subject c
JOIN event d ON d.project = c.project AND d.rev = c.rev
WHERE c.kind = 'checkpoint' AND c.gone IS NULL;
