-- What has been used, by the SHA-256 of its scope and its id, until nobody would take it any more. A row lives for minutes,
-- so room is made soon after rows are deleted.
CREATE TABLE oneseal.used_once (
    id    bytea       PRIMARY KEY CHECK (octet_length(id) = 32),
    until timestamptz NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX used_once_by_until ON oneseal.used_once (until);
COMMENT ON TABLE oneseal.used_once IS 'What can be used once and was. Without these rows it could be used again.';
