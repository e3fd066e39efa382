"""Compose projects made up from a number: the same number gives the same files.

They keep to what Docker Compose accepts as far as that is easily said; some it refuses, which a comparison
passes over. What they are made of is what has been read wrong, or could be: every form of a port and of a
number, merges with and without tags, `extends` and `include` across directories with the files that are
relative to them, environment files over one another.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any


@dataclass(frozen=True)
class Plain:
    """A scalar without quotes."""

    text: str


@dataclass(frozen=True)
class Tagged:
    tag: str
    value: Any


def yaml(value: Any) -> str:
    """``value`` in flow style; strings are quoted."""
    if isinstance(value, Plain):
        return value.text
    if isinstance(value, Tagged):
        return f"{value.tag} {yaml(value.value)}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)}: {yaml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(yaml(v) for v in value) + "]"
    return json.dumps(value)


def document(model: dict[str, Any]) -> str:
    lines = []
    for section, value in model.items():
        if section in ("services", "networks") and isinstance(value, dict) and value:
            lines.append(f"{section}:")
            lines += [f"  {json.dumps(k)}: {yaml(v)}" for k, v in value.items()]
        else:
            lines.append(f"{section}: {yaml(value)}")
    return "\n".join(lines) + "\n"


_NAMES = ("web", "db", "cache", "worker", "mail.in", "q_1", "vpn-x")
_IMAGES = (
    "nginx",
    "redis:7",
    "ghcr.io/a/b:1.2",
    "localhost:5000/x/y",
    "postgres:${TAG:-16}",
    "app:${V}",
    "app:$V-x",
    "app:${V:+set}",
    "app:x${NO+unset}${EMPTY:+filled}",
    "app:${EMPTY:-${NO:-${V}}}",
    "app:x${EMPTY-default}",
    "${COMPOSE_PROJECT_NAME}/it",
    "app@sha256:${NO:-0000000000000000000000000000000000000000000000000000000000000000}",
)
_DIRECTORIES = ("lib", "lib/deep", "inc")
_VARIABLES = {"V": "3", "PORT": "8080", "HIGH": "0100", "EMPTY": "", "ADDRESS": "127.0.0.1", "WHO": "db"}


class _Maker:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.files: dict[str, str] = {}
        self.networks = ["front", "back", "default"]

    def maybe(self, chance: float) -> bool:
        return self.random.random() < chance

    def pick(self, values: Sequence[Any]) -> Any:
        return self.random.choice(values)

    # --- scalars ----------------------------------------------------------------------------------------

    def number(self, value: int) -> Any:
        """A number as YAML lets one write it."""
        plain = [str(value), hex(value), f"0{value:o}", f"0o{value:o}", bin(value)]
        if value >= 1000:
            plain.append(f"{value // 1000}_{value % 1000:03}")
        return Plain(self.pick(plain)) if self.maybe(0.4) else value

    def port_number(self) -> int:
        return int(self.pick([80, 81, 443, 8080, 9090, 53, 64, self.random.randint(1, 65535)]))

    def port(self) -> Any:
        target, published = self.port_number(), self.port_number()
        protocol = self.pick(["", "", "/tcp", "/udp", "/UDP"])
        kind = self.random.randrange(12)
        if kind == 0:
            return self.number(target)
        if kind == 1:
            return f"{target}{protocol}"
        if kind <= 3:
            return f"{published}:{target}{protocol}"
        if kind <= 5:
            address = self.pick(
                ["", "127.0.0.1", "0.0.0.0", "[::1]", "[::]", "::1", "${ADDRESS}", "${EMPTY}", "${NO:-}"]
            )
            return f"{address}:{published}:{target}{protocol}"
        if kind == 6:
            first, low = self.random.randint(2000, 3000), self.random.randint(4000, 5000)
            return f"{first}-{first + 2}:{low}-{low + 2}{protocol}"
        if kind == 7:
            return f"${{PORT}}:{target}"
        if kind == 8:
            return f"127.0.0.1::{target}"
        long: dict[str, Any] = {"target": self.number(target)}
        if self.maybe(0.8):
            long["published"] = self.pick(
                [self.number(published), str(published), f"0{published}", "${PORT}", "${HIGH}"]
            )
        if self.maybe(0.3):
            long["host_ip"] = self.pick(["127.0.0.1", "::1", "${ADDRESS}"])
        if self.maybe(0.3):
            long["protocol"] = self.pick(["tcp", "udp"])
        if self.maybe(0.2):
            long["mode"] = "host"
        return long

    def pairs(self, values: dict[str, Any]) -> Any:
        """A mapping, or the same as a list of ``K=V``."""
        if self.maybe(0.5):
            return values
        return [k if v is None else f"{k}={v}" for k, v in values.items()]

    def address(self, names: Sequence[str]) -> str:
        host = self.pick([*names, "elsewhere", "${WHO}"])
        return str(
            self.pick(
                [
                    f"http://{host}:{self.port_number()}/",
                    f"{host}:5432",
                    f"redis://{host}",
                    f"amqp://u:$$p@{host}:${{PORT}}",
                    f"http://${{EMPTY:-{host}}}:${{PORT:-1}}",
                ]
            )
        )

    # --- a service --------------------------------------------------------------------------------------

    def build(self, directory: str) -> Any:
        context = self.pick([".", "src", "./src", "other"])
        if self.maybe(0.3):
            return context
        made: dict[str, Any] = {}
        if self.maybe(0.7):
            made["context"] = context
        if self.maybe(0.5):
            made["dockerfile"] = self.pick(["Dockerfile.dev", "../Dockerfile.up", "sub/Dockerfile"])
        if self.maybe(0.4):
            value = self.pick(["1", "${V}", Plain("3.10"), Plain("0x10"), Plain("1_0"), None])
            args = {"V": value, self.pick("AB"): "x"}
            made["args"] = args if isinstance(value, Plain) else self.pairs(args)
        if self.maybe(0.3):
            made["target"] = self.pick(["one", "two"])
        if self.maybe(0.1):
            made.pop("dockerfile", None)
            made["dockerfile_inline"] = "FROM scratch"
        if self.maybe(0.05):
            made["context"] = "https://example.org/a/b.git"
        return made or {"context": context}

    def part(self, name: str, below: Sequence[str], directory: str, chance: float) -> dict[str, Any]:
        """Some of the fields of a service that may lean on the services ``below``."""
        made: dict[str, Any] = {}
        m = self.maybe
        if m(chance):
            made["ports"] = [self.port() for _ in range(self.random.randint(1, 3))]
        if m(chance / 2):
            made["expose"] = [self.pick([self.number(90), "91"])]
        if m(chance):
            made["environment"] = self.pairs(
                {k: self.pick([self.address(below), "plain"]) for k in self.random.sample("ABCDE", 2)}
                | ({"WHO": None} if m(0.2) else {})
            )
        if m(chance / 2):
            made["command"] = self.pick([f"run {self.address(below)}", ["run", self.address(below)]])
        if m(chance / 2):
            made["labels"] = self.pairs(
                {k: self.pick([self.address(below), "x"]) for k in ("l.one", "l.two")}
            )
        if below and m(chance):
            targets = self.random.sample(below, self.random.randint(1, min(2, len(below))))
            made["depends_on"] = (
                targets
                if m(0.5)
                else {
                    t: {"condition": self.pick(["service_started", "service_healthy"])}
                    | ({"required": Plain(self.pick(["true", "false"]))} if m(0.3) else {})
                    for t in targets
                }
            )
        if below and m(chance / 3):
            made["links"] = [f"{self.pick(below)}{self.pick(['', ':alias'])}"]
        if below and m(chance / 4):
            made["volumes_from"] = [f"{self.pick(below)}{self.pick(['', ':ro'])}"]
        if m(chance):
            chosen = self.random.sample(self.networks, self.random.randint(1, 2))
            made["networks"] = (
                chosen
                if m(0.5)
                else {n: ({"aliases": [f"{n}-{self.pick('xyz')}"]} if m(0.5) else None) for n in chosen}
            )
        if m(chance / 3):
            made["profiles"] = self.random.sample(["dev", "debug", "ops"], self.random.randint(1, 2))
        if m(chance / 2):
            made["restart"] = self.pick(["always", "unless-stopped", "no", "on-failure:3"])
        if m(chance / 3):
            made["container_name"] = f"{self.pick(['box', 'own'])}-{name}"
        elif m(chance / 3):
            made["deploy"] = {"replicas": self.number(self.random.randint(1, 3))} | (
                {"restart_policy": {"condition": "on-failure"}} if m(0.3) else {}
            )
        if m(chance / 2):
            file = self.pick(["a.env", "b.env"])
            made["env_file"] = self.pick([file, [file], [{"path": file, "required": Plain("false")}]])
        if m(chance / 6):
            made["label_file"] = self.pick(["a.env", ["a.env", "b.env"]])
        if m(chance / 8):
            made["scale"] = self.number(2)
            made.pop("container_name", None)
            made.pop("deploy", None)
        if below and m(chance / 6):
            made[self.pick(["ipc", "pid"])] = f"service:{self.pick(below)}"
        if m(chance / 6):
            made["external_links"] = ["outer:alias"]
        if m(chance / 3):
            made["extra_hosts"] = self.pick([["h1:10.0.0.1"], {"h2": "10.0.0.2"}, ["h3=::1"]])
        return made

    def service(self, name: str, below: Sequence[str], directory: str) -> dict[str, Any]:
        made = self.part(name, below, directory, 0.4)
        kind = self.random.random()
        if kind < 0.3:
            made["build"] = self.build(directory)
            if self.maybe(0.3):
                made["image"] = self.pick(_IMAGES)
        elif kind < 0.34:
            made["provider"] = {"type": "model", "options": {"a": "b"}}
            for field in ("networks", "deploy", "container_name"):
                made.pop(field, None)
            return made
        else:
            made["image"] = self.pick(_IMAGES)
        if self.maybe(0.15):
            made.pop("networks", None)
            made["network_mode"] = self.pick(
                ["host", "none", "bridge", "default", "", "shared-net", "container:else"]
                + [f"service:{b}" for b in below]
            )
            if made["network_mode"] != "host" and made["network_mode"].startswith("service"):
                made.pop("ports", None)
        return made

    # --- files ------------------------------------------------------------------------------------------

    def directory_files(self, directory: str) -> None:
        """Environment files and Dockerfiles of one directory, each told apart from the others'."""
        at = f"{directory}/" if directory else ""
        mark = re.sub("[^a-z0-9]+", "-", directory.lower()) or "root"
        for name in ("a.env", "b.env"):
            self.files[f"{at}{name}"] = f"C=http://{self.pick(_NAMES)}:{self.port_number()}/\nM={mark}\n"
        for name in (
            "Dockerfile",
            "src/Dockerfile",
            "src/Dockerfile.dev",
            "src/sub/Dockerfile",
            "Dockerfile.up",
        ):
            self.files[f"{at}{name}"] = f"FROM {mark}-{name.replace('/', '-').lower()}:1\n"
        for name in ("other/Dockerfile", "other/Dockerfile.dev", "Dockerfile.dev", "sub/Dockerfile"):
            self.files[f"{at}{name}"] = f"FROM {mark}-{name.replace('/', '-').lower()}:2\n"

    def override(self, services: dict[str, Any], directory: str) -> dict[str, Any]:
        """A layer over some services, with and without tags."""
        layer: dict[str, Any] = {}
        names = list(services)
        for position, name in enumerate(names):
            if not self.maybe(0.5):
                continue
            over = self.part(name, names[:position], directory, 0.3)
            if "deploy" in services[name]:
                over.pop("container_name", None)
            if "container_name" in services[name]:
                over.pop("deploy", None)
            for field in list(over):
                if self.maybe(0.15):
                    over[field] = Tagged("!override", over[field])
            for field in ("ports", "environment", "depends_on", "networks", "labels", "command"):
                if field not in over and self.maybe(0.06):
                    over[field] = Tagged("!reset", self.pick([None, [], {}]))
            for field in ("image", "build"):
                if field in services[name] and self.maybe(0.1):
                    over[field] = Tagged("!reset", None)
                    other = "build" if field == "image" else "image"
                    if other not in services[name]:
                        over[other] = self.build(directory) if other == "build" else self.pick(_IMAGES)
            if self.maybe(0.05):
                over["command"] = None
            if isinstance(over.get("environment"), dict) and self.maybe(0.2):
                over["environment"]["A"] = Tagged("!reset", None)
            if "build" in services[name] and "build" not in over and self.maybe(0.4):
                over["build"] = self.build(directory)
            if "network_mode" in services[name] and services[name]["network_mode"]:
                over.pop("networks", None)
            layer[name] = over
        if self.maybe(0.3):
            layer["added"] = self.service("added", names, directory)
        if self.maybe(0.05) and len(names) > 1:
            layer[names[-1]] = Tagged("!reset", None)
        if self.maybe(0.3):
            return {"services": layer, "networks": self.network_section()}
        return {"services": layer}

    def network_section(self) -> dict[str, Any]:
        return {
            name: self.pick(
                [
                    None,
                    {},
                    {"driver": "bridge"},
                    {"driver": "macvlan"},
                    {"name": f"real-{name}"},
                    {"external": Plain("true")},
                    {"external": Plain("true"), "name": "outside"},
                    {"external": {"name": "old-form"}},
                    {"name": "n-${V}"},
                    {"name": "${COMPOSE_PROJECT_NAME}-net"},
                    {"ipam": {"config": [{"subnet": "10.2.0.0/16"}]}},
                    {"ipam": {"config": [{"subnet": "10.1.0.0/16"}]}},
                ]
            )
            for name in ("front", "back", "default")
            if name != "default" or self.maybe(0.3)
        }

    def library(self, directory: str) -> list[str]:
        """A file of services to extend; the last extends the first. Returns their names."""
        self.directory_files(directory)
        services = {
            "base": self.service("base", [], directory),
            "other": self.service("other", [], directory),
        }
        for service in services.values():
            service.pop("networks", None)
            service.pop("container_name", None)
        more = self.part("more", [], directory, 0.3)
        more["extends"] = self.pick(["base", {"service": "base"}])
        more.pop("networks", None)
        services["more"] = more
        self.files[f"{directory}/common.yml"] = document({"services": services})
        return list(services)

    def make(self) -> tuple[dict[str, str], str]:
        folder = self.pick(["app", "app", "My.App", "x/_deep_1", ""])
        at = f"{folder}/" if folder else ""
        up = "../" * (folder.count("/") + 1) if folder else "./"
        self.directory_files(folder)
        names = self.random.sample(_NAMES, self.random.randint(1, 5))
        services: dict[str, Any] = {}
        for position, name in enumerate(names):
            services[name] = self.service(name, names[:position], folder)
        model: dict[str, Any] = {}
        if self.maybe(0.2):
            model["name"] = self.pick(["shop", "Shop.X", "${V:-a}-b"])
        if self.maybe(0.35):
            directory = f"{self.pick(_DIRECTORIES)}" if not folder else self.pick(["lib", "lib/deep"])
            bases = self.library(directory)
            for name in self.random.sample(names, min(2, len(names))):
                extended = services[name]
                extended["extends"] = {"file": f"{up}{directory}/common.yml", "service": self.pick(bases)}
                if self.maybe(0.5):
                    extended.pop("image", None)
                if "network_mode" in extended:
                    extended.pop("network_mode")
        elif self.maybe(0.2) and len(names) > 1:
            services[names[-1]]["extends"] = self.pick([names[0], {"service": names[0]}])
        included: list[Any] = []
        if self.maybe(0.35):
            self.directory_files("inc")
            self.files["inc/.env"] = "V=inc\nOWN=9\nPORT=7070\n"
            self.files["inc/more.env"] = "V=more\nPORT=7171\nTAG=fromfile\nEXTRA=$V-x\n"
            own = {"i1": self.service("i1", [], "inc"), "i2": self.service("i2", ["i1"], "inc")}
            if self.maybe(0.5):
                shared = self.pick(names)
                own[shared] = self.part(shared, [], "inc", 0.4) | {"image": self.pick(_IMAGES)}
                own[shared].pop("networks", None)
                own[shared].pop("container_name", None)
            inner: dict[str, Any] = {}
            if self.maybe(0.3):
                self.directory_files("inc/nested")
                self.files["inc/nested/.env"] = "V=nested\nPORT=6060\nN='a b'\n"
                nested = {"i3": self.service("i3", [], "inc/nested")}
                if self.maybe(0.4):
                    nested["i1"] = self.part("i1", [], "inc/nested", 0.4) | {"image": self.pick(_IMAGES)}
                    nested["i1"].pop("container_name", None)
                self.files["inc/nested/c.yml"] = document(
                    {"services": nested, "networks": self.network_section()}
                )
                inner["include"] = ["nested/c.yml"]
            inner |= {"services": own, "networks": self.network_section()}
            self.files["inc/compose.yaml"] = document(inner)
            entry: Any = f"{up}inc/compose.yaml"
            if self.maybe(0.4):
                entry = {"path": self.pick([entry, [entry]])}
                if self.maybe(0.5):
                    entry["env_file"] = self.pick([f"{up}inc/more.env", [f"{up}inc/more.env"]])
                if self.maybe(0.4):
                    entry["project_directory"] = self.pick([f"{up}inc", "."])
                if self.maybe(0.3):
                    self.files["inc/over.yml"] = document(self.override(own, "inc"))
                    entry["path"] = [f"{up}inc/compose.yaml", f"{up}inc/over.yml"]
            included.append(entry)
            if self.maybe(0.3) and len(names) > 1:
                services[names[-1]].pop("image", None)
                services[names[-1]].pop("build", None)
                services[names[-1]].pop("network_mode", None)
                services[names[-1]].pop("provider", None)
                services[names[-1]]["extends"] = "i1"
            if self.maybe(0.3):
                self.files["inc/second.yml"] = document(
                    {"services": {"i1": self.part("i1", [], "inc", 0.3) | {"image": "second:1"}}}
                )
                included.append(f"{up}inc/second.yml")
        if included:
            model["include"] = included
        model["services"] = services
        model["networks"] = self.network_section()
        main = self.pick(["compose.yaml", "compose.yaml", "compose.yml", "docker-compose.yml"])
        variables = {k: v for k, v in _VARIABLES.items() if k != "TAG"}
        lines = [f"{k}={v}" for k, v in variables.items()]
        if self.maybe(0.1):
            lines.append("COMPOSE_PROJECT_NAME=fromenv")
        if self.maybe(0.05):
            lines.append("COMPOSE_COMPATIBILITY=true")
        text = document(model)
        if self.maybe(0.1):
            text += f"---\n{document(self.override(services, folder))}"
        if self.maybe(0.15):
            keyed = {"environment": {"A": self.address(names)}, "restart": "always", "profiles": ["dev"]}
            merged = {"image": "merged:1", "ports": [self.port()]}
            text = f"x-base: &base {yaml(keyed)}\n{text}".replace(
                "services:\n", f"services:\n  keyed: {{<<: *base, {yaml(merged)[1:-1]}}}\n", 1
            )
        self.files[f"{at}{main}"] = text
        if self.maybe(0.5):
            override = self.override(services, folder)
            name = self.pick(["compose.override.yaml", "compose.override.yml", "docker-compose.override.yml"])
            self.files[f"{at}{name}"] = document(override)
        if self.maybe(0.15):
            self.files[f"{at}extra.yml"] = document(self.override(services, folder))
            self.files[f"{at}main.yml"] = document(model)
            lines.append(f"COMPOSE_FILE={self.pick([main + ':extra.yml', 'main.yml:extra.yml', 'main.yml'])}")
        if self.maybe(0.06):
            self.directory_files(f"{at}sub")
            self.files[f"{at}sub/first.yml"] = document({"services": {"s1": self.service("s1", [], "sub")}})
            self.files[f"{at}sub/.env"] = "V=sub\nPORT=5151\nDEEP=1\n"
            lines = [line for line in lines if not line.startswith("COMPOSE_FILE=")]
            lines.append(f"COMPOSE_FILE={self.pick(['sub/first.yml', 'sub/first.yml:' + main])}")
        self.random.shuffle(lines)
        lines += self.pick([[], ["Q='single $V'", 'W="x ${V} y"  # c', "export Z=$V-z # c", "H=a#b"]])
        self.files[f"{at}.env"] = "\n".join(lines) + "\n"
        return self.files, folder


def make_project(seed: int) -> tuple[dict[str, str], str]:
    """The files of a source, and the folder of it that holds the project."""
    return _Maker(seed).make()
