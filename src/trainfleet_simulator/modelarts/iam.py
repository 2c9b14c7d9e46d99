"""The simulated IAM: tokens for passwords, and ids of projects.

https://support.huaweicloud.com/intl/en-us/api-iam/iam_30_0001.html and related pages.
"""

from __future__ import annotations

from typing import Any

from trainfleet_simulator.exchange import Answer, ApiError
from trainfleet_simulator.modelarts import catalog
from trainfleet_simulator.modelarts.parameters import Call, precise_text

_GOOD = {
    "name": catalog.USER_NAME,
    "password": catalog.PASSWORD,
    "domain": {"name": catalog.DOMAIN_NAME},
}


def keystone_create_user_token_by_password(call: Call) -> Answer:
    """POST /v3/auth/tokens: 201, and the token in a header."""
    auth = _at(call.body, "auth")
    identity = _at(auth, "identity")
    if identity.get("methods") != ["password"]:
        raise _malformed("identity.methods")
    user = _at(_at(identity, "password"), "user")
    if set(user) != set(_GOOD) or not isinstance(user["password"], str):
        raise _malformed("identity.password.user")
    project = _at(_at(auth, "scope"), "project")
    if project not in ({"name": catalog.REGION}, {"id": catalog.PROJECT_ID}):
        raise ApiError(401, "401", "The requested project does not exist or may not be used.")
    if user != _GOOD:
        raise ApiError(401, "401", "The username or password is wrong.")
    token = call.tokens.issue(call.now)
    body = {
        "token": {
            "methods": ["password"],
            "issued_at": precise_text(call.now),
            "expires_at": precise_text(call.now + call.tokens.lifetime),
            "catalog": [],
            "roles": [{"id": "0", "name": "te_admin"}],
            "project": {
                "id": catalog.PROJECT_ID,
                "name": catalog.REGION,
                "domain": {"id": catalog.DOMAIN_ID, "name": catalog.DOMAIN_NAME},
            },
            "user": {"id": catalog.USERS[0].user_id, "name": catalog.USER_NAME},
        }
    }
    return Answer(body, status=201, headers={"X-Subject-Token": token})


def keystone_list_projects(call: Call) -> Answer:
    """GET /v3/projects: the projects of the account, or the one with a name."""
    name = call.text("name")
    projects = [
        {
            "id": project_id,
            "name": region,
            "domain_id": catalog.DOMAIN_ID,
            "parent_id": catalog.DOMAIN_ID,
            "is_domain": False,
            "enabled": True,
            "description": "",
            "links": {"self": f"https://iam.myhuaweicloud.com/v3/projects/{project_id}"},
        }
        for region, project_id in catalog.PROJECTS.items()
        if name in {"", region}
    ]
    links = {"self": "https://iam.myhuaweicloud.com/v3/projects", "next": None, "previous": None}
    rows = [[project["id"], project["name"]] for project in projects]
    return Answer({"links": links, "projects": projects}, total=len(projects), rows=rows)


def _at(body: Any, name: str) -> dict[str, Any]:
    found = body.get(name) if isinstance(body, dict) else None
    if not isinstance(found, dict):
        raise _malformed(name)
    return found


def _malformed(name: str) -> ApiError:
    return ApiError(400, "400", f"The request body is invalid: {name}.")
