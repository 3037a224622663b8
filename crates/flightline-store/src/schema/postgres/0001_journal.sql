-- The journal and the last value of each subject. Keys begin with the project everywhere, so the
-- same schema serves one repository or many.
CREATE TABLE project (
    id          TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    name        TEXT COLLATE "C" NOT NULL,
    history     TEXT COLLATE "C" NOT NULL,            -- id of one unbroken journal; new after a restore
    rev         BIGINT NOT NULL,            -- the last revision handed out
    created_at  BIGINT NOT NULL,
    seen_at     BIGINT NOT NULL,            -- the last write
    awake_since BIGINT NOT NULL             -- since when silence can be noticed
);

CREATE TABLE event (
    project      TEXT COLLATE "C" NOT NULL REFERENCES project (id),
    rev          BIGINT NOT NULL CHECK (rev > 0),
    step         BIGINT NOT NULL CHECK (step > 0 AND step <= rev),
    at           BIGINT NOT NULL,
    kind         TEXT COLLATE "C" NOT NULL,
    mission      TEXT COLLATE "C",
    subject_kind TEXT COLLATE "C" NOT NULL,
    subject      TEXT COLLATE "C" NOT NULL,
    actor        TEXT COLLATE "C" NOT NULL,
    epoch        BIGINT,
    data         TEXT COLLATE "C" NOT NULL,
    change       TEXT COLLATE "C" NOT NULL CHECK (change IN ('set', 'gone', 'none', 'thinned')),
    after        TEXT COLLATE "C",
    sha          TEXT COLLATE "C",
    PRIMARY KEY (project, rev)
);

CREATE INDEX event_by_subject ON event (project, subject_kind, subject, rev, change);
CREATE INDEX event_by_mission ON event (project, mission, rev);

