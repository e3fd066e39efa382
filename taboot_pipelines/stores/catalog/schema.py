"""The catalog's tables: inputs, identity and lifecycle of documents, fetch log, runs, jobs and pointers
(rule ``watermark``).

Written for SQLite and PostgreSQL alike. Times are microseconds since the epoch, UTC; JSON is text in
canonical form. Every table starts with the namespace, which is the tenant.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    text,
)

metadata = MetaData()

_ID = BigInteger().with_variant(Integer, "sqlite")

# --- inputs -------------------------------------------------------------------------------------------------

source_entry = Table(
    "source_entry",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("source_id", Text, primary_key=True),
    Column("type", Text, nullable=False),
    Column("config", Text, nullable=False),
    Column("root", Text),
    Column("state", Text, nullable=False),  # active | retiring | retired
    Column("updated_at", BigInteger, nullable=False),
)

#: What a connector keeps of its source from one run to the next: cursors, ETags, signatures of files. Nothing
#: of it is content, and without it a source is enumerated as for the first time.
source_state = Table(
    "source_state",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("source_id", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("configuration", Text, nullable=False),  # a hash of what the value holds for
    Column("value", Text, nullable=False),
)

tombstone = Table(
    "tombstone",
    metadata,
    Column("namespace", Text, primary_key=True),
    # The doc_id is a hash of the locator: the tombstone keeps no path, no name and no content.
    Column("doc_id", Text, primary_key=True),
    Column("reason", Text, nullable=False),  # deleted | erased | expired
    Column("sha256", Text),  # expiry only: the bytes whose change brings the document back
    Column("created_at", BigInteger, nullable=False),
)

#: How long documents are kept: those of a source, by the sources file, or one document, by a person, which
#: goes first.
retention_policy = Table(
    "retention_policy",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("kind", Text, primary_key=True),  # source | document
    Column("subject", Text, primary_key=True),  # a source id, or a doc_id
    Column("days", Integer),  # null: for good
    Column("set_at", BigInteger, nullable=False),
)

#: What people uploaded: the bytes that each path of the namespace's source of uploads has now.
uploaded = Table(
    "uploaded",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("path", Text, primary_key=True),
    Column("sha256", Text, nullable=False),
    Column("byte_size", BigInteger, nullable=False),
    Column("mime", Text),
    Column("charset", Text),
    Column("url", Text),  # of a page: as it was asked for, and as it answered
    Column("final_url", Text),
    Column("uploaded_at", BigInteger, nullable=False),
)

#: The tags that people gave single documents; those of a source stand in the sources file.
document_tag = Table(
    "document_tag",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("doc_id", Text, primary_key=True),
    Column("tag", Text, primary_key=True),
    Column("set_at", BigInteger, nullable=False),
)

confirmation = Table(
    "confirmation",
    metadata,
    Column("id", _ID, primary_key=True, autoincrement=True),
    Column("namespace", Text, nullable=False),
    Column("source_id", Text, nullable=False),
    Column("job_id", Text, nullable=False),
    Column("deletions", Integer, nullable=False),
    Column("confirmed_at", BigInteger, nullable=False),
)

#: What people decided, in their order. A row is never changed and never deleted: undoing is a row as well.
#: Only an erasure takes out what somebody typed (``payload``, ``who``, ``reason``), and leaves the row's ids.
assertion = Table(
    "assertion",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),  # the namespace's first one has 1
    Column("id", Text, nullable=False),
    Column("kind", Text, nullable=False),  # entity | relation | field | edge | merge | undo
    Column("payload", Text),
    Column("who", Text),
    Column("reason", Text),
    Column("at", BigInteger, nullable=False),
    Column("erased_at", BigInteger),
    UniqueConstraint("namespace", "id", name="uq_assertion_id"),
)

#: What people think of answers. It holds no text of an answer.
feedback = Table(
    "feedback",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("question", Text, primary_key=True),
    Column("verdict", Text, nullable=False),  # right | wrong | none
    Column("must", Text, nullable=False),  # JSON
    Column("doc_ids", Text, nullable=False),  # JSON
    Column("note", Text, nullable=False),
    Column("who", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
)

#: Which run of a unit a person promoted, for one input of it: of a unit's rows that are not withdrawn, the
#: newest whose input is still that of the unit holds. ``promotion`` joins what was promoted together.
chosen_run = Table(
    "chosen_run",
    metadata,
    Column("id", _ID, primary_key=True, autoincrement=True),
    Column("namespace", Text, nullable=False),
    Column("source_id", Text, nullable=False),
    Column("tier", Text, nullable=False),
    Column("unit_id", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("number", Integer, nullable=False),
    Column("input_fingerprint", Text, nullable=False),
    Column("overrides", Text, nullable=False),
    Column("reads", Text, nullable=False),  # as of `unit_state`
    Column("promotion", Text, nullable=False),
    Column("chosen_at", BigInteger, nullable=False),
    Column("withdrawn_at", BigInteger),
    Index("ix_chosen_run_source", "namespace", "source_id", "tier"),
)

# --- what was fetched ---------------------------------------------------------------------------------------

job = Table(
    "job",
    metadata,
    Column("job_id", Text, primary_key=True),
    Column("namespace", Text, nullable=False),
    Column("source_id", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("started_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("ended_at", BigInteger),
    Column("pid", Integer, nullable=False),
    Column("host", Text, nullable=False),
    Column("process_started_at", Float),
    Column("complete", Boolean),
    Column("discovered", Integer),
    Column("fetched", Integer),
    Column("not_modified", Integer),
    Column("skipped", Integer),
    Column("failed", Integer),
    Column("removed", Integer),
    Column("held", Integer),
    Column("listing", Text),
    Column("error", Text),
    # A hash of what decides what the job reads; null in a job that retires its source.
    Column("configuration", Text),
    Index("ix_job_source", "namespace", "source_id", "started_at"),
)

locator = Table(
    "locator",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("source_id", Text, primary_key=True),
    Column("path", Text, primary_key=True),
    Column("doc_id", Text, nullable=False),
    Column("state", Text, nullable=False),  # present | absent
    Column("role", Text, nullable=False),  # document | input
    Column("sha256", Text, nullable=False),
    Column("byte_size", BigInteger, nullable=False),
    Column("mime", Text),
    Column("charset", Text),
    Column("url", Text),
    Column("final_url", Text),
    Column("etag", Text),
    Column("last_modified", Text),
    Column("lifecycle", Text, nullable=False),
    Column("announced_at", BigInteger),  # since when it is EXPIRING; null in any other state
    # `created_at`: the log entry that began the unbroken presence; `since` and `job_id`: that of the present
    # bytes.
    Column("created_at", BigInteger, nullable=False),
    Column("since", BigInteger, nullable=False),
    Column("job_id", Text, nullable=False),
    Index("ix_locator_doc", "namespace", "doc_id"),
    # What is counted is read from here alone.
    Index("ix_locator_state", "namespace", "state", "role", "source_id", "lifecycle"),
    Index("ix_locator_blob", "namespace", "sha256"),
)

fetch = Table(
    "fetch",
    metadata,
    Column("id", _ID, primary_key=True, autoincrement=True),
    Column("namespace", Text, nullable=False),
    Column("source_id", Text, nullable=False),
    Column("path", Text, nullable=False),
    Column("job_id", Text, nullable=False),
    Column("event", Text, nullable=False),  # fetched | absent | deleted | restored | forgotten
    Column("sha256", Text),
    Column("role", Text),
    Column("attributes", Text),
    Column("fetched_at", BigInteger, nullable=False),
    Index("ix_fetch_source", "namespace", "source_id", "id"),
)

blob = Table(
    "blob",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("content_hash", Text, primary_key=True),
    Column("storage_url", Text, nullable=False),
    Column("storage_status", Text, nullable=False),  # uploaded | pending | failed
    Column("mime_type", Text),
    Column("file_name", Text),
    Column("byte_size", BigInteger, nullable=False),
    Column("source_type", Text, nullable=False),
    Column("source_agent_id", Text),
    Column("source_metadata", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
)

upload_queue = Table(
    "upload_queue",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("content_hash", Text, primary_key=True),
    Column("temp_file_path", Text, nullable=False),
    Column("byte_size", BigInteger, nullable=False),
    Column("retry_count", Integer, nullable=False),
    Column("max_retries", Integer, nullable=False),
    Column("next_retry_at", BigInteger, nullable=False),
    Column("error_message", Text),
    Column("created_at", BigInteger, nullable=False),
)

storage_usage = Table(
    "storage_usage",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("total_bytes", BigInteger, nullable=False),
    Column("total_sources", Integer, nullable=False),
    Column("last_calculated", BigInteger, nullable=False),
    Column("interpretation_count_month", Integer, nullable=False),
    Column("interpretation_limit_month", Integer),  # null: unlimited, the default
    Column("billing_month", Text, nullable=False),
)

# --- crawls -------------------------------------------------------------------------------------------------

crawl = Table(
    "crawl",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("crawl_id", Text, primary_key=True),
    Column("source_id", Text, nullable=False),
    Column("number", Integer, nullable=False),  # the source's first crawl has 1
    Column("roots", Text, nullable=False),  # a list of URLs
    Column("requested_depth", Integer, nullable=False),
    Column("max_pages", Integer, nullable=False),
    Column("strategy", Text, nullable=False),
    Column("score_threshold", Float, nullable=False),
    Column("configuration", Text, nullable=False),
    Column("link_rules", Text, nullable=False),
    Column("previous", Text),
    Column("state", Text, nullable=False),
    Column("taken", Integer, nullable=False),  # how many of `max_pages` have been claimed
    Column("listing", Text),  # null until the lists have been read
    Column("complete", Boolean),
    Column("reason", Text, nullable=False),
    Column("counts", Text),  # the ledger, once it has ended
    Column("started_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("ended_at", BigInteger),
    Index("ix_crawl_source", "namespace", "source_id", "number"),
)

crawl_url = Table(
    "crawl_url",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("crawl_id", Text, primary_key=True),
    Column("url_id", LargeBinary, primary_key=True),
    Column("key", Text, nullable=False),
    Column("url", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("parent", LargeBinary),  # null: it was listed
    Column("depth", Integer, nullable=False),
    Column("score", Float, nullable=False),
    Column("preferred", Boolean, nullable=False),
    Column("rank", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    Column("outcome", Text),
    Column("code", Text),
    Column("message", Text),
    Column("attempts", Integer, nullable=False),
    Column("due_at", BigInteger, nullable=False),
    Column("found_at", BigInteger, nullable=False),
    Column("claimed_at", BigInteger),  # of the last claim; null: it was never claimed
    Column("claimed_by", Text),
    Column("heartbeat_at", BigInteger),
    Column("answered_at", BigInteger),
    Column("http_status", Integer),
    Column("request_seconds", Float),
    Column("ip", Text),
    Column("handed", Text),  # what its process has yet to tell who leads the crawl; null: nothing
    Index(
        "ix_crawl_url_handed",
        "namespace",
        "crawl_id",
        "url_id",
        sqlite_where=text("handed IS NOT NULL"),
        postgresql_where=text("handed IS NOT NULL"),
    ),
    Column("canonical", Text),  # what the page says is its URL, where that is another
    Column("fresh_since", BigInteger),  # null, as the next two: the answer may not be reused
    Column("fresh_until", BigInteger),
    Column("fresh_max_age", BigInteger),
    Index(
        "ix_crawl_url_pending",
        "namespace",
        "crawl_id",
        "host",
        "rank",
        sqlite_where=text("state = 'PENDING'"),
        postgresql_where=text("state = 'PENDING'"),
    ),
    Index(
        "ix_crawl_url_claimed",
        "namespace",
        "crawl_id",
        "claimed_by",
        sqlite_where=text("state = 'IN-PROGRESS'"),
        postgresql_where=text("state = 'IN-PROGRESS'"),
    ),
)

#: The links of a page within its crawl: a row per page, since there are a hundred times as many links.
crawl_lead = Table(
    "crawl_lead",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("crawl_id", Text, primary_key=True),
    Column("parent", LargeBinary, primary_key=True),
    Column("content", Text),  # SHA-256 of the bytes that they stand on
    Column("children", LargeBinary, nullable=False),  # the ids of the URLs, one after the other
)

# --- pointers and history -----------------------------------------------------------------------------------

pointer = Table(
    "pointer",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("owner", Text, primary_key=True),  # a source id, or `_` for the namespace
    Column("stage", Text, primary_key=True),
    Column("tables", Text, nullable=False),  # {table: version}
    Column("inputs", Text, nullable=False),  # hash of all inputs applied
    Column("txn", Text, nullable=False),
    Column("applied", Text, nullable=False),  # {source: its version}, for stages of the namespace
    Column("updated_at", BigInteger, nullable=False),
)

interpretation_run = Table(
    "interpretation_run",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("run_id", Text, primary_key=True),
    Column("source_id", Text, nullable=False),
    Column("unit_id", Text, nullable=False),
    Column("tier", Text, nullable=False),
    Column("interpretation_config", Text, nullable=False),
    Column("input_fingerprint", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("error_message", Text),
    Column("extracted_nodes", Integer, nullable=False),
    Column("extracted_edges", Integer, nullable=False),
    Column("confidence", Float),
    Column("unknown_field_count", Integer, nullable=False),
    Column("extraction_completeness", Text, nullable=False),
    Column("started_at", BigInteger),
    Column("completed_at", BigInteger),
    Column("created_at", BigInteger, nullable=False),
    Column("heartbeat_at", BigInteger),
    Column("timeout_at", BigInteger),
    Column("archived_at", BigInteger),  # null: the active run of its unit and tier
    Column("number", Integer, nullable=False),  # 0, or which reinterpretation of its unit it is
    Column("overrides", Text, nullable=False),  # what a person asked to be otherwise than configured
    Column("outcome", Text),  # what its `unit_state` says; null: only empty fields; "": not known
    Column("candidate", Boolean, nullable=False),  # waits to be promoted
    Index("ix_run_unit", "namespace", "source_id", "tier", "unit_id"),
)

#: What the active interpretation of a unit read: an unchanged unit is recognized without being read again.
unit_state = Table(
    "unit_state",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("source_id", Text, primary_key=True),
    Column("tier", Text, primary_key=True),
    Column("unit_id", Text, primary_key=True),
    Column("run_id", Text, nullable=False),
    Column("reads", Text, nullable=False),  # {files: {path: bytes seen or null}, globs: {pattern: paths}}
    Column("fingerprint", Text, nullable=False),
    Column("subordinates", Text, nullable=False),
    Column("environment", Text, nullable=False),
    Column("problems", Text, nullable=False),
    # Another unit includes its main file: the unit keeps its state here, but has no rows in the tables.
    Column("suppressed", Boolean, nullable=False),
)

#: Units that one process interprets at present, or did when it died: a row for all that it commits together.
interpretation_batch = Table(
    "interpretation_batch",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("batch_id", Text, primary_key=True),
    Column("source_id", Text, nullable=False),
    Column("tier", Text, nullable=False),
    Column("units", Text, nullable=False),  # a list of ids
    Column("status", Text, nullable=False),  # pending | running | failed
    Column("error_message", Text),
    Column("pid", Integer, nullable=False),
    Column("host", Text, nullable=False),
    Column("process_started_at", Float),
    Column("created_at", BigInteger, nullable=False),
    Column("started_at", BigInteger),
    Column("completed_at", BigInteger),
    Column("heartbeat_at", BigInteger, nullable=False),
    Column("timeout_at", BigInteger, nullable=False),
    Index("ix_interpretation_batch_source", "namespace", "source_id", "tier"),
)

#: What a chat model answered about a window of text, by a hash of the window, the model, the prompt and the
#: schema. An input like the bytes of documents, which nothing derives (rule ``incremental-equals-scratch``).
llm_answer = Table(
    "llm_answer",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("model", Text, nullable=False),
    Column("prompt_version", Text, nullable=False),
    Column("schema_version", Text, nullable=False),
    Column("answer", Text, nullable=False),  # JSON; it quotes the window
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
)

#: Which bytes of which document hold a window, those of earlier versions included: an answer that nobody
#: holds any more is erased with the last of them.
llm_window = Table(
    "llm_window",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("source_id", Text, primary_key=True),
    Column("doc_id", Text, primary_key=True),
    Column("blob_sha256", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("span_start", Integer, nullable=False),
    Column("span_end", Integer, nullable=False),
    Column("tokens", Integer, nullable=False),  # of the whole question
    Column("open", Boolean, nullable=False),  # the document was last read without an answer to it
    Index("ix_llm_window_key", "namespace", "key"),
    Index(
        "ix_llm_window_open",
        "namespace",
        "source_id",
        sqlite_where=text("open"),
        postgresql_where=text("open"),
    ),
)

dead_letter = Table(
    "dead_letter",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("source_id", Text, primary_key=True),
    Column("stage", Text, primary_key=True),
    Column("item", Text, primary_key=True),
    Column("code", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("first_at", BigInteger, nullable=False),
    Column("last_at", BigInteger, nullable=False),
    # A rejection on purpose (language, emptiness, a tombstone …) is kept apart from a failure.
    Column("kind", Text, nullable=False),  # failed | skipped
)

audit_event = Table(
    "audit_event",
    metadata,
    Column("id", _ID, primary_key=True, autoincrement=True),
    Column("namespace", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("subject", Text, nullable=False),  # ids only
    Column("details", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    Index("ix_audit_namespace", "namespace", "id"),
)

deletion = Table(
    "deletion",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("receipt_id", Text, primary_key=True),
    Column("doc_ids", Text, nullable=False),
    Column("erase", Boolean, nullable=False),
    Column("expired", Boolean, nullable=False),  # by the retention of its documents, and not by a person
    Column("stores", Text, nullable=False),  # {store: done | pending}
    Column("blobs", Text, nullable=False),
    Column("final", Boolean, nullable=False),
    Column("created_at", BigInteger, nullable=False),
)

#: What an endpoint of the sources file is told: one row for an event and endpoint.
notification = Table(
    "notification",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("id", Text, primary_key=True),
    Column("endpoint", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("payload", Text, nullable=False),  # ids, counts and codes
    Column("state", Text, nullable=False),  # pending | delivered | failed
    Column("attempts", Integer, nullable=False),
    Column("next_at", BigInteger, nullable=False),
    Column("code", Text),  # the last answer: an HTTP status, or why there was none
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Index("ix_notification_due", "namespace", "state", "next_at"),
)

#: What has been counted since the catalog was made, by the values of the labels: it outlives the rows that it
#: was counted on, and never falls. No label names a document.
total = Table(
    "total",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("labels", Text, primary_key=True),  # a list
    Column("value", Float, nullable=False),
)

# --- state that may be lost: the default of stores/state, where no Redis is configured ----------------------

state_value = Table(
    "state_value",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("value", LargeBinary, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
)

state_member = Table(
    "state_member",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("queue", Text, primary_key=True),
    Column("member", Text, primary_key=True),
    Column("due", Float, nullable=False),  # Unix time in seconds
    Index("ix_state_member_due", "namespace", "queue", "due"),
)

state_bucket = Table(
    "state_bucket",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("tokens", Float, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
)

state_circuit = Table(
    "state_circuit",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("failures", Integer, nullable=False),
    Column("state", Text, nullable=False),
    Column("opened_at", BigInteger),
    Column("last_failure", BigInteger),
    Column("trial_at", BigInteger),
)

state_lock = Table(
    "state_lock",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("holder", Text, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
)
