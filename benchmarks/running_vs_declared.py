"""Differences that are put between what is declared and what runs, and how many of them ``kb.drift()`` tells.

    python benchmarks/running_vs_declared.py [DIFFERENCES [FOLDER ...]]

The Compose projects are other people's (default: those of the test data and of the houses there). What
Compose's own library (compose-go) reads in them is rendered here as ``docker inspect`` would show the
containers that Docker Compose makes of it (docker/compose, ``pkg/compose/create.go``), with labels, names,
host paths and volumes that nobody named; nothing of the product takes part in that. Each round changes one
field of about every second container, and what is told is compared with what was changed, by service and
kind; what runs unchanged must be told nothing of. Bars: F1 of .99, nothing on what is equal.
"""

from __future__ import annotations

import copy
import hashlib
import json
import random
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from answer_reading import DATA

from taboot_pipelines_tests.extraction.tier_a.compose.docker_compose import ask
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.servers import SERVICES
from taboot_pipelines_tests.world import World

sys.path.insert(0, str(SERVICES.parent))
import fetching

DEFAULT = ("compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml")
HOUSES = ("astronomy", "first", "swarm")
#: Files that are laid over the default one where all of a house is started.
LAYERS = {
    "astronomy": [f"compose{part}.yaml" for part in ("", ".extras", ".full", ".observability", ".profiling")]
}
BAR = 0.99
#: Images that declare a volume of their own, which nobody names.
KEEPS = re.compile(r"(?:^|/)(?:postgres|mysql|mariadb|redis|mongo)(?::|$)")
Inspect = dict[str, Any]
Key = tuple[str, str, str]


# --- The containers that Docker Compose makes of a project


def policy(service: dict[str, Any]) -> dict[str, Any]:
    name, _, count = str(service.get("restart") or "no").partition(":")
    attempts = int(count or 0)
    stated = (service.get("deploy") or {}).get("restart_policy")
    if stated is not None:
        condition = stated.get("condition") or ""
        name = {"none": "no", "any": "always"}.get(condition, condition)
        attempts = int(stated.get("max_attempts") or 0)
    return {"Name": name, "MaximumRetryCount": attempts}


