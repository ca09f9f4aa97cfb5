"""OpenAI's routes on Ray Serve: each replica is a `llada serve` of its own, to which it hands on what comes.

Ray Serve sends a request to the replica with the shorter queue of two, starts replicas as queues grow and anew when
they end, and lets one that goes away finish its answers. The program answers: routes, streams, batching, limits and
errors are those of docs/server.md. When it ends its replica ends too, and a request that was under way gets an error.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.parse
from collections.abc import AsyncIterator, Mapping
from typing import Any, Optional

import aiohttp
from ray import serve
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ._generate import least_cpus
from ._models import local_path
from ._program import program

# Of a replica that goes away, for answers that are long; it goes as soon as it has none.
_DRAIN_SECONDS = 120
_HEALTH_SECONDS = 8
_HEALTH_FAILURES = 3  # one behind the other, after which Ray Serve takes a replica away, too
# The program ends in good order when the pipe ends that is its replica's: when the replica ends, in any way.
_SHELL = (
    'exec 3<&0; "$@" </dev/null & child=$!; { cat <&3 >/dev/null; kill -TERM $child 2>/dev/null; } & wait $child'
)
# Of one connection, so not handed on.
_HOP = {"connection", "keep-alive", "transfer-encoding", "upgrade", "content-length", "host", "te", "trailer"}


def _error(status: int, message: str) -> bytes:
    kind = {"message": message, "type": "server_error", "param": None, "code": "replica_failed"}
    return json.dumps({"error": {**kind, "status": status}}).encode()


def _error_event(path: str, message: str) -> bytes:
    """Behind whatever the program had written of an event: the empty line ends it. Anthropic's streams have named
    events and errors of a form of their own."""
    if path.startswith("/v1/messages"):
        error = json.dumps({"type": "error", "error": {"type": "api_error", "message": message}}).encode()
        return b"\n\nevent: error\ndata: " + error + b"\n\n"
    return b"\n\ndata: " + _error(503, message) + b"\n\n"


class Replica:
    """A `llada serve` of this machine, behind a socket in a folder of its own."""

    def __init__(self, model: str, words: list[str]):
        path = local_path(model)
        # Waits while another process of this machine packs them; packed weights are in its memory once.
        subprocess.run([program(), "pack", path], stdin=subprocess.DEVNULL, capture_output=True, check=False)
        self._folder = tempfile.mkdtemp(prefix="llada-replica-")
        self._socket = os.path.join(self._folder, "socket")
        self._session: Optional[aiohttp.ClientSession] = None
        self._ending, self._failures = False, 0
        line = [program(), "serve", "-m", path, "--socket", self._socket, *words]
        line = ["/bin/sh", "-c", _SHELL, "sh", *line]
        self._child = subprocess.Popen(line, stdin=subprocess.PIPE, start_new_session=True)
        while not self._is_ready():
            if self._child.poll() is not None:
                status = self._child.returncode
                raise RuntimeError(f"llada serve: ended with status {status} while the model was loaded")
            time.sleep(0.05)
        threading.Thread(target=self._end_with_child, daemon=True).start()

    def _is_ready(self) -> bool:
        with socket.socket(socket.AF_UNIX) as link:
            try:
                link.connect(self._socket)
                link.sendall(b"GET /ready HTTP/1.1\r\nHost: replica\r\nConnection: close\r\n\r\n")
                return link.recv(20).startswith(b"HTTP/1.1 200")
            except OSError:
                return False

    def _end_with_child(self) -> None:
        status = self._child.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
        if not self._ending:
            print(f"llada serve ended with status {status}; so does its replica", flush=True)
            os._exit(1)

    def _new_session(self, seconds: Optional[float] = None) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.UnixConnector(path=self._socket, limit=0),
            timeout=aiohttp.ClientTimeout(total=seconds),
            auto_decompress=False,
        )

    async def check_health(self) -> None:
        """Raises where the program does not answer, and at last ends it: Ray Serve would let a replica that hangs
        finish its answers, which wait for ever."""
        try:
            async with self._new_session(_HEALTH_SECONDS) as session, session.get("http://replica/health") as reply:
                reply.raise_for_status()
            self._failures = 0
        except (aiohttp.ClientError, asyncio.TimeoutError):
            self._failures += 1
            if self._failures >= _HEALTH_FAILURES and self._child.poll() is None:
                with contextlib.suppress(ProcessLookupError):  # it has ended since
                    os.killpg(self._child.pid, signal.SIGKILL)
            raise

    async def __call__(self, request: Request) -> Response:
        if self._session is None:
            self._session = self._new_session()
        url = "http://replica" + urllib.parse.quote(request.url.path)
        if request.url.query:
            url += "?" + request.url.query
        headers = [(name, value) for name, value in request.headers.items() if name.lower() not in _HOP]
        try:
            reply = await self._session.request(request.method, url, data=await request.body(), headers=headers)
            names = {name: value for name, value in reply.headers.items() if name.lower() not in _HOP}
            if reply.content_length is None:
                return StreamingResponse(self._pieces(reply, request.url.path), reply.status, names)
            return Response(await reply.read(), reply.status, names)
        except aiohttp.ClientError:
            return Response(
                _error(503, "the replica that answered has ended; try again"),
                503,
                {"Content-Type": "application/json", "Retry-After": "1"},
            )

    @staticmethod
    async def _pieces(reply: aiohttp.ClientResponse, path: str) -> AsyncIterator[bytes]:
        """A stream that breaks ends with an error of its protocol, not as if all of it had come."""
        try:
            async for piece in reply.content.iter_any():
                yield piece
        except aiohttp.ClientError:
            if "event-stream" not in reply.headers.get("Content-Type", ""):
                raise
            yield _error_event(path, "the replica that answered has ended")
        finally:
            reply.close()

    def __del__(self) -> None:
        """Its answers have ended, or their time has: the program's, too."""
        self._ending = True
        if self._child.stdin is not None:
            self._child.stdin.close()
        try:
            self._child.wait(_DRAIN_SECONDS)
        except subprocess.TimeoutExpired:
            pass


