"""A TCP proxy that breaks connections at a chosen moment."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

Rule = Callable[[bytes], str]
"""What becomes of bytes from the client: "pass", "cut" (before the server has them) or "deafen"
(the server has them, its answer is lost)."""


class Wire:
    """Forwards connections to a port of this machine.

    Attributes:
        port: where to connect.
        rule: asked for each piece that a client sends.
        open: while it is False new connections are refused, old ones are cut.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self.port: int = self._listener.getsockname()[1]
        self.rule: Rule = lambda data: "pass"
        self.accepting = True
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def cut(self, *, stay: bool = False) -> None:
        """End every connection; with `stay` no new one is made until `mend`."""
        self.accepting = not stay
        for pair in self._pairs:
            _end(*pair)
        self._pairs.clear()

    def mend(self) -> None:
        """New connections are made again."""
        self.accepting = True

    def close(self) -> None:
        """Stop."""
        self.cut(stay=True)
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if not self.accepting:
                client.close()
                continue
            server = socket.create_connection(("127.0.0.1", self._target))
            deaf = threading.Event()
            self._pairs.append((client, server))
            for source, sink, up in ((client, server, True), (server, client, False)):
                threading.Thread(
                    target=self._pump, args=(source, sink, up, deaf), daemon=True
                ).start()

    def _pump(
        self, source: socket.socket, sink: socket.socket, up: bool, deaf: threading.Event
    ) -> None:
        try:
            while data := source.recv(65536):
                verdict = self.rule(data) if up else "pass"
                if verdict == "deafen":
                    deaf.set()
                if verdict == "cut" or (deaf.is_set() and not up):
                    break
                sink.sendall(data)
        except OSError:
            pass
        _end(source, sink)


def _end(*sockets: socket.socket) -> None:
    for found in sockets:
        try:
            found.shutdown(socket.SHUT_RDWR)
        except OSError:
            continue
        finally:
            found.close()
