"""Answers: JSON as a request wants it, refusals, warnings."""

import gzip
import json
import unicodedata
from collections.abc import Sequence
from typing import Final

import msgspec
from aiohttp import web

from zoneward.sandbox.server.listing import is_true
from zoneward.sandbox.server.negotiation import JSON, YAML, Wanted
from zoneward.sandbox.server.published import Description
from zoneward.sandbox.server.refusals import Refusal

_GZIP_FROM: Final = 128 * 1024
"""Bytes; shorter answers are not worth it, as upstream finds."""
_PRETTY: Final = ("curl/", "Wget/", "Mozilla/")
"""Programs that people read the output of."""


def encoded(
    request: web.BaseRequest,
    body: bytes,
    form: Wanted,
    *,
    status: int = 200,
    headers: Sequence[tuple[str, str]] = (),
) -> web.Response:
    """JSON as the request wants it: as YAML, to be read by people, compressed."""
    content_type = JSON
    if form.is_yaml:
        content_type, body = YAML, _as_yaml(body)
    elif _is_pretty(request):
        body = _pretty(body)
    else:
        body += b"\n"
    told = [("Content-Type", content_type), ("Cache-Control", "no-cache, private"), *headers]
    if len(body) > _GZIP_FROM and "gzip" in request.headers.get("Accept-Encoding", ""):
        told += [("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding")]
        body = gzip.compress(body, compresslevel=1, mtime=0)
    return web.Response(body=body, status=status, headers=told)


def refused(refusal: Refusal, request: web.BaseRequest) -> web.Response:
    body = msgspec.json.encode(refusal.status())
    headers = {"Content-Type": JSON}
    after = (refusal.details or {}).get("retryAfterSeconds")
    if after:
        headers["Retry-After"] = str(after)
    return web.Response(body=_pretty(body) if _is_pretty(request) else body, status=refusal.code, headers=headers)


def warning_headers(warnings: Sequence[str]) -> list[tuple[str, str]]:
    """Those that a header can hold; upstream drops the others, too."""
    plain = [each for each in warnings if not any(unicodedata.category(character) == "Cc" for character in each)]
    escaped = (each.replace("\\", "\\\\").replace('"', '\\"') for each in plain)
    return [("Warning", f'299 - "{each}"') for each in escaped]


def healthy(request: web.BaseRequest) -> web.Response:
    if "verbose" not in request.query:
        return web.Response(text="ok")
    return web.Response(text=f"[+]ping ok\n{request.path.rpartition('/')[2]} check passed\n")


def described(request: web.BaseRequest, found: Description) -> web.Response:
    """Under its hash a description never changes."""
    asked = request.query.get("hash")
    headers = {"Content-Type": JSON, "ETag": f'"{found.digest}"'}
    if asked is not None and asked != found.digest:
        # Relative, so that a token in the path stays there.
        return web.Response(status=301, headers={"Location": f"?hash={found.digest}"})
    if asked is not None:
        headers["Cache-Control"] = "public, immutable"
    return web.Response(body=found.body, headers=headers)


def _is_pretty(request: web.BaseRequest) -> bool:
    if "pretty" in request.query:
        return is_true(request.query["pretty"])
    return request.headers.get("User-Agent", "").startswith(_PRETTY)


def _pretty(body: bytes) -> bytes:
    return json.dumps(json.loads(body), indent=2, ensure_ascii=False).encode()


def _as_yaml(body: bytes) -> bytes:
    import yaml

    text: str = yaml.dump(json.loads(body), Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper), allow_unicode=True)
    return text.encode()
