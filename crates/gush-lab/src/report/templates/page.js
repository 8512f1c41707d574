"use strict";
// The page is whole without this: it keeps the colours, hides tips on Escape, and reads out points of lines.
(() => {
  const key = "gush-lab-theme";
  const themes = document.querySelectorAll("input[name=theme]");
  // A browser may deny storage to a file.
  try {
    for (const theme of themes) theme.checked = theme.value === (localStorage.getItem(key) ?? "auto");
  } catch {}
  for (const theme of themes) {
    theme.addEventListener("change", () => {
      try { localStorage.setItem(key, theme.value); } catch {}
    });
  }

  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") document.body.classList.add("quiet");
  });
  for (const event of ["focusin", "pointerover"]) {
    document.addEventListener(event, () => document.body.classList.remove("quiet"));
  }

  for (const chart of document.querySelectorAll("[data-lines]")) {
    const plot = chart.querySelector(".plot > svg");
    const readout = chart.querySelector(".readout");
    const series = [...plot.querySelectorAll(".series")].map((one) => [...one.querySelectorAll("use")]);
    const hint = "Point at a line, or use the arrow keys.";
    let at = null;
    readout.textContent = hint;

    const show = (place) => {
      for (const chosen of chart.querySelectorAll(".chosen")) chosen.classList.remove("chosen");
      at = place;
      chart.classList.toggle("pointed", place !== null);
      if (place === null) {
        readout.textContent = hint;
        return;
      }
      const mark = series[place[0]][place[1]];
      mark.classList.add("chosen");
      mark.parentNode.classList.add("chosen");
      chart.querySelectorAll(".keys > span")[place[0]].classList.add("chosen");
      readout.textContent = mark.dataset.said;
    };

    const nearest = (event) => {
      let best = null;
      let least = Infinity;
      series.forEach((marks, line) => marks.forEach((mark, point) => {
        const box = mark.getBoundingClientRect();
        const distance = Math.hypot(
          event.clientX - (box.left + box.width / 2), event.clientY - (box.top + box.height / 2));
        if (distance < least) [best, least] = [[line, point], distance];
      }));
      return best;
    };

    plot.addEventListener("pointermove", (event) => show(nearest(event)));
    plot.addEventListener("pointerleave", () => { if (document.activeElement !== plot) show(null); });
    plot.addEventListener("blur", () => show(null));
    plot.addEventListener("focus", () => { if (at === null && series.length > 0) show([0, 0]); });
    plot.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
      if (!step || series.length === 0) return;
      event.preventDefault();
      const [line, point] = at ?? [0, 0];
      const next = (line + step[0] + series.length) % series.length;
      show([next, Math.max(0, Math.min(series[next].length - 1, point + step[1]))]);
    });
  }

  const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
  const seen = new Set();
  const observer = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting) seen.add(target.id); else seen.delete(target.id);
    }
    let first = true;
    for (const [id, link] of links) {
      const current = first && seen.has(id);
      if (current) { link.setAttribute("aria-current", "true"); first = false; } else link.removeAttribute("aria-current");
    }
  }, { rootMargin: "-10% 0px -50% 0px" });
  for (const section of document.querySelectorAll("main > section")) observer.observe(section);
})();
