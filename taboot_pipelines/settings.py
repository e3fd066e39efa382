"""One settings tree, read from the environment (prefix ``TABOOT_``, nested by ``__``) and nothing else.

Secrets are ``SecretStr``; a wrong value is refused at start with the setting's name (``E_CONFIG``).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator, Mapping
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_origin
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, SecretStr, ValidationError, model_validator
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from taboot_pipelines.errors import TabootError

Positive = Annotated[int, Field(gt=0)]

PREFIX = "TABOOT_"
#: Variables with the prefix that belong to what stands beside the package: its tests, and the scripts of
#: `deploy/`.
_FOR_TESTS = "TABOOT_TEST_"
_OF_SCRIPTS = frozenset({"TABOOT_CACHE", "TABOOT_OWNER_PASSWORD", "TABOOT_APP_PASSWORD"})
#: Of a sources file so much is looked through for names of variables.
_LOOKED_THROUGH = 8 * 1024 * 1024
#: In place of Qdrant's URL: the client's own stand-in inside this process, for tests and trials.
QDRANT_LOCAL = ":memory:"
#: The tokens that BERT puts around every text, ``[CLS]`` and ``[SEP]``.
SPECIAL_TOKENS = 2


class ChunkingSettings(BaseModel, extra="forbid"):
    """Limits of a chunk in tokens of the pinned tokenizer. A change builds a new chunk set beside the old.

    ``max_tokens`` is the length of the sequence that a model reads, as model cards and servers state it, so
    it includes the two special tokens: the default of 256 fits a 256-token model whole, with 254 tokens of
    text.
    """

    tokenizer: Literal["bert-base-uncased"] = Field(
        "bert-base-uncased", description="What a token is; bundled, so that chunks are equal everywhere."
    )
    max_tokens: int = Field(
        256, ge=16, le=512, description="Most tokens of a chunk, the two special tokens included."
    )
    overlap_tokens: int = Field(
        50, ge=0, le=256, description="Tokens that two neighbours of one block share."
    )
    min_tokens: int = Field(50, ge=0, le=256, description="A smaller chunk is joined to a neighbour.")

    @model_validator(mode="after")
    def _ordered(self) -> ChunkingSettings:
        if self.overlap_tokens >= self.max_tokens or self.min_tokens >= self.max_tokens:
            raise ValueError("overlap_tokens and min_tokens must be smaller than max_tokens")
        return self

    @property
    def content_tokens(self) -> int:
        """Most tokens of a chunk's text: what the special tokens leave."""
        return self.max_tokens - SPECIAL_TOKENS


class LimitSettings(BaseModel, extra="forbid"):
    """Bounds on what one run may take in."""

    max_blob_bytes: Positive = Field(
        50 * 1024 * 1024, description="A larger item is refused with E_TOO_LARGE."
    )
    max_document_chars: Positive = Field(
        20_000_000, description="A longer document is refused with E_TOO_LARGE."
    )
    batch_documents: Positive = Field(256, description="Documents worked on and committed together.")
    lease_wait_seconds: float = Field(
        600, ge=0, description="How long an ingest waits for another before E_BUSY."
    )


class ExtractionSettings(BaseModel, extra="forbid"):
    """How documents are interpreted."""

    processes: int = Field(
        2, ge=1, le=64, description="Processes that read running text, where there is much of it."
    )
    window_tokens: int = Field(
        512,
        ge=128,
        le=4096,
        description="Most tokens of the text that the chat model is asked about at once.",
    )
    tokenizer: Path | None = Field(
        None,
        description=(
            "The tokenizer.json by which windows and budgets are counted; default Qwen's, which is bundled."
        ),
    )
    budget_tokens: int | None = Field(
        None,
        ge=0,
        description=(
            "Tokens of questions and answers that one run of a source may use; what is left waits for the"
            " next run. None: no limit."
        ),
    )
    questions_per_month: int | None = Field(
        None,
        ge=0,
        description=(
            "Questions that a namespace may ask of the chat model in a calendar month, UTC; None: no limit."
        ),
    )
    gold: Path | None = Field(
        None,
        description=(
            "A file of passages labelled by you, as JSON lines; the asset `extraction_quality` measures the"
            " reading of sentences on them, and `taboot models try` a chat model."
        ),
    )
    calibration: Path | None = Field(
        None,
        description=(
            "The file in which `taboot models try` keeps how often chat models are right, by relation;"
            " default calibration.json in the home."
        ),
    )
    min_precision: float = Field(
        0.85,
        ge=0,
        le=1,
        description=(
            "A chat model's facts of a relation are served where its calibration reaches this; 0: all are."
            " What is not served stays among the answers."
        ),
    )


