"use strict";
// One script: post a form, put parts in their place, newest wins, listen. It evaluates nothing and asks its own origin.
(() => {
  const root = new URL(".", document.currentScript.src).href; // where all of this server lies
  const body = document.body, running = new Map();
  let turn = 0, quiet = 0, gone = 0, source = null;

  // What is written in other forms than the one that was sent, and not sent yet, outlives the parts that are replaced.
  // Those that are live are sent as they are written to, and name tables by their places.
  const isTicked = (x) => /checkbox|radio/.test(x.type);
  const known = (x) => [(x.closest("fieldset") || x.form).querySelector("legend")?.textContent, x.form.dataset.as || "",
    x.name, isTicked(x) ? x.value : ""].join("|");
  const told = (x) => (isTicked(x) ? x.checked : x.value);
  const given = (x) => (x.type === "radio" ? x.form.elements[x.name].value : told(x)); // of all radio buttons of a name
  const asMade = (x) => (isTicked(x) ? x.defaultChecked
    : x.options ? ([...x.options].find((o) => o.defaultSelected) || x.options[0] || {}).value : x.defaultValue);
  const fields = (part) => [...part.querySelectorAll("form:not([data-live]) [name]:not([type=hidden])")];

  const texts = (part) => [...part.querySelectorAll(":is(textarea, input:not([type]), [type=text])[name]")];

  function unsent(part, sent) {
    return new Map(fields(part).filter((x) => x.form !== sent && told(x) !== asMade(x)).map((x) => [known(x), [told(x), asMade(x)]]));
  }

  function restore(part, kept) {
    for (const x of fields(part)) {
      const [now, before] = kept.get(known(x)) || [];
      if (now === undefined || before !== asMade(x)) continue;
      if (isTicked(x)) x.checked = now; else x.value = now;
    }
  }

  // Refused values: told at their fields, also after parts are replaced, until the value changes or the form is sent again.
  const refused = new Map();

  function mark() {
    for (const x of document.querySelectorAll("main form [name][id]:not([type=hidden])")) {
      const own = refused.get(known(x)), there = document.getElementById(x.id + "-wrong");
      const wrong = own !== undefined && own.value === given(x);
      if (!wrong && own !== undefined) refused.delete(known(x));
      if (!wrong && there && there.dataset.told) {
        there.remove();
        x.removeAttribute("aria-invalid");
        if (x.dataset.help) x.setAttribute("aria-describedby", x.dataset.help); else x.removeAttribute("aria-describedby");
      }
      if (!wrong || there) continue;
      const said = document.createElement("small");
      said.className = "wrong";
      said.id = x.id + "-wrong";
      said.dataset.told = "1";
      said.append(...own.nodes.map((node) => node.cloneNode(true)));
      const row = x.closest(".margin, .code-row, .span"), legend = isTicked(x) && x.closest("fieldset")?.querySelector("legend");
      if (row) row.append(said); else if (legend) legend.after(said); else x.before(said);
      x.dataset.help = x.getAttribute("aria-describedby") || "";
      x.setAttribute("aria-describedby", `${x.dataset.help} ${said.id}`.trim());
      x.setAttribute("aria-invalid", "true");
    }
    // Costs next to fields that are not sent yet are those of before.
    document.getElementById("bounds")?.classList.toggle("old", unsent(document.querySelector("main")).size > 0);
    // The state of a column, and of this step, with the number of its refused values.
    const words = document.getElementById("alert").dataset, wrong = (part) => part.querySelectorAll("[aria-invalid=true]").length;
    for (const x of document.querySelectorAll(".columns > fieldset")) {
      const n = wrong(x), state = x.querySelector(".chip");
      state.classList.toggle("bad", n > 0);
      say(state, n && words.correct.replace("{n}", n));
    }
    for (const x of document.querySelectorAll(".steps [aria-current] > :is(.n, .hidden)")) {
      say(x, wrong(document) && (x.className === "n" ? "!" : `${x.dataset.before ?? x.textContent}, ${words.step}`));
    }
  }

  // Another text in an element, or its own again.
  function say(x, text) {
    if (text) x.dataset.before ??= x.textContent;
    if (text || x.dataset.before !== undefined) x.textContent = text || x.dataset.before;
    if (!text) delete x.dataset.before;
  }

  // A field in the words of its form: the heading of its part, and its label.
  const named = (x) => [x.closest("fieldset")?.querySelector("legend"), ...(isTicked(x) ? [] : x.labels)]
    .filter(Boolean).map((y) => y.textContent.replace(/[\s±]+$/, "").trim()).join(", ");

  // The field of a refused value; of a form that was replaced, the one in its place. The summary leads to each.
  function refuse(form) {
    for (const p of document.querySelectorAll("#alert [data-field]")) {
      const x = [...form.elements].find((y) => y.name === p.dataset.field && y.id && y.type !== "hidden");
      if (!x) continue;
      refused.set(known(x), { value: given(x), nodes: [...p.childNodes].map((node) => node.cloneNode(true)) });
      const link = document.createElement("a");
      link.href = "#" + x.id;
      link.append(`${named(x)}: `, ...p.childNodes);
      p.replaceChildren(link);
    }
    mark();
  }

  function show() {
    const summary = document.getElementById("alert");
    const prefix = summary.dataset.prefix + " ";
    if (!document.title.startsWith(prefix)) document.title = prefix + document.title;
    summary.focus({ preventScroll: true });
    summary.scrollIntoView({ block: "center" });
  }

  // A field may lie in a part that is closed, or is shown for another answer.
  function go(field) {
    for (let part = field.closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
    field.focus({ preventScroll: true });
    (document.getElementById(field.id + "-wrong") || field).scrollIntoView({ block: "center" });
  }

  document.addEventListener("click", (event) => {
    const link = event.target.closest("#alert a"), field = link && document.getElementById(link.hash.slice(1));
    if (!field) return;
    event.preventDefault();
    go(field);
  });

  // The studio was quit: nothing of the page works any more, so the last page takes the place of all.
  function close(part) {
    if (source) source.close();
    for (const x of document.querySelectorAll(".steps, .bar, .tools, .folder")) x.remove();
    document.querySelector("main").replaceChildren(...part.childNodes);
  }

  function place(html, sent) {
    const page = new DOMParser().parseFromString(html, "text/html");
    const focused = document.activeElement ? document.activeElement.id : "";
    for (const part of page.querySelectorAll("[data-part]")) {
      if (part.dataset.closed) return close(part);
      const here = document.getElementById(part.id);
      if (!here || part.parentElement.closest("[data-part]")) continue;
      if (part.dataset.base !== undefined) here.dataset.base = part.dataset.base;
      if (here.innerHTML === part.innerHTML && part.dataset.anew === undefined) continue; // menus that a reader changed are set again
      const kept = unsent(here, sent), open = [...here.querySelectorAll("details[open][id]")].map((x) => x.id);
      here.replaceChildren(...part.childNodes);
      for (const x of here.querySelectorAll("details[id]")) if (open.includes(x.id)) x.open = true;
      restore(here, kept);
    }
    const there = focused && document.getElementById(focused);
    if (there && there !== document.activeElement) there.focus({ preventScroll: true });
    const wanted = sent && document.querySelector("[data-focus]"); // what a button added
    if (wanted) { wanted.removeAttribute("data-focus"); wanted.focus(); }
    mark();
    sliders();
  }

  function tell(text) {
    const said = document.createElement("p");
    said.className = "wrong";
    said.textContent = text;
    document.getElementById("alert").replaceChildren(said);
  }

  // Another tab changed the draft: take its version, or make this change again from there.
  let last = null;

  document.addEventListener("click", (event) => {
    if (event.target.id === "take-theirs") location.reload();
    if (event.target.id !== "keep-mine") return;
    document.getElementById("content").dataset.base = event.target.dataset.base;
    send(...last);
  });

  async function send(form, button) {
    last = [form, button];
    const action = form.getAttribute("action"), fields = new URLSearchParams(new FormData(form, button));
    fields.set("base", document.getElementById("content")?.dataset.base || ""); // what is told of another tab changes no base
    fields.set("tab", body.dataset.tab || "");
    fields.set("turn", String(++turn));
    if (running.has(action)) running.get(action).abort();
    const control = new AbortController(), said = document.getElementById("alert").dataset;
    running.set(action, control);
    const asSent = new Map(texts(form).map((x) => [known(x), x.value]));
    const price = form.dataset.live === undefined ? null : document.getElementById("price");
    if (price) price.setAttribute("aria-busy", "true");
    try {
      const reply = await fetch(action, {
        method: "POST", body: fields, headers: { "X-Studio": "1" }, signal: control.signal,
        redirect: "error", credentials: "same-origin",
      });
      const go = reply.headers.get("x-go");
      if (reply.status !== 204 && button?.name !== "again") for (const x of form.elements) if (x.name) refused.delete(known(x));
      if (go && /^\/(?!\/)/.test(go)) location.assign(root + go.slice(1));
      else if (reply.status === 403) tell(await reply.text().then((x) => (x.startsWith("<") ? said.again : x)));
      else if (reply.status !== 204) {
        const html = await reply.text();
        const typed = new Map(texts(form).filter((x) => x.value !== asSent.get(known(x))).map((x) => [known(x), x.value]));
        place(html, form);
        // A form that only comes back with other fields keeps what was typed since it was sent.
        if (button?.name === "again") for (const x of texts(document)) if (typed.has(known(x))) x.value = typed.get(known(x));
        if (!reply.ok) refuse(form);
        if (!reply.ok && button && button.name !== "again") show(); // whoever types on in a live form is not led away
        if (source && source.readyState !== EventSource.CLOSED) listen(); // an event may have overtaken the reply: told again
      }
    } catch (error) {
      if (error.name !== "AbortError") tell(said.silent);
    } finally {
      if (price && running.get(action) === control) price.removeAttribute("aria-busy");
    }
  }

  // A slider moves its number field by factors: from a tenth to ten times what it was.
  const round = (x) => Number(x.toPrecision(2)) === x ? String(x) : String(Number(x.toPrecision(3)));

  function sliders() {
    for (const slider of document.querySelectorAll("input[data-for]")) {
      const field = document.getElementById(slider.dataset.for), value = Number(field.value);
      if (!(value > 0)) continue;
      if (!slider.dataset.middle) slider.dataset.middle = String(value);
      const at = 50 + 50 * Math.log10(value / Number(slider.dataset.middle));
      slider.value = String(Math.min(100, Math.max(0, at)));
      slider.setAttribute("aria-valuetext", "± " + field.value);
    }
  }

  document.addEventListener("submit", (event) => {
    if (event.target.method !== "post") return;
    event.preventDefault();
    clearTimeout(quiet);
    send(event.target, event.submitter);
  });

  document.addEventListener("input", (event) => {
    const changed = event.target;
    if (changed.dataset.for) {
      const field = document.getElementById(changed.dataset.for);
      field.value = round(Number(changed.dataset.middle) * 10 ** ((Number(changed.value) - 50) / 50));
      changed.setAttribute("aria-valuetext", "± " + field.value);
    } else sliders();
    mark();
    if (changed.form && changed.form.dataset.build !== undefined) build(changed);
    if (changed.form && changed.form.dataset.live !== undefined) {
      clearTimeout(quiet);
      quiet = setTimeout(() => send(changed.form), 120);
    }
  });

  // A form that is built: a choice may need other fields, so it comes back with them; a text changes the preview alone.
  function build(changed) {
    const chosen = changed.matches("[data-again]");
    const button = changed.form.querySelector(`[name=again][value=${chosen ? "choice" : "preview"}]`);
    clearTimeout(quiet);
    const id = button && `#${changed.form.id} [name=again][value=${button.value}]`; // the form may be replaced meanwhile
    if (id) quiet = setTimeout(() => { const x = document.querySelector(id); if (x) send(x.form, x); }, chosen ? 0 : 200);
  }

  function listen() {
    if (!body.dataset.on || body.dataset.on === "wrong") return;
    if (source) source.close();
    source = new EventSource(root + "events?on=" + encodeURIComponent(body.dataset.on));
    source.onmessage = (event) => place(event.data);
    // A reload of the page ends the stream as well; a studio that is gone does not come back.
    source.onerror = () => {
      clearTimeout(gone);
      gone = setTimeout(() => source.readyState === EventSource.OPEN || tell(document.getElementById("alert").dataset.silent), 2000);
    };
    source.onopen = () => clearTimeout(gone);
  }

  addEventListener("pagehide", () => source && source.close());
  listen();
  sliders();
})();
