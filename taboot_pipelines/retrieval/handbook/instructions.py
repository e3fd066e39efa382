"""What the house's own texts say of how to restart, back up, restore and update its services.

A section is about what its heading names ("Upgrade Gitea"), else about what the headings below or above it,
its document's title or its folder name, if it has steps. Elsewhere a sentence, a step or a command counts of
which a service is the object ("Restart Traefik so that …", ``docker compose restart traefik``), with the
commands that it leads in to, and a command that begins an item or a row or stands behind a label, also where
it is about no service; each is shown with the paragraph or step that it is of. A section without a step tells
of what was or is so, but one that is called by an action alone where a service is declared ("Backup"), and
what a block of code draws is no command. What only happens to name a service is left out: a wrong instruction
is worse than none.
"""

from __future__ import annotations

import posixpath
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby, pairwise, takewhile
from pathlib import PurePosixPath

from taboot_pipelines.extraction.tier_a.systemd.units import UNITS, unit_name
from taboot_pipelines.knowledge.mentions import NameMatcher, fold, regions, stopwords
from taboot_pipelines.model.stores import STORES, alike
from taboot_pipelines.packaged import sections
from taboot_pipelines.retrieval.queries.relations import product_of
from taboot_pipelines.retrieval.queries.service_index import Document, Service, ServiceIndex
from taboot_pipelines.retrieval.sentences import Form, TextStatement, statements

_LISTED = sections("taboot_pipelines.retrieval.handbook", "actions.txt")
#: What is done to a service.
ACTIONS = tuple(_LISTED)


def _any_of(phrases: Iterable[str]) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, phrases))})(?![\w-])", re.IGNORECASE)


#: Of each action what says it in a heading, the verb that tells to do it, and the words of commands.
_HEADED = {a: _any_of(x.removeprefix("to ") for x in own if x[0] != "$") for a, own in _LISTED.items()}
_TOLD = {a: _any_of(x.removeprefix("to ") for x in own if x.startswith("to ")) for a, own in _LISTED.items()}
#: What a heading says beside its point; where a part of one ends; and what a participle at the beginning of a
#: part, or behind one of these, is the object of: "Site not updating" is no procedure.
_ASIDE, _PARTS = re.compile(r"\([^()]*\)"), re.compile(r"[^\w\s'-]+|\band\b|\d+", re.IGNORECASE)
_BEFORE_PARTICIPLES = frozenset({"about", "by", "for", "how", "of", "on", "to"})
_CALLED = {a: {x.removeprefix("to ").removeprefix("$ ") for x in own} for a, own in _LISTED.items()}
#: A line that calls a program: with arguments or by its path. It sets no value and draws no folders or flow.
_COMMAND = re.compile(r"(?:\$ +)?(?:[A-Za-z.~/][\w./~-]*(?: +[^\s│├└┌►]*[^\s│├└┌►:=])+|[\w.~-]*/[\w./~-]*\w)")
#: The programs that a line calls, each with what runs it.
_PROGRAM = re.compile(
    r"(?:^|&&|\|\|?|[;(\"'`])\s*(?:\$ +)?(?:\w+=\S* +)*"
    r"(?:(?:sudo|exec|nohup|time) +(?:-\S+ +)*)*([\w.-]+)(?=\s)"
)
#: What Compose does to all services of the folder where it is called: no service, file or project is given.
_COMPOSE = r"(?:sudo +)?(?:docker|podman)[ -]compose +[a-z]+(?: +--?[a-z-]+)*"
_ALL_BESIDE = re.compile(rf"(?:\$ +)?(?:cd +[^\s;&]+ *(?:&&|;) *)?{_COMPOSE}(?: *&& *{_COMPOSE})*")
_UNIT_ENDINGS = tuple(f".{kind}" for kind in UNITS)
#: The name of a unit with its type, with its instance or with both (systemd.unit(5)).
_UNIT = re.compile(
    rf"(?<![\w/.@-])[A-Za-z0-9][\w.-]*?(?:@[\w.-]+?)?(?:\.(?:{'|'.join(sorted(UNITS))}))?(?![\w/@-]|\.\w)"
)
#: A line that draws: it begins with what lines and boxes are drawn of, or such a character stands alone.
_DRAWN = re.compile(
    r"\s*(?:[\u2190-\u21ff\u2500-\u259f\u25a0-\u25ff|]|\+[-=]{2})"
    r"|.*\s(?:[\u2190-\u21ff\u2500-\u259f\u25a0-\u25ff]+|[-=]+>)(?:\s|$)"
)
#: Commands that begin an item with what they are for, or are the first cell of a row; the first word of a
#: label of up to three, with the command behind it.
_SPANS = r"(`[^`]+`(?:\s*[/,|]\s*`[^`]+`)*)"
_BEGUN = {Form.ITEM: re.compile(rf"{_SPANS}(?:\s+[-–—]|:)\s+\S"), Form.ROW: re.compile(rf"{_SPANS}\s*$")}
_LABELLED = re.compile(r"(\w[\w-]*)(?: [\w-]+){0,2}:\s+(`[^`]+`)\.?\s*$")
#: Where a clause ends; clauses before the one that tells what to do ("Once that is done, restart …"), and
#: words between a verb and its object, at most.
_CLAUSE, _EARLIER, _BETWEEN = re.compile(r"[,;:.!?()–—](?:\s|$)|\s[-–—]\s"), 1, 1
#: Steps of a text that is written to be followed, and what part of its statements they are.
_STEPS, _PART = 2, 0.2
#: The tool that a command runs in its own container: it is not what the command is about.
_TOOL = re.compile(r"\bexec (?:-\S+ )*(\S+) \1\b")
#: Words in bold at the beginning of a paragraph, which head what follows.
_BOLD = re.compile(r"\*\*|__")
#: Lines of code, and comments between them.
_IN_CODE = frozenset({Form.CODE, Form.SENTENCE})
#: Statements of one excerpt, whose document has the rest; commands that one sentence leads in to.
MAX_STATEMENTS, _COMMANDS_SHOWN = 40, 12
#: Code points of a lead-in that are compared; letters of a word of the language that may be a name too.
_LEAD, _LONG = 200, 7


