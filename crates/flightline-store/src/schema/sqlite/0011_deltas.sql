-- A value is kept whole, or as what makes it out of an earlier whole one of its subject: `base` names that one's revision, and `after` says
-- which parts of its text are the same, by the first character and how many, and what is new between them: [[1,120],"halfway",[128,40]].
-- One of sixteen values of a subject is whole at least. What was there stays as it is: whole.
ALTER TABLE event ADD COLUMN base INTEGER;

-- The journal with whole values. For others to read.
CREATE VIEW event_text AS
SELECT e.project, e.rev, e.step, e.at, e.kind, e.mission, e.subject_kind, e.subject, e.actor, e.epoch, e.data, e.change,
       CASE WHEN e.change <> 'set' THEN NULL
            WHEN e.base IS NULL THEN e.after
            ELSE (SELECT group_concat(CASE WHEN j.type = 'array' THEN substr(b.after, json_extract(j.value, '$[0]'), json_extract(j.value, '$[1]'))
                                           ELSE j.value END, '')
                  FROM event b, json_each(e.after) j
                  WHERE b.project = e.project AND b.rev = e.base)
       END AS after,
       e.sha
FROM event e;

DROP VIEW checkpoints;

-- Seed A's table: what a checkpoint names, put together from the journal. For others to read.
CREATE VIEW checkpoints AS
SELECT c.id AS id,
       c.mission AS mission_id,
       json_extract(d.after, '$.cut.timestamp') AS timestamp,
       c.name AS trigger,
       json_extract(d.after, '$.cut.trigger_details') AS trigger_details,
       c.percent AS progress_percent,
       (SELECT json_group_array(json(v.doc))
        FROM (SELECT json_set(e.after, '$.assigned_to', (SELECT a.name FROM subject a WHERE a.project = s.project AND a.kind = 'agent'
                                           AND a.id = json_extract(e.after, '$.assigned_to'))) AS doc
              FROM subject s
              JOIN event_text e ON e.project = s.project
               AND e.rev = (SELECT max(x.rev) FROM event x WHERE x.project = s.project AND x.subject_kind = s.kind
                            AND x.subject = s.id AND x.rev <= json_extract(d.after, '$.cut.rev') AND x.change <> 'none')
              WHERE s.project = c.project AND s.kind = 'sortie' AND (s.mission = c.mission) AND e.change = 'set'
              ORDER BY s.id) v) AS sorties_json,
       (SELECT json_group_array(json(v.doc))
        FROM (SELECT json_set(e.after, '$.held_by', (SELECT a.name FROM subject a WHERE a.project = s.project AND a.kind = 'agent'
                                           AND a.id = json_extract(e.after, '$.held_by'))) AS doc
              FROM subject s
              JOIN event_text e ON e.project = s.project
               AND e.rev = (SELECT max(x.rev) FROM event x WHERE x.project = s.project AND x.subject_kind = s.kind
                            AND x.subject = s.id AND x.rev <= json_extract(d.after, '$.cut.rev') AND x.change <> 'none')
              WHERE s.project = c.project AND s.kind = 'lock' AND (e.mission = c.mission OR e.mission IS NULL) AND e.change = 'set'
              ORDER BY s.id) v) AS locks_json,
       (SELECT json_group_array(json(json_set(v.doc, '$.to', json(v.open_to))))
        FROM (SELECT e.after AS doc,
                     (SELECT json_group_array(o.name)
                      FROM (SELECT coalesce(a.name, p.agent) AS name
                            FROM subject p
                            JOIN event_text q ON q.project = p.project
               AND q.rev = (SELECT max(x.rev) FROM event x WHERE x.project = p.project AND x.subject_kind = p.kind
                            AND x.subject = p.id AND x.rev <= json_extract(d.after, '$.cut.rev') AND x.change <> 'none')
                            LEFT JOIN subject a ON a.project = p.project AND a.kind = 'agent' AND a.id = p.agent
                            WHERE p.project = s.project AND p.kind = 'delivery' AND p.parent = s.id AND q.change = 'set'
                              AND json_extract(q.after, '$.state.status') <> 'acknowledged'
                            ORDER BY p.id) o) AS open_to
              FROM subject s
              JOIN event_text e ON e.project = s.project
               AND e.rev = (SELECT max(x.rev) FROM event x WHERE x.project = s.project AND x.subject_kind = s.kind
                            AND x.subject = s.id AND x.rev <= json_extract(d.after, '$.cut.rev') AND x.change <> 'none')
              WHERE s.project = c.project AND s.kind = 'message' AND s.mission = c.mission AND e.change = 'set'
              ORDER BY s.id) v
        WHERE json_array_length(v.open_to) > 0) AS messages_json,
       json_extract(d.after, '$.cut.recovery_context') AS recovery_context_json,
       json_extract(d.after, '$.cut.created_by') AS created_by,
       json_extract(d.after, '$.cut.version') AS version,
       c.project AS project
FROM subject c
JOIN event d ON d.project = c.project AND d.rev = c.rev
WHERE c.kind = 'checkpoint' AND c.gone IS NULL;
