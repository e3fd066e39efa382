"""Seeded changes of other people's Compose projects, and whether `taboot check` tells what follows of each.

    python benchmarks/check_mutations.py [COUNT [SEED]]

One thing of one file is changed (a service dropped or renamed, a port moved onto a taken or a free one, a
network or a volume dropped, an image set to `latest`, a dependency added or removed, a variable taken out of
`.env` or used that nothing sets, a host in a setting made another, and changes that break nothing). What
follows is known by a small model of its own: PyYAML over the Compose files of the folder. Told must be every
problem that it derives and no other, every service that the Compose file says needed the thing, and nobody of
whom no file of the project holds the thing's name. Both sides are written by PyYAML, so that only the change
differs.
"""

from __future__ import annotations

import copy
import random
import re
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from answer_reading import DATA

from taboot_pipelines.cli.check import entries_of
from taboot_pipelines.retrieval.check.checker import Checker
from taboot_pipelines.retrieval.check.places import directory_of, shown
from taboot_pipelines.retrieval.check.sides import Side
from taboot_pipelines.retrieval.check.states import files_of
from taboot_pipelines.retrieval.results.check import CheckReport
from taboot_pipelines.settings import Settings, load_settings

HOUSES = ("swarm", "astronomy", "seed", "first")
COMPOSE = re.compile(r"(?i)(?:docker-)?compose[\w.-]*\.ya?ml")
GHOST = "ghost-of-nowhere"
BAR_MS = 300
Tree = dict[str, Any]
#: (rule, service or network or variable …) of a problem; every name must stand in what is told.
Expected = tuple[str, tuple[str, ...]]


# --- The small model: what a Compose file means, by its own words


def services(tree: Tree) -> dict[str, Tree]:
    return {name: s or {} for name, s in (tree.get("services") or {}).items()}


def keys(value: Any) -> list[str]:
    """The names in a list or a mapping."""
    return [str(v) for v in (value or ())]


def needed(service: Tree) -> list[str]:
    found = keys(service.get("depends_on")) + [n.partition(":")[0] for n in keys(service.get("links"))]
    mode = str(service.get("network_mode") or "")
    return found + ([mode.removeprefix("service:")] if mode.startswith("service:") else [])


def ports(service: Tree) -> Iterator[tuple[str, str, str]]:
    """(address, published port, protocol) of what is published by a number."""
    for item in service.get("ports") or ():
        if isinstance(item, dict):
            published, protocol = str(item.get("published") or ""), str(item.get("protocol") or "tcp")
            yield from [(str(item.get("host_ip") or ""), published, protocol)] if published.isdigit() else []
            continue
        text, _, protocol = str(item).partition("/")
        match = re.fullmatch(r"(?:([\d.]+):)?(\d+):\d+", text)
        if match:
            yield match[1] or "", match[2], protocol or "tcp"


def volumes(service: Tree) -> list[str]:
    found = []
    for item in service.get("volumes") or ():
        if isinstance(item, dict):
            found += [str(item["source"])] if item.get("type") == "volume" and item.get("source") else []
        elif ":" in str(item):
            found += [str(item).partition(":")[0]]
    return [name for name in found if re.fullmatch(r"[A-Za-z0-9][\w.-]+", name)]


def unset(tree: Tree, env: dict[str, str]) -> set[str]:
    """Variables that are used without a default and that nothing sets."""
    text = yaml.safe_dump({k: v for k, v in tree.items() if not k.startswith("x-")}).replace("$$", "")
    used = re.findall(r"\$(?:\{(\w+)(?::?\?[^}]*)?\}|([A-Za-z_]\w*))", text)
    return {a or b for a, b in used} - env.keys()


def wrong(trees: dict[str, Tree], envs: dict[str, dict[str, str]]) -> Counter[Expected]:
    """The problems of the Compose files of a repository, each a project in its folder."""
    found: Counter[Expected] = Counter()
    taken: dict[tuple[str, str], set[tuple[str, str]]] = defaultdict(set)
    for path, tree in trees.items():
        beside = [t for p, t in trees.items() if Path(p).parent == Path(path).parent]
        every = {n for t in beside for n in services(t)}
        nets = {n for t in beside for n in keys(t.get("networks"))} | {"default"}
        vols = {n for t in beside for n in keys(t.get("volumes"))}
        for name, service in services(tree).items():
            found.update(("dependency_gone", (name, n)) for n in set(needed(service)) - every)
            found.update(("network_gone", (name, n)) for n in set(keys(service.get("networks"))) - nets)
            found.update(("volume_gone", (name, v)) for v in set(volumes(service)) - vols)
            image = str(service.get("image") or "")
            tag = image.rpartition("/")[2].partition(":")[2]
            if image and "build" not in service and "@" not in image and "$" not in image:
                bare = image.removesuffix(":latest")
                found.update([("image_unpinned", (name, bare))] if tag in ("", "latest") else [])
            for _, port, protocol in ports(service):
                taken[port, protocol].add((path, name))
        found.update(("variable_undefined", (v,)) for v in unset(tree, envs.get(str(Path(path).parent), {})))
    for (port, _), users in taken.items():
        found["port_taken", (port,)] += len(users) - 1
    return found