@dataclass(frozen=True, slots=True)
class Text:
    """One of the house's own texts with its statements; ``units``: of each the number of the paragraph, step,
    table or block of code that it is of; ``named``: the services whose names stand in it, by the names;
    ``drawn``: the blocks of code that are pictures."""

    document: Document
    text: str
    statements: list[TextStatement]
    units: list[int]
    named: list[dict[str, tuple[Service, ...]]]
    drawn: frozenset[int]

    def is_step(self, number: int) -> bool:
        """Whether a statement is a part of a procedure: an item of an ordered list, or a command."""
        statement = self.statements[number]
        if statement.form is Form.CODE:
            return statement.block not in self.drawn and _COMMAND.fullmatch(statement.said) is not None
        return statement.ordinal is not None


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Statements ``numbers`` of a text that tell how to do something, under its headings ``path``. ``whole``:
    they are a section about it; ``beside``: it names none, and is that of the service for its place;
    ``meant``: how many services may be meant, which have one name."""

    text: Text
    path: tuple[str, ...]
    numbers: tuple[int, ...]
    whole: bool = True
    beside: bool = False
    meant: int = 1


class Names:
    """The names of services in texts: theirs, their containers', and these in words of their own."""

    def __init__(self, house: ServiceIndex, services: Sequence[Service]) -> None:
        self.services = services
        stores: dict[str, list[Service]] = defaultdict(list)
        for service in services:
            runs = {product_of(house, e.end) for e in house.out(service.number, "BUILDS")}
            for store in alike(frozenset(runs)) & STORES if runs & STORES else ():
                stores[store].append(service)
        self._stores = {store: tuple(found) for store, found in stores.items()}
        held: dict[str, dict[int, Service]] = defaultdict(dict)
        for service in services:
            for name in {service.name, str(service.properties.get("containerName") or "")} - {""}:
                for form in {name, re.sub(r"[-_]", " ", name)}:
                    held[fold(form)][service.number] = service
        self._services = {name: tuple(found.values()) for name, found in held.items()}
        self._matcher = NameMatcher(self._services)

    def at(self, text: str) -> list[tuple[int, str, tuple[Service, ...]]]:
        """Where names stand in a text, whose commonest only count in code: (code point, name, services)."""
        found = [
            (start, name, self._services[name])
            for start, _, name, _ in self._matcher.find(text, regions(text))
        ]
        for unit in _UNIT.finditer(text):
            if "@" in unit[0] or unit[0].endswith(_UNIT_ENDINGS):
                name = unit_name(unit[0] if unit[0].endswith(_UNIT_ENDINGS) else f"{unit[0]}.service")
                if name is not None and (services := self._services.get(fold(name.service))):
                    found.append((unit.start(), fold(unit[0]), services))
        return found

    def is_software(self, name: str, services: Sequence[Service]) -> bool:
        """Whether a name is that of a database or cache that others run too, whatever these are called: by
        itself it means none of them."""
        return any(s not in services for s in self._stores.get(name, ()))

    def of_heading(self, heading: str) -> dict[str, tuple[Service, ...]]:
        """The services that a heading, a title or the name of a file names, by name or by the database or
        cache that they run. Words of the language name none, but long ones that are written like names."""
        words = f"{heading}\n{re.sub(r'[-_./]', ' ', heading)}"
        found = {}
        for start, _, name, _ in self._matcher.find(words, [(0, len(words), "heading")]):
            told = start and len(name) >= _LONG and words[start].isupper() and words[start - 1] != "\n"
            if told or name not in stopwords():
                found[name] = self._services[name]
        if not found:
            for word in re.findall(r"[a-z0-9]+", heading.lower()):
                if word in self._stores:
                    found[word] = self._stores[word]
        return found


