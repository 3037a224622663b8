-- The journal and the last value of each subject. Keys begin with the project everywhere, so the
-- same schema serves one repository or many.
CREATE TABLE project (
    id          TEXT    NOT NULL PRIMARY KEY,
    name        TEXT    NOT NULL,
    history     TEXT    NOT NULL,            -- id of one unbroken journal; new after a restore
    rev         INTEGER NOT NULL,            -- the last revision handed out
    created_at  INTEGER NOT NULL,
    seen_at     INTEGER NOT NULL,            -- the last write
    awake_since INTEGER NOT NULL             -- since when silence can be noticed
) STRICT;

CREATE TABLE event (
    project      TEXT    NOT NULL REFERENCES project (id),
    rev          INTEGER NOT NULL CHECK (rev > 0),
    step         INTEGER NOT NULL CHECK (step > 0 AND step <= rev),
    at           INTEGER NOT NULL,
    kind         TEXT    NOT NULL,
    mission      TEXT,
    subject_kind TEXT    NOT NULL,
    subject      TEXT    NOT NULL,
    actor        TEXT    NOT NULL,
    epoch        INTEGER,
    data         TEXT    NOT NULL,
    change       TEXT    NOT NULL CHECK (change IN ('set', 'gone', 'none', 'thinned')),
    after        TEXT,
    sha          TEXT,
    PRIMARY KEY (project, rev)
) STRICT, WITHOUT ROWID;

CREATE INDEX event_by_subject ON event (project, subject_kind, subject, rev, change);
CREATE INDEX event_by_mission ON event (project, mission, rev);

CREATE TABLE subject (
    project TEXT    NOT NULL REFERENCES project (id),
    kind    TEXT    NOT NULL,
    id      TEXT    NOT NULL,
    mission TEXT,
    parent  TEXT,
    agent   TEXT,
    name    TEXT,
    status  TEXT    NOT NULL,
    born    INTEGER NOT NULL,                -- revision that made it
    rev     INTEGER NOT NULL,                -- revision of its last change
    at      INTEGER NOT NULL,                -- time of its last change
    sha     TEXT    NOT NULL,
    doc     TEXT    NOT NULL,
    gone    INTEGER,                         -- revision that took it away
    PRIMARY KEY (project, kind, id),
    CHECK (kind <> 'checkpoint' OR name IN ('progress', 'error', 'manual', 'compaction')),
    CHECK (kind <> 'checkpoint' OR json_extract(doc, '$.cut.progress_percent') BETWEEN 0 AND 100)
) STRICT;

CREATE INDEX subject_by_mission ON subject (project, kind, mission, born) WHERE gone IS NULL;
CREATE INDEX subject_by_parent ON subject (project, kind, parent, born) WHERE gone IS NULL AND parent IS NOT NULL;
CREATE INDEX subject_by_agent ON subject (project, kind, agent, status, born) WHERE gone IS NULL AND agent IS NOT NULL;
CREATE UNIQUE INDEX subject_agent_name ON subject (project, name) WHERE kind = 'agent' AND gone IS NULL;
CREATE UNIQUE INDEX subject_lock_path ON subject (project, name) WHERE kind = 'lock' AND gone IS NULL;
CREATE UNIQUE INDEX subject_effect_key ON subject (project, mission, name) WHERE kind = 'effect' AND gone IS NULL;
CREATE INDEX idx_missions_status ON subject (project, status) WHERE kind = 'mission';

CREATE INDEX subject_checkpoint_status ON subject (project, status) WHERE kind = 'checkpoint' AND gone IS NULL;

CREATE TABLE pulse (
    project TEXT    NOT NULL REFERENCES project (id),
    agent   TEXT    NOT NULL,
    epoch   INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    data    TEXT    NOT NULL,
    PRIMARY KEY (project, agent)
) STRICT;

CREATE TABLE request (
    project TEXT    NOT NULL REFERENCES project (id),
    actor   TEXT    NOT NULL,
    key     TEXT    NOT NULL,                -- SHA-256 of the key as sent
    hash    TEXT    NOT NULL,                -- SHA-256 of the request as sent
    outcome TEXT    NOT NULL,
    at      INTEGER NOT NULL,
    PRIMARY KEY (project, actor, key)
) STRICT;

CREATE INDEX request_by_time ON request (project, at);

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
       json_extract(c.doc, '$.cut.timestamp') AS timestamp,
       json_extract(c.doc, '$.cut.trigger') AS trigger,
       json_extract(c.doc, '$.cut.trigger_details') AS trigger_details,
       CAST(json_extract(c.doc, '$.cut.progress_percent') AS INTEGER) AS progress_percent,
       (SELECT json_group_array(json(v.after))
        FROM (SELECT e.after
              FROM subject s
              JOIN event e ON e.project = s.project
               AND e.rev = (SELECT max(x.rev) FROM event x WHERE x.project = s.project AND x.subject_kind = s.kind
                            AND x.subject = s.id AND x.rev <= json_extract(c.doc, '$.cut.rev') AND x.change <> 'none')
              WHERE s.project = c.project AND s.kind = 'sortie' AND (s.mission = c.mission) AND e.change = 'set'
              ORDER BY s.id) v) AS sorties_json,
       (SELECT json_group_array(json(v.after))
        FROM (SELECT e.after
              FROM subject s
              JOIN event e ON e.project = s.project
               AND e.rev = (SELECT max(x.rev) FROM event x WHERE x.project = s.project AND x.subject_kind = s.kind
                            AND x.subject = s.id AND x.rev <= json_extract(c.doc, '$.cut.rev') AND x.change <> 'none')
              WHERE s.project = c.project AND s.kind = 'lock' AND (s.mission = c.mission OR s.mission IS NULL) AND e.change = 'set'
              ORDER BY s.id) v) AS locks_json,
       (SELECT json_group_array(json(v.after))
        FROM (SELECT e.after
              FROM subject s
              JOIN event e ON e.project = s.project
               AND e.rev = (SELECT max(x.rev) FROM event x WHERE x.project = s.project AND x.subject_kind = s.kind
                            AND x.subject = s.id AND x.rev <= json_extract(c.doc, '$.cut.rev') AND x.change <> 'none')
              WHERE s.project = c.project AND s.kind = 'message' AND (s.mission = c.mission) AND e.change = 'set'
              ORDER BY s.id) v) AS messages_json,
       json_extract(c.doc, '$.cut.recovery_context') AS recovery_context_json,
       json_extract(c.doc, '$.cut.created_by') AS created_by,
       json_extract(c.doc, '$.cut.version') AS version,
       c.project AS project
FROM subject c
WHERE c.kind = 'checkpoint' AND c.gone IS NULL;
