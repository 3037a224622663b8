-- The timeline of the database at the project's last write. A file has none: it stays NULL here.
ALTER TABLE project ADD COLUMN timeline INTEGER;