# --- Repositories, and what is changed in them


@dataclass
class Repository:
    """A folder with Compose files as PyYAML reads and writes them."""

    name: str
    folder: Path
    trees: dict[str, Tree] = field(default_factory=dict)
    envs: dict[str, dict[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for path in sorted(self.folder.rglob("*")):
            at = path.relative_to(self.folder).as_posix()
            if path.name == ".env":
                lines = (line.partition("=") for line in path.read_text().splitlines() if "=" in line)
                self.envs[str(Path(at).parent)] = {k.strip(): v for k, _, v in lines if not k.startswith("#")}
            if not COMPOSE.fullmatch(path.name):
                continue
            try:
                tree = yaml.safe_load(path.read_text(encoding="utf-8"))
            except yaml.YAMLError:
                continue
            if isinstance(tree, dict) and services(tree):
                self.trees[at] = tree
                self.write(at, tree)

    def write(self, path: str, tree: Tree) -> None:
        (self.folder / path).write_text(dump(tree), encoding="utf-8")

    def line(self, path: str, number: int) -> str:
        lines = (self.folder / path).read_text(encoding="utf-8", errors="replace").split("\n")
        return lines[number - 1] if 0 < number <= len(lines) else ""

    def words(self, path: str) -> str:
        """All that the files of a project's folder say."""
        files = (p for p in (self.folder / path).parent.rglob("*") if p.is_file())
        return "\n".join(p.read_text(encoding="utf-8", errors="replace") for p in files)


def dump(tree: Tree) -> str:
    return str(yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=10_000))


@dataclass
class Change:
    """One change: ``after`` in place of the file's tree, or ``text`` in place of another file's; ``fact``
    must be told of; ``touched`` is the service that changed or went."""

    what: str
    path: str
    after: Tree | None
    fact: str
    touched: str = ""
    gone: bool = False
    text: str = ""
    env: dict[str, str] | None = None


Mutation = Callable[[Repository, str, Tree, random.Random], Change | None]


def one(rng: random.Random, values: list[Any]) -> Any:
    return rng.choice(values) if values else None


def alone(repo: Repository, path: str, rng: random.Random) -> str | None:
    """A service that no other file of the folder has too."""
    beside = [t for p, t in repo.trees.items() if p != path and Path(p).parent == Path(path).parent]
    return one(rng, [n for n in services(repo.trees[path]) if not any(n in services(t) for t in beside)])


def drop_service(repo: Repository, path: str, tree: Tree, rng: random.Random) -> Change | None:
    name = alone(repo, path, rng)
    if name is None or len(services(tree)) < 2:
        return None
    del tree["services"][name]
    return Change("drop service", path, tree, name, name, gone=True)


def rename_service(repo: Repository, path: str, tree: Tree, rng: random.Random) -> Change | None:
    name = alone(repo, path, rng)
    if name is None:
        return None
    tree["services"] = {f"{n}-renamed" if n == name else n: s for n, s in tree["services"].items()}
    return Change("rename service", path, tree, f"{name}-renamed", name, gone=True)


def move_port(repo: Repository, path: str, tree: Tree, rng: random.Random, taken: bool) -> Change | None:
    used = [p for t in repo.trees.values() for s in services(t).values() for _, p, _ in ports(s)]
    having = [n for n, s in services(tree).items() if any(isinstance(i, str) for i in s.get("ports") or ())]
    name = one(rng, having)
    found = [i for i in (tree["services"][name]["ports"] if name else ()) if re.fullmatch(r"\d+:\d+", str(i))]
    item = one(rng, found)
    own = {p for _, p, _ in ports(tree["services"][name])} if name else set()
    new = one(rng, sorted(set(used) - own)) if taken else str(rng.randint(40_000, 49_000))
    if item is None or new is None:
        return None
    held = tree["services"][name]["ports"]
    held[held.index(item)] = f"{new}:{item.partition(':')[2]}"
    return Change("port onto a taken one" if taken else "port", path, tree, new, name)


def port(repo: Repository, path: str, tree: Tree, rng: random.Random) -> Change | None:
    return move_port(repo, path, tree, rng, taken=False)


def taken_port(repo: Repository, path: str, tree: Tree, rng: random.Random) -> Change | None:
    return move_port(repo, path, tree, rng, taken=True)


def drop_network(repo: Repository, path: str, tree: Tree, rng: random.Random) -> Change | None:
    name = one(rng, [n for n in keys(tree.get("networks")) if n != "default"])
    if name is None:
        return None
    del tree["networks"][name]
    return Change("drop network", path, tree, "")


def drop_volume(repo: Repository, path: str, tree: Tree, rng: random.Random) -> Change | None:
    name = one(rng, keys(tree.get("volumes")))
    if name is None:
        return None
    del tree["volumes"][name]
    return Change("drop volume", path, tree, "")


def image(repo: Repository, path: str, tree: Tree, rng: random.Random, tag: str) -> Change | None:
    having = [n for n, s in services(tree).items() if s.get("image") and "build" not in s]
    name = one(rng, [n for n in having if "$" not in str(tree["services"][n]["image"])])
    if name is None:
        return None
    old = str(tree["services"][name]["image"]).partition("@")[0]
    bare = old[: old.rfind(":")] if ":" in old.rpartition("/")[2] else old
    new = f"{bare}:{tag}" if tag else bare
    if new.removesuffix(":latest") == str(tree["services"][name]["image"]).removesuffix(":latest"):
        return None
    tree["services"][name]["image"] = new
    return Change("image unpinned" if tag in ("", "latest") else "image newer", path, tree, new, name)


def newer_image(repo: Repository, path: str, tree: Tree, rng: random.Random) -> Change | None:
    return image(repo, path, tree, rng, f"{rng.randint(50, 99)}.{rng.randint(0, 9)}")


def latest_image(repo: Repository, path: str, tree: Tree, rng: random.Random) -> Change | None:
    return image(repo, path, tree, rng, rng.choice(["latest", ""]))


def remove_need(repo: Repository, path: str, tree: Tree, rng: random.Random) -> Change | None:
    name = one(rng, [n for n, s in services(tree).items() if s.get("depends_on")])
    if name is None:
        return None
    held = tree["services"][name]["depends_on"]
    target = one(rng, keys(held))
    held.pop(target) if isinstance(held, dict) else held.remove(target)
    if not held:
        del tree["services"][name]["depends_on"]
    return Change("remove depends_on", path, tree, target)


def ghostly_need(repo: Repository, path: str, tree: Tree, rng: random.Random) -> Change | None:
    name = one(rng, [n for n, s in services(tree).items() if isinstance(s.get("depends_on") or [], list)])
    if name is None:
        return None
    tree["services"][name]["depends_on"] = [*(tree["services"][name].get("depends_on") or ()), GHOST]
    return Change("depend on a ghost", path, tree, GHOST)


def unset_variable(repo: Repository, path: str, tree: Tree, rng: random.Random) -> Change | None:
    name = one(rng, [n for n, s in services(tree).items() if isinstance(s.get("environment") or {}, dict)])
    if name is None:
        return None
    tree["services"][name].setdefault("environment", {})["MADE_UP"] = "${NOBODY_SETS_THIS}"
    return Change("variable that nothing sets", path, tree, "NOBODY_SETS_THIS")


def remove_variable(repo: Repository, path: str, tree: Tree, rng: random.Random) -> Change | None:
    folder = str(Path(path).parent)
    env = repo.envs.get(folder, {})
    used = [n for n in env if re.search(rf"\$(?:\{{{n}\}}|{n}\b)", dump(tree))]
    name = one(rng, [n for n in used if not any(f"${{{n}" in v or f"${n}" in v for v in env.values())])
    if name is None:
        return None
    file = repo.folder / folder / ".env"
    lines = [line for line in file.read_text().splitlines() if not re.match(rf"{name}\s*=", line)]
    left = {n: v for n, v in env.items() if n != name}
    return Change("remove variable", f"{folder}/.env", None, name, text="\n".join(lines), env=left)


def other_host(repo: Repository, path: str, tree: Tree, rng: random.Random) -> Change | None:
    """A service asks for a host that nobody has in place of a service of its project."""
    named = re.compile(rf"(?<![\w.-])({'|'.join(map(re.escape, services(tree)))})(?=:\d|/|$)")
    found = []
    for service in services(tree).values():
        held = service.get("environment") or {}
        items = held.items() if isinstance(held, dict) else enumerate(held)
        found += [
            (held, key, str(value))
            for key, value in items
            # Of a secret no value is told.
            if not re.search(r"(?i)password|secret|token|key", str(key) + str(value).partition("=")[0])
            and named.search(str(value).partition("=")[2] or str(value))
        ]
    chosen = one(rng, found)
    if chosen is None:
        return None
    held, key, value = chosen
    name, equals, host = value.partition("=") if not isinstance(held, dict) else ("", "", value)
    held[key] = f"{name}{equals}{named.sub(GHOST, host)}"
    return Change("other host in a setting", path, tree, GHOST)


def harmless(repo: Repository, path: str, tree: Tree, rng: random.Random) -> Change | None:
    name = one(rng, list(services(tree)))
    service, kind = tree["services"][name] or {}, rng.choice(["order", "restart", "label"])
    if kind == "order":
        tree["services"] = dict(reversed(tree["services"].items()))
        return Change("order of services", path, tree, "")
    if kind == "restart":
        service["restart"] = "always" if service.get("restart") != "always" else "unless-stopped"
    else:
        service["mem_limit"] = f"{rng.randint(100, 999)}m"
    tree["services"][name] = service
    return Change(
        f"harmless {kind}", path, tree, str(service.get("restart" if kind == "restart" else "mem_limit"))
    )


MUTATIONS: tuple[Mutation, ...] = (
    *(drop_service, rename_service, port, taken_port, drop_network, drop_volume, newer_image, latest_image),
    *(remove_need, ghostly_need, unset_variable, remove_variable, other_host, harmless),
)


def changes(repos: list[Repository], count: int, rng: random.Random) -> Iterator[tuple[Repository, Change]]:
    """So many changes, each kind as often as another as far as there is something to change."""
    made = tries = 0
    while made < count and tries < 50 * count:
        tries += 1
        mutate, repo = MUTATIONS[tries % len(MUTATIONS)], rng.choice(repos)
        path = rng.choice(sorted(repo.trees))
        change = mutate(repo, path, copy.deepcopy(repo.trees[path]), rng)
        if change is not None:
            made += 1
            yield repo, change


# --- What is told, beside what follows


def judge(repo: Repository, change: Change, told: CheckReport) -> Iterator[str]:
    """What is wrong with what was told of a change."""
    trees = repo.trees | ({change.path: change.after} if change.after is not None else {})
    envs = repo.envs | ({str(Path(change.path).parent): change.env} if change.env is not None else {})
    before, after = wrong(repo.trees, repo.envs), wrong(trees, envs)
    expected = Counter({p: 1 for p in after if after[p] > before[p]})
    if change.what == "rename service":
        # Under another name its image is what it was.
        for rule, names in list(expected):
            if rule == "image_unpinned" and before[rule, (change.touched, *names[1:])]:
                del expected[rule, names]
    left = list(told.problems)
    for rule, names in expected:
        found = next((p for p in left if p.rule == rule and all(n in p.statement for n in names)), None)
        if found is None:
            yield f"missed problem {rule} {names}"
        else:
            left.remove(found)
    words = repo.words(change.path)
    for problem in left:
        # What connects to the thing by its settings is not in the model: its name must stand in the project.
        mentions = len(re.findall(rf"(?<![\w-]){re.escape(change.touched)}(?![\w-])", words))
        follows = change.gone and problem.rule in ("dependency_gone", "upstream_gone", "name_unreachable")
        at = repo.line(problem.file, problem.line)
        follows_too = (
            change.what == "drop network"
            and problem.rule in ("dependency_gone", "name_unreachable")
            and any(f"/{name}" in problem.statement for name in services(repo.trees[change.path]))
        ) or (change.what == "remove variable" and change.fact in at)
        # Nor is it whether a setting led to a service: it may be told that none is called so.
        follows_too |= change.what == "other host in a setting" and GHOST in problem.statement
        if problem.rule != "document_contradicted" and not (follows and mentions > 1) and not follows_too:
            yield f"false problem {problem.rule}: {problem.statement} {problem.file}:{problem.line}"
    if change.fact and not any(
        change.fact in f"{f.subject} {f.fact} {f.before} {f.after}" for f in told.facts
    ):
        yield f"missed fact {change.fact}"
    if not change.fact and change.what.startswith("order") and told.facts:
        yield f"false fact {told.facts[0]}"
    affected = (
        {c.affected for c in told.impact if f"/{change.touched} " in c.cause} if change.touched else set()
    )
    tree = repo.trees.get(change.path, {})
    if change.touched:
        sure = {n for n, s in services(tree).items() if change.touched in needed(s)}
        for name in sorted(sure - affected):
            yield f"missed affected {name} by {change.touched}"
        naming = re.compile(rf"(?<![\w-]){re.escape(change.touched)}(?![\w])")
        for name in sorted(affected - sure):
            said = naming.search(dump(services(tree).get(name, {}))) or len(naming.findall(words)) > 1
            if name in services(tree) and not said:
                yield f"false affected {name} by {change.touched}"


def repositories(folder: Path) -> Iterator[Repository]:
    """Each open house, and each Compose project of the samples, as a repository of its own."""
    for house in HOUSES:
        shutil.unpack_archive(DATA / "house-questions" / "houses" / f"{house}.tar.xz", folder / "houses")
        yield Repository(house, folder / "houses" / house)
    for project in sorted(p for p in (DATA / "awesome-compose").iterdir() if p.is_dir()):
        shutil.copytree(project, folder / "samples" / project.name)
        yield Repository(project.name, folder / "samples" / project.name)


class Checked:
    """A repository with its unchanged side."""

    def __init__(self, repo: Repository, settings: Settings) -> None:
        self.repo, self._settings = repo, settings
        # All projects run on one machine, as the sources that come with the houses say.
        self._entries = [
            replace(
                e,
                config=e.config.model_copy(update={"host": "nas"})
                if e.config.type == "compose"
                else e.config,
            )
            for e in entries_of(repo.folder, settings)
        ]
        self._checker = Checker(settings)
        self._before = self._side()
        self.check()

    def _side(self) -> Side:
        return self._checker.side(
            [files_of(e, shown(directory_of(e), self.repo.folder), self._settings) for e in self._entries]
        )

    def check(self) -> CheckReport:
        return self._checker.check(self._before, self._side())


def main(count: int = 1000, seed: int = 11) -> None:
    rng = random.Random(seed)
    made: Counter[str] = Counter()
    right: Counter[str] = Counter()
    misses: list[str] = []
    seconds: dict[str, list[tuple[float, float]]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        settings = load_settings(home=folder / "home", sources=folder / "none.yaml")
        repos = [r for r in repositories(folder) if r.trees]
        checked = {r.name: Checked(r, settings) for r in repos}
        for repo, change in changes(repos, count, rng):
            file = repo.folder / change.path
            original = file.read_text(encoding="utf-8")
            file.write_text(change.text if change.after is None else dump(change.after), encoding="utf-8")
            began = time.perf_counter(), time.process_time()
            told = checked[repo.name].check()
            ended = time.perf_counter(), time.process_time()
            seconds[repo.name].append((ended[0] - began[0], ended[1] - began[1]))
            found = list(judge(repo, change, told))
            file.write_text(original, encoding="utf-8")
            made[change.what] += 1
            right[change.what] += not found
            misses += [f"{repo.name}/{change.path}, {change.what}: {miss}" for miss in found]
    print(f"{'change':28}{'made':>6}{'right':>7}")
    for what in sorted(made):
        print(f"{what:28}{made[what]:6d}{right[what]:7d}")
    print(f"{'all':28}{made.total():6d}{right.total():7d}")
    for repo_name, times in sorted(seconds.items(), key=lambda item: -len(item[1])):
        wall, cpu = (statistics.median(t[i] for t in times) * 1000 for i in (0, 1))
        print(f"    {repo_name:28}{len(times):5d} checks, median {wall:6.0f} ms ({cpu:.0f} of processor)")
    every = [t for times in seconds.values() for t in times]
    wall, cpu = (statistics.median(t[i] for t in every) * 1000 for i in (0, 1))
    print(f"median of all {wall:.0f} ms ({cpu:.0f} of processor), bar {BAR_MS} ms")
    print("what was not right, by kind:")
    kinds = Counter(
        re.sub(r"^.*?, ", "", re.sub(r"(\w+ \w+) .*", r"\1", m.split(": ", 1)[1])) for m in misses
    )
    for kind, number in kinds.most_common():
        print(f"    {number:5d} {kind}")
    print("for example:", *rng.sample(misses, min(25, len(misses))), sep="\n    ")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
