"""The page about an audit in a browser: quiet, legible and usable on any screen and on paper."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sklearn_dpwg.inspection import AuditReport
from tests.helpers.audit_cases import MODEL_GUARANTEE, audit_result

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")

CHROMIUM = "/usr/bin/chromium"
pytestmark = pytest.mark.skipif(not Path(CHROMIUM).exists(), reason=f"there is no {CHROMIUM}")

PHONE = {"width": 360, "height": 740}
PAPER = {"width": 703, "height": 1000}  # A4 without its margins
MODES: dict[str, dict[str, Any]] = {
    "light": {},
    "dark phone": {"viewport": PHONE, "color_scheme": "dark"},
    "paper": {"media": "print", "viewport": PAPER},
}
# What may differ from mode to mode: colours, sizes, and what scrolls.
DIFFERENT = ("color-contrast", "target-size", "scrollable-region-focusable")
SIDEWAYS = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
# The first cell of each row of the table of groups, without what stands under the name.
NAMES = (
    "[...document.querySelectorAll('table.groups tbody th bdi:first-child')]"
    ".map(name => name.textContent)"
)


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as running:
        made = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield made
        made.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory, forty_groups) -> dict[str, Path]:
    """Write the pages that are looked at."""
    folder = tmp_path_factory.mktemp("pages")
    one = audit_result(5, model_privacy_=MODEL_GUARANTEE)
    reports = {
        "a model": AuditReport(one, notes="For the board.", verdict=one.verdict()),
        "40 groups": forty_groups,
    }
    result = {}
    for name, report in reports.items():
        result[name] = folder / f"{name}.html"
        report.write_html(result[name])
    return result


@contextmanager
def shown(browser, path: Path, media: str = "screen", **mode) -> Iterator[tuple[Any, list[str]]]:
    """Open a page, and gather what it asks for and what it complains about."""
    context = browser.new_context(**mode)
    try:
        tab, faults = context.new_page(), []
        tab.on("console", lambda message: faults.append(f"says {message.text}"))
        tab.on("pageerror", lambda error: faults.append(f"fails with {error}"))
        tab.on("dialog", lambda dialog: (faults.append("alerts"), dialog.dismiss()))
        address = path.as_uri()
        tab.on(
            "request",
            lambda asked: asked.url != address and faults.append(f"asks for {asked.url}"),
        )
        tab.emulate_media(media=media)
        tab.goto(address)
        yield tab, faults
    finally:
        context.close()


def serious(tab, part: Any = "body", rules: tuple[str, ...] | None = None) -> list[str]:
    """Return what a person who sees, hears or moves otherwise could not use."""
    options: dict[str, Any] = {"resultTypes": ["violations"]}
    if rules is not None:
        options["runOnly"] = list(rules)
        part = {"include": [[part]], "exclude": [["svg"]]}  # hundreds of texts in one colour
    result = axe.Axe().run(tab, part, options).response["violations"]
    return [
        f"{rule['id']}: {rule['nodes'][0]['html'][:200]}"
        for rule in result
        if rule["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("mode", MODES)
def test_the_page_is_quiet_and_everybody_can_use_it(browser, pages, mode):
    with shown(browser, pages["a model"], **MODES[mode]) as (tab, faults):
        assert tab.evaluate(SIDEWAYS) == 0
        # looking again for what is the same in each mode would take seconds
        assert serious(tab, rules=None if mode == "light" else DIFFERENT) == []
        assert faults == []


def test_groups_are_sorted_by_keyboard(browser, pages):
    with shown(browser, pages["40 groups"]) as (tab, faults):
        before = tab.evaluate(NAMES)
        heading = tab.locator("table.groups th", has_text="error rate")
        for _ in range(40):
            tab.keyboard.press("Tab")
            if tab.evaluate("document.activeElement.textContent").startswith("error rate"):
                break
        tab.keyboard.press("Enter")
        assert heading.get_attribute("aria-sort") == "ascending"
        values = (
            "[...document.querySelectorAll('table.groups tbody tr')]"
            ".map(row => Number(row.cells[6].dataset.value))"
        )
        rates = tab.evaluate(values)
        assert rates == sorted(rates)
        tab.keyboard.press("Space")
        assert heading.get_attribute("aria-sort") == "descending"
        assert tab.evaluate(values) == sorted(rates, reverse=True)
        assert sorted(tab.evaluate(NAMES)) == sorted(before) != before
        assert faults == []


def test_planted_faults_are_found(browser, pages, tmp_path):
    with shown(browser, pages["a model"]) as (tab, faults):
        tab.evaluate("document.querySelector('p.soft').style.color = '#bbb'")
        assert [fault.partition(":")[0] for fault in serious(tab, "header")] == ["color-contrast"]
        tab.evaluate("document.querySelector('main').style.minWidth = '3000px'")
        assert tab.evaluate(SIDEWAYS) > 0
        assert faults == []
    page = pages["a model"].read_text(encoding="utf-8")
    planted = tmp_path / "planted.html"
    harm = "<main><img alt='' src='http://127.0.0.1:9/x.png'><script>alert(1)</script>"
    planted.write_text(page.replace("<main>", harm), encoding="utf-8")
    with shown(browser, planted) as (tab, faults):
        tab.wait_for_timeout(50)
        assert any("violates" in fault and "x.png" in fault for fault in faults)
        assert any("violates" in fault and "script" in fault for fault in faults)
        assert "alerts" not in faults
