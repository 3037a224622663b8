-- What SQLite changes here, PostgreSQL never had: it moves long values out of a row only, and packs them.
SELECT 1;
