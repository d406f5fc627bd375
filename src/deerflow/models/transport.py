"""Posts a chat-completions request and feeds the answer to a reply builder."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

import aiohttp

from deerflow.errors import ModelRequestError, ModelTimeoutError
from deerflow.models.failures import from_response, unreachable
from deerflow.models.pool import CONNECT_SECONDS, SessionPool
from deerflow.models.protocol import delta_sink
from deerflow.models.reply import ReplyBuilder
from deerflow.models.sse import SseDecoder
from deerflow.models.thinktags import Piece

_OK = 200
MAX_ERROR = 64 << 10
"""Bytes that are read of an error answer."""
MAX_PAYLOAD = 32 << 20
"""Bytes of one payload, or of a whole answer that is not streamed."""
MAX_ANSWER = 16 << 20
"""Characters of a streamed answer; a model that never ends would fill memory."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where requests of one model go.

    Attributes:
        url: of `/chat/completions`.
        headers: with the key.
        proxy: HTTP proxy or None.
        silence: seconds without a byte before ModelTimeoutError.
        shown: configured name of the model, for errors.
        pool: HTTP sessions.
    """

    url: str
    headers: Mapping[str, str] = field(repr=False)
    proxy: str | None
    silence: float
    shown: str
    pool: SessionPool

    async def ask(self, data: bytes, reply: ReplyBuilder) -> AsyncGenerator[Sequence[Piece], None]:
        """Post the request; yields what each network read made visible, told to the sink as well.

        Raises:
            ModelError: every failure as its class.
        """
        sink = delta_sink.get()
        length = 0
        try:
            async with aclosing(self._read(data, reply)) as reads:
                async for _ in reads:
                    pieces = reply.drain()
                    length += sum(len(text) for _, text in pieces)
                    if length > MAX_ANSWER:
                        raise _endless(self.shown)
                    if sink is not None:
                        for kind, text in pieces:
                            sink(kind, text)
                    yield pieces
        except TimeoutError as error:
            text = f"Model {self.shown!r}: the endpoint was silent for too long."
            raise ModelTimeoutError(text, model=self.shown) from error
        except (aiohttp.ClientError, OSError) as error:
            raise unreachable(self.shown) from error

    async def _read(self, data: bytes, reply: ReplyBuilder) -> AsyncGenerator[None, None]:
        session = await self.pool.session()
        request = session.post(
            self.url,
            data=data,
            headers=self.headers,
            proxy=self.proxy,
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=CONNECT_SECONDS, sock_read=self.silence
            ),
            allow_redirects=False,
        )
        async with request as response:
            if response.status != _OK:
                body = await _head(response, MAX_ERROR)
                raise from_response(response.status, body, response.headers, model=self.shown)
            async for payloads in _payloads(response, self.shown):
                for payload in payloads:
                    reply.add(payload)
                yield
            reply.end()
        yield


async def _payloads(response: aiohttp.ClientResponse, shown: str) -> AsyncIterator[list[bytes]]:
    """Payloads per network read; an endpoint that does not stream gives its answer as one."""
    if response.content_type == "application/json":
        whole = await _head(response, MAX_PAYLOAD + 1)
        if len(whole) > MAX_PAYLOAD:
            raise _endless(shown)
        yield [whole]
        return
    decoder = SseDecoder()
    async for data in response.content.iter_any():
        yield decoder.feed(data)
        if decoder.held > MAX_PAYLOAD:
            raise _endless(shown)
    yield decoder.close()


async def _head(response: aiohttp.ClientResponse, most: int) -> bytes:
    """The first bytes of an answer."""
    parts: list[bytes] = []
    while most > 0 and (part := await response.content.read(most)):
        parts.append(part)
        most -= len(part)
    return b"".join(parts)


def _endless(shown: str) -> ModelRequestError:
    return ModelRequestError(
        f"Model {shown!r}: the answer has no end; it was broken off.",
        model=shown,
        cure="Set `max_tokens` of this model, or check what stands at its `base_url`.",
    )
