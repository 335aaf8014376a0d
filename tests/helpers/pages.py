"""A page in a browser, as tests use it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from selenium.webdriver import ActionChains, Keys
from selenium.webdriver.common.by import By

from helpers.browser import resize


@contextmanager
def watched(driver: Any, address: str) -> Iterator[Page]:
    """Yield a page of a service; what is left on the console is a failure."""
    found = Page(driver, address)
    found.complaints()
    yield found
    assert found.complaints() == []
    resize(driver, 1400, 1000)


class Page:
    """What is shown at an address."""

    def __init__(self, driver: Any, address: str) -> None:
        self.driver, self.address = driver, address

    def open(self, path: str) -> None:
        """Show a page of the service, from the beginning even if it is shown already."""
        self.visit(self.address + path)

    def visit(self, address: str) -> None:
        self.driver.get("about:blank")
        self.driver.get(address)

    def narrow(self) -> None:
        resize(self.driver, 400, 800)

    def script(self, text: str, *arguments: Any) -> Any:
        return self.driver.execute_script(text, *arguments)

    def async_script(self, text: str) -> Any:
        return self.driver.execute_async_script(text)

    def wait_for(self, holds: Callable[[], Any], seconds: float = 15) -> None:
        end = time.monotonic() + seconds
        while True:
            try:
                if holds():
                    return
            except Exception:
                if time.monotonic() > end:
                    raise
            assert time.monotonic() < end, "it does not come to hold"
            time.sleep(0.03)

    def wait(self, selector: str) -> None:
        self.wait_for(lambda: self.count(selector))

    def count(self, selector: str) -> int:
        return self.script("return document.querySelectorAll(arguments[0]).length", selector)

    def text(self, selector: str) -> str:
        return self.script("return document.querySelector(arguments[0]).textContent", selector)

    def find(self, selector: str) -> Any:
        found = self.driver.find_element(By.CSS_SELECTOR, selector)
        self.script("arguments[0].scrollIntoView({block: 'center'})", found)
        return found

    def click(self, selector: str) -> None:
        ActionChains(self.driver, duration=20).move_to_element(self.find(selector)).click().perform()

    def double_click(self, selector: str, until: str) -> None:
        """Double-click until something is there: on a busy machine two clicks may be too far apart to be one."""
        for _ in range(4):
            ActionChains(self.driver, duration=20).double_click(self.find(selector)).perform()
            with suppress(AssertionError):
                self.wait_for(lambda: self.count(until), seconds=4)
                return
        raise AssertionError(f"double-clicking {selector} does not bring {until}")

    def hover(self, selector: str) -> None:
        target = self.find(selector)
        ActionChains(self.driver, duration=20).move_to_element_with_offset(target, 1, 1).move_to_element(
            target
        ).perform()

    def click_text(self, selector: str, text: str) -> None:
        chosen = [one for one in self.driver.find_elements(By.CSS_SELECTOR, selector) if one.text == text]
        chosen[0].click()

    def choose(self, selector: str, value: str) -> None:
        self.script(
            "const s = document.querySelector(arguments[0]); s.value = arguments[1];"
            "for (const kind of ['change', 'input']) s.dispatchEvent(new Event(kind, {bubbles: true}))",
            selector, value,
        )  # fmt: skip

    def type(self, selector: str, text: str) -> None:
        found = self.find(selector)
        found.clear()
        found.send_keys(text)

    def keys(self, text: str, *, control: bool = False) -> None:
        """Press a key by its name, or type a text, wherever the focus is."""
        pressed = getattr(Keys, text) if text.isupper() and hasattr(Keys, text) else text
        chain = ActionChains(self.driver, duration=20)
        if control:
            chain.key_down(Keys.CONTROL).send_keys(pressed).key_up(Keys.CONTROL).perform()
        else:
            chain.send_keys(pressed).perform()

    def complaints(self) -> list[dict[str, Any]]:
        """Return what stands on the console, and forget it."""
        return [entry for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
