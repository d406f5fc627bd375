CREATE TABLE approvals (
  id INTEGER NOT NULL,
  user_id TEXT NOT NULL,
  approval_id TEXT NOT NULL,
  thread INTEGER NOT NULL,
  status TEXT NOT NULL,
  created_at FLOAT NOT NULL,
  expires_at FLOAT,
  decided_at FLOAT,
  call BLOB NOT NULL,
  decision BLOB,
  CONSTRAINT pk_approvals PRIMARY KEY (id),
  CONSTRAINT uq_approvals_user_id_approval_id UNIQUE (user_id, approval_id)
);

CREATE INDEX ix_approvals_expiry ON approvals (status, expires_at);

CREATE INDEX ix_approvals_listed ON approvals (user_id, status, created_at);

CREATE INDEX ix_approvals_thread ON approvals (thread);

CREATE TABLE assistants (
  user_id TEXT NOT NULL,
  assistant_id TEXT NOT NULL,
  version INTEGER NOT NULL,
  created_at FLOAT NOT NULL,
  data BLOB NOT NULL,
  CONSTRAINT pk_assistants PRIMARY KEY (user_id, assistant_id, version)
)
 WITHOUT ROWID;

CREATE TABLE audit (
  id INTEGER NOT NULL,
  at FLOAT NOT NULL,
  user_id TEXT NOT NULL,
  action TEXT NOT NULL,
  target TEXT NOT NULL,
  address TEXT NOT NULL,
  data BLOB NOT NULL,
  CONSTRAINT pk_audit PRIMARY KEY (id)
);

CREATE INDEX ix_audit_user ON audit (user_id, at);

CREATE TABLE batch_items (
  id INTEGER NOT NULL,
  batch INTEGER NOT NULL,
  position INTEGER NOT NULL,
  status TEXT NOT NULL,
  attempts INTEGER NOT NULL,
  owner TEXT NOT NULL,
  item BLOB NOT NULL,
  result BLOB,
  CONSTRAINT pk_batch_items PRIMARY KEY (id),
  CONSTRAINT uq_batch_items_batch_position UNIQUE (batch, position)
);

CREATE INDEX ix_batch_items_claim ON batch_items (batch, status, position);

CREATE TABLE batches (
  id INTEGER NOT NULL,
  batch_id TEXT NOT NULL,
  thread INTEGER NOT NULL,
  user_id TEXT NOT NULL,
  run_id TEXT NOT NULL,
  total INTEGER NOT NULL,
  created_at FLOAT NOT NULL,
  settings BLOB NOT NULL,
  CONSTRAINT pk_batches PRIMARY KEY (id),
  CONSTRAINT uq_batches_batch_id UNIQUE (batch_id)
);

CREATE INDEX ix_batches_thread ON batches (thread);

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

CREATE TABLE deliveries (
  id INTEGER NOT NULL,
  delivery_id TEXT NOT NULL,
  thread INTEGER NOT NULL,
  user_id TEXT NOT NULL,
  run_id TEXT NOT NULL,
  url TEXT NOT NULL,
  status TEXT NOT NULL,
  attempts INTEGER NOT NULL,
  due_at FLOAT NOT NULL,
  claimed_until FLOAT NOT NULL,
  payload BLOB NOT NULL,
  CONSTRAINT pk_deliveries PRIMARY KEY (id),
  CONSTRAINT uq_deliveries_delivery_id UNIQUE (delivery_id)
);

CREATE INDEX ix_deliveries_due ON deliveries (status, due_at);

CREATE INDEX ix_deliveries_thread ON deliveries (thread);

CREATE TABLE feedback (
  id INTEGER NOT NULL,
  feedback_id TEXT NOT NULL,
  thread INTEGER NOT NULL,
  run_id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  rating INTEGER NOT NULL,
  created_at FLOAT NOT NULL,
  data BLOB NOT NULL,
  CONSTRAINT pk_feedback PRIMARY KEY (id),
  CONSTRAINT uq_feedback_feedback_id UNIQUE (feedback_id),
  CONSTRAINT uq_feedback_run_id_user_id UNIQUE (run_id, user_id)
);

CREATE INDEX ix_feedback_thread ON feedback (thread);

CREATE TABLE identities (
  provider TEXT NOT NULL,
  subject TEXT NOT NULL,
  user_id TEXT NOT NULL,
  CONSTRAINT pk_identities PRIMARY KEY (provider, subject)
)
 WITHOUT ROWID;

CREATE INDEX ix_identities_user_id ON identities (user_id);

CREATE TABLE items (
  user_id TEXT NOT NULL,
  namespace TEXT NOT NULL,
  "key" TEXT NOT NULL,
  created_at FLOAT NOT NULL,
  updated_at FLOAT NOT NULL,
  expires_at FLOAT,
  data BLOB NOT NULL,
  CONSTRAINT pk_items PRIMARY KEY (user_id, namespace, "key")
)
 WITHOUT ROWID;

CREATE TABLE login_attempts (
  id INTEGER NOT NULL,
  subject TEXT NOT NULL,
  at FLOAT NOT NULL,
  CONSTRAINT pk_login_attempts PRIMARY KEY (id)
);

CREATE INDEX ix_login_attempts_subject ON login_attempts (subject, at);

