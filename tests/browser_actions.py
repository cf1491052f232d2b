"""Follow a page of the documentation in a browser, and check that its pictures are current.

`REDUCE` leaves on a page one part of each kind, for checks of accessibility.

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
    .filter(x => {
        const shown = x.closest('select') ?? x, box = shown.getBoundingClientRect();
        return shown.checkVisibility() && box.height && box.top < height;
    })
    .map(x => x.textContent)"""

REDUCE = """known => {
    const named = /^(id|href|src|title|name|alt|headers)$/;
    const bare = x => (x.getAttribute('class') ?? '').replace(/\\bcurrent(-page)?\\b/g, '').trim();
    const seen = new Set(known), hash = (text, factor) => [...text].reduce(
        (sum, letter) => Math.imul(sum, factor) + letter.charCodeAt(0) | 0, 7);
    const isNew = text => seen.size < seen.add(hash(text, 31) + ' ' + hash(text, 37)).size;
    const sidebar = document.querySelector('.sidebar-drawer');
    if (sidebar) {
        const parts = [...sidebar.querySelectorAll('*')].map(x => `${x.tagName} ${x.role} ${bare(x)}`);
        const list = parts.join() + sidebar.innerText;
        if (!isNew(list)) sidebar.remove();
    }
    const attributes = x => [...x.attributes]
        .filter(a => a.name !== 'class' && !(a.name === 'style' && x.matches('table')))
        .map(a => a.name + '=' + (named.test(a.name) ? !!a.value.trim() : a.value)).sort();
    const own = x => [x.tagName, bare(x), ...attributes(x)].join(' ');
    const main = document.querySelector('article') ?? document.querySelector('main');
    const path = x => !x || x === main ? '' : own(x) + ' < ' + path(x.parentElement);
    const tables = [...main.querySelectorAll('table')], widths = tables.map(x => x.getBoundingClientRect().width);
    tables.forEach((x, i) => { x.style.minWidth = widths[i] + 'px'; });
    for (const x of [...main.querySelectorAll('span, code, em, strong')].reverse()) {
        if (x.childElementCount || attributes(x).length || x.closest('a, button, label, svg, math')) continue;
        if (!isNew(path(x))) x.replaceWith(x.textContent);
    }
    const kinds = new Map();
    const kind = x => kinds.get(x) ?? kinds.set(x,
        `<${own(x)} ${[...x.childNodes].some(y => y.nodeType === 3 && y.data.trim())}`
        + ` ${x.scrollWidth > x.clientWidth} ${[...x.children].map(kind).join('')}>`).get(x);
    const parts = [...main.querySelectorAll(':is(tbody, ul, ol, dd, section, pre) > *'),
        ...document.querySelectorAll('.toc-tree li')];
    parts.forEach(kind);  // before anything is removed, after which the browser would lay the page out again
    for (const x of parts) {
        if (x.querySelector('h1, h2, h3, h4, h5, h6') || /^H[1-6]$/.test(x.tagName) || !x.isConnected) continue;
        if (!isNew(path(x.parentElement) + kind(x))) x.remove();
    }
    return [...seen];
}"""
"""Removes the parts of a page that repeat what was checked in the same colours, on this page or an earlier one.

* A list of all pages that equals an earlier list.
* Words whose elements, up to the main part, have the classes and attributes of earlier words.
* Parts of lists, tables, sections and tables of contents that equal earlier parts at the same path, in elements,
  attributes and overflow.

Headings stay, and tables keep their width.
"""


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
        # The name of a step also says its place and whether it is done.
        page.get_by_role("link", name=re.compile(rf"^(?:.*: )?{re.escape(name)}(?:, .*)?$")).first.click()
    else:
        button = group.get_by_role("button", name=name, exact=True)
        link = group.get_by_role("link", name=name, exact=True)
        other = link if link.count() else group.locator("summary", has_text=name)
        (button if button.count() else other).first.click()
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