def application(args: Mapping[str, Any]) -> Any:
    """An application for `serve.run`, or for `serve run llada.ray:application model=... replicas=1-4`. args:

    model: a path on every machine, or an address that fsspec knows. replicas: how many, or from how many to how many by
    the length of their queues, 1 where not given. threads: of a replica; where not given, the smallest machine's
    processors. parallel: answers that a replica computes at a time (8). queue: requests that wait beyond those of all
    replicas (256); more get status 503. options: further ones of `llada serve`, as a shell has them."""
    known = {"model", "replicas", "threads", "parallel", "queue", "options"}
    unknown = sorted(set(args) - known)
    if unknown or not args.get("model"):
        raise ValueError(f"application: found {', '.join(unknown) or 'no model'}, needed model and any of "
                         f"{', '.join(sorted(known - {'model'}))}")
    threads, parallel = int(args.get("threads") or least_cpus()), int(args.get("parallel", 8))
    least, _, most = str(args.get("replicas", 1)).partition("-")
    size: dict[str, Any] = {"num_replicas": int(least)}
    if most:
        size = {
            "autoscaling_config": {
                "min_replicas": int(least),
                "max_replicas": int(most),
                "target_ongoing_requests": parallel,
            }
        }
    words = ["-q", "--threads", str(threads), "--parallel", str(parallel), *shlex.split(str(args.get("options", "")))]
    deployment = serve.deployment(
        name="llada",
        # Twice as many as are computed: the next ones are there when a place is free.
        max_ongoing_requests=2 * parallel,
        max_queued_requests=int(args.get("queue", 256)),
        health_check_period_s=2,
        health_check_timeout_s=10,
        graceful_shutdown_timeout_s=_DRAIN_SECONDS,
        ray_actor_options={"num_cpus": threads},
        **size,
    )(Replica)
    return deployment.bind(str(args["model"]), words)
