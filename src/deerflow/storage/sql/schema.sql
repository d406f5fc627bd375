CREATE TABLE blob_refs (
  thread INTEGER NOT NULL,
  blob INTEGER NOT NULL,
  CONSTRAINT pk_blob_refs PRIMARY KEY (thread, blob)
)
 WITHOUT ROWID;

CREATE INDEX ix_blob_refs_blob ON blob_refs (blob);

CREATE TABLE blobs (
  id INTEGER NOT NULL,
  user_id TEXT NOT NULL,
  sha256 BLOB NOT NULL,
  media_type TEXT NOT NULL,
  data BLOB NOT NULL,
  CONSTRAINT pk_blobs PRIMARY KEY (id),
  CONSTRAINT uq_blobs_user_id_sha256 UNIQUE (user_id, sha256)
);

CREATE TABLE checkpoint_values (
  id INTEGER NOT NULL,
  thread INTEGER NOT NULL,
  ns TEXT NOT NULL,
  channel TEXT NOT NULL,
  checkpoint_id BLOB NOT NULL,
  thin INTEGER NOT NULL,
  data BLOB NOT NULL,
  CONSTRAINT pk_checkpoint_values PRIMARY KEY (id),
  CONSTRAINT uq_checkpoint_values_thread_ns_channel_checkpoint_id UNIQUE (thread, ns, channel, checkpoint_id)
);

CREATE TABLE checkpoint_writes (
  thread INTEGER NOT NULL,
  ns TEXT NOT NULL,
  checkpoint_id BLOB NOT NULL,
  task BLOB NOT NULL,
  path TEXT NOT NULL,
  data BLOB NOT NULL,
  CONSTRAINT pk_checkpoint_writes PRIMARY KEY (thread, ns, checkpoint_id, task)
)
 WITHOUT ROWID;

CREATE TABLE checkpoints (
  thread INTEGER NOT NULL,
  ns TEXT NOT NULL,
  checkpoint_id BLOB NOT NULL,
  parent BLOB,
  run_id TEXT,
  data BLOB NOT NULL,
  CONSTRAINT pk_checkpoints PRIMARY KEY (thread, ns, checkpoint_id)
)
 WITHOUT ROWID;

CREATE TABLE model_calls (
  thread INTEGER NOT NULL,
  call BLOB NOT NULL,
  run_id TEXT NOT NULL,
  reply BLOB NOT NULL,
  CONSTRAINT pk_model_calls PRIMARY KEY (thread, call)
)
 WITHOUT ROWID;

CREATE TABLE run_deltas (
  id INTEGER NOT NULL,
  thread INTEGER NOT NULL,
  run_id TEXT NOT NULL,
  message_id TEXT NOT NULL,
  start INTEGER NOT NULL,
  text TEXT NOT NULL,
  CONSTRAINT pk_run_deltas PRIMARY KEY (id),
  CONSTRAINT uq_run_deltas_run_id_message_id_start UNIQUE (run_id, message_id, start)
);

CREATE TABLE run_events (
  thread INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  run_id TEXT NOT NULL,
  type TEXT NOT NULL,
  created_at FLOAT NOT NULL,
  payload BLOB NOT NULL,
  CONSTRAINT pk_run_events PRIMARY KEY (thread, seq)
)
 WITHOUT ROWID;

CREATE TABLE runs (
  id INTEGER NOT NULL,
  run_id TEXT NOT NULL,
  thread INTEGER NOT NULL,
  status TEXT NOT NULL,
  owner TEXT NOT NULL,
  created_at FLOAT NOT NULL,
  started_at FLOAT,
  ended_at FLOAT,
  input BLOB NOT NULL,
  config BLOB NOT NULL,
  outcome BLOB,
  error BLOB,
  usage BLOB,
  CONSTRAINT pk_runs PRIMARY KEY (id),
  CONSTRAINT uq_runs_run_id UNIQUE (run_id)
);

CREATE INDEX ix_runs_thread ON runs (thread);

CREATE TABLE thread_keys (
  id INTEGER NOT NULL,
  thread_key TEXT NOT NULL,
  last_seq INTEGER NOT NULL,
  retired_at FLOAT,
  CONSTRAINT pk_thread_keys PRIMARY KEY (id),
  CONSTRAINT uq_thread_keys_thread_key UNIQUE (thread_key)
);

CREATE TABLE tool_calls (
  thread INTEGER NOT NULL,
  call BLOB NOT NULL,
  run_id TEXT NOT NULL,
  name TEXT NOT NULL,
  started INTEGER NOT NULL,
  result BLOB,
  CONSTRAINT pk_tool_calls PRIMARY KEY (thread, call)
)
 WITHOUT ROWID;

CREATE TABLE threads (
  id INTEGER NOT NULL,
  user_id TEXT NOT NULL,
  thread_id TEXT NOT NULL,
  title TEXT NOT NULL,
  status TEXT NOT NULL,
  created_at FLOAT NOT NULL,
  updated_at FLOAT NOT NULL,
  metadata TEXT NOT NULL,
  CONSTRAINT pk_threads PRIMARY KEY (id),
  CONSTRAINT uq_threads_user_id_thread_id UNIQUE (user_id, thread_id),
  CONSTRAINT fk_threads_id FOREIGN KEY(id) REFERENCES thread_keys (id)
);

CREATE INDEX ix_threads_newest ON threads (user_id, updated_at);