def read_text(house: ServiceIndex, names: Names, document: Document) -> Text:
    """A text as its statements, with the services that each names."""
    text = house.text(document.doc_id)
    found = statements(text, code=False, whole=True)
    starts = [s.start for s in found]
    named: list[dict[str, tuple[Service, ...]]] = [{} for _ in found]
    for at, name, services in names.at(text):
        number = bisect_left(starts, at + 1) - 1
        if number >= 0 and at < found[number].end:
            named[number][name] = services
    drawn = frozenset(
        block
        for block, lines in groupby((s for s in found if s.form is Form.CODE), key=lambda s: s.block)
        if (of := list(lines)) and any(map(_DRAWN.match, text[of[0].start : of[-1].end].split("\n")))
    )
    return Text(document, text, found, _units(found), named, drawn)


def _units(found: Sequence[TextStatement]) -> list[int]:
    code = {s.block for s in found if s.form is Form.CODE}
    units = [0] if found else []
    for last, s in pairwise(found):
        beside = (last.block, last.section) == (s.block, s.section)
        together = s.form is Form.ROW or (s.block in code and {last.form, s.form} <= _IN_CODE)
        same = beside and (together or (s.before != "" and last.ordinal == s.ordinal))
        units.append(units[-1] + (not same))
    return units


@dataclass(slots=True)
class Instructions:
    """``of``: (number of a service, action) -> what tells how, sections before single statements;
    ``general``: action -> sections and listed commands that name no service."""

    of: dict[tuple[int, str], list[Excerpt]]
    general: dict[str, list[Excerpt]]


def instructions(house: ServiceIndex, texts: Sequence[Text], names: Names) -> Instructions:
    """All that the texts tell of how to do something."""
    found = Instructions(defaultdict(list), defaultdict(list))
    beside = declared_beside(house, names.services)
    for text in texts:
        taken: set[tuple[int, int, str]] = set()
        near = beside(text.document)

        def add(
            services: Sequence[Service],
            action: str,
            excerpt: Excerpt,
            taken: set[tuple[int, int, str]] = taken,
            near: Sequence[Service] = near,
        ) -> None:
            meant = _meant(services, excerpt, names, near)
            for service in meant:
                new = tuple(n for n in excerpt.numbers if (service.number, n, action) not in taken)
                if new:
                    taken |= {(service.number, n, action) for n in new}
                    told = replace(excerpt, numbers=new, meant=len(meant))
                    _join(found.of[service.number, action], told)

        told_of = _sections(text, names, near)
        for (root, action), numbers in told_of.items():
            subjects = _subjects(text, names, root, numbers)
            named = {path for path, _ in subjects}
            for path, services in subjects:
                under = tuple(n for n in numbers if path_of(text, n)[: len(path)] == path)
                add(services, action, Excerpt(text, path, under[:MAX_STATEMENTS]))
            rest = tuple(n for n in numbers if not any(path_of(text, n)[: len(p)] == p for p in named))
            if rest:
                excerpt = Excerpt(text, root, rest[:MAX_STATEMENTS])
                for service in near:
                    add((service,), action, replace(excerpt, beside=True))
                if not near:
                    found.general[action].append(excerpt)
        for number, action, about in _told(text, near):
            told = Excerpt(text, path_of(text, number), _with_commands(text, number), whole=False)
            add(about, action, told)
        in_section = {(n, action) for (_, action), numbers in told_of.items() for n in numbers}
        for number, action, about in _listed(text, names):
            told = Excerpt(text, path_of(text, number), (number,), whole=False)
            if about:
                add(about, action, told)
            elif (number, action) not in in_section:
                _join(found.general[action], told)
    for excerpts in (*found.of.values(), *found.general.values()):
        excerpts.sort(key=lambda e: (e.beside, not e.whole))
    return found