class TorchSettings(BaseModel, extra="forbid"):
    """A model in this process by PyTorch (extra ``torch``), on a GPU where there is one."""

    model: str | None = Field(None, description="A directory or a hub name; none: not used.")
    revision: str | None = Field(
        None, description="The commit of a hub name; part of the embedding space's name."
    )
    device: str | None = Field(None, description="Such as cuda:0; default the first GPU, else the CPU.")
    batch_size: Positive = Field(64, description="Texts of one forward pass.")
    prefix_query: str = Field("", description="Put before a query, for models that want an instruction.")


class EmbeddingServerSettings(BaseModel, extra="forbid"):
    """What the settings of every server of embeddings have."""

    url: str | None = Field(None, description="The server's address, such as http://gpu.lan:8080.")
    api_key: SecretStr | None = Field(None, description="Sent as a bearer token.")
    timeout_seconds: float = Field(30, gt=0, description="How long one request may take.")
    max_concurrency: Positive = Field(4, description="Requests on their way at once.")
    max_retries: int = Field(
        5, ge=0, description="Further tries after a server's error or a refusal for load."
    )
    prefix_query: str = Field("", description="Put before a query, for models that want an instruction.")

    @property
    def space_key(self) -> tuple[object, ...]:
        """The settings by which vectors differ."""
        return (self.url,)


class OpenAiEmbeddingSettings(EmbeddingServerSettings):
    """A server with OpenAI's ``/v1/embeddings``, such as OpenAI's own, Ollama, vLLM or LiteLLM; setting
    ``url`` replaces the bundled embedder.
    """

    url: str | None = Field(
        None, description="The address up to and without /embeddings, such as http://gpu.lan:11434/v1."
    )
    model: str | None = Field(None, description="The model's name, as the server has it; needed with a URL.")
    revision: str = Field(
        "",
        description=(
            "Any text that tells this version of the model from another of its name; part of the embedding"
            " space's name, since no server tells it. A new one embeds everything anew."
        ),
    )
    dimensions: Positive | None = Field(
        None, description="Shortens vectors to so many numbers, where the model can (`dimensions`)."
    )
    max_tokens: Positive = Field(
        512, description="Tokens that the model reads of a text, special tokens included; no server tells it."
    )
    batch_size: int = Field(32, ge=1, le=2048, description="Texts of one request.")
    prefix_passage: str = Field(
        "", description="Put before a chunk, for models that want it, such as `passage: ` of E5."
    )

    @property
    def space_key(self) -> tuple[object, ...]:
        return (self.url, self.model, self.revision, self.dimensions, self.max_tokens, self.prefix_passage)


class EmbeddingSettings(BaseModel, extra="forbid"):
    """The bundled embedder (all-MiniLM-L6-v2, int8). Used unless TABOOT_TEI__URL,
    TABOOT_EMBEDDING__OPENAI__URL, TABOOT_EMBEDDING__MULTILINGUAL or TABOOT_EMBEDDING__TORCH__MODEL is set.
    """

    runtime: Literal["auto", "openvino", "onnxruntime"] = Field(
        "auto",
        description=(
            "What runs the model; auto: OpenVINO where it is installed, else ONNX Runtime. Each has an"
            " embedding space of its own."
        ),
    )
    model_path: Path | None = Field(
        None, description="A directory with model.onnx and tokenizer.json; default the bundled package."
    )
    multilingual: bool = Field(
        False,
        description=(
            "Embed by multilingual-e5-small in this process instead (extra multilingual): a question finds"
            " what is said in another language. Ten times slower; everything is embedded anew."
        ),
    )
    batch_size: int = Field(8, ge=1, le=64, description="Texts of one call of ONNX Runtime.")
    threads: int = Field(0, ge=0, description="Threads of the runtime; 0 means all cores.")
    torch: TorchSettings = Field(default_factory=TorchSettings)
    openai: OpenAiEmbeddingSettings = Field(default_factory=OpenAiEmbeddingSettings)


class TeiSettings(EmbeddingServerSettings):
    """A Text Embeddings Inference server; setting ``url`` replaces the bundled embedder."""


