-- Every event under a seal that covers the one before, and a sum for every row beside the journal. SQLite has no SHA-256:
-- the rows are sealed by `engine/upgrade.rs`, which copies the journal from `event_unsealed`, and `0006_chain_end.sql` follows.
DROP VIEW checkpoints;
ALTER TABLE event RENAME TO event_unsealed;

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
    prev         TEXT    NOT NULL DEFAULT '', -- the seal of the event before
    seal         TEXT    NOT NULL DEFAULT '', -- of all columns but the project and the text of the value
    PRIMARY KEY (project, rev)
) STRICT;

ALTER TABLE project ADD COLUMN seal TEXT NOT NULL DEFAULT '';
ALTER TABLE project ADD COLUMN sum TEXT NOT NULL DEFAULT '';
ALTER TABLE subject ADD COLUMN sum TEXT NOT NULL DEFAULT '';
ALTER TABLE pulse ADD COLUMN sum TEXT NOT NULL DEFAULT '';
ALTER TABLE request ADD COLUMN sum TEXT NOT NULL DEFAULT '';
ALTER TABLE backup ADD COLUMN sum TEXT NOT NULL DEFAULT '';
