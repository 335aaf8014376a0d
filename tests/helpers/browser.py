"""A browser and a service to point it at, for tests and pictures."""

from __future__ import annotations

import contextlib
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Any

from sapwood.annotation.session import AnnotationSession
from sapwood.web.api.annotator import AnnotationService, make_annotator
from sapwood.web.server import address_of, hosts_of, make_server, make_server_of, open_socket
from sapwood.web.service import Service

WHY_NOT = "" if shutil.which("chromium") and shutil.which("chromedriver") else "chromium and chromedriver are missing"


@contextlib.contextmanager
def serving(service: Service, **settings: Any) -> Iterator[str]:
    """Serve in a thread of this process; yields the address."""
    with (
        open_socket("127.0.0.1", 0) as listening,
        running(make_server(service, listening, **settings), listening) as at,
    ):
        yield at


@contextlib.contextmanager
def annotating(session: AnnotationSession, token: str | None = None) -> Iterator[str]:
    """Serve the annotator in a thread of this process; yields the address."""
    service = AnnotationService(session, token=token)
    with open_socket("127.0.0.1", 0) as listening:
        application = make_annotator(service, hosts=hosts_of(listening))
        with running(make_server_of(application, service.limits), listening) as address:
            yield address


@contextlib.contextmanager
def running(server: Any, listening: socket.socket) -> Iterator[str]:
    """Run a server in a thread; yields its address."""
    thread = threading.Thread(target=lambda: server.run(sockets=[listening]), daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    try:
        yield address_of(listening)
    finally:
        server.should_exit = True
        thread.join(10)


@contextlib.contextmanager
def browsing(width: int = 1400, height: int = 1000, *, dark: bool = False) -> Iterator[Any]:
    """Open Chromium, without a window; yields a Selenium driver."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        for argument in (
            "headless=new", "no-sandbox", "disable-gpu", "disable-background-networking", "disable-component-update",
            "disable-sync", "disable-dev-shm-usage", "hide-scrollbars", "force-color-profile=srgb",
            f"user-data-dir={profile}", f"window-size={width},{height}",
        ):  # fmt: skip
            options.add_argument(f"--{argument}")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        driver = webdriver.Chrome(
            options=options, service=webdriver.ChromeService(executable_path=shutil.which("chromedriver"))
        )
        try:
            driver.set_script_timeout(20)
            resize(driver, width, height)
            if dark:
                features = [{"name": "prefers-color-scheme", "value": "dark"}]
                driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
            yield driver
        finally:
            driver.quit()


def resize(driver: Any, width: int, height: int) -> None:
    """Give pages this much room; windows have a least width, pages have not."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
