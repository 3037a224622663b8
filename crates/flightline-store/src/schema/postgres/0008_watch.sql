-- Since when somebody has been waiting for a lock, beside the signs of life.
CREATE TABLE watch (
    project TEXT COLLATE "C" NOT NULL REFERENCES project (id),
    lock    TEXT COLLATE "C" NOT NULL,
    since   BIGINT NOT NULL,                 -- silence of its holder counts from here
    at      BIGINT NOT NULL,                 -- when somebody last asked for it
    sum     TEXT COLLATE "C" NOT NULL,       -- of the row
    PRIMARY KEY (project, lock)
);