CREATE TABLE memory_queue (
  id INTEGER NOT NULL,
  entry_id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  thread INTEGER NOT NULL,
  thread_id TEXT NOT NULL,
  queued_at FLOAT NOT NULL,
  due_at FLOAT NOT NULL,
  attempts INTEGER NOT NULL,
  owner TEXT NOT NULL,
  payload BLOB NOT NULL,
  CONSTRAINT pk_memory_queue PRIMARY KEY (id),
  CONSTRAINT uq_memory_queue_entry_id UNIQUE (entry_id)
);

CREATE INDEX ix_memory_queue_due ON memory_queue (owner, due_at);

CREATE INDEX ix_memory_queue_thread ON memory_queue (thread);

CREATE INDEX ix_memory_queue_user ON memory_queue (user_id, owner);

CREATE TABLE model_calls (
  thread INTEGER NOT NULL,
  call BLOB NOT NULL,
  run_id TEXT NOT NULL,
  reply BLOB NOT NULL,
  CONSTRAINT pk_model_calls PRIMARY KEY (thread, call)
)
 WITHOUT ROWID;

CREATE TABLE preferences (
  user_id TEXT NOT NULL,
  name TEXT NOT NULL,
  updated_at FLOAT NOT NULL,
  data BLOB NOT NULL,
  CONSTRAINT pk_preferences PRIMARY KEY (user_id, name)
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
  metadata BLOB,
  not_before FLOAT,
  cancel TEXT DEFAULT '' NOT NULL,
  attempt INTEGER DEFAULT '0' NOT NULL,
  priority INTEGER DEFAULT '0' NOT NULL,
  idempotency TEXT,
  CONSTRAINT pk_runs PRIMARY KEY (id),
  CONSTRAINT uq_runs_run_id UNIQUE (run_id)
);

CREATE UNIQUE INDEX ix_runs_idempotency ON runs (idempotency);

CREATE INDEX ix_runs_rollback ON runs (cancel) WHERE cancel = 'rollback';

CREATE INDEX ix_runs_status ON runs (status);

CREATE INDEX ix_runs_thread ON runs (thread);

CREATE TABLE schedule_runs (
  id INTEGER NOT NULL,
  schedule INTEGER NOT NULL,
  occurrence FLOAT NOT NULL,
  run_id TEXT NOT NULL,
  thread_id TEXT NOT NULL,
  created_at FLOAT NOT NULL,
  note TEXT NOT NULL,
  CONSTRAINT pk_schedule_runs PRIMARY KEY (id),
  CONSTRAINT uq_schedule_runs_schedule_occurrence UNIQUE (schedule, occurrence)
);

CREATE INDEX ix_schedule_runs_note ON schedule_runs (note);

CREATE INDEX ix_schedule_runs_run_id ON schedule_runs (run_id);

CREATE TABLE schedules (
  id INTEGER NOT NULL,
  schedule_id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  thread_id TEXT,
  kind TEXT NOT NULL,
  status TEXT NOT NULL,
  next_at FLOAT,
  created_at FLOAT NOT NULL,
  updated_at FLOAT NOT NULL,
  data BLOB NOT NULL,
  CONSTRAINT pk_schedules PRIMARY KEY (id),
  CONSTRAINT uq_schedules_schedule_id UNIQUE (schedule_id)
);

CREATE INDEX ix_schedules_due ON schedules (status, next_at);

CREATE INDEX ix_schedules_user ON schedules (user_id, created_at);

CREATE TABLE spending (
  user_id TEXT NOT NULL,
  day TEXT NOT NULL,
  currency TEXT NOT NULL,
  tokens BIGINT NOT NULL,
  money FLOAT NOT NULL,
  CONSTRAINT pk_spending PRIMARY KEY (user_id, day, currency)
)
 WITHOUT ROWID;

CREATE TABLE thread_keys (
  id INTEGER NOT NULL,
  thread_key TEXT NOT NULL,
  last_seq INTEGER NOT NULL,
  retired_at FLOAT,
  CONSTRAINT pk_thread_keys PRIMARY KEY (id),
  CONSTRAINT uq_thread_keys_thread_key UNIQUE (thread_key)
);

CREATE TABLE tokens (
  id INTEGER NOT NULL,
  token_id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  kind TEXT NOT NULL,
  hash BLOB NOT NULL,
  name TEXT NOT NULL,
  created_at FLOAT NOT NULL,
  expires_at FLOAT,
  used_at FLOAT,
  data BLOB NOT NULL,
  CONSTRAINT pk_tokens PRIMARY KEY (id),
  CONSTRAINT uq_tokens_token_id UNIQUE (token_id),
  CONSTRAINT uq_tokens_hash UNIQUE (hash)
);

CREATE INDEX ix_tokens_user ON tokens (user_id, kind);

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

CREATE TABLE users (
  id INTEGER NOT NULL,
  user_id TEXT NOT NULL,
  email TEXT NOT NULL,
  password TEXT,
  role TEXT NOT NULL,
  active INTEGER NOT NULL,
  created_at FLOAT NOT NULL,
  data BLOB NOT NULL,
  CONSTRAINT pk_users PRIMARY KEY (id),
  CONSTRAINT uq_users_user_id UNIQUE (user_id),
  CONSTRAINT uq_users_email UNIQUE (email)
);

CREATE TABLE workers (
  worker_id TEXT NOT NULL,
  process TEXT NOT NULL,
  started_at FLOAT NOT NULL,
  expires_at FLOAT NOT NULL,
  CONSTRAINT pk_workers PRIMARY KEY (worker_id)
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
