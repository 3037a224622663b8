-- Fewer pages are written for each checkpoint. Three indexes led to checkpoints by columns of their own, and no query of ours used
-- them: `subject_by_mission` leads there as well. Each was a page per mission and commit.
DROP INDEX idx_checkpoints_mission;
DROP INDEX idx_checkpoints_trigger;
DROP INDEX idx_checkpoints_timestamp;

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

INSERT INTO backup (project, checkpoint, state, at, bytes, sha, why, sum)
SELECT project, checkpoint, state, at, bytes, sha, why, sum FROM backup_before ORDER BY at, checkpoint;

DROP TABLE backup_before;
CREATE INDEX backup_unsettled ON backup (project, state, at) WHERE state IN ('pending', 'failed');

DELETE FROM sqlite_stat1 WHERE tbl IN ('backup', 'backup_before');
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('backup', 'sqlite_autoindex_backup_1', '50000 50000 1'),
    ('backup', 'backup_unsettled', '20 20 10 1');
ANALYZE sqlite_schema;
