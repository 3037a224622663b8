-- Which database it was at the project's last write, and its timeline. It is another after a replica was promoted, which may lack
-- what was acknowledged last, or after a dump was read in elsewhere: then the next write begins a new history.
ALTER TABLE project ADD COLUMN timeline BIGINT;