class RerankerSettings(BaseModel, extra="forbid"):
    """A cross-encoder that reorders the best hits: a TEI server's ``/rerank``, or a model in this process."""

    url: str | None = Field(
        None,
        description=(
            "The server's address; none means no reranking unless TABOOT_RERANKER__TORCH__MODEL is set."
        ),
    )
    api_key: SecretStr | None = Field(None, description="Sent as a bearer token.")
    timeout_seconds: float = Field(30, gt=0, description="How long one request may take.")
    max_concurrency: Positive = Field(4, description="Requests on their way at once.")
    max_retries: int = Field(
        3, ge=0, description="Further tries after a server's error or a refusal for load."
    )
    candidates: Positive = Field(100, description="How many of the best hits are ordered anew.")
    torch: TorchSettings = Field(default_factory=TorchSettings)


class LlmSettings(BaseModel, extra="forbid"):
    """vLLM or any server with OpenAI's ``/v1/chat/completions``. Asked about the running text of documents
    (``tier_c_triples``), for answers unless ``TABOOT_RETRIEVAL__CHAT_ANSWERS`` or the call says no, and by
    ``taboot status``.
    """

    url: str | None = Field(
        None,
        description=(
            "The server's address up to and without /v1/chat/completions, such as http://gpu.lan:8000/v1."
        ),
    )
    api_key: SecretStr | None = Field(None, description="Sent as a bearer token.")
    model: str | None = Field(None, description="The model's name; default the first that /models lists.")
    timeout_seconds: float = Field(120, gt=0, description="Deadline of one completion, its retries included.")
    max_concurrency: Positive = Field(8, description="Completions on their way at once.")
    max_retries: int = Field(
        3, ge=0, description="Further tries after a server's error or a refusal for load."
    )
    max_output_tokens: Positive = Field(2048, description="Most tokens of an answer.")
    temperature: float = Field(
        0.0, ge=0, le=2, description="0: the same answer to the same question, as far as the server can."
    )
    vllm_model: str | None = Field(
        None,
        description=(
            "A directory or hub name that vLLM loads in this process (extra vllm) instead of a server."
        ),
    )


class RedisSettings(BaseModel, extra="forbid"):
    """Caches, queues, rate limits and circuit breakers in Redis; default the catalog's database."""

    url: SecretStr | None = Field(None, description="Such as redis://:password@redis.lan:6379/0.")
    timeout_seconds: float = Field(5, gt=0, description="How long one command may take.")


class QdrantSettings(BaseModel, extra="forbid"):
    """Points in Qdrant, equal to the live chunks; searches then take their candidates from it."""

    url: str | None = Field(None, description="The server's address, such as http://qdrant.lan:6333.")
    api_key: SecretStr | None = Field(None, description="Sent as the api-key header.")
    collection: str = Field(
        "taboot.documents",
        pattern=r"^[A-Za-z0-9._-]{1,200}$",
        description="The alias that names the collection of the embedding space in force.",
    )
    timeout_seconds: float = Field(30, gt=0, description="How long one request may take.")
    batch_points: Positive = Field(256, description="Points of one upsert.")
    max_retries: int = Field(
        5, ge=0, description="Further tries of a request before the namespace waits in the retry queue."
    )
    shard_number: Positive = Field(4, description="Shards of a new collection.")
    replication_factor: Positive = Field(1, description="Replicas of a new collection.")
    search_from_chunks: int = Field(
        200_000,
        ge=0,
        description=(
            "Where fewer chunks pass a search's filter, the shards answer it alone: their scan takes 6 ms for"
            " 100,000 chunks, a server's answer with its way 10 ms and more."
        ),
    )


class Neo4jSettings(BaseModel, extra="forbid"):
    """The graph in Neo4j 5, equal to the snapshot."""

    url: str | None = Field(None, description="The server's address, such as neo4j://neo4j.lan:7687.")
    user: str = Field("neo4j", description="Who logs in.")
    password: SecretStr | None = Field(None, description="Its password; none where the server asks for none.")
    database: str = Field("neo4j", description="The database; community edition has one.")
    timeout_seconds: float = Field(
        60, gt=0, description="How long one transaction may take, its retries included."
    )
    batch_rows: Positive = Field(10_000, description="Rows of one UNWIND (benchmarks/neo4j_writes.py).")


