-- A checkpoint's text is kept once, in the journal: `doc` is NULL, and the event of `rev` holds it.
-- What became of its copy in a file is no state of the fleet, and has a table of its own.
DROP VIEW checkpoints;
DROP INDEX subject_checkpoint_status;

CREATE TABLE backup (
    project    TEXT COLLATE "C" NOT NULL REFERENCES project (id),
    checkpoint TEXT COLLATE "C" NOT NULL,
    state      TEXT COLLATE "C" NOT NULL CHECK (state IN ('pending', 'written', 'failed', 'shared')),
    at         BIGINT NOT NULL,
    bytes      BIGINT,
    sha        TEXT COLLATE "C",
    why        TEXT COLLATE "C",
    PRIMARY KEY (project, checkpoint)
);

INSERT INTO backup (project, checkpoint, state, at, bytes, sha, why)
SELECT project, id, doc::jsonb #>> '{backup,state}', at, CAST(doc::jsonb #>> '{backup,bytes}' AS BIGINT),
       doc::jsonb #>> '{backup,sha256}', doc::jsonb #>> '{backup,why}'
FROM subject
WHERE kind = 'checkpoint' AND gone IS NULL;

ALTER TABLE subject DROP CONSTRAINT subject_check;
ALTER TABLE subject DROP CONSTRAINT subject_check1;
ALTER TABLE subject ALTER COLUMN doc DROP NOT NULL;
ALTER TABLE subject ADD COLUMN percent BIGINT CHECK (percent BETWEEN 0 AND 100);
UPDATE subject
SET percent = CAST(doc::jsonb #>> '{cut,progress_percent}' AS BIGINT),
    status = CASE WHEN status = 'creating' THEN 'valid' ELSE status END,
    doc = NULL
WHERE kind = 'checkpoint';
ALTER TABLE subject ADD CHECK (doc IS NOT NULL OR kind = 'checkpoint');
ALTER TABLE subject ADD CHECK (kind <> 'checkpoint' OR (percent IS NOT NULL AND name IN ('progress', 'error', 'manual', 'compaction')));

-- Seed A's names.
CREATE INDEX idx_checkpoints_mission ON subject (mission, at DESC) WHERE kind = 'checkpoint';
CREATE INDEX idx_checkpoints_trigger ON subject (name) WHERE kind = 'checkpoint';
CREATE INDEX idx_checkpoints_timestamp ON subject (at) WHERE kind = 'checkpoint';

CREATE INDEX backup_unsettled ON backup (project, checkpoint) WHERE state IN ('pending', 'failed');

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
              WHERE s.project = c.project AND s.kind = 'lock' AND (s.mission = c.mission OR s.mission IS NULL) AND e.change = 'set'
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
