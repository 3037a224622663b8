-- Fewer pages are written for each checkpoint. Three indexes led to checkpoints by columns of their own, and no query of ours used
-- them: `subject_by_mission` leads there as well. Each was a page per mission and commit.
DROP INDEX IF EXISTS idx_checkpoints_mission;
DROP INDEX IF EXISTS idx_checkpoints_trigger;
DROP INDEX IF EXISTS idx_checkpoints_timestamp;

-- The rows about files in the order in which they are made, and those that wait by time: new ones of all missions share a page.
ALTER TABLE backup RENAME TO backup_before;

CREATE TABLE backup (
    project    TEXT    NOT NULL REFERENCES project (id),
    checkpoint TEXT    NOT NULL,
    state      TEXT    NOT NULL CHECK (state IN ('pending', 'written', 'failed', 'shared')),
    at         INTEGER NOT NULL,
    bytes      INTEGER,
    sha        TEXT,
    why        TEXT,
    sum        TEXT    NOT NULL DEFAULT '',
    PRIMARY KEY (project, checkpoint)
) STRICT;

-- A damaged row comes along as it is: the doctor names it and repairs it. One that belongs to no project cannot.
PRAGMA ignore_check_constraints = ON;
INSERT INTO backup (project, checkpoint, state, at, bytes, sha, why, sum)
SELECT project, checkpoint, state, at, bytes, sha, why, sum FROM backup_before
WHERE project IN (SELECT id FROM project) ORDER BY at, checkpoint;
PRAGMA ignore_check_constraints = OFF;

DROP TABLE backup_before;
CREATE INDEX backup_unsettled ON backup (project, state, at) WHERE state IN ('pending', 'failed');

DELETE FROM sqlite_stat1 WHERE tbl IN ('backup', 'backup_before');
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('backup', 'sqlite_autoindex_backup_1', '50000 50000 1'),
    ('backup', 'backup_unsettled', '20 20 10 1');
ANALYZE sqlite_schema;
