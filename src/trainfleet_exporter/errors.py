"""Every error that this program raises on purpose, grouped by who can fix it.

    TrainfleetError
    ├── OperatorError                 the person who runs the exporter
    │   ├── ConfigError               the config file (all faults at once) ......... exit 2
    │   └── StartError                the machine: a taken port, an unreadable file . exit 1
    ├── CloudError                    the cloud, or the way to it; never fatal
    │   ├── Throttled                 outcome throttled    (transient)
    │   ├── AccessDenied              outcome auth
    │   ├── NotFound                  outcome not_found
    │   ├── RequestRefused            outcome client
    │   ├── ServerTrouble             outcome server       (transient)
    │   ├── RequestTimedOut           outcome timeout      (transient)
    │   ├── Unreachable               outcome network      (transient)
    │   ├── BadAnswer                 outcome bad_answer
    │   └── LeaseLost                 no attempt was made
    ├── PollError                     a poll that could not do its work
    │   ├── DeadlineExceeded          it did not end in its time
    │   └── NotReady                  what it builds on is not known yet
    └── LeaseError                    the lease that decides which exporter polls; never fatal
        ├── LeaseConflict             another exporter has written it
        └── LeaseUnavailable          it cannot be read or written

`reason` is the word that `trainfleet_exporter_collector_errors_total` shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self


class TrainfleetError(Exception):
    """Root of the tree. `str()` of any of these is one line fit for a log, and holds no secret."""

    reason: ClassVar[str] = "internal"


class OperatorError(TrainfleetError):
    """The person who runs the exporter can fix it."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a config file: where it is, and what was found and is allowed there."""

    file: str
    line: int | None
    path: str
    message: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.path}: {self.message}" if self.path else f"{place}: {self.message}"


class ConfigError(OperatorError):
    """The config cannot be used; `faults` holds everything that is wrong with it, in file order."""

    reason = "config"

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(map(str, self.faults)))


class StartError(OperatorError):
    """The daemon cannot run here, although its config is sound."""

    reason = "start"


class CloudError(TrainfleetError):
    """An API call failed. `outcome` is the word that the request metrics count it under."""

    outcome: ClassVar[str]
    transient: ClassVar[bool] = False
    attempted = True
    """False if the call was not sent, because of the limits, the deadline or the lease."""

    def __init__(
        self,
        message: str,
        *,
        operation: str = "",
        status: int | None = None,
        code: str = "",
        request_id: str = "",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.operation = operation
        self.status = status
        self.code = code
        self.request_id = request_id
        self.retry_after = retry_after
        """The pause that the service asks for, in seconds; None if it does not."""

    def not_attempted(self) -> Self:
        """Mark the error of a call that was not sent, and return it."""
        self.attempted = False
        return self

    def __str__(self) -> str:
        facts = [f"HTTP {self.status}" if self.status is not None else "", self.code, self.message]
        text = " ".join(fact for fact in facts if fact)
        if self.operation:
            text = f"{self.operation}: {text}"
        return f"{text} (request {self.request_id})" if self.request_id else text


class Throttled(CloudError):
    """The service rejects the call because there are too many."""

    outcome = reason = "throttled"
    transient = True


class AccessDenied(CloudError):
    """Wrong key, wrong clock or missing right."""

    outcome = reason = "auth"

    @classmethod
    def of(cls, error: CloudError) -> AccessDenied:
        """The error of a call that failed because its credentials could not be received: `error` is why."""
        return cls(
            error.message,
            operation=error.operation,
            status=error.status,
            code=error.code,
            request_id=error.request_id,
            retry_after=error.retry_after,
        )


class NotFound(CloudError):
    """The object that was asked for does not exist (any more)."""

    outcome = reason = "not_found"


class RequestRefused(CloudError):
    """The service does not accept the request as it is; sending it again would not help."""

    outcome = reason = "client"


class ServerTrouble(CloudError):
    """The service failed."""

    outcome = reason = "server"
    transient = True


class RequestTimedOut(CloudError):
    """The complete answer did not come in time."""

    outcome = reason = "timeout"
    transient = True


class Unreachable(CloudError):
    """No connection, or it broke: DNS, refusal, TLS, proxy, reset."""

    outcome = reason = "network"
    transient = True


class BadAnswer(CloudError):
    """The answer is not what the API documents: not JSON, too large, cut off or incomplete."""

    outcome = reason = "bad_answer"


class LeaseLost(CloudError):
    """Not tried: another exporter may hold the lease by now."""

    outcome = reason = "lease"
    attempted = False


class PollError(TrainfleetError):
    """A poll failed for a reason other than an API call."""


class DeadlineExceeded(PollError):
    """The poll, or one part of it, did not end within its time."""

    reason = "deadline"


class NotReady(PollError):
    """A list that this poll needs (of workspaces, of jobs) has not been read yet."""

    reason = "not_ready"


class LeaseError(TrainfleetError):
    """The lease could not be written or read."""

    reason = "lease"


class LeaseConflict(LeaseError):
    """The record is not the one that was to be replaced."""


class LeaseUnavailable(LeaseError):
    """The lease could not be read or written. `kind` groups errors of one cause, such as `HTTP 403`."""

    def __init__(self, message: str, *, kind: str) -> None:
        self.kind = kind
        super().__init__(message)
