CREATE TABLE oneseal.events (
    seq       bigint PRIMARY KEY,
    at        text   COLLATE "C" NOT NULL,
    kind      text   COLLATE "C" NOT NULL,
    actor     text   COLLATE "C" NOT NULL,
    issuer    text   COLLATE "C" NOT NULL,
    payload   text   COLLATE "C" NOT NULL,
    prev_hash bytea  NOT NULL,
    hash      bytea  NOT NULL
);

-- The one row that gives numbers out. It is written with every event: hence the room in its page.
CREATE TABLE oneseal.event_head (
    only_row  boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    seq       bigint NOT NULL,
    at        text   COLLATE "C" NOT NULL,
    prev_hash bytea  NOT NULL,
    hash      bytea  NOT NULL
) WITH (fillfactor = 10);
INSERT INTO oneseal.event_head (seq, at, prev_hash, hash)
VALUES (0, '', decode(repeat('00', 32), 'hex'), decode(repeat('00', 32), 'hex'));

-- The last event that was cut off the beginning.
CREATE TABLE oneseal.event_floor (
    only_row  boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    seq       bigint NOT NULL,
    hash      bytea  NOT NULL
);
INSERT INTO oneseal.event_floor (seq, hash) VALUES (0, decode(repeat('00', 32), 'hex'));
