-- The timeline of the database at the project's last write. It is another after a replica was promoted, which may lack what
-- was acknowledged last: then the next write begins a new history.
ALTER TABLE project ADD COLUMN timeline BIGINT;
