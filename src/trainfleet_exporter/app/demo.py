"""The commands `demo` (a daemon that polls simulated clouds) and `simulate` (the simulated clouds alone)."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

from trainfleet_exporter.app.daemon import Daemon, WebSettings
from trainfleet_exporter.config import Config, load_config
from trainfleet_exporter.config.kinds import is_loopback
from trainfleet_exporter.errors import StartError
from trainfleet_exporter.providers.registry import installed_platforms
from trainfleet_exporter.web.listeners import split_address
from trainfleet_simulator import Simulator

NOTICE = "This is the demo: the clouds and their data are simulated."
CLOUDS = ("pai", "modelarts", "sagemaker")
_SCREEN = """\
trainfleet-exporter demo: the exporter polls simulated clouds: Alibaba PAI, Huawei ModelArts and AWS SageMaker.

  open     http://{address}/          the exporter's pages
           http://{address}{metrics}   what Prometheus scrapes
           {cloud}/truth   the latest responses of the simulated clouds

  try      curl -s {address}{metrics} | grep '^trainfleet_jobs{{' | grep -v ' 0$'
           curl -s {address}{metrics} | grep '^trainfleet_job_accelerator_utilization_ratio'
           (on each cloud, one job holds accelerators and does nothing: find it)

  next     copy config.example.yaml, write your account into it, and run
           trainfleet-exporter --config.file=config.yaml --config.check
"""


async def run_demo(web: WebSettings, seed: int) -> None:
    """Run the daemon with simulated clouds until it is cancelled. Raises StartError if it cannot listen."""
    simulator = Simulator(seed=seed, clouds=CLOUDS)
    async with simulator.serve() as cloud:
        try:
            daemon = Daemon(_config(simulator.config_yaml(cloud)), installed_platforms(), replace(web, notice=NOTICE))
        except StartError as error:
            hint = " (with make: make demo ADDRESS=127.0.0.1:0)" if "--web.listen-address" in str(error) else ""
            raise StartError(f"{error}{hint}") from None
        try:
            await daemon.start()
            screen = _SCREEN.format(
                address=_reachable(daemon.server.addresses[0]), metrics=web.telemetry_path, cloud=cloud
            )
            print(screen, flush=True)
            await _report_first_polls(daemon)
            await asyncio.Event().wait()
        finally:
            print("\nstopping", flush=True)
            await daemon.stop()


async def run_simulator(host: str, port: int, *, seed: int) -> None:
    """Serve only the simulated clouds until it is cancelled, and print a config file that reaches them."""
    simulator = Simulator(seed=seed, clouds=CLOUDS)
    async with AsyncExitStack() as stack:
        try:
            cloud = await stack.enter_async_context(simulator.serve(host, port))
        except OSError as error:
            raise StartError(f"cannot listen on {host}:{port}: {error.strerror}; choose another --listen") from None
        print(f"# Simulated clouds at {cloud}; {cloud}/truth shows their latest responses.")
        print(simulator.config_yaml(cloud), flush=True)
        await asyncio.Event().wait()


def _config(text: str) -> Config:
    """Read the config from a file, so that the demo uses the same code as the exporter."""
    reading, writing = os.pipe()  # needs no writable folder: the file system of a container may be read-only
    with os.fdopen(reading), os.fdopen(writing, "w", encoding="utf-8") as stream:
        stream.write(text)
        stream.close()
        configs = {name: platform.config for name, platform in installed_platforms().items()}
        return load_config(Path(f"/dev/fd/{reading}"), environ=os.environ, platforms=configs)


async def _report_first_polls(daemon: Daemon) -> None:
    """Print a line when the page has the first polls of all collectors. Before that, pages may be empty."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    while daemon.exporter.page_store.page().standing.waiting:  # noqa: ASYNC110 - of the other thread
        await asyncio.sleep(0.05)
    series = sum(runner.state.series for runner in daemon.exporter.runners)
    print(
        f"Every collector has polled ({loop.time() - started:.1f} s): {series} series. Press Ctrl-C to stop.",
        flush=True,
    )


def _reachable(address: str) -> str:
    """The address for a browser on this machine, of a server that listens at `address`."""
    host, _, port = address.rpartition(":")
    return f"localhost:{port}" if host in {"0.0.0.0", "[::]"} else address  # noqa: S104 - compared, not listened on


def loopback(address: str) -> tuple[str, int] | None:
    """Host and port of a loopback address; None for any other. StartError for what is no address."""
    return split_address(address) if is_loopback(f"//{address}") else None