def _join(held: list[Excerpt], excerpt: Excerpt) -> None:
    """Add an excerpt, single statements of one section to those that are held."""
    last = held[-1] if held else None
    if last and not (last.whole or excerpt.whole) and (last.text, last.path) == (excerpt.text, excerpt.path):
        held[-1] = replace(last, numbers=tuple(sorted({*last.numbers, *excerpt.numbers})[:MAX_STATEMENTS]))
    else:
        held.append(excerpt)


def path_of(text: Text, number: int) -> tuple[str, ...]:
    """The title and the headings that a statement stands under; of a heading with itself."""
    statement = text.statements[number]
    parts = statement.section.split(" > ") if statement.section else []
    if statement.form is Form.HEADING:
        parts.append(statement.said)
    title = text.document.title
    return tuple(parts) if parts and parts[0] == title else (title, *parts)


def _sections(
    text: Text, names: Names, near: Sequence[Service]
) -> dict[tuple[tuple[str, ...], str], list[int]]:
    """(headings down to the innermost one that says what is done, what is done) -> what stands below it,
    where that heading names a service, says nothing else beside the declaration of one, or there is a step
    below it: else it tells of what was or is so."""
    found: dict[tuple[tuple[str, ...], str], list[int]] = defaultdict(list)
    for number, statement in enumerate(text.statements):
        path = path_of(text, number)
        at = next((i for i in range(len(path) - 1, -1, -1) if says(path[i])), None)
        if at is None or (statement.form is Form.HEADING and at == len(path) - 1):
            continue
        for action in says(path[at]):
            found[path[: at + 1], action].append(number)
    # A heading without a statement below it tells nothing.
    return {
        (path, action): n
        for (path, action), n in found.items()
        if any(map(text.is_step, n))
        or (
            ((near and _is_action(path[-1])) or names.of_heading(path[-1]))
            and any(text.statements[i].form is not Form.HEADING for i in n)
        )
    }


def _is_action(heading: str) -> bool:
    """Whether a heading says what is done and nothing else ("Backup & restore")."""
    parts = [part.strip() for part in _PARTS.split(_ASIDE.sub(" ", heading)) if part.strip()]
    return bool(parts) and all(any(p.fullmatch(part) for p in _HEADED.values()) for part in parts)


@lru_cache(maxsize=4096)
def says(heading: str) -> tuple[str, ...]:
    """What a heading says is done below it, but beside its point or of itself ("Site not updating")."""
    heading = _ASIDE.sub(" ", heading)
    return tuple(
        action
        for action, said in _HEADED.items()
        if any(
            not re.search(r"ing\b", found[0])
            or not (before := _PARTS.split(heading[: found.start()])[-1].split())
            or before[-1].lower() in _BEFORE_PARTICIPLES
            for found in said.finditer(heading)
        )
    )


def is_followed(text: Text) -> bool:
    """Whether a text is written to be followed: a good part of it are steps."""
    steps = sum(map(text.is_step, range(len(text.statements))))
    return steps >= max(_STEPS, _PART * len(text.statements))


def _subjects(
    text: Text, names: Names, root: tuple[str, ...], numbers: Sequence[int]
) -> list[tuple[tuple[str, ...], tuple[Service, ...]]]:
    """What a section is about, each with the headings under which it stands: what its heading names, else
    what the next one above it or the title does, else what those with steps below it do, else what its file
    does."""
    for heading in reversed(root):
        if found := names.of_heading(heading):
            return [(root, services) for services in found.values()]
    below = dict.fromkeys(path_of(text, n)[: len(root) + 1] for n in numbers)
    inner = [
        (path, services)
        for path in below
        if len(path) > len(root)
        and any(text.is_step(n) for n in numbers if path_of(text, n)[: len(path)] == path)
        for services in names.of_heading(path[-1]).values()
    ]
    if inner:
        return inner
    file = PurePosixPath(text.document.path)
    return [(root, services) for services in names.of_heading(file.stem).values()]


