// Theme, tooltips, and the link between leaves and their scenarios.
(function () {
  var root = document.documentElement;
  var tip = document.getElementById("tip"), LONG = 600;

  function repaint() { heurgen.repaint.forEach(function (draw) { draw(); }); }

  var theme = document.getElementById("theme");
  theme.hidden = false;
  theme.addEventListener("click", function () {
    var chosen = root.getAttribute("data-theme");
    var dark = chosen ? chosen === "dark" : window.matchMedia("(prefers-color-scheme: dark)").matches;
    root.setAttribute("data-theme", dark ? "light" : "dark");
    repaint();
  });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);

  function show(text, x, y) {
    tip.textContent = text;
    tip.classList.toggle("long", text.length > LONG);
    tip.hidden = false;
    var box = tip.getBoundingClientRect();
    var left = Math.min(x + 14, window.innerWidth - box.width - 8);
    var top = y + 16 + box.height > window.innerHeight ? y - box.height - 12 : y + 16;
    tip.style.left = Math.max(8, left) + "px";
    tip.style.top = Math.max(8, top) + "px";
  }

  function hide() { tip.hidden = true; }

  heurgen.tip = { show: show, hide: hide };

  function link(view) {
    var marks = Array.prototype.slice.call(view.querySelectorAll(".first .mk"));
    var lit = [];
    var pinned = null;

    function light(item) {
      lit.forEach(function (other) { other.classList.remove("on"); });
      lit = [];
      if (item) {
        var any = item.getAttribute("data-l").split(" ").map(function (leaf) { return '[data-l~="' + leaf + '"]'; });
        lit = Array.prototype.slice.call(view.querySelectorAll(any.join(",")));
        lit.forEach(function (other) { other.classList.add("on"); });
      }
      view.classList.toggle("linking", lit.length > 0);
      var leaves = item ? item.getAttribute("data-l").split(" ") : [];
      view.dispatchEvent(new CustomEvent("lit", { detail: leaves }));
    }

    function named(item) {
      var by = item.getAttribute("aria-labelledby");
      return by ? document.getElementById(by).textContent : item.getAttribute("aria-label") || "";
    }

    function find(event) {
      var item = event.target.closest ? event.target.closest("[data-l]") : null;
      return item && view.contains(item) ? item : null;
    }

    function tell(item, event) {
      var text = item.tagName === "BUTTON" ? "" : named(item);
      if (!text) { hide(); return; }
      var box = item.getBoundingClientRect();
      if (event) { heurgen.tip.show(text, event.clientX, event.clientY); } else { heurgen.tip.show(text, box.left, box.bottom); }
    }

    view.addEventListener("mouseover", function (event) {
      var item = find(event);
      if (item) { light(item); tell(item, event); }
    });
    view.addEventListener("mouseout", function (event) {
      if (find(event)) { light(pinned); hide(); }
    });
    view.addEventListener("focusin", function (event) {
      var item = find(event);
      if (item) { light(item); if (item.matches(":focus-visible")) { tell(item, null); } }
    });
    view.addEventListener("focusout", function () { light(pinned); hide(); });
    view.addEventListener("click", function (event) {
      var item = find(event);
      pinned = item && item !== pinned ? item : null;
      light(pinned || item);
      if (!pinned) { light(null); }
    });
    view.addEventListener("keydown", function (event) {
      if (event.key === "Escape") { pinned = null; light(null); hide(); return; }
      var item = find(event);
      if (!item) { return; }
      if ((event.key === "Enter" || event.key === " ") && item.tagName !== "BUTTON") {
        pinned = item === pinned ? null : item;
        light(pinned);
        event.preventDefault();
      }
      var at = marks.indexOf(item);
      var step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (at < 0 || !(step || event.key === "Home" || event.key === "End")) { return; }
      var to = event.key === "Home" ? 0 : event.key === "End" ? marks.length - 1 : at + step;
      if (marks[to]) {
        item.setAttribute("tabindex", "-1");
        marks[to].setAttribute("tabindex", "0");
        marks[to].focus();
      }
      event.preventDefault();
    });
  }

  Array.prototype.forEach.call(document.querySelectorAll(".view"), link);

  // Paper is white, and what is painted keeps the colours of the moment: the light theme while it prints.
  var shown, folded = [];
  window.addEventListener("beforeprint", function () {
    folded = Array.prototype.slice.call(document.querySelectorAll("details:not([open])"));
    folded.forEach(function (d) { d.open = true; });
    shown = root.getAttribute("data-theme");
    root.setAttribute("data-theme", "light");
    repaint();
    heurgen.drawAll();
  });
  window.addEventListener("afterprint", function () {
    if (shown) { root.setAttribute("data-theme", shown); } else { root.removeAttribute("data-theme"); }
    folded.forEach(function (d) { d.open = false; });
    repaint();
  });
})();
