-- A checkpoint's text is kept once, in the journal: `doc` is NULL, and the event of `rev` holds it.
-- What became of its copy in a file is no state of the fleet, and has a table of its own.
DROP VIEW checkpoints;
DROP VIEW missions;
ALTER TABLE subject RENAME TO subject_before;

CREATE TABLE subject (
    project TEXT    NOT NULL REFERENCES project (id),
    kind    TEXT    NOT NULL,
    id      TEXT    NOT NULL,
    mission TEXT,
    parent  TEXT,
    agent   TEXT,
    name    TEXT,
    status  TEXT    NOT NULL,
    percent INTEGER CHECK (percent BETWEEN 0 AND 100), -- how far a checkpoint's mission was
    born    INTEGER NOT NULL,                -- revision that made it
    rev     INTEGER NOT NULL,                -- revision of its last change
    at      INTEGER NOT NULL,                -- time of its last change
    sha     TEXT    NOT NULL,
    doc     TEXT,                            -- NULL: in the journal alone
    gone    INTEGER,                         -- revision that took it away
    PRIMARY KEY (project, kind, id),
    CHECK (doc IS NOT NULL OR kind = 'checkpoint'),
    CHECK (kind <> 'checkpoint' OR (percent IS NOT NULL AND name IN ('progress', 'error', 'manual', 'compaction')))
) STRICT;

CREATE TABLE backup (
    project    TEXT    NOT NULL REFERENCES project (id),
    checkpoint TEXT    NOT NULL,
    state      TEXT    NOT NULL CHECK (state IN ('pending', 'written', 'failed', 'shared')),
    at         INTEGER NOT NULL,
    bytes      INTEGER,
    sha        TEXT,
    why        TEXT,
    PRIMARY KEY (project, checkpoint)
) STRICT, WITHOUT ROWID;

INSERT INTO backup (project, checkpoint, state, at, bytes, sha, why)
SELECT project, id, json_extract(doc, '$.backup.state'), at, json_extract(doc, '$.backup.bytes'),
       json_extract(doc, '$.backup.sha256'), json_extract(doc, '$.backup.why')
FROM subject_before
WHERE kind = 'checkpoint' AND gone IS NULL;

INSERT INTO subject (project, kind, id, mission, parent, agent, name, status, percent, born, rev, at, sha, doc, gone)
SELECT project, kind, id, mission, parent, agent, name,
       CASE WHEN kind = 'checkpoint' AND status = 'creating' THEN 'valid' ELSE status END,
       CASE WHEN kind = 'checkpoint' THEN json_extract(doc, '$.cut.progress_percent') END,
       born, rev, at, sha, CASE WHEN kind <> 'checkpoint' THEN doc END, gone
FROM subject_before;

DROP TABLE subject_before;

CREATE INDEX subject_by_mission ON subject (project, kind, mission, born) WHERE gone IS NULL;
CREATE INDEX subject_by_parent ON subject (project, kind, parent, born) WHERE gone IS NULL AND parent IS NOT NULL;
CREATE INDEX subject_by_agent ON subject (project, kind, agent, status, born) WHERE gone IS NULL AND agent IS NOT NULL;
CREATE UNIQUE INDEX subject_agent_name ON subject (project, name) WHERE kind = 'agent' AND gone IS NULL;
CREATE UNIQUE INDEX subject_lock_path ON subject (project, name) WHERE kind = 'lock' AND gone IS NULL;
CREATE UNIQUE INDEX subject_effect_key ON subject (project, mission, name) WHERE kind = 'effect' AND gone IS NULL;
CREATE INDEX idx_missions_status ON subject (project, status) WHERE kind = 'mission';
-- Seed A's names.
CREATE INDEX idx_checkpoints_mission ON subject (mission, at DESC) WHERE kind = 'checkpoint';
CREATE INDEX idx_checkpoints_trigger ON subject (name) WHERE kind = 'checkpoint';
CREATE INDEX idx_checkpoints_timestamp ON subject (at) WHERE kind = 'checkpoint';

CREATE INDEX backup_unsettled ON backup (project, checkpoint) WHERE state IN ('pending', 'failed');

CREATE VIEW missions AS
SELECT id                                  AS id,
       json_extract(doc, '$.title')        AS title,
       status                              AS status,
       json_extract(doc, '$.created_at')   AS created_at,
       json_extract(doc, '$.updated_at')   AS updated_at,
       json_extract(doc, '$.completed_at') AS completed_at,
       doc                                 AS metadata_json,
       project                             AS project
FROM subject
WHERE kind = 'mission' AND gone IS NULL;

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
