"""The commands `demo` (a daemon that polls simulated clouds) and `simulate` (the simulated clouds alone)."""

from __future__ import annotations

import asyncio
import ipaddress
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from trainfleet_exporter.app.daemon import Daemon, WebSettings
from trainfleet_exporter.config import Config, load_config
from trainfleet_exporter.errors import StartError
from trainfleet_exporter.process.arguments import found
from trainfleet_exporter.providers.registry import installed_platforms
from trainfleet_simulator import Simulator

NOTICE = "This is the demo: the clouds and their data are simulated."
CLOUDS = ("pai", "modelarts", "sagemaker")
_OTHERS = ("127.0.0.1:10076", "127.0.0.1:10077")
"""Addresses to try when the usual one is taken."""
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


async def run_demo(stopped: asyncio.Event, *, web: WebSettings, seed: int) -> None:
    """Run the daemon with simulated clouds until `stopped`. Raises StartError if it cannot listen."""
    simulator = Simulator(seed=seed, clouds=CLOUDS)
    async with _served(simulator, "127.0.0.1", 0, "127.0.0.1") as cloud:
        try:
            daemon = Daemon(_config(simulator.config_yaml(cloud)), installed_platforms(), replace(web, notice=NOTICE))
        except StartError as error:
            free = next(other for other in _OTHERS if other not in web.addresses)
            hint = f" (with make: make demo ADDRESS={free})" if "--web.listen-address" in str(error) else ""
            raise StartError(f"{error}{hint}") from None
        try:
            await daemon.start()
            screen = _SCREEN.format(
                address=_reachable(daemon.server.addresses[0]), metrics=web.telemetry_path, cloud=cloud
            )
            print(screen, flush=True)
            reporting = asyncio.create_task(_report_first_polls(daemon))
            await stopped.wait()
            reporting.cancel()
            print("\nstopping", flush=True)
        finally:
            await daemon.stop()


async def run_simulator(stopped: asyncio.Event, *, address: str, seed: int) -> None:
    """Serve only the simulated clouds, and print a config file that reaches them."""
    host, port = loopback(address)
    simulator = Simulator(seed=seed, clouds=CLOUDS)
    async with _served(simulator, host, port, address) as cloud:
        print(f"# Simulated clouds at {cloud}; {cloud}/truth shows their latest responses.")
        print(simulator.config_yaml(cloud), flush=True)
        await stopped.wait()


@asynccontextmanager
async def _served(simulator: Simulator, host: str, port: int, address: str) -> AsyncIterator[str]:
    """Serve the simulated clouds; StartError if they cannot listen."""
    serving = simulator.serve(host, port)
    try:
        cloud = await serving.__aenter__()
    except OSError as error:
        raise StartError(f"cannot listen on {address}: {error.strerror}; choose another --listen") from None
    try:
        yield cloud
    finally:
        await serving.__aexit__(None, None, None)


def _config(text: str) -> Config:
    """Read the config from a file, so that the demo uses the same code as the exporter."""
    # A pipe needs no writable folder: the file system of a container may be read-only.
    reading, writing = os.pipe()
    try:
        with os.fdopen(writing, "w", encoding="utf-8") as stream:
            stream.write(text)
        configs = {name: platform.config for name, platform in installed_platforms().items()}
        return load_config(Path(f"/dev/fd/{reading}"), environ=os.environ, platforms=configs)
    finally:
        os.close(reading)


async def _report_first_polls(daemon: Daemon) -> None:
    """Print a line when all collectors have polled. Before that, pages may be empty."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    for runner in daemon.exporter.runners:
        await runner.first_poll_done.wait()
    series = sum(runner.state.series for runner in daemon.exporter.runners)
    print(
        f"Every collector has polled ({loop.time() - started:.1f} s): {series} series. Press Ctrl-C to stop.",
        flush=True,
    )


def _reachable(address: str) -> str:
    """The address for a browser on this machine, of a server that listens at `address`."""
    host, _, port = address.rpartition(":")
    return f"localhost:{port}" if host in {"0.0.0.0", "[::]"} else address  # noqa: S104 - compared, not listened on


def loopback(address: str) -> tuple[str, int]:
    """Host and port of a loopback address. Raises StartError for any other address."""
    host, separator, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        fits = separator and ipaddress.ip_address("127.0.0.1" if host == "localhost" else host).is_loopback
        number = int(port)
    except ValueError:
        fits, number = False, 0
    if not fits or not 0 <= number <= 65535:
        raise StartError(f"{found(address)}; allowed: a loopback address and a port, such as 127.0.0.1:10080")
    return host, number
