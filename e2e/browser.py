"""A headless Chromium, controlled by the DevTools protocol: what a reader sees and does on a screen of any size."""

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import aiohttp
from tests.patience import PATIENCE

CHROMIUM: Final = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_AXE: Final = files("axe_core_python").joinpath("axe.min.js")
_RUN_AXE: Final = (
    "axe.run({resultTypes: ['violations']}).then(result => result.violations.flatMap("
    "rule => rule.nodes.map(node => [rule.impact, rule.id, node.html.slice(0, 300)])))"
)
_LEFT: Final = ("navigated or closed", "context was destroyed", "Cannot find context")
"""Its errors for a page that was left."""


class BrowserError(Exception):
    """What the browser refused, or what failed in a page."""


class PageLeftError(BrowserError):
    """The page was left before it answered."""


@dataclass(slots=True)
class Tab:
    """One page of a browser. ``requests`` are the addresses that it requested, in order."""

    socket: aiohttp.ClientWebSocketResponse
    requests: list[str] = field(default_factory=list)
    _number: int = 0
    _loaded: str = ""
    """The page that has loaded last, as the browser names it."""

    async def listen(self) -> None:
        """Subscribe to the page's events; before anything else."""
        for domain in ("Page", "Network", "Runtime"):
            await self._call(f"{domain}.enable")
        await self._call("Page.setLifecycleEventsEnabled", enabled=True)

    async def show(self, *, width: int, dark: bool) -> None:
        """Set the width of the screen in CSS pixels (below 600: a telephone), and the preferred color scheme."""
        await self._call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self._call("Emulation.setEmulatedMedia", features=[scheme])

    async def open(self, address: str) -> None:
        """Returns once the page and its scripts have loaded."""
        left = await self._page()
        await self._call("Page.navigate", url=address)
        await self._wait_for_another(left)

    async def _page(self) -> str:
        tree = await self._call("Page.getFrameTree")
        self._loaded = str(tree["frameTree"]["frame"]["loaderId"])
        return self._loaded

    async def _wait_for_another(self, left: str) -> None:
        # The page that was left may have loaded a moment ago.
        while self._loaded == left:
            self._take(await self._receive())

    async def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression, or of its promise. Raises BrowserError if it throws."""
        answer = await self._call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise BrowserError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    async def follow(self, expression: str) -> None:
        """Evaluate an expression that opens another page, and wait until that has loaded."""
        left = await self._page()
        with suppress(PageLeftError):
            await self.evaluate(expression)
        await self._wait_for_another(left)

    async def wait_until(self, expression: str) -> None:
        """Wait until a JavaScript expression is true, on this page or on the next one."""
        async with asyncio.timeout(PATIENCE):
            while not await self._is_true(expression):
                await asyncio.sleep(0.05)

    async def _is_true(self, expression: str) -> bool:
        with suppress(PageLeftError):
            return bool(await self.evaluate(f"!!({expression})"))
        return False

    async def violations(self) -> list[list[str]]:
        """What axe-core finds in the page: impact, rule and element."""
        await self.evaluate(_AXE.read_text() + "; 0")
        problems: list[list[str]] = await self.evaluate(_RUN_AXE)
        return problems

    async def _call(self, method: str, **parameters: object) -> dict[str, Any]:
        self._number += 1
        await self.socket.send_str(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while (answer := await self._receive()).get("id") != self._number:
            self._take(answer)
        if "error" in answer:
            left = any(text in answer["error"]["message"] for text in _LEFT)
            raise (PageLeftError if left else BrowserError)(f"{method}: {answer['error']}")
        result: dict[str, Any] = answer["result"]
        return result

    async def _receive(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(await self.socket.receive_str(timeout=PATIENCE))
        return message

    def _take(self, event: dict[str, Any]) -> None:
        if event.get("method") == "Network.requestWillBeSent":
            self.requests.append(event["params"]["request"]["url"])
        if event.get("method") == "Page.lifecycleEvent" and event["params"]["name"] == "load":
            self._loaded = event["params"]["loaderId"]


@asynccontextmanager
async def browser(folder: Path) -> AsyncIterator[Tab]:
    """A browser with one tab, and its profile in ``folder``. Raises BrowserError where there is no Chromium."""
    if CHROMIUM is None:
        raise BrowserError("expected a Chromium (Debian: apt-get install chromium), got none on PATH")
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"]
    options = [f"--user-data-dir={folder / 'profile'}", "--remote-debugging-port=0", "about:blank"]
    quiet = asyncio.subprocess.DEVNULL
    with TemporaryDirectory(prefix="chromium-") as temporary:
        # It leaves a folder behind on SIGTERM. There are sockets in it, which need a short path.
        environment = os.environ | {"TMPDIR": temporary}
        process = await asyncio.create_subprocess_exec(
            *command, *options, stdin=quiet, stdout=quiet, stderr=quiet, env=environment
        )
        try:
            port = await _port(folder / "profile" / "DevToolsActivePort", process)
            async with aiohttp.ClientSession() as session:
                async with asyncio.timeout(PATIENCE):
                    # It may listen before it has its first page.
                    while not (pages := await _pages(session, port)):
                        await asyncio.sleep(0.05)
                async with session.ws_connect(pages[0], max_msg_size=0) as socket:
                    tab = Tab(socket)
                    await tab.listen()
                    yield tab
        finally:
            if process.returncode is None:
                process.terminate()
            await process.wait()


async def _pages(session: aiohttp.ClientSession, port: int) -> list[str]:
    """The addresses of the debuggers of all pages."""
    async with session.get(f"http://127.0.0.1:{port}/json/list") as response:
        return [target["webSocketDebuggerUrl"] for target in await response.json() if target["type"] == "page"]


async def _port(file: Path, process: asyncio.subprocess.Process) -> int:
    async with asyncio.timeout(PATIENCE):
        while not (file.exists() and file.read_text().count("\n")):
            if process.returncode is not None:
                raise BrowserError(f"{CHROMIUM} ended with {process.returncode}")
            await asyncio.sleep(0.05)
    return int(file.read_text().splitlines()[0])
