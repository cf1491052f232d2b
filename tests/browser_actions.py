"""Follow a page of the documentation in a browser, and check that its pictures are current.

A step is a line of a list that starts with one of these words: Open, Write, Choose, Tick, Press, See. "Under" limits
a step to the part of a page with such a heading. A picture shows the browser at its place in the text. The file of a
picture also holds the text on it. If the page shows other text, the picture is out of date.
"""

import io
import re

from PIL import Image, PngImagePlugin

STEP = re.compile(
    r"^\* (?:Under \*\*(?P<part>[^*]+)\*\*, )?(?P<verb>open|write|choose|tick|press|see)"
    r"(?: `(?P<value>[^`]+)` (?:into|in)| these lines into)? \*\*(?P<name>[^*]+)\*\*"
    r"(?:\.|:\n\n  ```text\n(?P<block>.*?)  ```)\n"
    r"|^!\[(?P<shown>[^\]]+)\]\((?P<picture>[^)]+)\)$",
    re.MULTILINE | re.DOTALL | re.IGNORECASE,
)
SIZE = {"width": 1280, "height": 1100}
SETTLING_MS = 2500
"""Milliseconds after which a page shows no price of before any more: the studio's own patience, and a little."""
NUMBERS = r"[0-9a-f]{12,64}|[-−+]?\d[\d.,\u202f]*( · 10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)?"
READ = "Read"
"""Under which a picture keeps what could be read on it."""

SEEN = """height => [...document.querySelectorAll('h1, h2, h3, a, p, label, legend, button, option, th, td, dt, dd')]
    .filter(x => { const b = x.getBoundingClientRect(); return x.tagName === 'OPTION' || b.height && b.top < height; })
    .map(x => x.textContent)"""


def steps(page):
    """Return the steps of a page in their order, and check that no step is passed over."""
    matches = list(STEP.finditer(page))
    instructions = re.findall(r"^(?:\* (?:Under|Open|Write|Choose|Tick|Press|See)\b|!\[).*", page, re.MULTILINE)
    assert len(instructions) == len(matches), {*instructions} - {x[0].splitlines()[0] for x in matches}
    return matches


def press(page, step):
    """Do one step, on a page of a browser."""
    name, part, verb = step["name"], step["part"], step["verb"].lower()
    group = page.get_by_role("group", name=re.compile(rf"^{re.escape(part)}\b")) if part else page
    if verb in ("write", "choose", "tick"):
        field = group.get_by_label(re.compile(rf"^\s*{re.escape(name)}\s*$")).first
        if verb == "write":
            block = step["block"] and re.sub("^  ", "", step["block"], flags=re.MULTILINE)
            field.fill(block or step["value"])
        elif verb == "choose":
            field.select_option(label=step["value"])
        else:
            field.check()
    elif verb == "see":
        page.get_by_text(name).first.wait_for()
    elif verb == "open":
        page.get_by_role("link", name=name, exact=True).click()
    else:
        button = group.get_by_role("button", name=name, exact=True)
        (button if button.count() else group.get_by_role("link", name=name, exact=True)).first.click()
    page.wait_for_load_state()
    page.wait_for_timeout(50)
    page.wait_for_function("() => !document.querySelector('[aria-busy=true], #stop-price')")


def readable(page):
    """Return the text on a picture of a page without numbers, which depend on noise or on the machine."""
    return re.sub(r"\s+", " ", re.sub(NUMBERS, "#", " | ".join(page.evaluate(SEEN, SIZE["height"]))))


def wait_until_settled(page):
    """Wait until a page shows what belongs to its draft, from its top."""
    if page.query_selector("#price"):
        page.wait_for_timeout(SETTLING_MS)
        page.wait_for_function("() => !document.querySelector('#stop-price')")
    page.mouse.move(0, 0)
    page.evaluate("() => { document.activeElement.blur(); scrollTo(0, 0); }")


def picture(page):
    """Return a picture of a page as a small file that includes the text on it."""
    shot = Image.open(io.BytesIO(page.screenshot(animations="disabled", caret="hide")))
    metadata = PngImagePlugin.PngInfo()
    metadata.add_itxt(READ, readable(page), zip=True)
    file = io.BytesIO()
    shot.convert("RGB").quantize(32, dither=Image.Dither.NONE).save(file, "PNG", optimize=True, pnginfo=metadata)
    return file.getvalue()


def read(picture):
    """Return the text that the file of a picture holds."""
    with Image.open(picture) as image:
        return image.text[READ]


def pressed(page, browser_page, on_picture):
    """Do all steps of a page; at: function to call at each picture, with its name."""
    browser_page.set_viewport_size(SIZE)
    for step in steps(page):
        if step["picture"]:
            wait_until_settled(browser_page)
            on_picture(step["picture"])
        else:
            press(browser_page, step)
