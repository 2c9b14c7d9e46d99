"""ModelArts' APIs: their clients and permissions.

https://support.huaweicloud.com/intl/en-us/api-modelarts/modelarts_03_0001.html
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import quote

from trainfleet_exporter.errors import NotFound, RequestRefused
from trainfleet_exporter.providers.huawei_modelarts.api import AomDialect, HuaweiDialect
from trainfleet_exporter.providers.huawei_modelarts.config import HuaweiModelArtsConfig
from trainfleet_exporter.providers.huawei_modelarts.credentials import open_identity
from trainfleet_exporter.providers.huawei_modelarts.metrics import DEFAULT_INSTANCE
from trainfleet_exporter.providers.key_search import KeyHttp
from trainfleet_exporter.providers.registry import BuildContext, open_transport
from trainfleet_exporter.transport import Call

T = TypeVar("T")
QUERY = "ListInstantQueryAomPromPost"
RANGE = "ListRangeQueryAomPromPost"
NAMES = "ListLabelValuesAomPromGet"
_SEARCH = "modelarts:trainJob:list"
PERMISSIONS = {
    "ListWorkspaces": "modelarts:workspace:list",
    "ListTrainingJobs": _SEARCH,
    "ShowTrainingJobMetrics": "modelarts:trainJob:get",
    "ShowTrainingQuotas": "modelarts:trainJob:getQuotas",
    "ListPools": "modelarts:pool:list",
    "ShowPoolMonitor": "modelarts:pool:get",
    "ListTrainingJobsV1": _SEARCH,
    "ListTrainingJobVersions": "modelarts:trainJobVersion:list",
    "ListLogFileNames": "modelarts:trainJobLog:list",
    **dict.fromkeys((QUERY, RANGE, NAMES), "aom:metric:list"),
}


class Api:
    """The clients of one project. Every call raises CloudError, and ends by its deadline (loop time)."""

    def __init__(self, config: HuaweiModelArtsConfig, context: BuildContext) -> None:
        self._transport = open_transport(config, context)
        usage = config.collectors.usage
        dialects = {"modelarts": HuaweiDialect, "iam": HuaweiDialect} | ({"aom": AomDialect} if usage.asks_aom else {})
        self.endpoints: Mapping[str, str] = {api: config.endpoint(api) for api in dialects}
        self._key_http = KeyHttp(self._transport, context, config.endpoint, self.endpoints)
        self.identity = open_identity(
            config.name,
            config.credentials,
            self._key_http,
            config.variables,
            region=config.region,
            project_id=config.project_id or "",
        )
        self._clients = {
            api: self._transport.client(self.endpoints[api], dialect(api, self.identity, context.clock))
            for api, dialect in dialects.items()
        }
        self.identity.use(self._clients["iam"])
        self._served: set[str] = set()
        """Operations that were answered."""
        self._aom = "" if usage.aom_instance == DEFAULT_INSTANCE else f"{segment(usage.aom_instance)}/"

    async def get(
        self,
        operation: str,
        path: str,
        into: type[T],
        query: Mapping[str, str] | None = None,
        *,
        deadline: float,
        version: int = 2,
        unserved: T | None = None,
        **options: Any,
    ) -> T:
        """Make a call to ModelArts, with a path in the project. `options` are those of Call.

        `unserved` is returned if the region does not serve the operation: it answers 404, and has never answered else.
        """
        path = f"/v{version}/{await self._project(deadline)}/{path}"
        call = Call(operation=operation, path=path, query=query or {}, **options)
        try:
            answer = await self._clients["modelarts"].call(call, into, deadline=deadline)
        except (RequestRefused, NotFound) as error:
            if unserved is None or error.status != 404 or operation in self._served:
                raise
            return unserved
        self._served.add(operation)
        return answer

    async def aom(
        self, operation: str, path: str, into: type[T], query: Mapping[str, str], *, deadline: float, **options: Any
    ) -> T:
        """Make a call to AOM's Prometheus API. Parameters are in the URL, also with POST, whose body is empty."""
        path = f"/v1/{await self._project(deadline)}/{self._aom}aom/api/v1/{path}"
        call = Call(operation=operation, path=path, query=query, **options)
        return await self._clients["aom"].call(call, into, deadline=deadline)

    async def _project(self, deadline: float) -> str:
        return segment(await self.identity.project(deadline))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._key_http.aclose()
        await self._transport.aclose()


def segment(any_id: str) -> str:
    """An id as a part of a path. Ids are opaque and come from the cloud: none may reach the path as it is."""
    return quote(any_id, safe="", errors="replace")
