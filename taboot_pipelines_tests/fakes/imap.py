"""A fake IMAP server on loopback: the commands of RFC 3501 that a reader of mail sends, over folders that
tests change. What would change a mailbox is refused."""

from __future__ import annotations

import base64
import re
import socket
import socketserver
import ssl
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

USER, PASSWORD = "ann@example.org", "planted password"


@dataclass
class FakeFolder:
    validity: int = 1
    next: int = 1
    messages: dict[int, bytes] = field(default_factory=dict)

    def put(self, data: bytes) -> int:
        uid, self.next = self.next, self.next + 1
        self.messages[uid] = data
        return uid

    def renumber(self) -> None:
        self.validity += 1
        held = list(self.messages.values())
        self.messages, self.next = {}, 1
        for data in held:
            self.put(data)


class FakeImap:
    """A mailbox. ``asked`` counts commands; ``cut_after``: after so many fetched messages the connection
    breaks. ``capabilities``: what it says that it can, ``tokens`` and ``signed_in`` those of AUTHENTICATE;
    ``closed``: folders that may not be opened; ``says``: what it sends in place of an answer to a command,
    again and again where that ends with ``…``."""

    def __init__(self) -> None:
        self.capabilities = "IMAP4rev1"
        self.token = "ya29.planted-token"
        self.signed_in: list[tuple[str, bytes]] = []
        self.closed: set[str] = set()
        self.flags: dict[str, str] = {}
        self.says: dict[str, str] = {}
        self.folders: dict[str, FakeFolder] = {"INBOX": FakeFolder()}
        self.asked: Counter[str] = Counter()
        self.cut_after: int | None = None
        self.port = 0


class _Handler(socketserver.StreamRequestHandler):
    mailbox: FakeImap
    disable_nagle_algorithm = True

    def handle(self) -> None:
        self.folder: FakeFolder | None = None
        self.say(f"* OK [CAPABILITY {self.mailbox.capabilities}] ready")
        while line := self.rfile.readline():
            tag, _, rest = line.decode("utf-8").rstrip("\r\n").partition(" ")
            command, _, arguments = rest.partition(" ")
            command = command.upper()
            if command == "UID":
                command, _, arguments = arguments.partition(" ")
                command = f"UID {command.upper()}"
            self.mailbox.asked[command] += 1
            if command == "LOGOUT":
                self.say("* BYE", f"{tag} OK bye")
                return
            if said := self.mailbox.says.get(command):
                self.wfile.write(said.rstrip("…").encode())
                while said.endswith("…"):
                    self.wfile.write(1000 * said.rstrip("…").encode())
                return
            act = getattr(self, f"do_{command.lower().replace(' ', '_')}", None)
            if act is None:
                self.say(f"{tag} BAD unknown command")
                continue
            answer = act(arguments)
            if answer is None:
                return
            self.say(f"{tag} {answer} done")

    def say(self, *lines: str) -> None:
        self.wfile.write("".join(f"{line}\r\n" for line in lines).encode())

    def do_capability(self, _: str) -> str:
        self.say(f"* CAPABILITY {self.mailbox.capabilities}")
        return "OK"

    def do_authenticate(self, mechanism: str) -> str:
        self.say("+")
        given = base64.b64decode(self.rfile.readline())
        self.mailbox.signed_in.append((mechanism, given))
        if f"auth=Bearer {self.mailbox.token}\1\1".encode() in given:
            return "OK"
        # {"status":"400","schemes":"Bearer"}
        self.say("+ eyJzdGF0dXMiOiI0MDAiLCJzY2hlbWVzIjoiQmVhcmVyIn0=")
        self.mailbox.signed_in.append((mechanism, base64.b64decode(self.rfile.readline())))
        return "NO [AUTHENTICATIONFAILED] invalid"

    def do_login(self, arguments: str) -> str:
        user, password = re.findall(r'"((?:[^"\\]|\\.)*)"|(\S+)', arguments)
        given = [next(filter(None, user)), next(filter(None, password))]
        return "OK" if given == [USER, PASSWORD] else "NO [AUTHENTICATIONFAILED] invalid"

    def do_list(self, arguments: str) -> str:
        pattern = re.findall(r'"([^"]*)"', arguments)[-1]
        shape = re.escape(pattern).replace(r"\*", ".*").replace("%", "[^/]*")
        self.say(
            *(
                f'* LIST ({self.mailbox.flags.get(name, "")}) "/" "{name}"'
                for name in self.mailbox.folders
                if re.fullmatch(shape, name)
            )
        )
        return "OK"

    def do_examine(self, arguments: str) -> str:
        folder = self.mailbox.folders.get(arguments.strip('"'))
        if folder is None or arguments.strip('"') in self.mailbox.closed:
            return "NO [NONEXISTENT]"
        self.folder = folder
        self.say(f"* {len(folder.messages)} EXISTS", f"* OK [UIDVALIDITY {folder.validity}] valid")
        return "OK [READ-ONLY]"

    def do_uid_search(self, arguments: str) -> str:
        assert self.folder is not None
        first, last = map(int, re.match(r"(\d+):(\d+)", arguments).groups())
        uids = sorted(self.folder.messages)[first - 1 : last]
        if "SINCE" in arguments:
            day = arguments.rpartition(" ")[2].encode()
            uids = [uid for uid in uids if day in self.folder.messages[uid]]
        self.say(f"* SEARCH {' '.join(map(str, uids))}".rstrip())
        return "OK"

    def do_uid_fetch(self, arguments: str) -> str | None:
        assert self.folder is not None
        numbers, _, items = arguments.partition(" ")
        for uid in map(int, numbers.split(",")):
            data = self.folder.messages.get(uid)
            if data is None:
                continue
            if "BODY.PEEK[]" in items:
                if self.mailbox.cut_after is not None:
                    self.mailbox.cut_after -= 1
                    if self.mailbox.cut_after < 0:
                        return None
                self.mailbox.asked["messages"] += 1
                self.say(f"* {uid} FETCH (UID {uid} BODY[] {{{len(data)}}}")
                self.wfile.write(data)
                self.say(")")
            else:
                self.say(f"* {uid} FETCH (UID {uid} RFC822.SIZE {len(data)})")
        return "OK"


@contextmanager
def serving(fake: FakeImap, tls: ssl.SSLContext | None = None) -> Iterator[FakeImap]:
    """Serve the mailbox at ``fake.port``."""

    class Server(socketserver.ThreadingTCPServer):
        def get_request(self) -> tuple[socket.socket, object]:
            connection, address = super().get_request()
            return (tls.wrap_socket(connection, server_side=True) if tls else connection), address

        def handle_error(self, request: object, address: object) -> None:
            """A client that breaks off is what tests do."""

    server = Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"mailbox": fake}))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    fake.port = server.server_address[1]
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