def mounts(project: dict[str, Any], service: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    found = []
    for volume in service.get("volumes") or ():
        kind, target = volume["type"], volume["target"]
        base = {"Type": kind, "Destination": target, "RW": not volume.get("read_only", False)}
        if kind == "bind":
            found.append({**base, "Source": volume["source"], "Mode": "", "Propagation": "rprivate"})
        elif kind == "volume":
            source = volume.get("source")
            named = (project.get("volumes") or {}).get(source) if source else None
            name = (named or {}).get("name") or anonymous(target)
            path = f"/var/lib/docker/volumes/{name}/_data"
            found.append({**base, "Name": name, "Source": path, "Driver": "local", "Mode": "z"})
        elif kind == "tmpfs":
            found.append({**base, "Source": ""})
    for section, place in (("secrets", "/run/secrets/"), ("configs", "/")):
        for one in service.get(section) or ():
            held = (project.get(section) or {}).get(one["source"]) or {}
            target = one.get("target") or f"{place}{one['source']}"
            target = target if target.startswith("/") else f"{place}{target}"
            if held.get("file"):
                found.append(
                    {"Type": "bind", "Source": str(folder / held["file"]), "Destination": target, "RW": False}
                )
    if KEEPS.search(service.get("image") or ""):
        found.append({"Type": "volume", "Name": anonymous("kept"), "Destination": "/var/kept", "RW": True})
    return found


def anonymous(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def bindings(service: dict[str, Any]) -> dict[str, list[dict[str, str]]]:
    found: dict[str, list[dict[str, str]]] = {}
    for port in service.get("ports") or ():
        at = found.setdefault(f"{port['target']}/{port.get('protocol') or 'tcp'}", [])
        at.append({"HostIp": port.get("host_ip", ""), "HostPort": str(port.get("published") or "")})
    return found


def containers(project: dict[str, Any], folder: Path) -> Iterator[Inspect]:
    name = project["name"]
    for called, service in project["services"].items():
        if service.get("profiles") or service.get("provider"):
            continue
        image = service.get("image") or f"{name}-{called}"
        mode = service.get("network_mode") or ""
        on = {project["networks"][n]["name"]: {"Aliases": [called]} for n in service.get("networks") or {}}
        if mode in ("host", "none", "bridge"):
            on = {mode: {}}
        elif mode.startswith(("service:", "container:")):
            mode, on = f"container:{anonymous(mode)}", {}
        ports = {} if mode == "host" or mode.startswith("container:") else bindings(service)
        replicas = service.get("scale") or (service.get("deploy") or {}).get("replicas", 1)
        for number in range(1, replicas + 1):
            title = service.get("container_name") or f"{name}-{called}-{number}"
            yield {
                "Id": anonymous(f"{name}/{title}"),
                "Created": "2026-11-20T08:00:00.123456789Z",
                "Path": "docker-entrypoint.sh",
                "Args": [],
                "State": {"Status": "running", "Running": True, "Paused": False, "Pid": 4711, "ExitCode": 0},
                "Image": f"sha256:{anonymous(image)}",
                "Name": f"/{title}",
                "RestartCount": 0,
                "HostConfig": {
                    "Binds": [],
                    "NetworkMode": mode or next(iter(sorted(on)), "none"),
                    "PortBindings": ports,
                    "RestartPolicy": policy(service),
                    "AutoRemove": False,
                },
                "Mounts": mounts(project, service, folder),
                "Config": {
                    "Hostname": anonymous(title)[:12],
                    "Env": [f"{k}={v}" for k, v in (service.get("environment") or {}).items()],
                    "Image": image,
                    "Labels": {
                        **(service.get("labels") or {}),
                        "com.docker.compose.config-hash": anonymous("hash"),
                        "com.docker.compose.container-number": str(number),
                        "com.docker.compose.oneoff": "False",
                        "com.docker.compose.project": name,
                        "com.docker.compose.project.config_files": str(folder / "compose.yaml"),
                        "com.docker.compose.project.working_dir": str(folder),
                        "com.docker.compose.service": called,
                        "com.docker.compose.version": "5.0.0",
                    },
                },
                "NetworkSettings": {
                    "Ports": {at: held for at, held in ports.items() if held[0]["HostPort"]},
                    "Networks": on,
                },
            }


# --- Differences: each changes a container and gives its kind, or None where it cannot be made

Change = Callable[[Inspect, random.Random], str | None]


def another_tag(one: Inspect, rng: random.Random) -> str | None:
    image, slash = one["Config"]["Image"], one["Config"]["Image"].rfind("/")
    bare = image.partition("@")[0]
    at = bare.find(":", slash + 1)
    one["Config"]["Image"] = f"{bare[:at] if at > 0 else bare}:{rng.choice(['0.0.1', 'old', 'edge-7'])}"
    return "running_image"


def another_image(one: Inspect, rng: random.Random) -> str | None:
    one["Config"]["Image"] = rng.choice(["registry.lan:5000/other:1", "ghcr.io/someone/else:2.1", "busybox"])
    return "running_image"


def pinned(one: Inspect, _: random.Random) -> str | None:
    if "@" in one["Config"]["Image"]:
        return None
    one["Config"]["Image"] += f"@sha256:{anonymous('pinned')}"
    return "running_image"


def _bound(one: Inspect) -> list[dict[str, str]]:
    held = [b for bound in one["HostConfig"]["PortBindings"].values() for b in bound]
    return [b for b in held if b["HostPort"].isdecimal()]


def another_port(one: Inspect, rng: random.Random) -> str | None:
    held = _bound(one)
    if not held:
        return None
    taken = {b["HostPort"] for b in held}
    port = next(p for _ in range(99) if (p := str(rng.randint(20_000, 60_000))) not in taken)
    rng.choice(held)["HostPort"] = port
    return "running_port"


def another_address(one: Inspect, rng: random.Random) -> str | None:
    held = _bound(one)
    if not held:
        return None
    at = rng.choice(held)
    at["HostIp"] = "127.0.0.1" if at["HostIp"] in ("", "0.0.0.0") else ""
    return "running_port"


def another_target(one: Inspect, rng: random.Random) -> str | None:
    ports = one["HostConfig"]["PortBindings"]
    names = [n for n, held in ports.items() if all(b["HostPort"].isdecimal() for b in held)]
    if not names:
        return None
    name = rng.choice(names)
    moved = f"{int(name.partition('/')[0]) % 65_000 + 7}/{name.partition('/')[2]}"
    if moved in ports:
        return None
    ports[moved] = ports.pop(name)
    return "running_port"


def no_ports(one: Inspect, _: random.Random) -> str | None:
    if not _bound(one):
        return None
    one["HostConfig"]["PortBindings"] = {}
    return "running_port"


def more_ports(one: Inspect, rng: random.Random) -> str | None:
    if one["HostConfig"]["NetworkMode"].startswith(("host", "container:")):
        return None
    port = str(rng.randint(20_000, 60_000))
    one["HostConfig"]["PortBindings"].setdefault("9999/tcp", []).append({"HostIp": "", "HostPort": port})
    return "running_port"


def less_networks(one: Inspect, rng: random.Random) -> str | None:
    held = one["NetworkSettings"]["Networks"]
    if not held or one["HostConfig"]["NetworkMode"] in ("host", "none", "bridge"):
        return None
    del held[rng.choice(sorted(held))]
    return "running_network"


def more_networks(one: Inspect, _: random.Random) -> str | None:
    if one["HostConfig"]["NetworkMode"].startswith(("host", "none", "container:")):
        return None
    one["NetworkSettings"]["Networks"]["stray_net"] = {}
    return "running_network"


def _named(one: Inspect) -> list[dict[str, Any]]:
    return [
        m
        for m in one["Mounts"]
        if m["Type"] in ("bind", "volume")
        and not re.fullmatch(r"[0-9a-f]{64}", m.get("Name", ""))
        and "Mode" in m
    ]


def another_source(one: Inspect, rng: random.Random) -> str | None:
    if not (held := _named(one)):
        return None
    mount = rng.choice(held)
    if mount["Type"] == "volume":
        mount["Name"] += "_old"
    else:
        mount["Source"] = f"/mnt/elsewhere{mount['Source']}.d"
    return "running_mount"


def another_mode(one: Inspect, rng: random.Random) -> str | None:
    if not (held := _named(one)):
        return None
    mount = rng.choice(held)
    mount["RW"] = not mount["RW"]
    return "running_mount"


def less_mounts(one: Inspect, rng: random.Random) -> str | None:
    if not (held := _named(one)):
        return None
    one["Mounts"].remove(rng.choice(held))
    return "running_mount"


def more_mounts(one: Inspect, _: random.Random) -> str | None:
    one["Mounts"].append({"Type": "bind", "Source": "/etc", "Destination": "/stray", "Mode": "", "RW": True})
    return "running_mount"


def another_policy(one: Inspect, rng: random.Random) -> str | None:
    held = one["HostConfig"]["RestartPolicy"]
    held["Name"] = rng.choice(
        [n for n in ("no", "always", "unless-stopped", "on-failure") if n != held["Name"]]
    )
    held["MaximumRetryCount"] = 0
    return "running_restart"


def stopped(one: Inspect, rng: random.Random) -> str | None:
    code = 137 if one["HostConfig"]["RestartPolicy"]["Name"] in ("no", "on-failure", "") else 0
    one["State"] |= {"Status": rng.choice(["exited", "dead"]), "Running": False, "ExitCode": code}
    return "not_running"


def removed(one: Inspect, _: random.Random) -> str | None:
    one["Removed"] = True
    return "not_running"


def by_hand(one: Inspect, _: random.Random) -> str | None:
    """Another container beside it, which somebody began by hand."""
    stray = copy.deepcopy(one)
    title = f"hand-{one['Name'][1:]}"
    stray |= {"Id": anonymous(title), "Name": f"/{title}"}
    stray["Config"]["Labels"] = {}
    one["Beside"] = stray
    return "not_declared"


CHANGES: tuple[Change, ...] = (
    *(another_tag, another_image, pinned, another_port, another_address, another_target, no_ports),
    *(more_ports, less_networks, more_networks, another_source, another_mode, less_mounts, more_mounts),
    *(another_policy, stopped, removed, by_hand),
)


# --- The comparison


def projects(root: Path) -> Iterator[tuple[dict[str, Any], Path]]:
    """What compose-go reads in each folder with a Compose file; a name of two projects is of none."""
    program, names, found = fetching.compose_project(), Counter[str](), []
    for folder in sorted({p.parent for name in DEFAULT for p in root.rglob(name)}):
        answer = ask(program, folder, LAYERS.get(folder.name, ()))
        if answer.project is not None and answer.project.get("services"):
            names[answer.project["name"]] += 1
            found.append((dict(answer.project), folder))
    return ((p, f) for p, f in found if names[p["name"]] == 1)


def key(one: Inspect) -> tuple[str, str]:
    """The machine with the project, and the service."""
    labels = one["Config"]["Labels"]
    return f"{one['Host']}/{labels['com.docker.compose.project']}", labels["com.docker.compose.service"]


def told(world: World, running: list[Inspect]) -> dict[Key, str]:
    """What is told of containers: (kind, machine and project, service) and the statement."""
    shown: dict[str, list[Inspect]] = {}
    for one in running:
        held = shown.setdefault(one["Host"], [])
        held += [{k: v for k, v in c.items() if k not in ("Host", "Beside", "Removed")}
                 for c in (one, one.get("Beside")) if c is not None and "Removed" not in c]  # fmt: skip
    for host, held in shown.items():
        dump = world.directory / host / "docker-inspect.json"
        dump.write_text(json.dumps(held, indent=4), encoding="utf-8")
    world.ingest()
    found, rendered = {}, {key(one)[0] for one in running}
    for item in world.kb().drift(limit=100_000).items:
        if item.kind == "not_declared":
            found[item.kind, "", item.name] = item.statement
        elif item.kind.startswith(("running_", "not_running")):
            scope, name = json.loads(item.key)
            if scope in rendered:  # nothing runs of a project that compose-go refuses
                found[item.kind, scope, name] = item.statement
            # What is not in a dump stands in no line of it.
            assert len(item.sides) == 2 and any(s.quote is not None for s in item.sides), item
    return found


def main(wanted: int, folders: list[Path]) -> None:
    rng = random.Random(11)
    with tempfile.TemporaryDirectory() as temporary, FakeTei() as tei:
        root = Path(temporary)
        if not folders:
            shutil.copytree(DATA / "awesome-compose", root / "awesome")
            folders = [root / "awesome"]
            for house in HOUSES:
                shutil.unpack_archive(DATA / "house-questions" / "houses" / f"{house}.tar.xz", root)
                folders.append(root / house)
        world = World(root / "world", tei.url)
        clean = []
        for number, folder in enumerate(folders):
            host = f"nas{number}"
            world.source(f"stacks{number}", "compose", path=str(folder), host=host)
            world.source(host, "runtime", host=host)
            made_of = (c for project, where in projects(folder) for c in containers(project, where))
            clean += [{**c, "Host": host} for c in made_of if not c["Config"]["Image"].endswith(":")]
        print(f"{len({key(c)[0] for c in clean})} projects, {len(clean)} containers")
        before = told(world, copy.deepcopy(clean))
        print(f"told where nothing differs: {len(before)} (bar 0)")
        for statement in before.values():
            print(f"    {statement}")
        made, hit, missed, false = Counter[str](), Counter[str](), [], []
        while made.total() < wanted:
            running, expected = copy.deepcopy(clean), {}
            for one in rng.sample(running, len(running)):
                project, service = key(one)
                if made.total() + len(expected) >= wanted or rng.random() < 0.5:
                    continue
                if sum(key(c) == (project, service) for c in running) > 1:
                    continue
                for change in rng.sample(CHANGES, len(CHANGES)):
                    kind = change(one, rng)
                    if kind is not None:
                        at = ("", f"hand-{one['Name'][1:]}") if kind == "not_declared" else (project, service)
                        expected[kind, *at] = change.__name__
                        break
            found = {k: v for k, v in told(world, running).items() if k not in before}
            for at, name in expected.items():
                made[name] += 1
                hit[name] += at in found
                if at not in found:
                    missed.append(f"{name}: {at}")
            false += [v for k, v in found.items() if k not in expected]
        world.workspace.close()
    print(f"{'difference':18}{'made':>6}{'told':>6}")
    for name in sorted(made):
        print(f"{name:18}{made[name]:6d}{hit[name]:6d}")
    right = hit.total()
    f1 = 2 * right / (2 * right + len(missed) + len(false))
    print(f"F1 {f1:.4f} (bar {BAR}), {made.total()} differences, {len(missed)} missed, {len(false)} false")
    print(*missed[:20], *false[:20], sep="\n    ")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300, [Path(p) for p in sys.argv[2:]])
