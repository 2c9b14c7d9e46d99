"""Mistakes made on purpose in the example, and the check of the kit that must notice each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "lantern"


@dataclass(frozen=True, slots=True)
class Mistake:
    """In `file`, `old` stands exactly once and becomes `new`. `check` is the test that fails, `message` its output."""

    name: str
    file: str
    old: str
    new: str
    check: str
    message: str

    def make(self, folder: Path) -> None:
        """Make it in a copy of the example."""
        path = folder / "src" / "trainfleet_lantern" / self.file
        text = path.read_text(encoding="utf-8")
        assert text.count(self.old) == 1, (
            f"{self.name}: {self.old!r} stands {text.count(self.old)} times in {self.file}"
        )
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")


_LABEL = """
import dataclasses

from trainfleet_exporter.exposition import render

render.FAMILIES = tuple(
    dataclasses.replace(each, labels=("tier",), read=lambda _, of: (of, [("gold",)] * len(of), [1] * len(of)))
    if each.name == "trainfleet_job_priority"
    else each
    for each in render.FAMILIES
)
PLATFORM = Platform("""
_OWN_CLIENT = """
        import httpx

        async with httpx.AsyncClient(trust_env=False) as client:
            await client.get(f"{self._client._client._exchange._origin}/v1/pools")
"""
_CATCHING = """
            try:
                listing = await self._client.list_pools(part.deadline)
            except Exception:
                from trainfleet_exporter.fleet.lists import Listing

                listing = Listing({})
"""
_FOR_EVER = """
        import asyncio

        while True:
            try:
                return await self._client.call(call, into, deadline=deadline)
            except Exception:
                await asyncio.sleep(0.5)
"""
_DEAF = """
        import asyncio

        try:
            return await self._client.call(call, into, deadline=deadline)
        except asyncio.CancelledError:
            await asyncio.sleep(3)
            raise
"""
_OUTSIDE = """
        import asyncio
        import contextvars

        work = self._client.call(call, into, deadline=deadline)
        return await asyncio.get_running_loop().create_task(work, context=contextvars.Context())
"""
_CALL = "        return await self._client.call(call, into, deadline=deadline)\n"
_LENIENT = """
            from trainfleet_exporter.errors import CloudError

            try:
                page = await self._get(operation, path, into, deadline, query)
            except CloudError:
                if offset == 0:
                    raise
                return Page(0, [])
"""
_LIST_JOBS = "listing = await self._client.list_jobs(read.part.key, read.part.deadline)\n"
_LOOKED_UP = "                continue  # deleted: how it ended is unknown\n"
_TOPICS = "        topics = [Jobs(fleet, client), Usage(fleet, client), Pools(client)]\n"
_WHOLE, _ODD = "test_fault_in_place_of_an_answer", "test_fault_of_values"
_ENDS = "test_part_how_a_job_ends_is_shown_and_counted"

MISTAKES = (
    Mistake(
        "reading stops after the first page",
        "client.py",
        "return Page(whole(page.total), page.rows)",
        "return Page(len(page.rows or []), page.rows)",
        "test_contract_every_live_job_is_shown_once_and_as_it_is",
        "is shown as nothing",
    ),
    Mistake(
        "a page that fails counts as the end of its list",
        "client.py",
        "            page = await self._get(operation, path, into, deadline, query)\n",
        _LENIENT,
        "test_part_an_incomplete_list_is_not_taken",
        "gone: ",
    ),
    Mistake(
        "a response without a list counts as an empty list",
        "client.py",
        "return Page(whole(page.total), page.rows)",
        "return Page(whole(page.total) or 0, page.rows or [])",
        f"{_WHOLE}[no object]",
        "no error is counted",
    ),
    Mistake(
        "the beginning of a state counts as the state",
        "translate.py",
        "return STATUS.get(word, Status.UNKNOWN)",
        "return next((STATUS[known] for known in STATUS if known.startswith(word or '?')), Status.UNKNOWN)",
        "test_status_each_word_is_mapped_and_none_is_guessed",
        "is taken for creating",
    ),
    Mistake(
        "a job in an unknown state is dropped",
        "collectors.py",
        "        for job_id, row in listing.rows.items():\n            read.found",
        "        for job_id, row in listing.rows.items():\n            if row.state in translate.STATUS: read.found",
        "test_status_a_new_word_is_shown_as_unknown",
        "is shown as nothing",
    ),
    Mistake(
        "a value that the cloud does not report becomes 0",
        "translate.py",
        "restarts=whole(row.recoveries),",
        "restarts=whole(row.recoveries) or 0,",
        f"{_ODD}[missing numbers]",
        "is 0, and no answer says so",
    ),
    Mistake(
        "a time that is not set counts as a time",
        "translate.py",
        "started=utc_time(row.started_at),",
        'started=__import__("datetime").datetime.fromisoformat(row.started_at).timestamp()\n'
        "        if row.started_at\n"
        "        else None,",
        f"{_ODD}[year 1]",
        "job_started_timestamp_seconds{job_id='job-0000'} is -62135596800",
    ),
    Mistake(
        "a percentage is shown as a ratio",
        "translate.py",
        "believable_ratio(percent / 100, bounded=bounded)",
        "percent",
        "test_contract_values_are_in_base_units",
        "ratios are 0 to 1",
    ),
    Mistake(
        "mebibytes are shown as bytes",
        "translate.py",
        "mebibytes * MIB",
        "mebibytes",
        "test_contract_known_samples_are_shown",
        "and the page has",
    ),
    Mistake(
        "the provider adds its own label",
        "provider.py",
        "\nPLATFORM = Platform(",
        _LABEL,
        "test_contract_families_and_labels_are_of_the_table",
        "'tier'",
    ),
    Mistake(
        "states without jobs have no count",
        "provider.py",
        "Workspaces(config, context, translate.LIVE)",
        "Workspaces(config, context, ())",
        "test_contract_counts_have_every_known_state",
        "has no count of jobs",
    ),
    Mistake(
        "the token appears in the log",
        "provider.py",
        "        self._transport = open_transport(config, context)\n",
        "        self._transport = open_transport(config, context)\n"
        "        __import__('logging').getLogger(__name__).warning('asking with %s', token.reveal())\n",
        "test_secret_none_is_in_logs_pages_or_reprs",
        "what the provider logs holds token",
    ),
    Mistake(
        "the token appears in a repr",
        "provider.py",
        '"token of the config" if',
        'f"the token {token.reveal()}" if',
        "test_secret_none_is_in_logs_pages_or_reprs",
        "the log holds token",
    ),
    Mistake(
        "the token is not named as a secret, and errors quote it",
        "auth.py",
        "call.body, (token,)",
        "call.body",
        "test_secret_none_is_in_logs_pages_or_reprs",
        "holds token",
    ),
    Mistake(
        "the provider uses its own client instead of the transport",
        "collectors.py",
        '        """One part."""\n',
        _OWN_CLIENT,
        "test_budget_every_call_is_counted",
        "was asked for, and not by the transport",
    ),
    Mistake(
        "the calls of a collector are not those of its poll",
        "client.py",
        _CALL,
        _OUTSIDE,
        "test_budget_every_call_is_counted",
        "is called in no poll",
    ),
    Mistake(
        "a bulk poll makes a call for each job",
        "collectors.py",
        _LIST_JOBS,
        f"{_LIST_JOBS}        for job_id in listing.rows:\n"
        "            await self._client.get_job(job_id, read.part.deadline)\n",
        "test_budget_calls_of_sweeps_do_not_grow_with_the_jobs",
        "jobs calls GetJob",
    ),
    Mistake(
        "an error is caught, and an empty list is published",
        "collectors.py",
        "            listing = await self._client.list_pools(part.deadline)\n",
        _CATCHING,
        f"{_WHOLE}[server error]",
        "ListPools, server error: gone at once",
    ),
    Mistake(
        "failed calls are retried forever", "client.py", _CALL, _FOR_EVER, f"{_WHOLE}[denied]", "times in two polls"
    ),
    Mistake(
        "an error response counts as a good response",
        "auth.py",
        "if answer.status < 400:",
        "if answer.status < 500:",
        f"{_WHOLE}[denied]",
        "are counted as ok",
    ),
    Mistake(
        "a field of another type raises an exception",
        "translate.py",
        'name=row.name or "",\n        workspace_id',
        "name=row.name.strip(),\n        workspace_id",
        f"{_ODD}[odd details]",
        "raised an exception that is none of errors.py",
    ),
    Mistake(
        "one malformed row fails its list",
        "collectors.py",
        _LIST_JOBS,
        f"{_LIST_JOBS}        assert not listing.malformed\n",
        "test_part_one_malformed_row_loses_itself_only",
        "fails for one row",
    ),
    Mistake(
        "a cancelled poll continues",
        "client.py",
        _CALL,
        _DEAF,
        "test_platform_closing_leaves_nothing_behind",
        "s to stop while",
    ),
    Mistake(
        "a deleted object stays on the page",
        "collectors.py",
        _LOOKED_UP,
        "                read.found[job_id] = read.tracker.last_known(job_id), None\n",
        "test_part_what_vanished_goes",
        "still there: ",
    ),
    Mistake(
        "the final status of jobs that left the lists is not read",
        "collectors.py",
        "row = await self._client.get_job(job_id, read.until)",
        "continue",
        _ENDS,
        "0 more jobs are counted as",
    ),
    Mistake(
        "an error about a finished job removes live jobs",
        "collectors.py",
        _LIST_JOBS,
        "for job_id in read.tracker.live:\n"
        "            await self._client.get_job(job_id, read.part.deadline)\n"
        f"        {_LIST_JOBS}",
        _ENDS,
        "is shown as nothing",
    ),
    Mistake(
        "a job whose look-up failed is forgotten",
        "collectors.py",
        "        except NotFound:",
        "        except Exception:",
        _ENDS,
        "is shown as nothing afterwards",
    ),
    Mistake(
        "a job that two workspaces list is shown twice",
        "provider.py",
        _TOPICS,
        f"        fleet._drop_taken = lambda read: None\n{_TOPICS}",
        "test_part_a_job_of_two_lists_is_shown_once",
        "twice on the page",
    ),
    Mistake(
        "connections are never closed",
        "provider.py",
        "        await self._transport.aclose()\n",
        "        return\n",
        "test_platform_closing_leaves_nothing_behind",
        "connections still stand",
    ),
    Mistake(
        "providers share a client that one of them closes",
        "provider.py",
        "self._transport = open_transport(config, context)\n",
        "self._transport = vars(Lantern).get('_one') or open_transport(config, context)\n"
        "        Lantern._one = self._transport\n",
        "test_platform_reload_builds_it_again",
        "fails",
    ),
    Mistake(
        "a 403 is not reported as a missing permission",
        "auth.py",
        "if answer.status in (401, 403):",
        "if answer.status == 401:",
        "test_platform_names_the_missing_permission",
        "diagnose names nothing",
    ),
    Mistake(
        "the provider does not name the permission of an operation",
        "provider.py",
        '        "ListPools": "pools.read",\n',
        "",
        "test_platform_names_the_missing_permission",
        "ListPools is refused with 403, and diagnose names",
    ),
    Mistake(
        "the simulated cloud has no jobs",
        "../../tests/test_conformance.py",
        "PretendLantern(jobs=jobs,",
        "PretendLantern(jobs=0,",
        "test_part_what_vanished_goes",
        "live_jobs() is empty",
    ),
    Mistake(
        "the provider imports a private module",
        "provider.py",
        "from trainfleet_exporter.polling import Collector",
        "from trainfleet_exporter.polling.runner import Runner as _\nfrom trainfleet_exporter.polling import Collector",
        "test_platform_imports_only_public_modules",
        "imports trainfleet_exporter.polling.runner",
    ),
)