def declared_beside(
    house: ServiceIndex, services: Iterable[Service]
) -> Callable[[Document], Sequence[Service]]:
    """The services that the files beside a document declare, in a folder of their own."""
    held: dict[str, list[Service]] = defaultdict(list)

    def folder(document: Document) -> str:
        inside = posixpath.dirname(document.path)
        return posixpath.join(house.roots.get(document.source, document.source), inside) if inside else ""

    for service in services:
        for place in {folder(house.documents[d]) for d in house.declaring(service)} - {""}:
            held[place].append(service)
    return lambda document: held.get(folder(document), ())


def _meant(
    services: Sequence[Service], excerpt: Excerpt, names: Names, near: Sequence[Service]
) -> Sequence[Service]:
    """Of services with one name those that are declared beside the text or whose project it names, if there
    are any; none where the name is that of what others run too."""
    software = any(names.is_software(fold(s.name), services) for s in services)
    if len(services) < 2 and not software:
        return services
    said = " ".join(excerpt.text.statements[n].said for n in excerpt.numbers)
    around = re.sub(r"[-_./]", " ", f"{excerpt.text.document.path} {' '.join(excerpt.path)} {said}".lower())
    told = [
        s
        for s in services
        if s in near or re.search(rf"\b{re.escape(re.sub('[-_.]', ' ', s.project.lower()))}\b", around)
    ]
    return told or (() if software else services)


def _told(text: Text, beside: Sequence[Service]) -> Iterator[tuple[int, str, Sequence[Service]]]:
    """The statements that tell to do something to a service. ``beside``: those that are declared where the
    text lies, of which Compose is asked without a name."""
    for number, statement in enumerate(text.statements):
        named, said = text.named[number], statement.said
        if statement.form is Form.HEADING:
            continue
        if statement.form is not Form.CODE:
            for action, pattern in _TOLD.items():
                for verb in pattern.finditer(said):
                    yield from ((number, action, services) for services in _objects_of(verb, said, named))
        elif text.is_step(number):
            program, *rest = said.lower().removeprefix("$ ").split()
            called = {program, *rest, *re.split(r"[-_.]+", program.rpartition("/")[2])}
            called |= {x.rpartition("/")[2].partition(".")[0] for x in rest if x.startswith("/")}
            for action, words in _CALLED.items():
                if called & words:
                    yield from ((number, action, services) for services in _objects(said, named))
                    if _is_of_all_beside(text, number):
                        yield from ((number, action, (service,)) for service in beside)


def _is_of_all_beside(text: Text, number: int) -> bool:
    """Whether a command is one of Compose to all services of the folder in which its text lies: no command
    of its block goes to another."""
    block = text.statements[number].block
    found = _ALL_BESIDE.fullmatch(text.statements[number].said.lower())
    folder = text.document.folder.lower()
    gone = (
        posixpath.basename(word[3:].strip().rstrip("/"))
        for s in text.statements[: number + 1]
        if s.block == block
        for word in re.findall(r"\bcd +[^\s;&]+", s.said.lower())
    )
    return found is not None and all(to == folder for to in gone)


def _listed(text: Text, names: Names) -> Iterator[tuple[int, str, Sequence[Service]]]:
    """The commands with arguments that an item or a row of a table begins with, saying what they are for, or
    that stand behind a label; with what is done by their words or the label, and the services that the
    command or a heading above it names."""
    for number, statement in enumerate(text.statements):
        said = statement.cells[0][1] if statement.cells else statement.said
        begun = _BEGUN[statement.form].match(said) if statement.form in _BEGUN else None
        behind = _LABELLED.match(said) if statement.form in (Form.ITEM, Form.SENTENCE) else None
        code = begun[1] if begun else behind[2] if behind else ""
        first = code[1:].partition("`")[0]
        if " " not in first or _COMMAND.fullmatch(first) is None:
            continue
        called = set(re.findall(r"[a-z0-9]+|--[a-z-]+", code.lower()))
        by_words = [action for action, words in _CALLED.items() if called & words]
        # A program is what is called, not what the call is about.
        rest, named = first.lower().partition(" ")[2], text.named[number]
        held = {n: s for n, s in named.items() if re.search(rf"(?<!\w){re.escape(n)}(?!\w)", rest)}
        # A target such as `gitea-restart` is called after what it is for.
        held = held or {
            n: s for n, s in names.of_heading(rest).items() if not any(n in w for w in _CALLED.values())
        }
        about = [s for services in held.values() for s in services]
        for heading in reversed(path_of(text, number)) if not named else ():
            about = about or [s for services in names.of_heading(heading).values() for s in services]
        if about or not named:
            for action in says(behind[1]) if behind else by_words:
                yield number, action, about