class StorageSettings(BaseModel, extra="forbid"):
    """Access to the object store that TABOOT_BLOB_URL, TABOOT_TABLE_URL and TABOOT_SHARD_URL name; unset
    fields come from the provider's own variables (AWS_…)."""

    endpoint: str | None = Field(None, description="The address of an S3-compatible server.")
    region: str | None = Field(None, description="The region of the buckets.")
    access_key_id: SecretStr | None = Field(None, description="Who asks.")
    secret_access_key: SecretStr | None = Field(None, description="Its secret.")
    timeout_seconds: float = Field(30, gt=0, description="How long one request may take.")
    max_retries: int = Field(5, ge=0, description="Further tries of a request.")


class CelerySettings(BaseModel, extra="forbid"):
    """The broker of TABOOT_EXECUTOR=celery."""

    broker: SecretStr | None = Field(
        None, description="Such as redis://redis.lan:6379/1; required for the Celery executor."
    )
    backend: SecretStr | None = Field(None, description="Where results are kept; default the broker.")


class K8sSettings(BaseModel, extra="forbid"):
    """Where steps run under TABOOT_EXECUTOR=k8s; secrets by reference only."""

    image: str | None = Field(None, description="The image of a step; default that of the run.")
    namespace: str | None = Field(None, description="The Kubernetes namespace; default that of the run.")
    service_account: str | None = Field(None, description="The service account of a step.")
    env_secrets: list[str] = Field(
        default_factory=list, description="Secrets whose keys become environment variables."
    )
    env_config_maps: list[str] = Field(
        default_factory=list, description="Config maps whose keys become environment variables."
    )
    gpu_resource: str = Field("nvidia.com/gpu", description="The resource that a GPU step asks one of.")
    gpu_node_selector: dict[str, str] = Field(
        default_factory=dict, description="Labels of the nodes that GPU steps run on."
    )


class LogSettings(BaseModel, extra="forbid"):
    """What the package logs: one record a line, with run, partition, source and document. Never a secret."""

    format: Literal["text", "json"] = Field("text", description="json: one object a line, for collectors.")
    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "INFO", description="The least level that is written."
    )


class HttpSettings(BaseModel, extra="forbid"):
    """How web sources are fetched."""

    user_agent: str = Field("taboot-pipelines/0.1", description="How requests introduce themselves.")
    connect_timeout_seconds: float = Field(10, gt=0, description="Until the connection stands.")
    read_timeout_seconds: float = Field(30, gt=0, description="Between two pieces (of a KiB) of an answer.")
    total_timeout_seconds: float = Field(
        120, gt=0, description="One page, its redirects and further attempts included."
    )
    max_redirects: int = Field(
        10, ge=0, le=50, description="Redirects that one page may take, each checked like a URL."
    )
    max_concurrency: Positive = Field(8, description="Pages fetched at once, of all hosts.")
    per_host: Positive = Field(2, description="Pages fetched at once of one host.")
    retry_seconds: tuple[Annotated[float, Field(ge=0)], ...] = Field(
        (1, 2, 4),
        description=(
            "Waits before a page is tried again that was not answered, or with a server's error; as many"
            " attempts as waits."
        ),
    )
    rate_limit_rps: float = Field(
        1,
        ge=0,
        le=1000,
        description=(
            "Requests a second to one domain, all runs together; 0: no limit. `domains` in the sources file"
            " sets it for one."
        ),
    )
    rate_limit_burst: Positive = Field(5, description="Requests that a domain may get at once after a rest.")
    common_crawl_url: str = Field(
        "https://index.commoncrawl.org",
        pattern=r"^https?://[^\s/?#@]+(/[^\s?#]*)?$",
        description="The index of crawled pages that `taboot discover --source common_crawl` asks.",
    )


class BrowserSettings(BaseModel, extra="forbid"):
    """Headless Chromium, for sources with ``render`` and for captures (extra ``browser``)."""

    executable: Path | None = Field(
        None, description="Chromium's executable; default the system's (chromium, google-chrome …)."
    )
    max_concurrency: Positive = Field(2, description="Pages open at once.")
    settle_seconds: float = Field(
        5, ge=0, le=120, description="How long a page may take to load and rest once it can be read."
    )
    max_traffic_bytes: Positive = Field(
        100 * 1024 * 1024, description="What one page may load, with all that it loads besides itself."
    )


