-- What somebody did on a mission, without what Flightline notes by itself or for itself: the newest of it is found however much of the other
-- came after it.
CREATE INDEX event_of_work ON event (project, mission, rev)
WHERE actor <> 'flightline' AND subject_kind NOT IN ('briefing', 'checkpoint', 'milestone', 'recovery');

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('event', 'event_of_work', '500000 500000 1000 1');
ANALYZE sqlite_schema;
