"""Translates the errors of aiohttp, asyncio and the system to those of httpx.

The texts are ours, because aiohttp's texts quote URLs, header lines and bodies, which hold signatures. Raise the result
`from None`: a log with tracebacks would also show the text of the cause.
"""

from __future__ import annotations

import errno
import os
import ssl

import aiohttp
import httpx
from aiohttp.http import HttpProcessingError

# Timeouts are OSErrors, truncated reads EOFErrors; aiohttp also raises bare ValueErrors (a line break in a header)
# and RuntimeErrors (a session that closes).
CAUGHT = (aiohttp.ClientError, HttpProcessingError, OSError, EOFError, ValueError, RuntimeError)

_ERRNO_WORDS = {
    errno.ECONNREFUSED: "connection refused",
    errno.ECONNRESET: "connection reset",
    errno.ECONNABORTED: "connection aborted",
    errno.EPIPE: "connection closed by the other side",
    errno.EHOSTUNREACH: "no route to the host",
    errno.ENETUNREACH: "network unreachable",
    errno.EMFILE: "too many open files",
    errno.ENFILE: "too many open files",
}


def sending_error(error: Exception, *, proxied: bool) -> httpx.TransportError | httpx.InvalidURL:
    """Translate one of CAUGHT that was raised before the head of a response.

    With a proxy, errors of connecting are errors of the proxy, except those of the target's certificate.
    """
    match error:
        case aiohttp.ConnectionTimeoutError():
            return httpx.ConnectTimeout("no connection in time")
        case aiohttp.NonHttpUrlClientError():
            return httpx.UnsupportedProtocol("not an http or https address")
        case aiohttp.InvalidURL():
            return httpx.InvalidURL("not a valid address")
        case aiohttp.ClientHttpProxyError():
            return httpx.ProxyError(f"the proxy answered HTTP {error.status}")
        case aiohttp.ClientProxyConnectionError():
            return httpx.ProxyError(f"proxy: {_words(error.os_error)}")
        case aiohttp.ClientConnectorCertificateError():
            return httpx.ConnectError(f"certificate not trusted: {_certificate_words(error.certificate_error)}")
        case aiohttp.ClientConnectorSSLError():
            return httpx.ConnectError(f"TLS handshake failed: {_tls_words(error.os_error)}")
        case aiohttp.ClientConnectorDNSError() if proxied:
            return httpx.ProxyError("proxy: name not resolved")
        case aiohttp.ClientConnectorDNSError():
            return httpx.ConnectError("name not resolved")
        case aiohttp.ClientConnectorError() if error.os_error.errno == errno.ETIMEDOUT:
            return httpx.ConnectTimeout("the host does not answer")
        case aiohttp.ClientConnectorError():
            return httpx.ConnectError(_words(error.os_error))
        case _:
            return _error_on_connection(error, "before an answer came")


def reading_error(error: Exception) -> httpx.TransportError:
    """Translate one of CAUGHT that was raised while the client read the body."""
    return _error_on_connection(error, "in the middle of the answer")


def _error_on_connection(error: Exception, when: str) -> httpx.TransportError:
    match error:
        case TimeoutError() if error.errno is None:
            return httpx.ReadTimeout(f"silence {when}")
        case aiohttp.ServerDisconnectedError() | EOFError():
            return httpx.RemoteProtocolError(f"the other side closed the connection {when}")
        case aiohttp.ClientResponseError() | HttpProcessingError():
            return httpx.RemoteProtocolError("the answer is not valid HTTP")
        case aiohttp.ClientPayloadError() if ConnectionResetError.__name__ in str(error):
            return httpx.ReadError(f"connection reset {when}")  # only the text of aiohttp's error has this
        case aiohttp.ClientPayloadError():
            return httpx.RemoteProtocolError(f"the answer was cut off or is not valid HTTP, {when}")
        case ssl.SSLError():
            return httpx.ReadError(f"TLS failed {when}: {_tls_words(error)}")
        case OSError():
            return httpx.ReadError(f"{_words(error)} {when}")
        case aiohttp.UploadAbortedError():
            return httpx.WriteError("the request was not sent completely")
        case aiohttp.ClientError() | RuntimeError():
            return httpx.ReadError(f"connection closed {when}")
        case _:
            return httpx.LocalProtocolError("the request cannot be sent")


def _words(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {_tls_words(error)}"
    if error.errno is None:
        return "connection failed"
    return _ERRNO_WORDS.get(error.errno) or os.strerror(error.errno).lower()


def _certificate_words(error: BaseException) -> str:
    return getattr(error, "verify_message", "") or "it does not match"


def _tls_words(error: OSError) -> str:
    reason = getattr(error, "reason", None)
    return str(reason).lower().replace("_", " ") if reason else "no common version or cipher"