class Crawl4AiSettings(BaseModel, extra="forbid"):
    """A Crawl4AI service; setting ``url`` lets it fetch the pages of sources with ``render``."""

    url: str | None = Field(None, description="The service's address, such as http://crawl4ai:11235.")
    api_key: SecretStr | None = Field(None, description="Sent as a bearer token (CRAWL4AI_API_TOKEN there).")
    timeout_seconds: float = Field(60, gt=0, description="How long one page may take there.")
    max_concurrency: Positive = Field(4, description="Pages asked for at once.")

    @property
    def max_retries(self) -> int:
        """None here: pages are tried again as those of every client are."""
        return 0


class RetrievalSettings(BaseModel, extra="forbid"):
    """The fusion of the vector and the BM25 arm: their ranks as in reciprocal rank fusion (Cormack, Clarke,
    Büttcher 2009) and their scores as in a convex combination (Bruch, Gai, Ingber 2022)."""

    rrf_k: Positive = Field(60, description="Damps the head of each arm's ranking.")
    # One default for all: measured on four judged sets (benchmarks/retrieval_quality.py). Each query scales
    # them by how far the best hit of each arm stands out.
    vector_weight: float = Field(3.0, ge=0, description="Weight of the vector arm.")
    keyword_weight: float = Field(
        1.0, ge=0, description="Raised to vector_weight where the query looks something up by its name."
    )
    candidates: int = Field(
        500, ge=10, description="How many distinct texts of each arm take part in the fusion."
    )
    late_interaction: bool = Field(
        True,
        description=(
            "Order the best 60 hits of both arms anew by comparing each word of the query with the nearest of"
            " the passage, where the bundled model embeds and the fusion is auto."
        ),
    )
    bm25_k1: float = Field(1.2, ge=0, description="How soon a repeated word stops counting.")
    bm25_b: float = Field(0.75, ge=0, le=1, description="How much a long chunk is held against it.")
    cache_mb: int = Field(
        32,
        ge=0,
        description=(
            "Megabytes of results that a process keeps for an hour; 0: none are kept, in Redis neither."
        ),
    )
    chat_answers: bool = Field(
        True,
        description=(
            "Let the chat model (TABOOT_LLM__URL), where one is configured, answer questions, each sentence"
            " checked against what it cites. Without it answers are sentences of documents."
        ),
    )
    own_tags: tuple[str, ...] = Field(
        (),
        description=(
            "Tags of sources of documents that are the house's own. Without one a source is, if a fifth of"
            " its documents name hosts or addresses that Compose projects and confs declare."
        ),
    )
    vendor_tags: tuple[str, ...] = Field(
        ("vendor",),
        description="Tags of sources that are not the house's own; answers prefer what is.",
    )


class ShardSettings(BaseModel, extra="forbid"):
    """Where the key ranges of shards are cut, by content alone: equal content gives equal shards."""

    max_chunks: Positive = Field(
        2048,
        description=(
            "A document range with more chunks is split in two. Larger ones suit a million chunks (16384):"
            " words are found in half of the time, and one edit writes eight times as much."
        ),
    )
    max_entities: Positive = Field(32768, description="A key range with more entities is split in two.")


class McpSettings(BaseModel, extra="forbid"):
    """The server for assistants over HTTP (``taboot mcp --http``)."""

    token: SecretStr | None = Field(
        None,
        min_length=16,
        description="What a request must carry as bearer; without it each start makes one.",
    )


class ServeSettings(BaseModel, extra="forbid"):
    """The server of pages and of ``/api`` (``taboot serve``)."""

    token: SecretStr | None = Field(
        None,
        min_length=16,
        description="What opens it, and what a request carries as bearer; without it each start makes one.",
    )


class QuotaSettings(BaseModel, extra="forbid"):
    """How much each namespace may hold, unless the sources file gives it limits of its own (``quotas``)."""

    bytes: int | None = Field(
        None, ge=0, description="Bytes of its blobs, each content once; None: no limit."
    )
    documents: int | None = Field(None, ge=0, description="Documents that are there; None: no limit.")