def _objects_of(
    verb: re.Match[str], said: str, named: dict[str, tuple[Service, ...]]
) -> Iterator[tuple[Service, ...]]:
    """What is the object of a verb: the service whose name follows it, with nothing but common words between,
    where the verb begins a clause or follows a common word, and no further noun follows the name."""
    common = stopwords()
    if len(verb[0]) > 1 and verb[0].isupper() and not said.isupper():
        return  # a name of something, as in "DNS UPDATE"
    *earlier, last = _CLAUSE.split(said[: verb.start()])
    before = last.split()
    # What comes after several steps is the end of something else.
    if (before and before[-1].lower() not in common) or len(earlier) > _EARLIER:
        return
    for name, services in named.items():
        found = re.compile(rf"(?<![\w/-]){re.escape(name)}(?![\w/-])", re.IGNORECASE).search(said, verb.end())
        if found is None:
            continue
        between, after = said[verb.end() : found.start()], said[found.end() :].lstrip("`\"'*)")
        words = between.replace("`", " ").replace("*", " ").split()
        following = re.match(r"\s+([^\W_]+)", after)
        if (
            len(words) <= _BETWEEN
            and common.issuperset(w.lower() for w in words)
            and (following is None or following[1].lower() in common)
        ):
            yield services


def _objects(command: str, named: dict[str, tuple[Service, ...]]) -> Iterable[tuple[Service, ...]]:
    """What a command is about: what it names but in a path, else what it names in one."""
    tool = _TOOL.search(command)
    called = _without_programs(command)
    about = {
        n: s
        for n, s in named.items()
        if (tool is None or n != tool[1].lower())
        and re.search(rf"(?<!\w){re.escape(n)}(?![\w=])", called, re.IGNORECASE)
    }
    return [s for n, s in about.items() if is_object(n, command)] or about.values()


def _without_programs(line: str) -> str:
    """A line without the programs that it calls: they are what is called, not what the call is about."""
    return _PROGRAM.sub(lambda m: m[0][: m.start(1) - m.start()], line)


def is_object(name: str, line: str) -> bool:
    """Whether a line of code names something as what it is about: not in a path, as a program or a key."""
    bare = rf"(?<![/\w.-]){re.escape(name)}(?![\w=-]|\.\w)"
    return re.search(bare, _without_programs(line), re.IGNORECASE) is not None


def _with_commands(text: Text, number: int) -> tuple[int, ...]:
    """A statement with its paragraph or step and the commands that this leads in to; a command with what
    leads in to it. Both begin with the words in bold that head them, in place of a heading."""
    own, first, last = text.statements[number], number, number
    if own.form is Form.CODE:
        before = text.statements[number - 1] if number else own
        if before.form not in (Form.SENTENCE, Form.LEAD_IN) or before.said not in own.lead:
            return (number,)
        first = number - 1
    if first == number or text.statements[first].block != own.block:
        first, end = _paragraph(text, first)
        last = max(last, end)
    following = text.statements[last + 1 : last + 1 + _COMMANDS_SHOWN] if own.form is not Form.CODE else ()
    said = text.statements[last].said[:_LEAD]
    led_to = takewhile(lambda s: s.form is Form.CODE and s.lead.startswith(said), following)
    return tuple(range(first, last + 1 + len(list(led_to))))


def _paragraph(text: Text, number: int) -> tuple[int, int]:
    """The first and the last statement of the paragraph or step of one, from the words in bold above it on
    that are near and of its section; of a comment in a block of code only itself."""
    unit, own = text.units[number], text.statements[number]
    first = last = number
    while first and text.units[first - 1] == unit:
        first -= 1
    while last + 1 < len(text.units) and text.units[last + 1] == unit:
        last += 1
    if any(s.form is Form.CODE for s in text.statements[first : last + 1]):
        return number, number
    for above in range(first, max(-1, first - _COMMANDS_SHOWN), -1):
        s = text.statements[above]
        if s.section != own.section or s.form in (Form.HEADING, Form.ITEM):
            break
        begin = text.text.rfind("\n", 0, s.start) + 1
        if _BOLD.match(text.text, begin) and not re.search(r"\w", text.text[begin : s.start]):
            return above, last
    return first, last
