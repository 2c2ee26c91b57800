// The first screen's map: filled regions of the choice over two features of the reader's choosing, scenarios on it.
heurgen.views = (function () {
  var LEFT = 84, RIGHT = 10, TOP = 10, BOTTOM = 44, WIDTH = 444, HEIGHT = 330;
  var WIDE = WIDTH - LEFT - RIGHT, TALL = HEIGHT - TOP - BOTTOM;
  var LEVELS = [1.02, 1.05, 1.1, 1.25, 1.5];
  var SVG = document.querySelector("svg").namespaceURI;
  // On an axis of at most FEW values, marks of one value take turns over TURNS places, TURN of the axis apart.
  var FEW = 8, TURNS = 5, TURN = 0.016;

  function made(name, attributes, text) {
    var element = document.createElementNS(SVG, name);
    Object.keys(attributes).forEach(function (key) { element.setAttribute(key, attributes[key]); });
    if (text !== undefined) { element.textContent = text; }
    return element;
  }

  // Everything about one section that its parts share.
  function viewOf(root, which) {
    var page = heurgen.pages[which], s = page.scenarios;
    ["leaf", "slowdown", "held", "wins"].forEach(function (name) { s[name] = heurgen.list(s[name]); });
    s.columns = s.columns.map(heurgen.list);
    s.best = s.best.map(heurgen.list);
    var leafConfig = [], tested = {};
    heurgen.visit(page.tree, function (node) { tested[node[0]] = true; }, function (leaf) { leafConfig[leaf.leaf] = leaf.config; });
    // A scenario's value of a given feature, as the tree reads it.
    function read(column, scenario) {
      var c = page.columns[column], x = s.columns[column][scenario];
      return c.type === "category" ? c.values[x] : x;
    }
    var rows = s.leaf.map(function (leaf, scenario) {
      var features = [];
      for (var i = 0; i < page.features; i++) { features.push(read(i, scenario)); }
      return heurgen.withDerived(page, features);
    });
    for (var i = page.features; i < page.columns.length; i++) {
      s.columns.push(rows.map(function (row) { return row[i]; }));
    }
    var usable = page.columns.map(function (c, i) { return i; }).filter(function (i) { return page.scales[i]; });
    var axes = page.axes.concat(usable.filter(function (i) { return page.axes.indexOf(i) < 0; })).slice(0, 2);
    while (axes.length < 2) { axes.push(-1); }
    return { root: root, section: root.closest(".view"), page: page, s: s, rows: rows, tested: tested, usable: usable,
      axes: axes, leafConfig: leafConfig, launch: null, moved: [], painted: [], places: {}, stop: function () {} };
  }

  function textOf(view, column, scenario) {
    var c = view.page.columns[column], x = view.rows[scenario][column];
    return c.type === "bool" ? (x ? "true" : "false") : String(x);
  }

  // Where a scenario lies on the axis of a feature, 0 to 1.
  function placed(view, column, scenario) {
    if (column < 0) { return 0.5; }
    if (!view.places[column]) {
      view.places[column] = view.s.columns[column].map(function (x) { return heurgen.placeOn(view.page.scales[column], x); });
    }
    return view.places[column][scenario];
  }

  function agrees(view, i) { return view.s.wins[i] === view.leafConfig[view.s.leaf[i]]; }

  // The class of a scenario's slowdown, the held-out one where it is known; "x": not valid.
  function levelOf(view, i) {
    if (!view.page.known) { return agrees(view, i) ? 0 : 4; }
    var slow = (view.s.held || view.s.slowdown)[i];
    if (slow === null) { return "x"; }
    for (var level = 0; level < LEVELS.length; level++) { if (slow <= LEVELS[level] + 1e-12) { return level; } }
    return LEVELS.length;
  }

  function slowText(x) { return x === null ? "not valid" : heurgen.times(x); }

  function nameOf(view, i) { return view.s.id && view.s.id[i] ? "scenario " + view.s.id[i] : "scenario"; }

  function label(view, i) {
    var page = view.page, s = view.s, best = s.best.map(function (values) { return values[i]; });
    var how = page.known ? slowText(s.slowdown[i]) : agrees(view, i) ? "the measured winner" : "another config won";
    if (s.held) { how = "held out " + slowText(s.held[i]) + ", in training " + how; }
    var names = page.columns.slice(0, page.features).map(function (c) { return c.name; });
    var values = names.map(function (_, k) { return textOf(view, k, i); });
    return nameOf(view, i) + ": " + how + "; " + heurgen.pairs(names, values) + "; leaf " + (s.leaf[i] + 1) +
      ", config " + heurgen.tag(view.leafConfig[s.leaf[i]]) + (agrees(view, i) ? "" : "; best " + heurgen.pairs(page.parameters, best));
  }

  // --- marks and axes ---------------------------------------------------------------------------------------------

  function makeMarks(view) {
    var group = view.svg.querySelector(".marks"), n = view.s.leaf.length, order = [];
    var levels = view.s.leaf.map(function (_, i) { order.push(i); return levelOf(view, i); });
    // Bad ones last, so that they are drawn on top and come last in the order of the keyboard.
    function rank(i) { return levels[i] === "x" ? 9 : levels[i]; }
    order.sort(function (a, b) { return rank(a) - rank(b) || view.s.leaf[a] - view.s.leaf[b] || a - b; });
    view.order = order;
    // As text, which the browser reads in a third of the time: numbers and names of classes, none of the log's texts.
    var small = n > 150 ? 3 : 4.2, spots = placesOfMarks(view);
    group.innerHTML = order.map(function (i, at) {
      var bad = levels[i] === "x", names = bad ? ["x", "y"] : ["cx", "cy"];
      return "<" + (bad ? 'use href="#kx"' : 'circle r="' + (small + 0.5 * levels[i]) + '"') + ' class="mk s' + levels[i] +
        '" data-l="' + view.s.leaf[i] + '" data-n="' + i + '" tabindex="' + (at ? -1 : 0) + '" role="img" ' + names[0] + '="' +
        spots[at][0] + '" ' + names[1] + '="' + spots[at][1] + '"/>';
    }).join("");
    view.marks = Array.prototype.slice.call(group.children);
  }

  function nameMarks(view) {
    view.marks.forEach(function (mark, at) { mark.setAttribute("aria-label", label(view, view.order[at])); });
  }

  // Places on an axis of few values, moved sideways by turns, so that a column does not hide its own marks.
  function spread(places, other) {
    var groups = {};
    places.forEach(function (x, i) { (groups[x] = groups[x] || []).push(i); });
    var keys = Object.keys(groups);
    if (keys.length < 2 || keys.length > FEW || places.length <= 2 * keys.length) { return places; }
    var moved = places.slice();
    keys.forEach(function (key) {
      groups[key].sort(function (a, b) { return other[a] - other[b] || a - b; }).forEach(function (i, turn) {
        moved[i] = Math.min(0.99, Math.max(0.01, places[i] + (turn % TURNS - (TURNS - 1) / 2) * TURN));
      });
    });
    return moved;
  }

  // Where each mark stands, in the order of the marks: those of one spot lie in a spiral around it.
  function placesOfMarks(view) {
    var plain = view.axes.map(function (axis) {
      return view.s.leaf.map(function (_, i) { return placed(view, axis, i); });
    });
    var xs = spread(plain[0], plain[1]), ys = spread(plain[1], plain[0]), seen = {};
    return view.order.map(function (i) {
      var x = LEFT + xs[i] * WIDE, y = HEIGHT - BOTTOM - ys[i] * TALL;
      var spot = Math.round(x / 5) + " " + Math.round(y / 5), k = seen[spot] = (seen[spot] || 0) + 1;
      x += 3.4 * Math.sqrt(k - 1) * Math.cos(2.399963 * (k - 1));
      y += 3.4 * Math.sqrt(k - 1) * Math.sin(2.399963 * (k - 1));
      return [Math.min(WIDTH - RIGHT, Math.max(LEFT, x)).toFixed(1), Math.min(HEIGHT - BOTTOM, Math.max(TOP, y)).toFixed(1)];
    });
  }

  function moveMarks(view) {
    var spots = placesOfMarks(view);
    view.marks.forEach(function (mark, at) {
      var names = mark.tagName === "use" ? ["x", "y"] : ["cx", "cy"];
      mark.setAttribute(names[0], spots[at][0]);
      mark.setAttribute(names[1], spots[at][1]);
    });
  }

  // Every first, second, third, ... category, so that their cut labels differ.
  function cut(ticks, wide) {
    for (var every = 1; every <= ticks.length; every++) {
      var shown = ticks.filter(function (_, i) { return i % every === 0; }), known = {};
      var room = Math.max(3, Math.floor(wide / shown.length / 8));
      var found = shown.map(function (t) { return [t[0], heurgen.shortened(t[1], room)]; });
      found.forEach(function (t) { known["=" + t[1]] = true; });
      if (Object.keys(known).length === found.length) { return found; }
    }
    return [];
  }

  // Ticks of a horizontal axis whose labels do not touch: categories are cut to their room, others left out.
  function roomy(scale, wide) {
    var end = -Infinity;
    return (scale.kind === "category" ? cut(scale.ticks, wide) : scale.ticks).filter(function (t) {
      var half = heurgen.roomOf(t[1]) * 3.9, fits = t[0] * wide - half > end + 5;
      if (fits) { end = t[0] * wide + half; }
      return fits;
    });
  }

  // Labels of a vertical axis, cut to their room: by their starts, or with as much of their ends as tells them apart.
  function upright(ticks, room) {
    var starts;
    for (var head = room - 1; head >= 0; head--) {
      var found = ticks.map(function (t) {
        return heurgen.roomOf(t[1]) <= room ? t[1] : heurgen.shortened(t[1], head + 1) + ending(t[1], room - 1 - head);
      });
      if (new Set(found).size === found.length) { return found; }
      starts = starts || found;
    }
    return starts;
  }

  function ending(text, room) {
    var kept = Array.from(text);
    while (heurgen.roomOf(kept.join("")) > room) { kept.shift(); }
    return kept.join("");
  }

  function title(view, column, limit) {
    var note = view.page.scales[column].note;
    return heurgen.shortened(view.page.columns[column].name, note ? limit - 12 : limit) + (note ? " (" + note + ")" : "");
  }

  function drawAxes(view) {
    var group = view.svg.querySelector(".axes"), x = view.axes[0], y = view.axes[1], bottom = HEIGHT - BOTTOM;
    var scales = view.page.scales;
    group.textContent = "";
    if (x >= 0) {
      roomy(scales[x], WIDE).forEach(function (t) {
        group.appendChild(made("text", { "class": "t m", x: LEFT + t[0] * WIDE, y: bottom + 15 }, t[1]));
      });
      group.appendChild(made("text", { "class": "t m", x: LEFT + WIDE / 2, y: HEIGHT - 8 }, title(view, x, 44)));
    }
    if (y >= 0) {
      upright(scales[y].ticks, 8).forEach(function (label, i) {
        group.appendChild(made("text", { "class": "t e", x: LEFT - 6, y: bottom - scales[y].ticks[i][0] * TALL + 4 }, label));
      });
      group.appendChild(made("text", { "class": "t m", transform: "translate(12 " + (TOP + TALL / 2) + ") rotate(-90)" },
        title(view, y, 34)));
    }
    group.appendChild(made("path", { "class": "frame", d: "M" + LEFT + " " + TOP + "V" + bottom + "H" + (WIDTH - RIGHT) }));
    view.svg.setAttribute("aria-label", "Map of scenarios" + (x >= 0 ? ", " + title(view, x, 80) + " across" : "") +
      (y >= 0 ? ", " + title(view, y, 80) + " up" : "") + ". Arrow keys move from mark to mark, the worst last.");
  }

  // --- regions --------------------------------------------------------------------------------------------------------

  function axisValue(view, column, place) {
    var c = view.page.columns[column], x = heurgen.valueAt(view.page.scales[column], place);
    if (c.type === "category") { return c.values[Math.min(c.values.length - 1, Math.max(0, Math.round(x)))]; }
    if (c.type === "bool") { return x > 0.5 ? 1 : 0; }
    return c.type === "int" ? Math.round(x) : x;
  }

  // Where a place on an axis counts as: that of its category, between which there is nothing; without a feature, one.
  function landed(view, column, place) {
    if (column < 0) { return 0.5; }
    var scale = view.page.scales[column];
    return scale.kind === "category" ? heurgen.placeOn(scale, Math.round(heurgen.valueAt(scale, place))) : place;
  }

  // The config chosen in every cell, and its distance to the nearest scenario (1: the width of the map). Features that
  // no axis shows are those of the nearest scenario, or of the launch below. `next` fills a row, and says whether it was
  // the last.
  function filling(view, wide, tall) {
    var page = view.page, axes = view.axes, n = view.s.leaf.length, i, u, v;
    var xs = new Float32Array(n), ys = new Float32Array(n), order = [], known = {};
    for (i = 0; i < n; i++) {
      xs[i] = placed(view, axes[0], i);
      ys[i] = placed(view, axes[1], i);
      // Of scenarios in one place the first stands for all.
      var place = xs[i] + " " + ys[i];
      if (!known[place]) { known[place] = true; order.push(i); }
    }
    n = order.length;
    var above = new Float32Array(xs.length), chosen = new Int16Array(wide * tall), far = new Float32Array(wide * tall);
    var launch = view.rest === "launch" && view.launch, across = [], places = [];
    for (u = 0; u < wide; u++) {
      across.push(axes[0] < 0 ? 0 : axisValue(view, axes[0], (u + 0.5) / wide));
      places.push(landed(view, axes[0], (u + 0.5) / wide));
    }
    v = 0;
    function next() {
      // From the scenarios nearest in height outwards, so that most are never looked at.
      var at = 1 - (v + 0.5) / tall, py = landed(view, axes[1], at), near = order[0], row = [], from = -1;
      var up = axes[1] < 0 ? 0 : axisValue(view, axes[1], at);
      for (i = 0; i < n; i++) { above[order[i]] = Math.abs(ys[order[i]] - py); }
      order.sort(function (a, b) { return above[a] - above[b]; });
      for (u = 0; u < wide; u++) {
        // What is nearest to the cell before is not far; of equals the first counts, so they must be found again.
        var px = places[u], sideways = xs[near] - px, least = sideways * sideways + above[near] * above[near] + 1e-9;
        for (var k = 0; k < n; k++) {
          var dx = xs[order[k]] - px, dy = above[order[k]], d = dx * dx + dy * dy;
          if (dy * dy >= least) { break; }
          if (d < least) { least = d; near = order[k]; }
        }
        if (near !== from) { row = (launch || view.rows[near]).slice(0, page.features); from = near; }
        row.length = page.features; // without what was derived from the cell before
        if (axes[0] >= 0) { row[axes[0]] = across[u]; }
        if (axes[1] >= 0) { row[axes[1]] = up; }
        chosen[v * wide + u] = heurgen.walk(page, row).config;
        far[v * wide + u] = Math.sqrt(least);
      }
      v += 1;
      return v === tall;
    }
    return { next: next, found: { chosen: chosen, far: far, wide: wide, tall: tall } };
  }

  function regions(view, wide, tall) {
    var work = filling(view, wide, tall);
    while (!work.next()) { /* row by row */ }
    return work.found;
  }

  // Fills the canvas; the farther from a scenario, the closer and thicker the hatching.
  function paint(canvas, found) {
    var scale = 4, width = found.wide * scale, height = found.tall * scale;
    canvas.width = width;
    canvas.height = height;
    var context = canvas.getContext("2d"), image = context.createImageData(width, height);
    var pixels = new Uint32Array(image.data.buffer), paper = heurgen.rgb("--paper"), ink = heurgen.rgb("--soft"), shades = {};
    function packed(colour) { return (255 << 24 | colour[2] << 16 | colour[1] << 8 | colour[0]) >>> 0; }
    function mixed(a, b, share) { return a.map(function (x, k) { return Math.round(x * (1 - share) + b[k] * share); }); }
    found.chosen.forEach(function (config) {
      if (shades[config]) { return; }
      var fill = mixed(paper, heurgen.rgb("--c" + config % 8), 0.28 + 0.11 * (Math.floor(config / 8) % 3));
      shades[config] = [packed(fill), packed(mixed(fill, ink, 0.55))];
    });
    for (var y = 0; y < height; y++) {
      for (var x = 0; x < width; x++) {
        var cell = (y >> 2) * found.wide + (x >> 2), d = found.far[cell];
        var hatched = d > 0.1 && (x + y) % 14 < (d > 0.3 ? 6 : d > 0.2 ? 4 : 2);
        pixels[y * width + x] = shades[found.chosen[cell]][hatched ? 1 : 0];
      }
    }
    context.putImageData(image, 0, 0);
  }

  // The tag of every config where it has most room: the cell farthest from other configs and from marks.
  function nameRegions(view, found) {
    var wide = found.wide, tall = found.tall, chosen = found.chosen, depth = new Int16Array(wide * tall), best = {}, u, v, at;
    for (v = 0; v < tall; v++) {
      for (u = 0; u < wide; u++) {
        at = v * wide + u;
        var up = v && chosen[at - wide] === chosen[at] ? depth[at - wide] : 0;
        var left = u && chosen[at - 1] === chosen[at] ? depth[at - 1] : 0;
        depth[at] = Math.min(up, left) + 1;
      }
    }
    for (v = tall - 1; v >= 0; v--) {
      for (u = wide - 1; u >= 0; u--) {
        at = v * wide + u;
        var down = v < tall - 1 && chosen[at + wide] === chosen[at] ? depth[at + wide] : 0;
        var right = u < wide - 1 && chosen[at + 1] === chosen[at] ? depth[at + 1] : 0;
        depth[at] = Math.min(depth[at], Math.min(down, right) + 1);
        var room = Math.min(depth[at], found.far[at] * wide);
        if (depth[at] >= 5 && room >= 5 && (!best[chosen[at]] || room > best[chosen[at]][0])) { best[chosen[at]] = [room, u, v]; }
      }
    }
    var group = view.svg.querySelector(".names");
    group.textContent = "";
    Object.keys(best).forEach(function (config) {
      group.appendChild(made("text", { "class": "region m", x: LEFT + (best[config][1] + 0.5) / wide * WIDE,
        y: TOP + (best[config][2] + 0.5) / tall * TALL + 5 }, heurgen.tag(Number(config))));
    });
  }

  // In slices: some 24,000 walks through the tree.
  function drawRegions(view) {
    var work = filling(view, 172, 138);
    view.stop();
    view.stop = heurgen.slowly(function () {
      if (!work.next()) { return false; }
      view.found = work.found;
      nameRegions(view, view.found);
      show(view);
      return true;
    });
  }

  function show(view) {
    paint(view.canvas, view.found);
    view.painted.forEach(function (copy) { copy(); });
  }

  function redraw(view) {
    view.found = null; // of other axes
    view.canvas.width = view.canvas.width;
    view.svg.querySelector(".names").textContent = "";
    drawAxes(view);
    moveMarks(view);
    drawRegions(view);
    view.moved.forEach(function (draw) { draw(); });
  }

  // Another feature on an axis; the other axis takes the one before where it showed the new one.
  function turn(view, axis, column) {
    var before = view.axes[axis];
    if (view.axes[1 - axis] === column) {
      view.axes[1 - axis] = before;
      view.root.querySelector(axis ? ".ax" : ".ay").value = before;
    }
    view.axes[axis] = column;
    redraw(view);
  }

  function controls(view) {
    var box = view.root.querySelector(".controls");
    [".ax", ".ay"].forEach(function (name, axis) {
      var choice = box.querySelector(name);
      view.usable.forEach(function (i) {
        var option = document.createElement("option");
        option.value = i;
        option.textContent = view.page.columns[i].name + (i < view.page.features ? "" : " (derived)");
        option.selected = i === view.axes[axis];
        choice.appendChild(option);
      });
      choice.addEventListener("change", function () { turn(view, axis, Number(choice.value)); });
    });
    box.querySelector(".up").hidden = view.usable.length < 2;
    box.querySelector(".rest").addEventListener("change", function (event) {
      view.rest = event.target.value;
      drawRegions(view);
    });
    box.hidden = view.usable.length < 1;
  }

  function begin(root, which) {
    var view = viewOf(root, which);
    view.svg = root.querySelector(".plot svg");
    view.canvas = root.querySelector(".plot canvas");
    controls(view);
    drawAxes(view);
    makeMarks(view);
    heurgen.whenSeen(view.svg, function () { if (!view.named) { view.named = true; nameMarks(view); } });
    // After the first paint: the regions take the most time.
    heurgen.whenSeen(view.canvas, function () {
      if (view.found) { show(view); } else { drawRegions(view); } // again: the colours of another theme
    });
    return view;
  }

  heurgen.map = { placed: placed, label: label, nameOf: nameOf, textOf: textOf, drawRegions: drawRegions, regions: regions, LEVELS: LEVELS };
  return Array.prototype.map.call(document.querySelectorAll(".explore"), begin);
})();
