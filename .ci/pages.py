"""Open every page of the built site in headless Chromium, on a desk by day and night, and a phone.

A page fails when it scrolls sideways, lacks a picture, cannot typeset a formula, or writes an
error to the console; the gallery, when a card has no figure; the search, when it finds nothing for
what newcomers look for. A report about an audit is looked at as well. What the pages look like is
left in ``docs/_build/pages``.
"""

import functools
import random
import shutil
import sys
import threading
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote_plus

from selenium.common.exceptions import TimeoutException
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.wait import WebDriverWait

from sklearn_dpwg.inspection import AuditReport, GroupAudit

SITE = Path(__file__).parent.parent / "docs" / "_build" / "html"
PICTURES = SITE.parent / "pages"
LOOKS = {"desk": (1280, "light"), "dark": (1280, "dark"), "phone": (390, "light")}
TALLEST = 12_000  # pixels of a picture
OPTIONS = (
    "--headless=new --no-sandbox --disable-gpu --hide-scrollbars --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync"
)
TYPESET = (
    "return document.readyState === 'complete' && (!document.querySelector('.math') || "
    "Boolean(document.querySelector('mjx-container, .MathJax')))"
)
FAULTS = """
const faults = [];
// the theme lets the article scroll where the window does not
for (const box of document.querySelectorAll("html, .bd-main, .bd-content, .bd-article-container")) {
  const wide = box.scrollWidth - box.clientWidth;
  if (wide > 1) faults.push(`scrolls sideways by ${wide} pixels in ${box.className || "the page"}`);
}
for (const picture of document.images)
  if (!picture.naturalWidth && picture.loading !== "lazy") faults.push(`lacks ${picture.src}`);
for (const formula of document.querySelectorAll("mjx-merror, .merror"))
  faults.push(`cannot typeset ${formula.textContent}`);
return faults;
"""
BARE_CARDS = """
return [...document.querySelectorAll(".sphx-glr-thumbcontainer")]
  .filter(card => !card.querySelector("img") || card.querySelector("img").src.includes("no_image"))
  .map(card => `has a card without a figure: ${card.textContent.trim()}`);
"""
# what newcomers look for, and a page that must be among the first found, if one must
SEARCHES = {
    **dict.fromkeys(("fairness", "fairlearn", "missing values", "audit", "model card"), ""),
    "four-fifths": "audit",
    "threshold": "guide/thresholds",
    "epsilon": "guide/choosing_epsilon",
    "class_weight": "guide/thresholds",
}
FOUND = """
const links = [...document.querySelectorAll("#search-results ul.search li a")].slice(0, 15);
return links.some(link => link.getAttribute("href").includes(arguments[0]));
"""
SECONDS_TO_SEARCH = 20


def write_report(path: Path) -> None:
    """Write a report about groups that exist nowhere beside the pages of the site."""
    labels = ["north", "south", "islands", "a <b>name</b> that is longer than a column should be"]
    draw = random.Random(0)
    groups = draw.choices(labels, weights=[60, 30, 8, 2], k=6000)
    truth = [int(draw.random() < 0.6) for _ in groups]
    stated = [1 - y if draw.random() < 0.2 else y for y in truth]
    result = GroupAudit(epsilon=1.0, group_labels=labels).run(
        truth, stated, groups, kind="decisions"
    )
    AuditReport(result, title="A report").write_html(path)


class Quiet(SimpleHTTPRequestHandler):
    """Serves files without a word."""

    def do_GET(self):
        """Send a file; browsers ask for an icon that no page names."""
        if self.path == "/favicon.ico":
            self.send_response(HTTPStatus.NO_CONTENT)
            self.end_headers()
        else:
            super().do_GET()

    def log_message(self, *_):
        """Say nothing."""


def faults_of(browser: Chrome, address: str, look: tuple[int, str], picture: Path) -> list[str]:
    """Return what is wrong with a page, and take its picture."""
    width, scheme = look
    media = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(address)
    WebDriverWait(browser, 30).until(lambda driver: driver.execute_script(TYPESET))
    faults = browser.execute_script(FAULTS) + browser.execute_script(BARE_CARDS)
    faults += [line["message"] for line in browser.get_log("browser") if line["level"] == "SEVERE"]
    height = browser.execute_script("return document.documentElement.scrollHeight")
    size["height"] = min(height, TALLEST)
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    picture.parent.mkdir(parents=True, exist_ok=True)
    browser.save_screenshot(str(picture))
    return faults


def fruitless_searches(browser: Chrome, site: str) -> list[str]:
    """Return what the site's own search finds nothing for, or not the page about it."""
    fruitless = []
    for words, page in SEARCHES.items():
        browser.get(f"{site}/search.html?q={quote_plus(words)}")
        try:
            WebDriverWait(browser, SECONDS_TO_SEARCH).until(
                lambda tab, page=page: tab.execute_script(FOUND, page)
            )
        except TimeoutException:
            fruitless.append(f"search.html: finds nothing for {words!r}, or not {page!r}")
    return fruitless


def main() -> int:
    """Look at all pages; return the exit status."""
    driver = shutil.which("chromedriver")
    if driver is None:
        raise SystemExit("Needs Chromium and its driver: Debian's chromium and chromium-driver")
    pages = sorted(path for path in SITE.rglob("*.html") if "_static" not in path.parts)
    if not pages:
        raise SystemExit("There are no pages: run `make docs` first")
    write_report(SITE / "a_report.html")
    pages = sorted({*pages, SITE / "a_report.html"})
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=SITE))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    options = ChromeOptions()
    for option in OPTIONS.split():
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "SEVERE"})
    site = f"http://127.0.0.1:{server.server_port}"
    n_faults = 0
    with Chrome(options=options, service=Service(driver)) as browser:
        for page in pages:
            name = page.relative_to(SITE)
            for device, look in LOOKS.items():
                picture = PICTURES / device / name.with_suffix(".png")
                for fault in faults_of(browser, f"{site}/{name.as_posix()}", look, picture):
                    n_faults += 1
                    print(f"{name} ({device}): {fault}")
        for fault in fruitless_searches(browser, site):
            n_faults += 1
            print(fault)
    server.shutdown()
    print(f"{len(pages)} pages in {len(LOOKS)} looks: {n_faults} faults; see {PICTURES}")
    return int(n_faults > 0)


if __name__ == "__main__":
    sys.exit(main())
