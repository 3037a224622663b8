-- Since when somebody has been waiting for a lock, beside the signs of life.
CREATE TABLE watch (
    project TEXT    NOT NULL REFERENCES project (id),
    lock    TEXT    NOT NULL,
    since   INTEGER NOT NULL,                -- silence of its holder counts from here
    at      INTEGER NOT NULL,                -- when somebody last asked for it
    sum     TEXT    NOT NULL,                -- of the row
    PRIMARY KEY (project, lock)
) STRICT, WITHOUT ROWID;
