-- How a large fleet's tables are filled, in round figures. Without them SQLite takes a project's events for a handful,
-- and looks through all of them where an index leads to the few that are wanted. They are never counted anew:
-- the same statement has the same plan in every store.
ANALYZE sqlite_schema;
DELETE FROM sqlite_stat1;
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('event', 'event', '1000000 1000000 1'),
    ('event', 'event_by_subject', '1000000 1000000 100000 20 1 1'),
    ('event', 'event_by_mission', '1000000 1000000 2000 1'),
    ('subject', 'sqlite_autoindex_subject_1', '100000 100000 10000 1'),
    ('subject', 'subject_by_mission', '100000 100000 10000 50 1'),
    ('subject', 'subject_by_parent', '20000 20000 5000 5 1'),
    ('subject', 'subject_by_agent', '20000 20000 10000 500 100 1'),
    ('subject', 'subject_agent_name', '100 100 1'),
    ('subject', 'subject_lock_path', '100 100 1'),
    ('subject', 'subject_effect_key', '1000 1000 10 1'),
    ('subject', 'subject_gone', '10000 10000 1'),
    ('backup', 'backup', '50000 50000 1'),
    ('backup', 'backup_unsettled', '20 20 1');

-- What was taken away since some revision: what a cut of the past holds beside what is there now.
CREATE INDEX subject_gone ON subject (project, gone) WHERE gone IS NOT NULL;
ANALYZE sqlite_schema;