class RetentionSettings(BaseModel, extra="forbid"):
    """How long history is kept that nothing is derived from, and files that only late readers use. How long
    documents are kept their sources say (``retention_days``); bytes go by ``taboot purge``, on demand."""

    runs: Positive = Field(
        20,
        description=(
            "Runs of each job and partition that Dagster's storage keeps, of those that changed something or"
            " failed; of the others the last."
        ),
    )
    run_days: Positive = Field(90, description="Days after which such a run goes, however few there are.")
    jobs: Positive = Field(
        20, description="Jobs of each source that the catalog keeps besides those that brought what is there."
    )
    crawls: Positive = Field(
        5,
        description=(
            "Ended crawls of each source whose URLs and links are kept; of older ones the counts alone."
        ),
    )
    shard_mb: int = Field(
        16,
        ge=0,
        description=(
            "Megabytes of shards that are kept ten minutes for readers of the last manifest, if they are more"
            " than those in force; what exceeds both goes after ten seconds, the oldest first."
        ),
    )
    publication_days: int = Field(
        30,
        ge=0,
        description=(
            "Days for which a publication that another has replaced is kept, for `--as-of` and `taboot"
            " changes`: all of the last hour, of the last day the last of each hour, before that the last of"
            " each day. An erasure removes them all. 0: none."
        ),
    )
    publication_mb: int = Field(
        256,
        ge=0,
        description="Megabytes of shards that they alone may have; beyond it the oldest go.",
    )
    vector_share: float = Field(
        0.5,
        ge=0,
        description=(
            "Vectors of texts that no document holds any more are kept, in case they come back, until they"
            " are this share of those in use and more than 1,000."
        ),
    )


#: Names that are passed over: variables that :func:`load_leniently` found wrong.
_passed_over: ContextVar[frozenset[str]] = ContextVar("passed_over", default=frozenset())


class _Environment(EnvSettingsSource):
    """The environment without variables that no setting has: those are warned of (``unknown_variables``),
    and a misspelt one in a group is treated as one at the top.
    """

    def _load_env_vars(self) -> Mapping[str, str | None]:
        names = variables()
        left = _passed_over.get()
        return {
            k: v
            for k, v in super()._load_env_vars().items()
            if not k.upper().startswith(PREFIX) or (is_known(k, names) and k.upper() not in left)
        }


class Settings(BaseSettings):
    """Everything that can be set. ``TABOOT_HOME`` holds all data of the default set-up."""

    # An empty variable counts as unset: what is not filled in, Compose and Kubernetes pass on as "".
    model_config = SettingsConfigDict(
        env_prefix="TABOOT_", env_nested_delimiter="__", env_ignore_empty=True, extra="ignore", frozen=True
    )

    home: Path = Field(
        Path(".taboot"), description="Directory of blobs, catalog, tables, shards and Dagster's own storage."
    )
    sources: Path = Field(Path("sources.yaml"), description="The sources file.")
    namespace: str = Field(
        "default",
        pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$",
        description="The namespace that KnowledgeBase opens.",
    )
    blob_url: str | None = Field(
        None,
        description=(
            "Object store URL of the blobs, such as s3://bucket/prefix; default a directory under"
            " TABOOT_HOME."
        ),
    )
    table_url: str | None = Field(
        None, description="Object store URL of the Delta tables; default a directory under TABOOT_HOME."
    )
    shard_url: str | None = Field(
        None,
        description="Object store URL of the shards and manifests; default a directory under TABOOT_HOME.",
    )
    catalog_url: SecretStr | None = Field(
        None, description="SQLAlchemy URL of the catalog; default SQLite under TABOOT_HOME."
    )
    catalog_admin_url: SecretStr | None = Field(
        None,
        description=(
            "The role that owns the catalog's tables and migrates them; default that of TABOOT_CATALOG_URL."
        ),
    )
    read_only: bool = Field(
        False,
        description=(
            "Only read: nothing is written to TABOOT_HOME, the catalog or Redis, and no lease is taken; what"
            " would change something raises E_READ_ONLY."
        ),
    )
    cache_dir: Path | None = Field(
        None,
        description=(
            "Directory of what can be fetched or made again: parts of shards, compiled models. Default"
            " `cache` under TABOOT_HOME, which is left as it is where TABOOT_READ_ONLY is set."
        ),
    )
    executor: Literal["in_process", "multiprocess", "celery", "k8s"] = Field(
        "in_process", description="Where the steps of a run are carried out."
    )
    executor_max_concurrent: int = Field(
        0, ge=0, description="Most steps of one run at once; 0 leaves it to the executor."
    )
    metadata_text: bool = Field(
        False,
        description=(
            "Allow document text in Dagster metadata, where it outlives the deletion of its document."
        ),
    )
    chunking: ChunkingSettings = Field(default_factory=ChunkingSettings)
    limits: LimitSettings = Field(default_factory=LimitSettings)
    extraction: ExtractionSettings = Field(default_factory=ExtractionSettings)
    embedding: EmbeddingSettings = Field(default_factory=EmbeddingSettings)
    tei: TeiSettings = Field(default_factory=TeiSettings)
    reranker: RerankerSettings = Field(default_factory=RerankerSettings)
    llm: LlmSettings = Field(default_factory=LlmSettings)
    redis: RedisSettings = Field(default_factory=RedisSettings)
    qdrant: QdrantSettings = Field(default_factory=QdrantSettings)
    neo4j: Neo4jSettings = Field(default_factory=Neo4jSettings)
    storage: StorageSettings = Field(default_factory=StorageSettings)
    celery: CelerySettings = Field(default_factory=CelerySettings)
    k8s: K8sSettings = Field(default_factory=K8sSettings)
    log: LogSettings = Field(default_factory=LogSettings)
    http: HttpSettings = Field(default_factory=HttpSettings)
    browser: BrowserSettings = Field(default_factory=BrowserSettings)
    crawl4ai: Crawl4AiSettings = Field(default_factory=Crawl4AiSettings)
    retrieval: RetrievalSettings = Field(default_factory=RetrievalSettings)
    shards: ShardSettings = Field(default_factory=ShardSettings)
    retention: RetentionSettings = Field(default_factory=RetentionSettings)
    quota: QuotaSettings = Field(default_factory=QuotaSettings)
    mcp: McpSettings = Field(default_factory=McpSettings)
    serve: ServeSettings = Field(default_factory=ServeSettings)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, _Environment(settings_cls)

    @property
    def home_dir(self) -> Path:
        return self.home.expanduser().absolute()

    @property
    def cache(self) -> Path:
        """The directory of what can be fetched or made again."""
        return self.cache_dir.expanduser().absolute() if self.cache_dir else self.home_dir / "cache"

    @property
    def caches(self) -> bool:
        """Whether that directory may be written."""
        return self.cache_dir is not None or not self.read_only

    @property
    def dagster_home(self) -> Path:
        """Dagster's own storage: ``$DAGSTER_HOME`` if it is set, else under ``TABOOT_HOME``."""
        named = os.environ.get("DAGSTER_HOME")
        return Path(named).expanduser().absolute() if named else self.home_dir / "dagster"

    @property
    def embedding_server(self) -> EmbeddingServerSettings | None:
        """The server that embeds; None where this process does."""
        return next((s for s in (self.tei, self.embedding.openai) if s.url), None)

    @property
    def sources_file(self) -> Path:
        return self.sources.expanduser().absolute()


