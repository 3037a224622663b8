-- What was taken away since some revision: what a cut of the past holds beside what is there now.
CREATE INDEX subject_gone ON subject (project, gone) WHERE gone IS NOT NULL;
