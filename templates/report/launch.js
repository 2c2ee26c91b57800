// Try a launch: fields for all features, the path through the tree, the answer, its evidence, what lies outside.
heurgen.views.forEach(function (view) {
  var page = view.page, map = heurgen.map, fields = [];
  var OTHER = "another value";
  // A leaf with fewer training scenarios says little (heurgen.audit.explain).
  var FEW = 3;

  function field(column, i) {
    var holder = document.createElement("label"), category = column.type === "category" && column.values.length <= 50;
    var input = document.createElement(category || column.type === "bool" ? "select" : "input");
    (category ? column.values.concat(column.refuses ? [] : OTHER) : column.type === "bool" ? ["false", "true"] : []).forEach(function (text) {
      var option = document.createElement("option");
      option.value = text;
      option.textContent = heurgen.shortened(heurgen.plain(text), 60);
      input.appendChild(option);
    });
    if (input.tagName === "INPUT") {
      input.autocomplete = "off";
      input.spellcheck = false;
      if (column.type === "int") { input.inputMode = "numeric"; }
    }
    holder.textContent = column.name + (column.unit ? " (" + column.unit + ")" : "");
    holder.appendChild(input);
    input.addEventListener("input", answer);
    fields[i] = input;
    return holder;
  }

  function start(scenario) {
    fields.forEach(function (input, i) { input.value = map.textOf(view, i, scenario); });
    answer();
  }

  function line(parent, text, kind) {
    var p = document.createElement("p");
    p.textContent = text;
    if (kind) { p.className = kind; }
    parent.appendChild(p);
    return p;
  }

  function answer() {
    var box = view.root.querySelector(".answer"), path = [];
    box.textContent = "";
    var features = fields.map(function (input, i) { return heurgen.parsed(page.columns[i], input.value); });
    fields.forEach(function (input, i) { input.setAttribute("aria-invalid", features[i] === undefined); });
    var wrong = features.indexOf(undefined);
    if (wrong >= 0) {
      var wanted = { int: "a whole number", float: "a number", category: "a known category" }[page.columns[wrong].type];
      line(box, page.columns[wrong].name + ": expected " + wanted, "bad");
      light(null);
      return;
    }
    view.launch = heurgen.withDerived(page, features);
    var leaf = heurgen.walk(page, view.launch, path);
    line(box, heurgen.tag(leaf.config) + ": " + heurgen.pairs(page.parameters, page.configs[leaf.config]), "mono chosen");
    line(box, evidence(leaf));
    line(box, path.map(function (step) { return testText(step[0]) + ": " + (step[1] ? "yes" : "no"); }).join(" › ") ||
      "no test", "mono soft");
    var found = outside();
    found.forEach(function (text) { line(box, "Outside what was measured: " + text, "bad"); });
    nearest(line(box, found.length ? "" : "Within what was measured, feature by feature. "));
    light(leaf.leaf);
    if (view.rest === "launch") { map.drawRegions(view); }
  }

  function evidence(leaf) {
    var few = leaf.n !== null && leaf.n < FEW ? ", which is few" : "";
    var count = leaf.n === null ? "training scenarios not known" :
      leaf.n + (leaf.n === 1 ? " training scenario" : " training scenarios");
    return count + " in leaf " + (leaf.leaf + 1) + few +
      (page.costs && leaf.slowdown !== null ? ", " + heurgen.times(leaf.slowdown) + " in training" : "") +
      (page.notes[leaf.leaf] ? "; " + page.notes[leaf.leaf] : "");
  }

  function testText(node) {
    var name = page.columns[node[0]].name;
    if (page.columns[node[0]].type === "bool") { return name + " is false"; }
    if (node[1] === "<=") { return name + " ≤ " + shown(node[2], page.columns[node[0]].figures); }
    return heurgen.shortened(heurgen.plain(name + " " + node[1] + " {" + node[2].join(", ") + "}"), 120);
  }

  // To six figures; to more where those of two thresholds would be the same.
  function shown(x, figures) {
    return typeof x !== "number" || Number.isInteger(x) ? String(x) : String(Number(x.toPrecision(figures || 6)));
  }

  function outside() {
    var found = [];
    page.columns.forEach(function (c, i) {
      var x = view.launch[i];
      if (c.type === "category") {
        if (c.values.indexOf(x) < 0) { found.push(c.name + " " + heurgen.shortened(heurgen.plain(x), 60)); }
      } else if (c.seen && (i < page.features || view.tested[i]) && !(x >= Number(c.seen[0]) && x <= Number(c.seen[1]))) {
        found.push(c.type === "bool" ? c.name + " is " + (x ? "true, seen false" : "false, seen true") :
          c.name + " " + shown(x) + ", seen " + shown(c.seen[0]) + " to " + shown(c.seen[1]));
      }
    });
    return found;
  }

  // The measured scenario whose features lie nearest, each on its own axis; categories differ by a whole axis.
  function nearest(parent) {
    var best = -1, least = Infinity;
    view.s.leaf.forEach(function (_, i) {
      var sum = 0;
      for (var f = 0; f < page.features; f++) {
        if (!page.scales[f]) { continue; }
        if (page.columns[f].type === "category") { sum += view.launch[f] === view.rows[i][f] ? 0 : 1; continue; }
        var d = heurgen.placeOn(page.scales[f], Number(view.launch[f])) - map.placed(view, f, i);
        sum += d * d;
      }
      if (sum < least) { least = sum; best = i; }
    });
    parent.appendChild(document.createTextNode("Nearest scenario: "));
    var button = document.createElement("button");
    button.type = "button";
    button.className = "chip pick";
    button.setAttribute("data-n", best);
    button.textContent = least < 1e-12 ? "this one" : view.s.id && view.s.id[best] ? view.s.id[best] : differing(best);
    button.title = map.label(view, best);
    parent.appendChild(button);
  }

  function differing(scenario) {
    var parts = [];
    for (var f = 0; f < page.features; f++) {
      var text = map.textOf(view, f, scenario);
      if (text !== fields[f].value) { parts.push(page.columns[f].name + " " + heurgen.shortened(heurgen.plain(text), 40)); }
    }
    return parts.slice(0, 4).join(", ") + (parts.length > 4 ? ", …" : "") || "this one";
  }

  // The path in the tree diagram: rows whose leaves hold this one.
  function light(leaf) {
    Array.prototype.forEach.call(view.section.querySelectorAll("[data-p]"), function (row) {
      var ends = row.getAttribute("data-p").split(" ");
      row.classList.toggle("path", leaf !== null && Number(ends[0]) <= leaf && leaf <= Number(ends[1]));
    });
  }

  var form = view.root.querySelector(".fields");
  page.columns.slice(0, page.features).forEach(function (column, i) { form.appendChild(field(column, i)); });
  view.root.querySelector(".try").hidden = false;
  start(page.median);
  view.section.addEventListener("click", function (event) {
    var pick = event.target.closest ? event.target.closest(".pick, .mk[data-n]") : null;
    if (pick) { start(Number(pick.getAttribute("data-n"))); }
  });
});
