"use strict";
// What the other parts share: the page's data, the walk through a tree, axes, colours. `window.heurgen.select`
// answers a launch by the comparisons of heurgen.ir.
var heurgen = (function () {
  var LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  var NUMBER = {};
  for (var place = 0; place < 64; place++) { NUMBER[LETTERS[place]] = place; }
  var pages = JSON.parse(document.getElementById("data").textContent);
  var repaint = [];

  // --- numbers that came in few letters (heurgen.audit.report.coding) -------------------------------------------

  function list(coded) {
    if (coded === null || Array.isArray(coded)) { return coded; }
    var wide = coded.v.length > 64, found = [];
    for (var i = 0; i < coded.c.length; i += wide ? 2 : 1) {
      found.push(coded.v[wide ? 64 * NUMBER[coded.c[i]] + NUMBER[coded.c[i + 1]] : NUMBER[coded.c[i]]]);
    }
    return found;
  }

  function unpacked(line) {
    var found = new Uint8Array(2 * line.length);
    for (var i = 0; i < line.length; i++) {
      var both = NUMBER[line[i]];
      found[2 * i] = both >> 3;
      found[2 * i + 1] = both & 7;
    }
    return found;
  }

  // --- derived features, with Python's arithmetic -----------------------------------------------------------------

  function floorDivide(a, b) {
    var mod = a % b, div = (a - mod) / b, floor;
    if (div !== div) { return NaN; }
    if (mod && (b < 0) !== (mod < 0)) { div -= 1; }
    if (!div) { return a / b < 0 ? -0 : 0; }
    floor = Math.floor(div);
    return div - floor > 0.5 ? floor + 1 : floor;
  }

  function modulo(a, b) {
    var mod = a % b;
    if (mod) { return (b < 0) !== (mod < 0) ? mod + b : mod; }
    return mod === 0 ? (b < 0 ? -0 : 0) : mod;
  }

  function guarded(divide) {
    return function (a, b) { return b ? divide(a, b) : b === b ? 0 : NaN; };
  }

  var OPERATORS = {
    "+": function (a, b) { return a + b; },
    "-": function (a, b) { return a - b; },
    "*": function (a, b) { return a * b; },
    "/": guarded(function (a, b) { return a / b; }),
    "//": guarded(floorDivide),
    "%": guarded(modulo),
    min: function (a, b) { return b < a ? b : a; },
    max: function (a, b) { return b > a ? b : a; }
  };

  // An expression as a function of the row of features.
  function compiled(e) {
    if (typeof e === "number") { return function () { return e; }; }
    if (e[0] === "name") { return function (row) { return Number(row[e[1]]); }; }
    var parts = e.slice(1).map(compiled), first = parts[0];
    if (e[0] === "neg") { return function (row) { return -first(row); }; }
    return parts.slice(1).reduce(function (left, right) {
      var operator = OPERATORS[e[0]];
      return function (row) { return operator(left(row), right(row)); };
    }, first);
  }

  // A derived feature of a row, which keeps it.
  function derived(page, row, column) {
    if (!page.derive) {
      page.derive = page.columns.slice(page.features).map(function (c) { return compiled(c.expression); });
    }
    return row[column] = page.derive[column - page.features](row);
  }

  // The features, and all the derived ones.
  function withDerived(page, features) {
    var row = features.slice(0, page.features);
    for (var column = page.features; column < page.columns.length; column++) { derived(page, row, column); }
    return row;
  }

  // --- the tree -----------------------------------------------------------------------------------------------------

  function goesLeft(node, given) {
    if (node[1] === "<=") { return given <= (typeof node[2] === "string" ? BigInt(node[2]) : node[2]); }
    var inside = node[2].indexOf(String(given)) >= 0;
    return node[1] === "in" ? inside : !inside;
  }

  // The leaf of a row; derived features that it lacks are found where a test asks for them.
  function walk(page, row, path) {
    var node = page.tree;
    while (Array.isArray(node)) {
      var given = row[node[0]], left = goesLeft(node, given === undefined ? derived(page, row, node[0]) : given);
      if (path) { path.push([node, left]); }
      node = left ? node[3] : node[4];
    }
    return node;
  }

  // Calls test(node) and leaf(node) for all nodes of a tree.
  function visit(node, test, leaf) {
    if (!Array.isArray(node)) { leaf(node); return; }
    test(node);
    visit(node[3], test, leaf);
    visit(node[4], test, leaf);
  }

  // Text of an input as the feature's value: ints as BigInt, so that any int compares exactly; undefined if wrong.
  function parsed(column, text) {
    var found = text;
    if (column.type === "category") {
      column.aliases.forEach(function (pair) { if (pair[0] === text) { found = pair[1]; } });
      return column.refuses && column.values.indexOf(found) < 0 ? undefined : found;
    }
    text = text.trim();
    if (column.type === "bool") { return { "true": 1, "false": 0, "1": 1, "0": 0 }[text.toLowerCase()]; }
    if (column.type === "int") { return /^-?[0-9]{1,4000}$/.test(text) ? BigInt(text) : undefined; }
    var named = { nan: NaN, inf: Infinity, "-inf": -Infinity }[text.toLowerCase()];
    if (named !== undefined) { return named; }
    return text !== "" && isFinite(Number(text)) ? Number(text) : undefined;
  }

  // The config for texts of all features, null where one is refused: of a section of this page, or of the same data
  // given directly.
  function select(which, texts) {
    var page = typeof which === "number" ? pages[which] : which;
    var features = texts.map(function (text, i) { return parsed(page.columns[i], text); });
    return features.indexOf(undefined) < 0 ? page.configs[walk(page, features).config] : null;
  }

  // --- axes -----------------------------------------------------------------------------------------------------------

  function warp(kind, x) {
    if (kind === "log") { return Math.log(Math.max(x, 1e-300)); }
    return kind === "log1p" ? Math.log1p(Math.max(x, 0)) : x;
  }

  function placeOn(scale, x) {
    if (x !== x) { return 0; }
    var low = warp(scale.kind, scale.low), high = warp(scale.kind, scale.high);
    return high > low ? Math.min(1, Math.max(0, (warp(scale.kind, x) - low) / (high - low))) : 0.5;
  }

  function valueAt(scale, place) {
    var low = warp(scale.kind, scale.low), high = warp(scale.kind, scale.high), x = low + place * (high - low);
    return scale.kind === "log" ? Math.exp(x) : scale.kind === "log1p" ? Math.expm1(x) : x;
  }

  // --- words and colours ------------------------------------------------------------------------------------------------

  function tag(index) { return String.fromCharCode(65 + index % 26) + (index < 26 ? "" : Math.floor(index / 26)); }

  function times(x) {
    if (x === null || x === undefined) { return "–"; }
    return (x < 10 ? x.toFixed(x < 2 ? 3 : 2) : x < 100 ? Number(x.toPrecision(3)) : x < 1e6 ? x.toFixed(0) : x.toExponential(1)) + "×";
  }

  // The room of a text, in characters: letters of East Asia are twice as wide.
  var WIDE = /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6]/g;

  function roomOf(text) { return /^[ -~]*$/.test(text) ? text.length : text.length + (text.match(WIDE) || []).length; }

  function shortened(text, limit) {
    if (roomOf(text) <= limit) { return text; }
    var kept = text.slice(0, limit - 1);
    while (roomOf(kept) >= limit) { kept = kept.slice(0, -1); }
    return kept + "…";
  }

  // Characters that hide or steer as escapes (heurgen.base.errors.printable).
  function plain(text) {
    if (/^[ -~]*$/.test(text)) { return text; }
    return text.replace(/[\u0000-\u001f\u007f-\u009f\u00ad\p{Cf}\p{Zl}\p{Zp}]/gu, function (c) {
      var code = c.codePointAt(0).toString(16);
      return code.length <= 2 ? "\\x" + code.padStart(2, "0") : "\\u" + code.padStart(4, "0");
    });
  }

  function pairs(names, values) {
    return names.map(function (name, i) { return name + "=" + shortened(plain(values[i]), 60); }).join(" ");
  }

  function colour(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

  function rgb(name) {
    var text = colour(name).slice(1);
    if (text.length === 3) { text = text.replace(/./g, "$&$&"); }
    var n = parseInt(text, 16);
    return [n >> 16, n >> 8 & 255, n & 255];
  }

  // --- when to draw -------------------------------------------------------------------------------------------------------

  // Draws once when the element comes near the window, before it is printed, or when the page has nothing else to do;
  // and again where the theme changes afterwards.
  var waiting = [];

  function whenSeen(element, draw) {
    var task = { draw: draw, watch: new IntersectionObserver(function (entries) {
      if (entries.some(function (entry) { return entry.isIntersecting; })) { run(task); }
    }, { rootMargin: "300px" }) };
    waiting.push(task);
    task.watch.observe(element);
  }

  function run(task) {
    var at = waiting.indexOf(task);
    if (at < 0) { return; }
    waiting.splice(at, 1);
    task.watch.disconnect();
    repaint.push(task.draw);
    task.draw();
  }

  // Long work in parts, so that the page answers meanwhile: `part` does one, and says whether it was the last. Gives
  // a function that gives the work up.
  var SLICE = 12, parts = [];

  function slowly(part) {
    function giveUp() {
      var at = parts.indexOf(part);
      if (at >= 0) { parts.splice(at, 1); }
    }
    function slice() {
      var end = performance.now() + SLICE;
      while (parts.indexOf(part) >= 0) {
        if (part()) { giveUp(); } else if (performance.now() > end) { window.setTimeout(slice); return; }
      }
    }
    parts.push(part);
    slice();
    return giveUp;
  }

  function drawAll() {
    while (waiting.length) { run(waiting[0]); }
    while (parts.length) { if (parts[0]()) { parts.shift(); } }
  }

  // One at a time, so that the page always answers; then what lies below the window is laid out too.
  function idle() {
    if (!waiting.length && !parts.length) { document.documentElement.classList.add("settled"); return; }
    if (waiting.length && !parts.length) { run(waiting[0]); }
    later(idle);
  }

  function later(work) {
    if (window.requestIdleCallback) { window.requestIdleCallback(work, { timeout: 1000 }); } else { window.setTimeout(work, 50); }
  }

  window.addEventListener("load", function () { later(idle); });

  return {
    pages: pages, select: select, list: list, unpacked: unpacked, withDerived: withDerived, walk: walk, visit: visit,
    parsed: parsed, placeOn: placeOn, valueAt: valueAt, tag: tag, times: times, shortened: shortened, roomOf: roomOf, plain: plain, pairs: pairs, colour: colour, rgb: rgb,
    whenSeen: whenSeen, slowly: slowly, drawAll: drawAll, repaint: repaint
  };
})();
