-- One row for each instance of a fleet. No index on what beats, and room in its page, so that a beat moves nothing.
CREATE TABLE oneseal.replicas (
    fleet       text        COLLATE "C" NOT NULL,
    instance    text        COLLATE "C" NOT NULL,
    boot        uuid        NOT NULL,
    state       text        COLLATE "C" NOT NULL CHECK (state IN ('joining', 'live', 'gone')),
    ops_address text        NOT NULL,
    facts       text        NOT NULL,
    joined_at   timestamptz NOT NULL,
    state_since timestamptz NOT NULL,
    beat_at     timestamptz NOT NULL,
    PRIMARY KEY (fleet, instance)
) WITH (fillfactor = 50);

-- The fence: changed only when somebody takes over, locked by every transaction of a leader.
CREATE TABLE oneseal.worker_epochs (
    fleet    text        COLLATE "C" NOT NULL,
    worker   text        COLLATE "C" NOT NULL,
    epoch    bigint      NOT NULL,
    holder   text        COLLATE "C" NOT NULL,
    taken_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (fleet, worker)
) WITH (fillfactor = 50);

-- What is set while the fleet runs.
CREATE TABLE oneseal.settings (
    fleet      text        COLLATE "C" NOT NULL,
    name       text        COLLATE "C" NOT NULL,
    value      text        NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    changed_by text        NOT NULL,
    PRIMARY KEY (fleet, name)
);
