"use strict";
// Search and filter of the index, choice of two versions, and copying of commands. Without it everything can be read.
(() => {
  const by = (id) => document.getElementById(id);

  const copied = (said, words) => {
    said.textContent = words;
    clearTimeout(said.timer);
    said.timer = setTimeout(() => { said.textContent = ""; }, 4000);
  };
  // Where the clipboard cannot be written, the text is left selected.
  const byHand = (source, said) => {
    const range = document.createRange();
    range.selectNodeContents(source);
    const selection = getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
    let done = false;
    try { done = document.execCommand("copy"); } catch { done = false; }
    copied(said, done ? "Copied" : "Selected: press Ctrl+C");
  };
  for (const button of document.querySelectorAll("button[data-copy]")) {
    const source = by(button.dataset.copy);
    const said = button.parentElement.querySelector(".said");
    button.hidden = false;
    button.addEventListener("click", () => {
      if (!navigator.clipboard) { byHand(source, said); return; }
      navigator.clipboard.writeText(source.textContent).then(() => copied(said, "Copied"), () => byHand(source, said));
    });
  }

  // A link to a page with a filter or a choice in it; browsers that refuse this for local files only lose that.
  const remember = (hash) => {
    try { history.replaceState(null, "", hash === "" ? location.pathname : `#${hash}`); } catch { /* not remembered */ }
  };

  const filter = by("filter");
  if (filter) {
    const fields = ["q", "kind", "name", "yanked"].map(by);
    const [q, kind, name, yanked] = fields;
    const rows = [...document.querySelectorAll("li[data-text]")];
    const apply = () => {
      const words = q.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const row of rows) {
        const fits = words.every((word) => row.dataset.text.includes(word))
          && (!kind.value || row.dataset.kind === kind.value)
          && (!name.value || row.dataset.name === name.value)
          && (!yanked.value || row.dataset.yanked === yanked.value);
        row.hidden = !fits;
        shown += fits;
      }
      for (const group of document.querySelectorAll(".published, .kind")) {
        group.hidden = !group.querySelector("li[data-text]:not([hidden])");
      }
      by("none").hidden = shown > 0;
      by("found").value = shown === rows.length ? `${shown} versions` : `${shown} of ${rows.length} versions`;
    };
    const changed = () => {
      const asked = new URLSearchParams();
      for (const field of fields) if (field.value) asked.set(field.id, field.value);
      remember(asked.toString());
      apply();
    };
    const recall = () => {
      if (!location.hash.includes("=")) return;
      const asked = new URLSearchParams(location.hash.slice(1));
      for (const field of fields) field.value = asked.get(field.id) ?? "";
    };
    filter.hidden = false;
    filter.addEventListener("input", changed);
    filter.addEventListener("submit", (event) => event.preventDefault());
    filter.addEventListener("reset", (event) => {
      event.preventDefault();
      for (const field of fields) field.value = "";
      changed();
      q.focus();
    });
    addEventListener("hashchange", () => { recall(); apply(); });
    addEventListener("pageshow", apply);
    addEventListener("keydown", (event) => {
      if (event.key === "/" && !event.ctrlKey && !event.metaKey && !event.altKey && !event.target.closest("input, select")) {
        event.preventDefault();
        q.focus();
        q.select();
      } else if (event.key === "Escape" && event.target === q) {
        event.preventDefault();
        q.value = "";
        changed();
      }
    });
    recall();
    apply();
  }

  const choose = by("choose");
  if (choose) {
    const from = by("from");
    const to = by("to");
    const pairs = [...document.querySelectorAll("details.pair")];
    const ask = by("ask");
    const pattern = ask.textContent;
    const show = () => {
      const wanted = [from.value, to.value];
      let hit = null;
      for (const pair of pairs) {
        const mine = wanted[0] !== wanted[1] && wanted.includes(pair.dataset.from) && wanted.includes(pair.dataset.to);
        pair.hidden = !mine;
        pair.open = mine;
        pair.classList.toggle("chosen", mine);
        if (mine) hit = pair;
      }
      const same = wanted[0] === wanted[1];
      by("uncompared").hidden = same || hit !== null;
      ask.textContent = pattern.replace("FROM", wanted[0]).replace("TO", wanted[1]);
      by("chosen").textContent = same ? "The same version twice: choose two."
        : hit ? `What changed from ${hit.dataset.from} to ${hit.dataset.to}:` : "";
    };
    const recall = () => {
      const asked = decodeURIComponent(location.hash.slice(1)).split("...");
      const known = [...from.options].map((option) => option.value);
      if (asked.length !== 2 || !asked.every((version) => known.includes(version))) return false;
      [from.value, to.value] = asked;
      return true;
    };
    choose.hidden = false;
    choose.addEventListener("submit", (event) => event.preventDefault());
    choose.addEventListener("input", () => { show(); remember(`${from.value}...${to.value}`); });
    addEventListener("hashchange", () => { if (recall()) show(); });
    if (!recall()) {
      from.value = pairs[0].dataset.from;
      to.value = pairs[0].dataset.to;
    }
    show();
    if (location.hash.includes("...")) by("compare").scrollIntoView();
  }
})();
