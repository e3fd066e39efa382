"""A transformer in this process by PyTorch (extra ``torch``): its files, its tokenizer, its forward passes.

The model is a directory as sentence-transformers and transformers write it (``config.json``,
``tokenizer.json``, safetensors), or a hub name, of which a snapshot is fetched. No code of the model's is
ever run (``trust_remote_code``), and no pickled weights are read.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from taboot_pipelines.errors import TabootError
from taboot_pipelines.settings import TorchSettings

#: What is fetched of a hub's repository, and what decides its outputs.
_FILES = ("*.json", "*.safetensors", "*/config.json")
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")
_COMMIT = re.compile(r"[0-9a-f]{40}")
#: Without a stated limit a model reads this many tokens.
_DEFAULT_TOKENS = 512

Rows = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Encoded:
    """One input: token ids with the special ones, and which of two texts each belongs to."""

    ids: list[int]
    types: list[int]


class TorchModel:
    """Reads files when first asked about, and imports PyTorch with the first forward pass. Threads may share
    it.

    ``setting`` is the prefix of the settings, for messages; ``architecture`` the Auto class of transformers.
    """

    def __init__(self, settings: TorchSettings, setting: str, architecture: str) -> None:
        self.settings = settings
        self.setting = setting
        self._architecture = architecture
        self._size = settings.batch_size
        self._lock = threading.RLock()
        self._model: _Loaded | None = None

    # --- the files ------------------------------------------------------------------------------------------

    @property
    def folder(self) -> Path:
        with self._lock:
            return self._folder

    @cached_property
    def _folder(self) -> Path:
        name = self.settings.model or ""
        local = Path(name).expanduser()
        if local.is_dir():
            return local
        if not _HUB_NAME.fullmatch(name):
            raise TabootError(
                "E_CONFIG",
                f"{self.setting}__MODEL: {name} is neither a directory here nor the name of a model on the"
                " hub.",
                settings=[f"{self.setting}__MODEL"],
            )
        self.need("huggingface_hub")
        from huggingface_hub import snapshot_download

        try:
            return Path(snapshot_download(name, revision=self.settings.revision, allow_patterns=list(_FILES)))
        # The hub's client raises many kinds, down to those of its HTTP library.
        except Exception as error:  # noqa: BLE001
            raise TabootError(
                "E_MODEL",
                f"{self.setting}__MODEL: {name} is no directory here and could not be fetched from the hub"
                f" ({type(error).__name__}).",
                remedy="Give the path of a downloaded model, or a hub name that this machine can reach.",
                settings=[f"{self.setting}__MODEL"],
            ) from None

    @property
    def name(self) -> str:
        """A directory's own name, or the hub's."""
        return (
            self.folder.resolve().name
            if Path(self.settings.model or "").expanduser().is_dir()
            else str(self.settings.model)
        )

    @property
    def revision(self) -> str:
        """The commit of a hub's snapshot; for a directory the SHA-256 of the digests of the files that decide
        what the model says.
        """
        with self._lock:
            return self._revision

    @cached_property
    def _revision(self) -> str:
        if _COMMIT.fullmatch(self.folder.name):
            return self.folder.name
        digest = sha256()
        for path in sorted({p for pattern in _FILES for p in self.folder.glob(pattern)}):
            try:
                with path.open("rb") as file:
                    content = sha256()
                    while piece := file.read(1 << 20):
                        content.update(piece)
            except OSError as error:
                raise TabootError("E_MODEL", f"{path} cannot be read: {error.strerror}.") from None
            digest.update(f"{path.relative_to(self.folder).as_posix()} {content.hexdigest()}\n".encode())
        return digest.hexdigest()

    def json(self, path: str, *, required: bool = False) -> Any:
        """A JSON file of the model, ``{}`` where there is none."""
        file = self.folder / path
        try:
            return json.loads(file.read_text("utf-8"))
        except FileNotFoundError:
            if not required:
                return {}
            raise TabootError(
                "E_MODEL",
                f"{self.setting}__MODEL: {self.folder} has no {path}.",
                settings=[f"{self.setting}__MODEL"],
            ) from None
        except (OSError, ValueError, RecursionError):
            raise TabootError("E_MODEL", f"{file} is not JSON that can be read.") from None

    @property
    def max_tokens(self) -> int:
        """The longest input, special tokens included: the least of what the model's files state."""
        config = self.json("config.json", required=True)
        stated = (
            _get(self.json("sentence_bert_config.json"), "max_seq_length"),
            _get(self.json("tokenizer_config.json"), "model_max_length"),
            _get(config, "max_position_embeddings"),
            _get(config, "n_positions"),
        )
        limits = [n for n in stated if type(n) is int and 2 < n < 10_000_000]
        # RoBERTa's family starts positions after the padding index.
        if limits and _get(config, "model_type") in ("roberta", "xlm-roberta", "camembert", "mpnet"):
            limits = [n - 2 if n == _get(config, "max_position_embeddings") else n for n in limits]
        return min(limits, default=_DEFAULT_TOKENS)

    @property
    def hidden_size(self) -> int:
        config = self.json("config.json", required=True)
        size = next(
            (
                n
                for key in ("hidden_size", "d_model", "n_embd", "dim")
                if type(n := _get(config, key)) is int and n > 0
            ),
            None,
        )
        if size is None:
            raise TabootError("E_MODEL", f"{self.folder / 'config.json'} names no hidden size.")
        return int(size)

    # --- tokens ---------------------------------------------------------------------------------------------

    @property
    def special_tokens(self) -> int:
        """How many tokens are put around one text."""
        return len(self.tokenizer.encode("").ids)

    @property
    def tokenizer(self) -> Any:
        with self._lock:
            return self._tokenizer

    @cached_property
    def _tokenizer(self) -> Any:
        import tokenizers

        try:
            tokenizer = tokenizers.Tokenizer.from_file(str(self.folder / "tokenizer.json"))
        except Exception as error:  # noqa: BLE001 - the library raises plain Exceptions
            raise TabootError(
                "E_MODEL",
                f"{self.setting}__MODEL: {self.folder} has no tokenizer.json that can be read"
                f" ({type(error).__name__}).",
                settings=[f"{self.setting}__MODEL"],
            ) from None
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return tokenizer

    # --- forward passes -------------------------------------------------------------------------------------

    def rows(self, inputs: Sequence[Encoded], width: int, pool: Callable[[Any, Any], Any]) -> Rows:
        """``pool(output, mask)`` of every input, shape (len(inputs), width), in their order.

        Inputs of about one length share a forward pass. A pass for which the GPU's memory does not suffice is
        halved, and so are those after it; ``E_GPU_OOM`` if one input alone is too much, ``E_MODEL`` for any
        other failure of the model.
        """
        out = np.empty((len(inputs), width), np.float32)
        # The longest first: what does not fit into memory shows at once.
        order = sorted(range(len(inputs)), key=lambda i: (-len(inputs[i].ids), i))
        with self._lock:
            at = 0
            while at < len(order):
                batch = order[at : at + self._size]
                values = self._pass([inputs[i] for i in batch], pool)
                if values is None:
                    self._size = max(1, min(self._size, len(batch)) // 2)
                    continue
                if values.shape != (len(batch), width):
                    raise TabootError(
                        "E_MODEL",
                        f"{self.name} answered rows of another size than its config.json says.",
                        expected=width,
                    )
                out[batch] = values
                at += len(batch)
        return out

    def _pass(self, batch: Sequence[Encoded], pool: Callable[[Any, Any], Any]) -> Rows | None:
        """One forward pass; None if the GPU's memory did not suffice and a smaller one may do."""
        loaded = self._loaded()
        import torch

        longest = max(len(row.ids) for row in batch)
        ids, mask, types = (np.full((len(batch), longest), fill, np.int64) for fill in (loaded.padding, 0, 0))
        for i, row in enumerate(batch):
            ids[i, : len(row.ids)] = row.ids
            types[i, : len(row.ids)] = row.types
            mask[i, : len(row.ids)] = 1
        given = {
            "input_ids": ids,
            "attention_mask": mask,
            **({"token_type_ids": types} if loaded.typed else {}),
        }
        try:
            with torch.inference_mode():
                tensors = {name: torch.from_numpy(values).to(loaded.device) for name, values in given.items()}
                rows: Rows = pool(loaded.model(**tensors), tensors["attention_mask"]).float().cpu().numpy()
            return rows
        except torch.OutOfMemoryError:
            if loaded.device.type == "cuda":
                torch.cuda.empty_cache()
            if len(batch) > 1:
                return None
            raise TabootError(
                "E_GPU_OOM",
                f"The GPU's memory does not hold one text of {longest} tokens beside {self.name}.",
                length=longest,
            ) from None
        except (RuntimeError, ValueError, IndexError, TypeError) as error:
            raise TabootError(
                "E_MODEL", f"{self.name} failed on a batch ({type(error).__name__}).", texts=len(batch)
            ) from None

    def _loaded(self) -> _Loaded:
        """The model on its device, loaded when first asked for; called under the lock."""
        if self._model is None:
            self._model = self._load()
        return self._model

    def _load(self) -> _Loaded:
        self.need("torch")
        self.need("transformers")
        import torch
        import transformers

        default = "cuda" if torch.cuda.is_available() else "cpu"
        try:
            device = torch.device(self.settings.device or default)
        except RuntimeError:
            device = None
        if device is None or (device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count()):
            name = f"{self.setting}__DEVICE"
            raise TabootError(
                "E_CONFIG",
                f"{name}: there is no such device here.",
                settings=[name],
                remedy="Name one that PyTorch sees, or unset it.",
            )
        config = self.json("config.json", required=True)
        try:
            with _quiet(transformers):
                model = getattr(transformers, self._architecture).from_pretrained(
                    str(self.folder), local_files_only=True, use_safetensors=True, trust_remote_code=False
                )
            # Half precision on a GPU; a model trained in bfloat16 overflows in float16.
            wanted = str(_get(config, "dtype") or _get(config, "torch_dtype"))
            half = torch.bfloat16 if "bfloat16" in wanted else torch.float16
            model = model.eval().to(device=device, dtype=half if device.type == "cuda" else torch.float32)
        except torch.OutOfMemoryError:
            raise TabootError("E_GPU_OOM", f"The GPU's memory does not hold {self.name}.") from None
        # A model's files fail in as many ways as there are architectures.
        except Exception as error:  # noqa: BLE001
            raise TabootError(
                "E_MODEL", f"{self.folder} holds no model that can be loaded ({type(error).__name__})."
            ) from None
        import inspect

        padding = _get(config, "pad_token_id")
        typed = "token_type_ids" in inspect.signature(model.forward).parameters
        return _Loaded(model, device, padding if type(padding) is int and padding >= 0 else 0, typed)

    def versions(self) -> str:
        """PyTorch's version and device and the model's name; loads the model."""
        with self._lock:
            loaded = self._loaded()
        import torch

        return f"torch {torch.__version__} {loaded.device} {self.name}"

    def need(self, package: str) -> None:
        """Raises ``E_EXTRA`` if a package of the extra ``torch`` is missing."""
        if find_spec(package) is None:
            raise TabootError(
                "E_EXTRA",
                f"{self.setting}__MODEL needs the extra torch ({package} is not installed).",
                remedy="pip install 'taboot-pipelines[torch]'",
                settings=[f"{self.setting}__MODEL"],
            )

    def close(self) -> None:
        """Lets go of the weights; the next call loads them again."""
        with self._lock:
            self._model = None


@dataclass(frozen=True, slots=True)
class _Loaded:
    model: Any
    device: Any
    padding: int
    typed: bool


def _get(values: Any, key: str) -> Any:
    return values.get(key) if isinstance(values, dict) else None


@contextlib.contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Show no progress bars and no advice on the terminal while a model loads."""
    logging = transformers.utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
