-- Fewer pages are written for each checkpoint. Three indexes led to checkpoints by columns of their own, and no query of ours used
-- them: `subject_by_mission` leads there as well.
DROP INDEX IF EXISTS idx_checkpoints_mission;
DROP INDEX IF EXISTS idx_checkpoints_trigger;
DROP INDEX IF EXISTS idx_checkpoints_timestamp;

-- The files that wait by time: new ones of all missions share a page.
DROP INDEX IF EXISTS backup_unsettled;
CREATE INDEX backup_unsettled ON backup (project, state, at) WHERE state IN ('pending', 'failed');