CREATE TABLE subject (
    project TEXT COLLATE "C" NOT NULL REFERENCES project (id),
    kind    TEXT COLLATE "C" NOT NULL,
    id      TEXT COLLATE "C" NOT NULL,
    mission TEXT COLLATE "C",
    parent  TEXT COLLATE "C",
    agent   TEXT COLLATE "C",
    name    TEXT COLLATE "C",
    status  TEXT COLLATE "C" NOT NULL,
    born    BIGINT NOT NULL,                -- revision that made it
    rev     BIGINT NOT NULL,                -- revision of its last change
    at      BIGINT NOT NULL,                -- time of its last change
    sha     TEXT COLLATE "C" NOT NULL,
    doc     TEXT COLLATE "C" NOT NULL,
    gone    BIGINT,                         -- revision that took it away
    PRIMARY KEY (project, kind, id),
    CHECK (kind <> 'checkpoint' OR name IN ('progress', 'error', 'manual', 'compaction')),
    CHECK (kind <> 'checkpoint' OR CAST(doc::jsonb #>> '{cut,progress_percent}' AS BIGINT) BETWEEN 0 AND 100)
);

CREATE INDEX subject_by_mission ON subject (project, kind, mission, born) WHERE gone IS NULL;
CREATE INDEX subject_by_parent ON subject (project, kind, parent, born) WHERE gone IS NULL AND parent IS NOT NULL;
CREATE INDEX subject_by_agent ON subject (project, kind, agent, status, born) WHERE gone IS NULL AND agent IS NOT NULL;
CREATE UNIQUE INDEX subject_agent_name ON subject (project, name) WHERE kind = 'agent' AND gone IS NULL;
CREATE UNIQUE INDEX subject_lock_path ON subject (project, name) WHERE kind = 'lock' AND gone IS NULL;
CREATE UNIQUE INDEX subject_effect_key ON subject (project, mission, name) WHERE kind = 'effect' AND gone IS NULL;
CREATE INDEX idx_missions_status ON subject (project, status) WHERE kind = 'mission';

CREATE INDEX subject_checkpoint_status ON subject (project, status) WHERE kind = 'checkpoint' AND gone IS NULL;

CREATE TABLE pulse (
    project TEXT COLLATE "C" NOT NULL REFERENCES project (id),
    agent   TEXT COLLATE "C" NOT NULL,
    epoch   BIGINT NOT NULL,
    at      BIGINT NOT NULL,
    data    TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (project, agent)
);

CREATE TABLE request (
    project TEXT COLLATE "C" NOT NULL REFERENCES project (id),
    actor   TEXT COLLATE "C" NOT NULL,
    key     TEXT COLLATE "C" NOT NULL,                -- SHA-256 of the key as sent
    hash    TEXT COLLATE "C" NOT NULL,                -- SHA-256 of the request as sent
    outcome TEXT COLLATE "C" NOT NULL,
    at      BIGINT NOT NULL,
    PRIMARY KEY (project, actor, key)
);

CREATE INDEX request_by_time ON request (project, at);

CREATE VIEW missions AS
SELECT id                                  AS id,
       (doc::jsonb ->> 'title')        AS title,
       status                              AS status,
       (doc::jsonb ->> 'created_at')   AS created_at,
       (doc::jsonb ->> 'updated_at')   AS updated_at,
       (doc::jsonb ->> 'completed_at') AS completed_at,
       doc                                 AS metadata_json,
       project                             AS project
FROM subject
WHERE kind = 'mission' AND gone IS NULL;

-- Seed A's table: what a checkpoint names, put together from the journal. For others to read.
CREATE VIEW checkpoints AS
SELECT c.id AS id,
       c.mission AS mission_id,
       (c.doc::jsonb #>> '{cut,timestamp}') AS timestamp,
       (c.doc::jsonb #>> '{cut,trigger}') AS trigger,
       (c.doc::jsonb #>> '{cut,trigger_details}') AS trigger_details,
       CAST((c.doc::jsonb #>> '{cut,progress_percent}') AS BIGINT) AS progress_percent,
       (SELECT coalesce(CAST(json_agg(v.after::json) AS TEXT), '[]')
        FROM (SELECT e.after
              FROM subject s
              JOIN event e ON e.project = s.project
               AND e.rev = (SELECT max(x.rev) FROM event x WHERE x.project = s.project AND x.subject_kind = s.kind
                            AND x.subject = s.id AND x.rev <= CAST(c.doc::jsonb #>> '{cut,rev}' AS BIGINT) AND x.change <> 'none')
              WHERE s.project = c.project AND s.kind = 'sortie' AND (s.mission = c.mission) AND e.change = 'set'
              ORDER BY s.id) v) AS sorties_json,
       (SELECT coalesce(CAST(json_agg(v.after::json) AS TEXT), '[]')
        FROM (SELECT e.after
              FROM subject s
              JOIN event e ON e.project = s.project
               AND e.rev = (SELECT max(x.rev) FROM event x WHERE x.project = s.project AND x.subject_kind = s.kind
                            AND x.subject = s.id AND x.rev <= CAST(c.doc::jsonb #>> '{cut,rev}' AS BIGINT) AND x.change <> 'none')
              WHERE s.project = c.project AND s.kind = 'lock' AND (s.mission = c.mission OR s.mission IS NULL) AND e.change = 'set'
              ORDER BY s.id) v) AS locks_json,
       (SELECT coalesce(CAST(json_agg(v.after::json) AS TEXT), '[]')
        FROM (SELECT e.after
              FROM subject s
              JOIN event e ON e.project = s.project
               AND e.rev = (SELECT max(x.rev) FROM event x WHERE x.project = s.project AND x.subject_kind = s.kind
                            AND x.subject = s.id AND x.rev <= CAST(c.doc::jsonb #>> '{cut,rev}' AS BIGINT) AND x.change <> 'none')
              WHERE s.project = c.project AND s.kind = 'message' AND (s.mission = c.mission) AND e.change = 'set'
              ORDER BY s.id) v) AS messages_json,
       (c.doc::jsonb #>> '{cut,recovery_context}') AS recovery_context_json,
       (c.doc::jsonb #>> '{cut,created_by}') AS created_by,
       (c.doc::jsonb #>> '{cut,version}') AS version,
       c.project AS project
FROM subject c
WHERE c.kind = 'checkpoint' AND c.gone IS NULL;