def load_settings(**overrides: object) -> Settings:
    """Read the environment; ``overrides`` win. Raises ``E_CONFIG``, which names each wrong setting but never
    quotes its value.

    Addresses of servers are checked here too: a run may reach the parts that use them only hours later.
    """
    settings, problems = _read(overrides)
    if settings is not None and not problems:
        return settings
    raise TabootError(
        "E_CONFIG",
        "; ".join(f"{name}: {message}" for name, message in problems) + ".",
        settings=[n for n, _ in problems],
    )


class Problem(NamedTuple):
    """What is wrong with a variable; never its value."""

    variable: str
    message: str


def load_leniently() -> tuple[Settings, list[Problem]]:
    """Read the environment without what is wrong in it, for commands that tell about that.

    Returns the settings as they would be without the variables that are wrong, and what is wrong with them.
    """
    told: list[Problem] = []
    token = _passed_over.set(frozenset())
    try:
        while True:
            settings, problems = _read({})
            told += problems
            if settings is not None and not problems:
                return settings, told
            # A wrong group, or a field within it, is left out whole: its rules may join its fields.
            wrong = {p.variable for p in problems}
            left = {
                v
                for v in map(str.upper, os.environ)
                if v.startswith(PREFIX)
                and any(v == w or v.startswith(f"{w}__") or w.startswith(f"{v}__") for w in wrong)
            }
            if left <= _passed_over.get():
                raise TabootError("E_INTERNAL", "The settings cannot be read even without the wrong ones.")
            _passed_over.set(_passed_over.get() | left)
    finally:
        _passed_over.reset(token)


def _read(overrides: Mapping[str, object]) -> tuple[Settings | None, list[Problem]]:
    try:
        settings = Settings(**overrides)  # type: ignore[arg-type]
    except ValidationError as error:
        return None, [
            Problem(PREFIX + "__".join(str(p) for p in e["loc"]).upper(), e["msg"])
            for e in error.errors(include_input=False, include_url=False)
        ]
    except SettingsError as error:
        # Its message names the field, of a list or of a group as a whole, and holds nothing of the value.
        field = next(name for name in Settings.model_fields if f'"{name}"' in str(error))
        return None, [Problem(PREFIX + field.upper(), "is to be JSON")]
    return settings, [Problem(*p) for p in _wrong_addresses(settings)]


