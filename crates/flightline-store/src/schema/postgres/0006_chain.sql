-- Every event under a seal that covers the one before, and a sum for every row beside the journal; `engine/upgrade.rs` writes them.
ALTER TABLE event ADD COLUMN prev TEXT COLLATE "C" NOT NULL DEFAULT '',
                  ADD COLUMN seal TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE project ADD COLUMN seal TEXT COLLATE "C" NOT NULL DEFAULT '',
                    ADD COLUMN sum TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE subject ADD COLUMN sum TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE pulse ADD COLUMN sum TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE request ADD COLUMN sum TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE backup ADD COLUMN sum TEXT COLLATE "C" NOT NULL DEFAULT '';
