"""One service with the included model, and one browser, for all tests of the web."""

from __future__ import annotations

import pytest

from helpers.browser import browsing, serving
from helpers.client import Client
from sapwood.web.application import describe_service
from sapwood.web.service import Limits, Service


@pytest.fixture(scope="session")
def client():
    """A client of a service with the included model and small limits."""
    service = Service.load(limits=Limits(body=200_000, sentences=50, words=130, trees=20))
    with serving(service) as address:
        yield Client(address, describe_service(service))


@pytest.fixture(scope="session")
def driver():
    """One browser for all tests."""
    with browsing() as found:
        yield found


@pytest.fixture
def page(driver, client):
    """A page of the service."""
    from helpers.pages import watched

    # An earlier test may have made it narrow.
    driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    with watched(driver, client.address) as found:
        yield found