def setting_value(settings: Settings, variable: str) -> Any:
    """Return the value of the setting that a variable such as ``TABOOT_QDRANT__URL`` gives."""
    value: Any = settings
    for name in variable.removeprefix(PREFIX).lower().split("__"):
        value = getattr(value, name)
    return value


@cache
def variables() -> dict[str, bool]:
    """Every variable that sets something, and whether variables below it do so too, as keys of a mapping."""
    found: dict[str, bool] = {}

    def walk(prefix: str, model: type[BaseModel]) -> None:
        for name, field in model.model_fields.items():
            variable = prefix + name.upper()
            inner = field.annotation
            group = isinstance(inner, type) and issubclass(inner, BaseModel)
            # A group as a whole may be given as JSON.
            found[variable] = get_origin(inner) is dict
            if group:
                walk(f"{variable}__", inner)  # type: ignore[arg-type]

    walk(PREFIX, Settings)
    return found


def is_known(variable: str, names: Mapping[str, bool]) -> bool:
    """Whether a variable is a setting of ours, or lies below one that is a mapping."""
    variable = variable.upper()
    if variable in names or variable in _OF_SCRIPTS or variable.startswith(_FOR_TESTS):
        return True
    parent = variable.rpartition("__")[0]
    return names.get(parent, False)


class Unknown(NamedTuple):
    """A variable with our prefix that sets nothing, and the nearest that does."""

    variable: str
    nearest: str | None

    @property
    def message(self) -> str:
        near = f"; did you mean {self.nearest}?" if self.nearest else "."
        return f"{self.variable} is no setting and changes nothing{near}"


def unknown_variables(sources: Path) -> list[Unknown]:
    """The variables of the environment that look like settings and are none, by name.

    Those that the sources file names hold its secrets.
    """
    names = variables()
    unknown = sorted(v for v in os.environ if v.upper().startswith(PREFIX) and not is_known(v, names))
    if unknown:
        with contextlib.suppress(OSError), sources.open("rb") as file:
            text = file.read(_LOOKED_THROUGH)
            unknown = [v for v in unknown if os.fsencode(v) not in text]
    return [Unknown(v, _nearest(v.upper(), names)) for v in unknown]


def _nearest(variable: str, names: Collection[str]) -> str | None:
    from difflib import get_close_matches

    # A single underscore where two are meant is the commonest slip. What all names begin with says nothing.
    flat: dict[str, str] = {name.removeprefix(PREFIX).replace("__", "_"): name for name in names}
    found = get_close_matches(variable.removeprefix(PREFIX).replace("__", "_"), flat, n=1, cutoff=0.75)
    return flat[found[0]] if found else None


def _wrong_addresses(settings: Settings) -> Iterator[tuple[str, str]]:
    """(setting, what it must be) of each server whose URL cannot be one; clients check the finer points."""
    http = ("http", "https")
    redis = settings.redis.url
    for name, url, schemes in (
        ("TEI", settings.tei.url, http),
        ("EMBEDDING__OPENAI", settings.embedding.openai.url, http),
        ("RERANKER", settings.reranker.url, http),
        ("LLM", settings.llm.url, http),
        ("QDRANT", settings.qdrant.url, http),
        ("NEO4J", settings.neo4j.url, ("neo4j", "neo4j+s", "neo4j+ssc", "bolt", "bolt+s", "bolt+ssc")),
        ("CRAWL4AI", settings.crawl4ai.url, http),
        ("REDIS", None if redis is None else redis.get_secret_value(), ("redis", "rediss", "unix")),
    ):
        if url is not None and url != QDRANT_LOCAL and not _is_address(url, schemes):
            yield f"TABOOT_{name}__URL", f"must be the URL of a server ({'://, '.join(schemes)}://)"


def _is_address(url: str, schemes: Collection[str]) -> bool:
    try:
        parts = urlsplit(url)
        # Reading the port checks it.
        return (
            parts.scheme in schemes
            and (bool(parts.path) if parts.scheme == "unix" else bool(parts.hostname))
            and parts.port != 0
        )
    except ValueError:
        return False
